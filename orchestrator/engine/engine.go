package engine

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/run"
)

// RuleSource gives the rules of an organisation that are in force now.
type RuleSource func(ctx context.Context, organisation string) (run.Rules, error)

// Engine takes commands from outside to their runs.
type Engine struct {
	journal Journal
	rules   RuleSource
}

// New returns an engine over a journal.
func New(journal Journal, rules RuleSource) *Engine { return &Engine{journal: journal, rules: rules} }

// Submission is one command from outside with what commits beside it.
type Submission struct {
	Organisation string // of the verified caller; a run of another one is not found
	Run          string
	Command      run.Command
	Payloads     []Payload
	Links        []Link   // of texts that the run had before
	Receipt      *Receipt // remembered when the command is accepted; nil for none
}

// ErrTooBusy means that a run moved on more often than a command could be
// decided again. The command may be sent once more.
var ErrTooBusy = errors.New("the run is too busy, send the command again")

// ErrStore means that the store failed a write: it is read-only, full or out of
// reach. Whether the write happened is not known; the command may be sent once
// more under its receipt.
var ErrStore = errors.New("the store did not take the write")

// decideAttempts bounds how often a command is decided again after another
// write came first.
const decideAttempts = 64

// Submit decides a command and records its events. It returns the state after
// the write. A refusal may come with a write: where the wish could not be met,
// what happened instead is recorded. Errors: *run.Refusal, ErrNotFound, ErrReplayed (the receipt holds
// the first answer), ErrTooBusy, ErrStore, run.ErrBudget.
func (e *Engine) Submit(ctx context.Context, in Submission) (*run.State, error) {
	var known *run.State // as far as it was read; a run that moves on is read on from there
	for range decideAttempts {
		state, err := e.attempt(ctx, in, &known)
		if in.Receipt != nil && refused(err) {
			err = e.explain(ctx, *in.Receipt, err)
		}
		if !errors.Is(err, run.ErrConflict) && !errors.Is(err, run.ErrGuard) {
			return state, err
		}
	}
	return nil, ErrTooBusy
}

// explain looks whether a refused command was accepted before: a repeat is often
// refused, since its first one has changed the run. Where that cannot be found
// out, nobody is told that the command was refused.
func (e *Engine) explain(ctx context.Context, receipt Receipt, refusal error) error {
	_, err := e.journal.Receipt(ctx, receipt.Organisation, receipt.Caller, receipt.Command)
	switch {
	case err == nil:
		return ErrReplayed
	case errors.Is(err, ErrNotFound):
		return refusal
	}
	return err
}

func (e *Engine) attempt(ctx context.Context, in Submission, known **run.State) (*run.State, error) {
	rules, err := e.rules(ctx, in.Organisation)
	if err != nil {
		return nil, err
	}
	if err := e.readOn(ctx, in, known); err != nil {
		return nil, err
	}
	state := (*known).Clone()
	nowMs, err := e.journal.Now(ctx)
	if err != nil {
		return nil, err
	}
	d := newDraft(state, nowMs, 0)
	if _, err := d.add(in.Command, rules, in.Payloads); err != nil {
		return nil, err
	}
	if d.empty() {
		return state, nil
	}
	d.write.Links = append(d.write.Links, in.Links...)
	write := d.finish()
	if d.unmet == nil {
		write.Receipt = in.Receipt
	}
	if err := e.journal.Append(ctx, write); err != nil || d.unmet == nil {
		return state, ofStore(err)
	}
	return state, d.unmet
}

// ofStore tells a failure of the store from what it refuses.
func ofStore(err error) error {
	for _, refusal := range []error{nil, run.ErrConflict, run.ErrFenced, run.ErrGuard, run.ErrBudget, ErrReplayed, ErrNotFound, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, refusal) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrStore, err)
}

// readOn brings what is known of the submission's run up to what its journal
// holds.
func (e *Engine) readOn(ctx context.Context, in Submission, known **run.State) error {
	if _, starts := in.Command.(run.Start); starts {
		*known = &run.State{ID: in.Run}
		return nil
	}
	state := *known
	if state == nil {
		state = &run.State{ID: in.Run}
	}
	err := e.read(ctx, state)
	if unreadable(err) {
		err = park(ctx, e.journal, in.Run, 0, err)
	}
	if err != nil {
		return err
	}
	if state.Started.Organisation != in.Organisation {
		return fmt.Errorf("%w: run", ErrNotFound)
	}
	*known = state
	return nil
}

// State folds a run from its journal. Errors: ErrNotFound, run.ErrChain,
// run.ErrUnknownRecord, run.ErrBroken.
func (e *Engine) State(ctx context.Context, id string) (*run.State, error) {
	state := &run.State{ID: id}
	if err := e.read(ctx, state); err != nil {
		return nil, err
	}
	return state, nil
}

// read folds what the journal holds beyond the state.
func (e *Engine) read(ctx context.Context, state *run.State) error {
	head, records, err := e.journal.Load(ctx, state.ID, state.Version)
	if err != nil {
		return err
	}
	return fold(state, head, records)
}

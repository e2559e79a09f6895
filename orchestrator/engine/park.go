package engine

import (
	"context"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// fold folds records into a state and holds the result against the head: what
// is missing at the end would break no chain. Errors: run.ErrChain,
// run.ErrUnknownRecord, run.ErrBroken.
func fold(state *run.State, head run.Head, records []run.Record) error {
	if err := run.Replay(state, records); err != nil {
		return err
	}
	if state.Version < head.Version || state.Version == head.Version && state.Head != head.Digest {
		return fmt.Errorf("%w: it ends at record %d", run.ErrChain, state.Version)
	}
	return nil
}

// unreadable reports whether a run's record cannot be folded, now and ever.
func unreadable(err error) bool {
	return errors.Is(err, run.ErrChain) || errors.Is(err, run.ErrUnknownRecord) || errors.Is(err, run.ErrBroken)
}

// park stops a run that cannot be read for an operator, once, and returns why.
// The record of it continues the head: nothing of the record is skipped or
// mended. Epoch is the owner's, 0 from outside.
func park(ctx context.Context, journal Journal, id string, epoch uint64, cause error) error {
	head, records, err := journal.Load(ctx, id, 0)
	if err != nil || head.Status == run.StatusParked || head.Status.Ended() {
		return errors.Join(cause, err)
	}
	nowMs, err := journal.Now(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	last := run.Record{Run: id, Seq: head.Version, Digest: head.Digest}
	record, err := run.Encode(id, last, nowMs, run.Parked{Code: "UNREADABLE", Detail: "The run's record cannot be read by this program."})
	if err != nil {
		return errors.Join(cause, err)
	}
	from := head.Version
	head.Status, head.DueMs, head.Version, head.Digest = run.StatusParked, 0, record.Seq, record.Digest
	item := InboxItem{ID: parkedItem(id), Organisation: head.Organisation, Run: id, Kind: InboxParked, Open: true,
		Approvers: whoLooks(records), SinceMs: nowMs}
	err = journal.Append(ctx, Write{Head: head, From: from, Epoch: epoch, Records: []run.Record{record}, Inbox: []InboxItem{item}})
	return fmt.Errorf("parked: %w", errors.Join(cause, err))
}

// whoLooks are those who are told of a run whose record cannot be read: who
// answers for it, as far as its beginning says, and the operators.
func whoLooks(records []run.Record) []policy.Approver {
	people := []policy.Approver{{Role: policy.RoleOperator, Why: "operator"}}
	if len(records) == 0 {
		return people
	}
	if event, err := run.Decode(records[0]); err == nil {
		if started, begins := event.(run.Started); begins {
			people = append(people, responsible(started)...)
		}
	}
	return people
}

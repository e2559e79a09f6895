package engine

import (
	"context"
	"errors"

	"gantry.dev/orchestrator/run"
)

// View is a run as the performer of its effects sees it.
type View struct {
	State *run.State // to be read only, and only while Prepare runs
	NowMs int64      // database clock
	Epoch uint64
	Texts Texts
	// Rules are those that the intent's write makes its condition.
	Rules run.Rules
	// Memory is the performer's own: what it keeps of the run from one effect
	// to the next. It begins nil and is dropped with the state.
	Memory *any
}

// Texts opens texts of the run by id; an erased one is absent.
type Texts func(ctx context.Context, ids ...string) (map[string]Payload, error)

// Prepared is an effect that is ready to begin.
type Prepared struct {
	// Command is the intent that must be recorded before Perform may begin, or
	// the whole effect where Perform is nil. Nil for effects without intent.
	Command  run.Command
	Payloads []Payload
	Birth    *Birth // the child that Command starts, nil for none
	Heard    uint64 // news of children that Command knows of; see run.Head
	// Perform does the work and always reports. It must not touch the state.
	Perform func(ctx context.Context) Performed
}

// Birth is a run that begins in the write of another one.
type Birth struct {
	Run      string // id
	Started  run.Started
	Payloads []Payload
}

// Performed is what an effect gave.
type Performed struct {
	Command  run.Command
	Payloads []Payload
	Links    []Link // of texts that the run had before
}

// ErrHopeless means that an effect can never be prepared.
var ErrHopeless = errors.New("the effect cannot be prepared")

// Performer knows how to do what runs ask for.
type Performer interface {
	// Prepare readies one effect. An error means that it cannot be tried now;
	// the run tries again later. ErrHopeless means that later will be no better:
	// the run is parked.
	Prepare(ctx context.Context, view View, effect run.Effect) (Prepared, error)
}

// report is a command on its way to the run, until its events are recorded.
type report struct {
	effect   string
	command  run.Command
	payloads []Payload
	links    []Link
}

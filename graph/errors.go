package graph

import (
	"errors"

	"gantry.dev/agents"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/graph/remembered"
	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

var (
	errRevoked     = &edge.Fault{Code: edge.CodeRevoked, Message: "You may no longer follow this."}
	errNotFound    = &edge.Fault{Code: edge.CodeNotFound, Message: "There is no such thing, or none that you may know of."}
	errNotCleared  = &edge.Fault{Code: edge.CodeNotCleared, Message: "The journal names labels that you are not cleared for; ask for the export as somebody who is."}
	errTooBusy     = &edge.Fault{Code: edge.CodeTooBusy, Message: "The run is too busy; send the command again with the same commandId.", Extra: map[string]any{"retryable": true}}
	errStore       = &edge.Fault{Code: edge.CodeStore, Message: "The journal takes no writes now; send the command again with the same commandId.", Extra: map[string]any{"retryable": true}}
	errReused      = &edge.Fault{Code: "COMMAND_ID_REUSED", Message: "This command id was used for another request; make a fresh one."}
	errMemoryStore = &edge.Fault{Code: edge.CodeStore, Message: "What is remembered cannot be reached now; send the same again, a command with the same commandId.", Extra: map[string]any{"retryable": true}}
	errMemory      = &edge.Fault{Code: edge.CodeMemory, Message: "Memory cannot be asked now; send the same again.", Extra: map[string]any{"retryable": true}}
)

// resync tells a reader that was too slow where to go on.
func resync(cursor string) *edge.Fault {
	return &edge.Fault{Code: edge.CodeResync, Message: "The stream was cut: its reader was too slow, or the server stops. Subscribe again from the cursor.",
		Extra: map[string]any{"cursor": cursor, "retryable": true}}
}

// public turns any error into one that is safe to show.
func public(err error) (*edge.Fault, bool) {
	var shown *edge.Fault
	switch {
	case errors.As(err, &shown):
		return shown, true
	case errors.Is(err, engine.ErrNotFound):
		return errNotFound, true
	case isMemory(err):
		return ofMemory(err), true
	case errors.Is(err, engine.ErrTooBusy):
		return errTooBusy, true
	case errors.Is(err, engine.ErrStore):
		return errStore, false // the operators have to know
	case errors.Is(err, store.ErrFailed):
		return errMemoryStore, false
	}
	return edge.ErrInternal, false
}

// isMemory reports whether memory refused, or cannot be asked.
func isMemory(err error) bool {
	var refusal *memory.Refusal
	var invalid *remembered.Invalid
	return errors.As(err, &refusal) || errors.As(err, &invalid) || errors.Is(err, index.ErrUnavailable) || errors.Is(err, embed.ErrUnavailable)
}

// ofMemory is what somebody is told whom memory does not answer. What is the
// same everywhere has the words that it has everywhere.
func ofMemory(err error) *edge.Fault {
	var refusal *memory.Refusal
	var invalid *remembered.Invalid
	if errors.As(err, &refusal) {
		switch refusal.Code {
		case edge.CodeNotFound:
			return errNotFound
		case "CURSOR":
			return opaque.ErrCursor
		case "COMMAND_REUSED":
			return errReused
		}
		return &edge.Fault{Code: refusal.Code, Message: refusal.Detail}
	}
	if errors.As(err, &invalid) {
		return edge.BadRequest(invalid.Error())
	}
	return errMemory
}

// changeRefusals are what package agents refuses, with their stable codes.
var changeRefusals = []struct {
	err     error
	code    string
	message string
}{
	{agents.ErrSecondPerson, "SECOND_PERSON_NEEDED", "A second person must approve it."},
	{agents.ErrNotEntitled, "NOT_ENTITLED", "Only people who answer for it may do this, and you are none of them."},
	{agents.ErrNotAPerson, "NOT_A_PERSON", "Only people of the organisation change it."},
	{agents.ErrNoEvidence, "EVIDENCE_NEEDED", "Say where what was observed can be read."},
	{agents.ErrFreerStage, "STAGE_NOT_BY_PUBLISHING", "Publishing does not make a stage freer; use setStage with evidence."},
	{agents.ErrUnknown, edge.CodeNotFound, errNotFound.Message},
	{run.ErrBudget, "BUDGET", "The budget does not cover it; ask its owner to raise it."},
}

// userErrors turns a refusal into what a mutation shows. What is no refusal
// stays an error.
func userErrors(err error) ([]*generated.UserError, error) {
	if err == nil {
		return []*generated.UserError{}, nil
	}
	var refusal *run.Refusal
	var input *inputError
	var kept *memory.Refusal
	var invalid *remembered.Invalid
	switch {
	case errors.As(err, &kept):
		shown := ofMemory(kept)
		return oneUserError(shown.Code, shown.Message, nil), nil
	case errors.As(err, &invalid):
		return oneUserError("INVALID", invalid.Message, &invalid.Field), nil
	case errors.As(err, &refusal) && refusal.Code != edge.CodeNotFound:
		return oneUserError(refusal.Code, refusal.Detail, nil), nil
	case refusal != nil || errors.Is(err, engine.ErrNotFound):
		return oneUserError(edge.CodeNotFound, errNotFound.Message, nil), nil //nolint:nilerr // a refusal is the answer
	case errors.As(err, &input):
		return oneUserError(input.code, input.message, &input.field), nil
	}
	for _, known := range changeRefusals {
		if errors.Is(err, known.err) {
			return oneUserError(known.code, known.message, nil), nil
		}
	}
	var faults agents.Faults
	if errors.As(err, &faults) {
		return oneUserError("INVALID", faults.Error(), nil), nil
	}
	return nil, err
}

func oneUserError(code, message string, field *string) []*generated.UserError {
	return []*generated.UserError{{Code: code, Message: message, Field: field}}
}

// inputError is a fault of one input field.
type inputError struct{ code, field, message string }

// Error returns the field and the message.
func (e *inputError) Error() string { return e.field + ": " + e.message }

package run

import "strconv"

// Effect is work that a run's state asks for: a closed set. Effects are
// derived, never stored; after a crash the same state asks for the same ones
// under the same keys.
type Effect interface {
	// Key names the effect within its run.
	Key() string
}

// TakeTurn asks for a model request.
type TakeTurn struct{ Turn, Attempt int }

// RejudgeCall asks for a new verdict.
type RejudgeCall struct{ Call int }

// DispatchCall asks to attempt a call.
type DispatchCall struct{ Call, Intent int }

// ProbeCall asks the other side whether an uncertain attempt happened.
type ProbeCall struct{ Call, Intent int }

// Verify asks for the completion checks of an answer.
type Verify struct{ Turn, Attempt int }

// CollectChildren asks which of the children have ended.
type CollectChildren struct{}

// StopChild asks to tell a child to stop.
type StopChild struct{ Child string }

// Key is "children".
func (CollectChildren) Key() string { return "children" }

// Key is "stop/CHILD".
func (e StopChild) Key() string { return "stop/" + e.Child }

// Key is "turn/TURN/ATTEMPT".
func (e TakeTurn) Key() string { return effectKey("turn", e.Turn, e.Attempt) }

// Key is "judge/CALL".
func (e RejudgeCall) Key() string { return "judge/" + strconv.Itoa(e.Call) }

// Key is "call/CALL/INTENT".
func (e DispatchCall) Key() string { return effectKey("call", e.Call, e.Intent) }

// Key is "probe/CALL/INTENT".
func (e ProbeCall) Key() string { return effectKey("probe", e.Call, e.Intent) }

// Key is "verify/TURN/ATTEMPT".
func (e Verify) Key() string { return effectKey("verify", e.Turn, e.Attempt) }

func effectKey(kind string, a, b int) string {
	return kind + "/" + strconv.Itoa(a) + "/" + strconv.Itoa(b)
}

package explore

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/assert"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// scopes are the walks. Each is small enough to be walked whole.
func scopes() []Scope {
	limits := DefaultLimits()
	few := limits
	few.Turns, few.TurnAttempts, few.CheckAttempts = 2, 2, 1
	final := few
	final.OnLimit = run.FailOnLimit
	ruinous := final
	ruinous.NoProgress = 1
	keyed := Proposed{Tool: "pay", Class: policy.Keyed, Held: true}
	read := Proposed{Tool: "look", Class: policy.ClassRead}
	opaque := Proposed{Tool: "send", Class: policy.Opaque}
	check := Proposed{Tool: "book", Class: policy.Checkable}
	ask := Proposed{Tool: "ask", Class: policy.ClassRead, Asks: true}
	return []Scope{
		{Name: "held keyed call", Calls: []Proposed{keyed}, Claims: 2, Unknowns: 1, Limits: limits},
		{Name: "held call, policy changes", Calls: []Proposed{keyed}, Claims: 1, Changes: 1, Expiries: true, Limits: limits},
		{Name: "held call, told twice", Calls: []Proposed{keyed}, Claims: 2, Duplicates: 1, Expiries: true, Limits: limits},
		{Name: "read and opaque", Calls: []Proposed{read, opaque}, Claims: 1, Unknowns: 1, Limits: limits},
		{Name: "read and opaque, taken over", Calls: []Proposed{opaque}, Claims: 3, Limits: limits},
		{Name: "opaque, repeated by a person", Calls: []Proposed{opaque}, Claims: 2, Unknowns: 1, Repeats: 1, Duplicates: 1, Cancels: 1, Limits: limits},
		{Name: "checkable", Calls: []Proposed{check}, Claims: 2, Unknowns: 1, Cancels: 1, Repeats: 1, Limits: limits},
		{Name: "cancel", Calls: []Proposed{keyed, ask}, Claims: 1, Cancels: 1, Expiries: true, Limits: limits},
		{Name: "cancel of a retry", Calls: []Proposed{keyed}, Claims: 2, Cancels: 1, Unknowns: 1, Limits: limits},
		{Name: "steer", Calls: []Proposed{read}, Claims: 2, Steers: 1, Cancels: 1, Limits: few},
		{Name: "interrupt", Calls: []Proposed{keyed}, Claims: 1, Steers: 2, Voids: true, Limits: limits},
		{Name: "model", Claims: 2, Failures: 1, Refusal: true, Cancels: 1, Limits: few},
		{Name: "park", Calls: []Proposed{keyed}, Claims: 1, Parks: 1, Cancels: 1, Limits: limits},
		{Name: "checks", Claims: 1, Unchecked: 2, Wrong: 2, Steers: 1, Limits: few},
		{Name: "no turn is paid for", Claims: 1, Cancels: 1, Parks: 1, Limits: limits, Poor: true},
		{Name: "final limits, told twice", Calls: []Proposed{opaque}, Claims: 2, Unknowns: 1, Duplicates: 1, Limits: ruinous},
		{Name: "accepted, told twice", Calls: []Proposed{opaque}, Claims: 1, Unknowns: 1, Unchecked: 1, Duplicates: 1, Limits: few},
		{Name: "final limits", Calls: []Proposed{read}, Claims: 2, Failures: 1, Unchecked: 1, Wrong: 1, Limits: final},
	}
}

func TestExplore(t *testing.T) {
	total := Report{Cells: map[run.Transition]bool{}}
	for _, scope := range scopes() {
		report, err := Walk(scope, 40_000)
		t.Logf("%-30s %7d worlds %8d steps", scope.Name, report.Worlds, report.Steps)
		assert.NoError(t, err)
		total.Worlds += report.Worlds
		total.Steps += report.Steps
		maps.Copy(total.Cells, report.Cells)
	}
	t.Logf("%d worlds, %d steps, %d cells", total.Worlds, total.Steps, len(total.Cells))
	entered := map[[2]run.Status]bool{}
	for cell := range total.Cells {
		entered[[2]run.Status{cell.From, cell.To}] = true
	}
	for _, cell := range run.Transitions() {
		assert.True(t, cell.From == cell.To || entered[[2]run.Status{cell.From, cell.To}], "no walk leads from %q to %q", cell.From, cell.To)
	}
}

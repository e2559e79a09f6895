package explore

import (
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // every world stays: to look for garbage often finds none
	os.Exit(m.Run())
}

// scopes are the walks. Each is small enough to be walked whole.
func scopes() []Scope {
	limits := DefaultLimits()
	few := limits
	few.Turns, few.TurnAttempts, few.CheckAttempts = 2, 2, 1
	final := few
	final.OnLimit = run.FailOnLimit
	ruinous := final
	ruinous.NoProgress = 1
	repeating := few
	repeating.NoProgress = 1
	keyed := Proposed{Tool: "pay", Class: policy.Keyed, Held: true}
	read := Proposed{Tool: "look", Class: policy.ClassRead}
	opaque := Proposed{Tool: "send", Class: policy.Opaque}
	check := Proposed{Tool: "book", Class: policy.Checkable}
	child := Proposed{Tool: "delegate", Class: policy.ClassRead, Child: true}
	reviewed, reviewedChild := Proposed{Tool: "reviewed", Class: policy.ClassRead, Reviewed: true}, Proposed{Tool: "reviewed-child", Class: policy.ClassRead, Child: true, Reviewed: true}
	heldChild := child
	heldChild.Held = true
	ask := Proposed{Tool: "ask", Class: policy.ClassRead, Asks: true}
	wanted, request := Proposed{Tool: "wanted", Class: policy.Opaque, Wants: true}, Proposed{Tool: "request", Class: policy.ClassRead, Wants: true, Only: true}
	wantedHeld := wanted
	wantedHeld.Held = true
	eliciting := Proposed{Tool: "file", Class: policy.Opaque, Elicits: true}
	elicitingKeyed := Proposed{Tool: "pay", Class: policy.Keyed, Held: true, Elicits: true}
	return []Scope{
		{Name: "held keyed call", Calls: []Proposed{keyed}, Claims: 2, Unknowns: 1, Limits: limits},
		{Name: "held call, policy changes", Calls: []Proposed{keyed}, Claims: 1, Changes: 1, Expiries: true, Limits: limits},
		{Name: "held call, told twice", Calls: []Proposed{keyed}, Claims: 2, Duplicates: 1, Expiries: true, Limits: limits},
		{Name: "access to a tool", Calls: []Proposed{wanted}, Claims: 2, Unknowns: 1, Expiries: true, Limits: few},
		{Name: "access to a held tool", Calls: []Proposed{wantedHeld}, Claims: 1, Expiries: true, Cancels: 1, Limits: few},
		{Name: "access is taken back", Calls: []Proposed{wantedHeld}, Claims: 1, Changes: 1, Cancels: 1, Limits: few},
		{Name: "access to a tool that changes", Calls: []Proposed{wanted}, Claims: 1, Changes: 1, Retools: true, Limits: few},
		{Name: "access beside a call", Calls: []Proposed{read, request}, Claims: 1, Expiries: true, Cancels: 1, Limits: few},
		{Name: "access, steered", Calls: []Proposed{wanted, request}, Claims: 1, Steers: 1, Voids: true, Limits: few},
		{Name: "access, parked", Calls: []Proposed{wanted}, Claims: 1, Parks: 1, Expiries: true, Limits: few},
		{Name: "read and opaque", Calls: []Proposed{read, opaque}, Claims: 1, Unknowns: 1, Limits: limits},
		{Name: "read and opaque, taken over", Calls: []Proposed{opaque}, Claims: 3, Limits: limits},
		{Name: "opaque, repeated by a person", Calls: []Proposed{opaque}, Claims: 2, Unknowns: 1, Repeats: 1, Duplicates: 1, Cancels: 1, Limits: limits},
		{Name: "checkable", Calls: []Proposed{check}, Claims: 2, Unknowns: 1, Cancels: 1, Repeats: 1, Limits: limits},
		{Name: "cancel", Calls: []Proposed{keyed, ask}, Claims: 1, Cancels: 1, Expiries: true, Limits: limits},
		{Name: "cancel of a retry", Calls: []Proposed{keyed}, Claims: 2, Cancels: 1, Unknowns: 1, Limits: limits},
		{Name: "steer", Calls: []Proposed{read}, Claims: 2, Steers: 1, Cancels: 1, Limits: few},
		{Name: "interrupt", Calls: []Proposed{keyed}, Claims: 1, Steers: 2, Voids: true, Limits: limits},
		{Name: "model", Claims: 2, Failures: 1, Refusal: true, Cancels: 1, Limits: few},
		{Name: "models out", Claims: 2, Outages: 2, Limits: few}, {Name: "models out, steered", Claims: 1, Outages: 2, Steers: 1, Limits: few},
		{Name: "models out, cancelled or parked", Claims: 1, Outages: 2, Cancels: 1, Parks: 1, Limits: few},
		{Name: "models out after a call", Calls: []Proposed{read}, Claims: 1, Outages: 2, Limits: few},
		{Name: "models out below", Below: true, Claims: 1, Outages: 2, Limits: final},
		{Name: "a second model", Claims: 2, Hedges: 2, Cancels: 1, Limits: few}, {Name: "a second model, final limits", Claims: 1, Hedges: 2, Failures: 1, Limits: final},
		{Name: "a second model, interrupted", Claims: 1, Hedges: 1, Steers: 1, Voids: true, Limits: few}, {Name: "a second model, parked", Claims: 1, Hedges: 1, Parks: 1, Limits: few},
		{Name: "park", Calls: []Proposed{keyed}, Claims: 1, Parks: 1, Cancels: 1, Limits: limits},
		{Name: "checks", Claims: 1, Unchecked: 2, Wrong: 2, Steers: 1, Limits: few},
		{Name: "no turn is paid for", Claims: 1, Cancels: 1, Parks: 1, Limits: limits, Poor: true},
		{Name: "final limits, told twice", Calls: []Proposed{opaque}, Claims: 2, Unknowns: 1, Duplicates: 1, Limits: ruinous},
		{Name: "accepted, told twice", Calls: []Proposed{opaque}, Claims: 1, Unknowns: 1, Unchecked: 1, Duplicates: 1, Limits: few},
		{Name: "final limits", Calls: []Proposed{read}, Claims: 2, Failures: 1, Unchecked: 1, Wrong: 1, Limits: final},
		{Name: "beside a held call", Calls: []Proposed{read, keyed}, Claims: 1, Expiries: true, Limits: few},
		{Name: "beside a question", Calls: []Proposed{read, ask}, Claims: 1, Expiries: true, Limits: few},
		{Name: "limit beside a call", Calls: []Proposed{read, check}, Claims: 1, Unknowns: 1, Repeats: 1, Limits: repeating},
		{Name: "limit beside a held call", Calls: []Proposed{read, keyed}, Claims: 1, Changes: 1, Becomes: policy.Permit, Limits: repeating},
		{Name: "forbidden before a repeat", Calls: []Proposed{opaque}, Claims: 1, Unknowns: 1, Repeats: 1, Changes: 1, Becomes: policy.Forbid,
			Unchecked: 1, Limits: few},
		{Name: "accepted before the late word", Calls: []Proposed{opaque}, Claims: 2, Unchecked: 1, Limits: few},
		{Name: "cancel beside an uncertain call", Calls: []Proposed{opaque, read}, Claims: 1, Unknowns: 1, Cancels: 1, Limits: few},
		{Name: "park, policy changes", Calls: []Proposed{keyed}, Claims: 1, Parks: 1, Changes: 1, Limits: few},
		{Name: "park of a retry", Calls: []Proposed{keyed}, Claims: 2, Parks: 1, Unknowns: 1, Limits: few},
		{Name: "park beside an uncertain call", Calls: []Proposed{opaque}, Claims: 1, Parks: 1, Unknowns: 1, Limits: few},
		{Name: "park, question", Calls: []Proposed{ask}, Claims: 1, Parks: 1, Expiries: true, Limits: few},
		{Name: "cancelled by its tree", Calls: []Proposed{keyed}, Claims: 2, Closings: 1, Limits: few},
		{Name: "a word on nothing", Calls: []Proposed{keyed, read}, Claims: 1, Strays: true, Limits: few},
		{Name: "children", Calls: []Proposed{child, child}, Claims: 2, Runs: 2, Limits: few},
		{Name: "one child at a time", Calls: []Proposed{child, child}, Claims: 1, Runs: 1, Declines: 1, Steers: 1, Limits: few},
		{Name: "no child may live", Calls: []Proposed{child, heldChild}, Claims: 1, Cancels: 1, Limits: few},
		{Name: "cancel with a child", Calls: []Proposed{child, read}, Claims: 1, Runs: 1, Cancels: 1, Limits: few},
		{Name: "cancelled by its tree with a child", Calls: []Proposed{child}, Claims: 2, Runs: 1, Closings: 1, Limits: few},
		{Name: "park with a child", Calls: []Proposed{child}, Claims: 1, Runs: 1, Parks: 1, Cancels: 1, Limits: few},
		{Name: "held child", Calls: []Proposed{heldChild}, Claims: 1, Runs: 1, Changes: 1, Declines: 1, Cancels: 1, Expiries: true, Limits: few},
		{Name: "branches", Calls: []Proposed{child, child}, Claims: 1, Runs: 2, Branches: true, Limits: few,
			Fates: []run.Status{run.StatusCompleted, run.StatusPartial, run.StatusFailed}},
		{Name: "a child at its deadline", Calls: []Proposed{child, opaque}, Claims: 1, Runs: 1, Below: true, Unknowns: 1, Limits: final},
		{Name: "a child at its deadline, steered", Claims: 1, Below: true, Steers: 1, Failures: 1, Cancels: 1, Voids: true, Limits: final},
		{Name: "reviewed call", Calls: []Proposed{reviewed}, Wrong: 1, Claims: 1, Runs: 1, Declines: 1, Parks: 1, Limits: few},
		{Name: "reviewed call, cancelled", Calls: []Proposed{reviewed}, Claims: 2, Runs: 1, Cancels: 1, Limits: few},
		{Name: "no reviewer may live", Calls: []Proposed{reviewed, child}, Claims: 1, Limits: few},
		{Name: "reviewed child beside another", Calls: []Proposed{child, reviewedChild}, Wrong: 1, Claims: 1, Runs: 1, Limits: few},
		{Name: "guarded turn", Calls: []Proposed{keyed, {Tool: "reviewed", Class: policy.ClassRead, Reviewed: true, Guards: true}}, Wrong: 1, Claims: 1, Runs: 1, Declines: 1, Cancels: 1, Limits: few},
		{Name: "limit beside a review", Calls: []Proposed{read, reviewed}, Wrong: 1, Claims: 1, Runs: 1, Limits: repeating},
		{Name: "reviewed answer", Reviewed: true, Wrong: 1, Claims: 1, Runs: 1, Cancels: 1, Limits: few},
		{Name: "beside", Calls: []Proposed{keyed}, Beside: true, Claims: 1, Parks: 1, Cancels: 1, Limits: few},
		{Name: "beside, in flight", Calls: []Proposed{read}, Beside: true, Claims: 1, Cancels: 1, Limits: few},
		{Name: "too long", Calls: []Proposed{read}, Briefs: 2, TooLong: 2, Claims: 1, Limits: final},
		{Name: "too long, cancelled", Briefs: 1, TooLong: 1, Failures: 1, Claims: 2, Cancels: 1, Limits: final},
		{Name: "too long for good", Briefs: 1, TooLong: 3, Claims: 1, Limits: final},
		{Name: "asked by a server", Calls: []Proposed{eliciting}, Claims: 1, Asks: 2, Duplicates: 1, Expiries: true, Limits: few},
		{Name: "asked by a server, taken over", Calls: []Proposed{eliciting}, Claims: 2, Asks: 1, Repeats: 1, Limits: few},
		{Name: "asked by a server, cancelled", Calls: []Proposed{eliciting}, Claims: 1, Asks: 1, Cancels: 1, Unknowns: 1, Limits: few},
		{Name: "asked by a server, of a held call", Calls: []Proposed{elicitingKeyed}, Claims: 1, Asks: 1, Unknowns: 1, Changes: 1, Limits: few},
		{Name: "asked by a server, policy forbids", Calls: []Proposed{eliciting}, Claims: 1, Asks: 1, Changes: 1, Becomes: policy.Forbid, Limits: few},
		{Name: "asked by a server, parked", Calls: []Proposed{eliciting}, Claims: 1, Asks: 1, Parks: 1, Expiries: true, Limits: few},
		{Name: "limit beside what a server asks", Calls: []Proposed{read, eliciting}, Claims: 1, Asks: 1, Expiries: true, Limits: repeating},
		{Name: "final limit beside what a server asks", Calls: []Proposed{eliciting, read}, Claims: 1, Asks: 1, Limits: ruinous},
		{Name: "park, interrupted", Claims: 1, Parks: 1, Steers: 1, Voids: true, Limits: few},
	}
}

// TestExplore walks every scope whole, or the one that WALK names. The table of
// transitions is exactly what the walks enter: an event outside it breaks a
// walk, a cell that no walk enters fails here by name.
func TestExplore(t *testing.T) {
	var mu sync.Mutex
	total := Report{Cells: map[run.Transition]bool{}}
	walks, wanted := scopes(), os.Getenv("WALK")
	if wanted != "" {
		walks = slices.DeleteFunc(walks, func(s Scope) bool { return s.Name != wanted })
		require.Len(t, walks, 1, "no such walk")
	}
	t.Run("walks", func(t *testing.T) {
		for _, scope := range walks {
			t.Run(scope.Name, func(t *testing.T) {
				t.Parallel()
				report, err := Walk(scope, 40_000)
				t.Logf("%7d states %8d edges", report.Worlds, report.Steps)
				assert.NoError(t, err)
				mu.Lock()
				defer mu.Unlock()
				total.Worlds += report.Worlds
				total.Steps += report.Steps
				maps.Copy(total.Cells, report.Cells)
			})
		}
	})
	if wanted != "" {
		return
	}
	assert.Empty(t, notEntered(total.Cells), "cells of the table that no walk enters")
	fmt.Printf("level: L1 walks %d, states %d, edges %d, cells %d/%d\n", len(walks), total.Worlds, total.Steps, len(total.Cells), len(run.Transitions()))
}

// notEntered names the cells of the table that are missing, sorted.
func notEntered(entered map[run.Transition]bool) []string {
	var missing []string
	for _, cell := range run.Transitions() {
		if !entered[cell] {
			missing = append(missing, fmt.Sprintf("%s --%s--> %s", cell.From, cell.Kind, cell.To))
		}
	}
	slices.Sort(missing)
	return missing
}

func TestACellThatNoWalkEntersIsNamed(t *testing.T) {
	report, err := Walk(Scope{Name: "one turn", Claims: 1, Limits: DefaultLimits()}, 1_000)
	require.NoError(t, err)
	missing := notEntered(report.Cells)
	require.Contains(t, missing, "RUNNING --call_intended--> RUNNING")
	require.NotContains(t, missing, "RUNNING --turn_answered--> RUNNING")
	require.Len(t, missing, len(run.Transitions())-len(report.Cells))
}

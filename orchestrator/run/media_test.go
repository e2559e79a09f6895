package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// image is one that a tool gave.
var image = run.Media{Text: run.Text{ID: "image", Commitment: "c", Size: 4, Marking: policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}},
	MediaType: "image/png", Bytes: 3}

// What an image bears is the run's as much as what a text bears; but it is no
// word, and leaving it out shows nothing more and is marked like it.
func TestAnImageMarksItsRunAndWhatStandsForIt(t *testing.T) {
	w := begin(t)
	w.compacting()
	w.turn("free")
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
	for _, bad := range []run.Media{{MediaType: "image/svg+xml", Bytes: 3}, {MediaType: "my salary is 9", Bytes: 3}, {MediaType: "image/png"}} {
		w.refused("INVALID_MEDIA", run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK, Media: []run.Media{bad}})
	}
	before := len(w.s.Words())
	w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK, Result: &run.Text{ID: "named"}, Media: []run.Media{image}})
	require.True(t, image.Text.Marking.Within(w.s.Marking))
	require.Len(t, w.s.Words(), before+1, "the words alone")
	require.Contains(t, w.s.Texts(), image.Text, "yet erased with the run like any other")
	require.True(t, w.s.Brief().Shows(w.s.Call(1)))

	w.refused("STALE", run.Compact{Turn: 2, Attempt: 1, Model: "m", Brief: run.Brief{Unshown: 2}})
	w.do(run.Compact{Turn: 2, Attempt: 1, Cause: run.CompactedForRoom, Model: "m", Brief: run.Brief{Unshown: 1}})
	require.True(t, image.Text.Marking.Within(w.s.Compactions[0].Marking))
	require.False(t, w.s.Brief().Shows(w.s.Call(1)))
	w.refused("STALE", run.Compact{Turn: 2, Attempt: 1, Model: "m", Brief: run.Brief{Result: 9}})
}

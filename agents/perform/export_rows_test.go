package perform_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// An export of a run with those below it is held together by what the run was
// told of their ends: none of them can be cut short or exchanged.
func TestAnExportedTreeIsHeldTogether(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		h.handsOn([]tool.Delegation{{Agent: "clerk", Brief: "one"}, {Agent: "clerk", Brief: "two"}},
			func(context.Context, string, int) (model.Answer, error) { return says("done"), nil })
		id, other := h.lead("go!"), h.lead("go!")
		h.work()
		records := func(id string) []run.Record {
			_, records, err := h.Memory.Load(t.Context(), id, 0)
			require.NoError(t, err)
			return records
		}
		verify := func(parts ...[]run.Record) (account.Report, error) {
			var export bytes.Buffer
			for _, part := range parts {
				require.NoError(t, account.Export(&export, part))
			}
			return account.Verify(&export, h.state(id).Head)
		}
		root, first, second := records(id), records(run.ChildOfCall(id, 1)), records(run.ChildOfCall(id, 2))
		report, err := verify(root, first, second)
		require.NoError(t, err)
		require.Equal(t, id, report.Run)
		require.Len(t, report.Below, 2)
		require.Equal(t, run.StatusCompleted, report.Below[1].Status)

		_, err = verify(root, second)
		require.NoError(t, err, "a part of the tree says nothing of the rest")
		_, err = verify(root, first[:len(first)-1], second)
		require.ErrorContains(t, err, "was told of the end")
		_, err = verify(root, records(run.ChildOfCall(other, 1)))
		require.ErrorContains(t, err, "is below none of the export")
		_, err = verify(root[:4], first)
		require.Error(t, err, "cut short before the child began")
		_, err = verify(root, first[:2], second, first[2:])
		require.ErrorContains(t, err, "it is of another run")
	})
}

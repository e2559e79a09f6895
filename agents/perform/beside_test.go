package perform_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/orchestrator/run"
)

func TestAnAnswerThatIsHeldIsRepairedAndPasses(t *testing.T) {
	inside(t, watched(), func(t *testing.T, h *house) {
		h.take = checking(func(request model.Request) string {
			for _, message := range request.Messages {
				if strings.Contains(message.Text, "wants to call") || strings.Contains(message.Text, "done, and checked") {
					return `{"verdict":"PASS","reason":""}`
				}
			}
			return `{"verdict":"HOLD","reason":"say that it is checked"}`
		})
		take := h.take
		h.take = func(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
			if !checks(request) {
				for _, message := range request.Messages {
					if strings.Contains(message.Text, "say that it is checked") {
						return says("done, and checked"), nil
					}
				}
			}
			return take(ctx, request, deltas)
		}
		id := h.lead("go")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, "done, and checked", h.text(state.Ended.Result))
		var standings []run.Review
		for _, one := range state.Reviews() {
			standings = append(standings, one.Standing)
		}
		require.Equal(t, []run.Review{run.ReviewPassed, run.ReviewHolds, run.ReviewPassed}, standings, "the call, the first answer, the second")
	})
}

func TestNothingIsSentBesideARunThatNoBudgetCovers(t *testing.T) {
	inside(t, watched(), func(t *testing.T, h *house) {
		id := h.lead("go")
		for _, node := range h.organisation.Accounts("d", "", 0) {
			require.NoError(t, h.SetBudget(t.Context(), node, run.Amount{}))
		}
		_, err := h.admission().Dispatch(t.Context(), perform.Dispatch{Main: id, Person: h.person("ada"), By: run.Identity{Principal: "ada"},
			Kind: run.Sidecar, Agent: "watcher", Purpose: run.ForResearch, Brief: "Find it.", Lands: run.LandsAsSteer, CommandID: "c1"})
		var refusal *run.Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, run.RefusedBudget, refusal.Code)
		require.Empty(t, h.state(id).Sidecars)
	})
}

package perform_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// watched has an agent "lead" whose writes and answers the agent "checker"
// reviews, and the agent "watcher", which goes on beside it where that is asked for.
func watched(besides ...agents.Sidecar) agents.Organisation {
	o := delegating()
	checker, lead := o.Agents[0], &o.Agents[1]
	checker.Name, checker.Instructions = "checker", "Check the others."
	watcher := checker
	watcher.Name, watcher.Instructions = "watcher", "Watch the others."
	lead.Sidecars = append([]agents.Sidecar{{Agent: "checker", Purpose: run.ForCheck, Brief: "Is this right?", Reviews: []string{"things.write", run.ReviewsAnswer}}}, besides...)
	o.Agents = append(o.Agents, checker, watcher)
	return o
}

func checks(request model.Request) bool {
	return strings.Contains(request.Messages[0].Text, "Check the others.")
}

func watches(request model.Request) bool {
	return strings.Contains(request.Messages[0].Text, "Watch the others.")
}

// checking writes once and answers, and has the checker say a verdict.
func checking(verdict func(request model.Request) string) take {
	return func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
		switch {
		case checks(request):
			return says(verdict(request)), nil
		case len(request.Messages) == 2:
			return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.write", Arguments: []byte(`{"id":"x"}`)}}}, nil
		}
		return says("all done"), nil
	}
}

func TestACheckerLetsACallAndAnAnswerPass(t *testing.T) {
	inside(t, watched(), func(t *testing.T, h *house) {
		h.take = checking(func(model.Request) string { return `{"verdict":"PASS","reason":""}` })
		id := h.lead("go")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, 1, h.invoked["things.write"])
		require.Len(t, state.Children, 2)
		require.Empty(t, state.Approvals)
		require.Equal(t, run.CheckPassed, state.LastTurn().Checks.Checks[1].Verdict)
		reviewer := h.state(state.Children[0].ChildStarted.Child)
		require.Equal(t, policy.ImpactRead, reviewer.Started.Authority.Tools["things.read"].Impact)
		for name, grant := range reviewer.Started.Authority.Tools {
			require.LessOrEqual(t, grant.Impact, policy.ImpactRead, name)
		}
	})
}

func TestACheckerHoldsACallUntilItsOwnerHasDecided(t *testing.T) {
	for name, word := range map[string]string{"speaks against it": `{"verdict":"HOLD","reason":"not x"}`, "gives no verdict": `what?`} {
		t.Run(name, func(t *testing.T) {
			inside(t, watched(), func(t *testing.T, h *house) {
				h.take = checking(func(request model.Request) string {
					for _, message := range request.Messages {
						if strings.Contains(message.Text, "wants to call") {
							return word
						}
					}
					return `{"verdict":"PASS","reason":""}`
				})
				id := h.lead("go")
				h.work()
				state := h.state(id)
				require.Equal(t, run.StatusWaiting, state.Status)
				require.Zero(t, h.invoked["things.write"])
				require.Len(t, state.Approvals, 1)
				require.Equal(t, "olga", state.Approvals[0].Approvers[0].Principal)
				h.decide(id, 1, true)
				h.work()
				require.Equal(t, run.StatusCompleted, h.state(id).Status)
				require.Equal(t, 1, h.invoked["things.write"])
			})
		})
	}
}

func TestAFindingComesAsEvidenceIntoTheRunItGoesOnBeside(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		o := watched(agents.Sidecar{Agent: "watcher", Purpose: run.ForResearch, Brief: "Find it."})
		o.Agents[1].Sidecars = o.Agents[1].Sidecars[1:]
		h.reconfigure(o)
		begun := make(chan struct{})
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			if watches(request) {
				close(begun)
				return says("found: the moon"), nil
			}
			<-begun                 // the finding is on its way
			time.Sleep(time.Second) // in the bubble: until the finding has come
			return says("heard " + last(request)), nil
		}
		id := h.lead("go")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Len(t, state.Steers, 1)
		require.True(t, state.Steers[0].Evidence)
		require.Equal(t, run.Absorbed, state.Steers[0].Disposition)
		require.Equal(t, "agent:watcher", state.Steers[0].By.Principal)
		answer := h.text(state.Ended.Result)
		require.Contains(t, answer, "evidence found by agent:watcher")
		require.Contains(t, answer, "found: the moon")
		require.Equal(t, run.StatusCompleted, h.state(state.Sidecars[0].Sidecar).Status)
	})
}

func TestNothingBesideARunOutlivesItsCancel(t *testing.T) {
	inside(t, watched(), func(t *testing.T, h *house) {
		h.take = func(ctx context.Context, _ model.Request, _ func(string)) (model.Answer, error) {
			<-ctx.Done()
			return model.Answer{}, &model.Error{Kind: model.TimedOut}
		}
		id := h.lead("go")
		beside, err := h.admission().Dispatch(t.Context(), perform.Dispatch{Main: id, Person: h.person("ada"), By: run.Identity{Principal: "ada"},
			Kind: run.Sidecar, Agent: "watcher", Purpose: run.ForResearch, Brief: "Find it.", Lands: run.LandsAsEvidence, Outlives: true, CommandID: "c1"})
		require.NoError(t, err)
		h.work()
		require.NoError(t, h.submit(id, run.Cancel{By: run.Identity{Principal: "ada"}}))
		h.work()
		require.Equal(t, run.StatusCancelled, h.state(id).Status)
		require.Equal(t, run.StatusCancelled, h.state(beside.Run).Status)
	})
}

func TestALateFindingIsRefusedAndASidecarEndsWithItsRun(t *testing.T) {
	for name, outlives := range map[string]bool{"ends with it": false, "outlives it": true} {
		t.Run(name, func(t *testing.T) {
			inside(t, watched(), func(t *testing.T, h *house) {
				release := make(chan struct{})
				h.take = func(ctx context.Context, request model.Request, _ func(string)) (model.Answer, error) {
					switch {
					case watches(request):
						select {
						case <-release:
							return says("too late"), nil
						case <-ctx.Done():
							return model.Answer{}, &model.Error{Kind: model.TimedOut}
						}
					case checks(request):
						return says(`{"verdict":"PASS","reason":""}`), nil
					}
					time.Sleep(time.Minute / 2)
					return says("done"), nil
				}
				id := h.lead("go")
				beside, err := h.admission().Dispatch(t.Context(), perform.Dispatch{Main: id, Person: h.person("ada"), By: run.Identity{Principal: "ada"},
					Kind: run.Sidecar, Agent: "watcher", Purpose: run.ForResearch, Brief: "Find it.", Lands: run.LandsAsSteer, Outlives: outlives, CommandID: "c1"})
				require.NoError(t, err)
				h.work()
				require.Equal(t, run.StatusCompleted, h.state(id).Status)
				close(release)
				h.work()
				sidecar := h.state(beside.Run)
				if outlives {
					require.Equal(t, run.StatusFailed, sidecar.Status)
					require.Equal(t, "RUN_ENDED", sidecar.LastTurn().Checks.Checks[1].Code)
				} else {
					require.Equal(t, run.StatusCancelled, sidecar.Status)
				}
				require.Empty(t, h.state(id).Steers)
			})
		})
	}
}

func TestSoManySessionsGoOnBesideARunAndNoMore(t *testing.T) {
	inside(t, watched(), func(t *testing.T, h *house) {
		id := h.lead("go")
		dispatch := func(n int) (perform.Admitted, error) {
			return h.admission().Dispatch(t.Context(), perform.Dispatch{Main: id, Person: h.person("ada"), By: run.Identity{Principal: "ada"},
				Kind: run.Sidecar, Agent: "watcher", Purpose: run.ForResearch, Brief: "Find it.", Lands: run.LandsAsEvidence, CommandID: fmt.Sprint(n)})
		}
		for _, node := range h.organisation.Accounts("d", "", 0) {
			require.NoError(t, h.SetBudget(t.Context(), node, run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
		}
		for n := range run.MostBeside {
			_, err := dispatch(n)
			require.NoError(t, err)
		}
		_, err := dispatch(run.MostBeside)
		var refusal *run.Refusal
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "TOO_MANY_SIDECARS", refusal.Code)
		again, err := dispatch(0)
		require.NoError(t, err)
		require.True(t, again.Replayed, "what was accepted before is answered as before")
	})
}

// Whoever died between the start of a sidecar and the record of it finds it there.
func TestASidecarThatBeganIsNotBegunAgain(t *testing.T) {
	inside(t, watched(agents.Sidecar{Agent: "watcher", Purpose: run.ForResearch, Brief: "Find it."}), func(t *testing.T, h *house) {
		id := h.lead("go")
		prepare := func() run.ReportSidecar {
			view := engine.View{State: h.state(id), NowMs: time.Now().UnixMilli(), Epoch: 1, Texts: h.texts, Rules: h.admitted.Rules, Memory: new(any)}
			prepared, err := perform.New(h, h.source, h.tree(), nil).Prepare(t.Context(), view, run.DispatchSidecar{Number: 1})
			require.NoError(t, err)
			report, is := prepared.Command.(run.ReportSidecar)
			require.True(t, is)
			return report
		}
		first := prepare()
		require.Empty(t, first.Code)
		begun := h.state(first.Sidecar)
		require.Equal(t, first, prepare())
		require.Equal(t, begun, h.state(first.Sidecar))
	})
}

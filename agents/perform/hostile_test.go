package perform_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// stronger has the agent "lead", which is cleared for nothing and reads nothing, and
// a delegation by which it hands work to the agent "vault", which serves nobody
// of its department and reads what is secret.
func stronger() agents.Organisation {
	o := delegating()
	lead := &o.Agents[1]
	lead.Clearance, lead.Tools = nil, lead.Tools[:1]
	vault := o.Agents[0]
	vault.Name, vault.Instructions, vault.Audience = "vault", "Open the vault.", []string{"e"}
	lead.Delegates = append(lead.Delegates, agents.Delegate{Agent: "vault"})
	o.Agents = append(o.Agents, vault)
	o.Grants = []agents.Grant{{ID: "g1", Kind: agents.Delegation, Agent: "vault", From: "lead", Reason: "help", AtMs: 1,
		Ceiling: agents.Ceiling{Tools: vault.Tools[:2], Labels: vault.Clearance, Models: vault.Models, Stage: policy.Automate, MicroUSD: 500_000, Tokens: 500_000},
		Words:   []agents.Word{{Person: "olga", AtMs: 1}, {Person: "carl", AtMs: 1}}}}
	return o
}

func (h *house) beside(main, person, agent string, kind run.Kind) (perform.Admitted, error) {
	h.t.Helper()
	return h.admission().Dispatch(h.t.Context(), perform.Dispatch{Main: main, Person: h.person(person), By: run.Identity{Principal: person},
		Kind: kind, Agent: agent, Purpose: run.ForResearch, Brief: "Open it.", Lands: run.LandsAsEvidence, CommandID: main + " " + agent})
}

func TestAPersonGetsNoStrongerAgentBesideARunThanTheRunIs(t *testing.T) {
	for _, kind := range []run.Kind{run.Sidecar, run.SubAgent} {
		t.Run(string(kind), func(t *testing.T) {
			inside(t, stronger(), func(t *testing.T, h *house) {
				id := h.lead("go")
				_, err := h.beside(id, "ada", "vault", kind)
				require.ErrorContains(t, err, "NOT_FOUND", "the delegation is the agent's, and the person need not know of the other one")
				_, err = h.beside(id, "ada", "nobody", kind)
				require.ErrorContains(t, err, "NOT_FOUND")
			})
		})
	}
}

func TestNoRunBeginsBesideOneWithAStoppedAgent(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		id := h.lead("go")
		o := h.organisation
		o.Kills = []agents.Kill{{Scope: agents.KillAgent, Name: "clerk", By: "olga", Reason: "wrong"}}
		h.change(o)
		_, err := h.beside(id, "ada", "clerk", run.Sidecar)
		require.ErrorContains(t, err, "AGENT_STOPPED")
	})
}

// told is what the one call of a lead comes to whose delegate reads what is
// secret and answers so, where a result of this form was asked for.
func told(t *testing.T, answer, schema string) (outcome string) {
	inside(t, stronger(), func(t *testing.T, h *house) {
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			switch {
			case strings.Contains(request.Messages[0].Text, "Open the vault.") && len(request.Messages) == 2:
				return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.read", Arguments: []byte(`{"id":"x"}`)}}}, nil
			case strings.Contains(request.Messages[0].Text, "Open the vault."):
				return says(answer), nil
			case len(request.Messages) == 2:
				return handOn(tool.Delegation{Agent: "vault", Brief: "Open it.", Result: json.RawMessage(schema)}), nil
			}
			return says("done"), nil
		}
		id := h.lead("go")
		h.work()
		state := h.state(id)
		require.NotNil(t, state.Child(run.ChildOfCall(id, 1)), "%+v", state.Calls)
		require.True(t, h.state(run.ChildOfCall(id, 1)).Marking.Labels.Has("secret"))
		require.Nil(t, state.Calls[0].Result)
		outcome = string(state.Calls[0].Outcome) + " " + state.Calls[0].Code
		require.Empty(t, state.Marking.Labels)
	})
	return outcome
}

func TestHowASecretResultFailsTellsNothingOfIt(t *testing.T) {
	const schema = `{"type":"string","const":"the moon"}`
	require.Equal(t, "FAILED LABELS", told(t, `"the moon"`, schema))
	require.Equal(t, "FAILED LABELS", told(t, `"the sun"`, schema), "a form that it does not have is a question that it answers")
	require.Equal(t, "FAILED LABELS", told(t, `"`+strings.Repeat("moon ", 100_000)+`"`, `{"type":"string"}`))
}

func TestHowAChildFailsThatReadWhatIsSecretTellsNothingOfIt(t *testing.T) {
	ends := map[string]bool{}
	for _, answer := range []model.Answer{says(""), {Finish: model.FinishLength, Text: "cut"}} {
		inside(t, stronger(), func(t *testing.T, h *house) {
			h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
				switch vault := strings.Contains(request.Messages[0].Text, "Open the vault."); {
				case vault && len(request.Messages) == 2:
					return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.read", Arguments: []byte(`{"id":"x"}`)}}}, nil
				case vault:
					return answer, nil
				case len(request.Messages) == 2:
					return handOn(tool.Delegation{Agent: "vault", Brief: "Open it."}), nil
				}
				return says("done"), nil
			}
			id := h.lead("go")
			h.work()
			call := h.state(id).Calls[0]
			require.Equal(t, run.StatusFailed, h.state(call.Child).Status)
			ends[call.Code] = true
		})
	}
	require.Equal(t, map[string]bool{"LABELS": true}, ends)
}

// In a conversation nothing goes along that its person was told elsewhere, and
// nowhere the answer of a run that failed.
func TestOnlyResultsOfTheSameConversationGoAlong(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		along := ""
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			if leads(request) && len(request.Messages) == 2 {
				order := tool.Delegation{Agent: "clerk", Brief: "Do it."}
				if along != "" {
					order.Context = []string{along}
				}
				return handOn(order), nil
			}
			return says("private"), nil
		}
		in := func(conversation string) *run.State {
			order := h.order("go")
			order.Agent, order.Conversation, order.Participants = "lead", conversation, []string{"ada"}
			admitted, err := h.admission().Start(t.Context(), order)
			require.NoError(t, err)
			h.work()
			return h.state(admitted.Run)
		}
		require.NoError(t, h.Converse(t.Context(), "o", "talk"))
		require.NoError(t, h.SetBudget(t.Context(), h.organisation.ConversationNode(), run.Amount{MicroUSD: 5_000_000, Tokens: 5_000_000}))
		along = run.ChildOfCall(in("").ID, 1)
		require.Equal(t, run.OutcomeOK, in("").Calls[0].Outcome)
		require.Equal(t, "CONTEXT", in("talk").Calls[0].Code)
	})
}

// Who joined a conversation sends somebody beside a run in it: what they alone
// read is not brought to who hears it, nor what its first person alone reads.
func TestARunBesideAnotherRecallsWhatAllReadWhoTakePartByNow(t *testing.T) {
	o := delegating()
	lead := &o.Agents[1]
	lead.Spaces.Read = []string{"organisation", "subject"}
	o.Agents[0].Spaces.Read = lead.Spaces.Read
	inside(t, o, func(t *testing.T, h *house) {
		require.NoError(t, h.Converse(t.Context(), "o", "talk"))
		require.NoError(t, h.SetBudget(t.Context(), h.organisation.ConversationNode(), run.Amount{MicroUSD: 5_000_000, Tokens: 5_000_000}))
		order := h.order("go")
		order.Agent, order.Conversation, order.Participants = "lead", "talk", []string{"ada"}
		main, err := h.admission().Start(t.Context(), order)
		require.NoError(t, err)
		require.Empty(t, h.state(main.Run).Started.AudienceSpaces, "nobody else heard it")
		for _, person := range []string{"ada", "carl"} {
			beside, err := h.admission().Dispatch(t.Context(), perform.Dispatch{Main: main.Run, Person: h.person(person), By: run.Identity{Principal: person},
				Kind: run.Sidecar, Agent: "clerk", Purpose: run.ForResearch, Brief: "Find it.", Lands: run.LandsAsMessage,
				Participants: []string{"ada", "carl"}, CommandID: person})
			require.NoError(t, err)
			spaces := h.state(beside.Run).Started.AudienceSpaces
			require.Contains(t, spaces, "conversation:talk")
			require.NotContains(t, spaces, "person:ada")
			require.NotContains(t, spaces, "person:carl")
		}
	})
}

func TestCallsThatARunHasUsedUpAreNotHandedOn(t *testing.T) {
	o := delegating()
	o.Agents[1].Tools[2].Calls = 1
	require.Equal(t, "things.write", o.Agents[1].Tools[2].Name)
	inside(t, o, func(t *testing.T, h *house) {
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			write := model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.write", Arguments: []byte(`{"id":"x"}`)}}}
			switch {
			case len(request.Messages) == 2:
				return write, nil
			case leads(request) && len(request.Messages) == 4:
				return handOn(tool.Delegation{Agent: "clerk", Brief: "Write again."}), nil
			}
			return says("done"), nil
		}
		id := h.lead("go")
		h.work()
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		require.Equal(t, 1, h.invoked["things.write"])
	})
}

func TestAShareThatRanOutHidesNoneThatLasts(t *testing.T) {
	o := lent(askingThenReading, func(*agents.Grant) {})
	personal := o.Grants[0]
	personal.ID, personal.To, personal.UntilMs = "s0", agents.Borrower{Person: "eve"}, time.Date(2000, 1, 1, 1, 0, 0, 0, time.UTC).UnixMilli()
	o.Grants = append(o.Grants, personal)
	inside(t, o, func(t *testing.T, h *house) {
		h.later(2 * time.Hour)
		admitted, err := h.borrowed("Read it.")
		require.NoError(t, err)
		require.Equal(t, "s1", h.state(admitted.Run).Started.Grant)
		h.work()
		state := h.state(admitted.Run)
		require.Nil(t, state.Reached)
		require.Len(t, state.Turns, 1)
	})
}

// A child whose agent is taken away under way fails, and its parent goes on.
func TestAChildWhoseAgentIsTakenAwayHoldsNobodyUp(t *testing.T) {
	for name, change := range map[string]func(o *agents.Organisation){
		"stopped": func(o *agents.Organisation) {
			o.Kills = []agents.Kill{{Scope: agents.KillAgent, Name: "clerk", By: "olga", Reason: "wrong"}}
		},
		"withdrawn":   func(o *agents.Organisation) { o.Agents = o.Agents[1:] },
		"not for ada": func(o *agents.Organisation) { o.Agents[0].Audience = []string{"e"} },
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, delegating(), func(t *testing.T, h *house) {
				h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
					switch {
					case !leads(request) && len(request.Messages) == 2:
						return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: tool.AskName, Arguments: []byte(`{"question":"Shall I?"}`)}}}, nil
					case len(request.Messages) == 2:
						return handOn(tool.Delegation{Agent: "clerk", Brief: "Ask."}), nil
					}
					return says("done"), nil
				}
				id := h.lead("go")
				h.work()
				child := run.ChildOfCall(id, 1)
				require.Equal(t, run.StatusWaiting, h.state(child).Status)
				o := h.organisation
				o.Agents = slices.Clone(o.Agents)
				change(&o)
				h.change(o)
				h.answered(child, "ada")
				h.work()
				require.Equal(t, run.StatusFailed, h.state(child).Status)
				require.Equal(t, run.StatusCompleted, h.state(id).Status)
				require.Zero(t, h.state(id).Budget.Reserved)
			})
		})
	}
}

// People start no endless line of runs, each beside the one before.
func TestALineOfRunsBesideRunsIsBounded(t *testing.T) {
	inside(t, delegating(), func(t *testing.T, h *house) {
		for _, node := range h.organisation.Accounts("d", "", time.Now().UnixMilli()) {
			require.NoError(t, h.SetBudget(t.Context(), node, run.Amount{MicroUSD: 1 << 40, Tokens: 1 << 40}))
		}
		id, line := h.lead("go"), 0
		for {
			next, err := h.beside(id, "ada", "clerk", run.Sidecar)
			if err != nil {
				require.ErrorContains(t, err, "DEPTH")
				break
			}
			id, line = next.Run, line+1
			require.Less(t, line, 20)
		}
		require.Equal(t, 16, line)
	})
}

package perform_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// hedging is an organisation whose clerk hedges after two seconds between two
// models at two places; c stands beside a.
func hedging() agents.Organisation {
	o := three()
	for i, place := range []string{"http://one", "http://two", "http://one"} {
		o.Models[i].Endpoint = place
	}
	o.Agents[0].Choice.Hedge = tool.Duration(2 * time.Second)
	return o
}

// say is what one model does with a request.
type say func(ctx context.Context, deltas func(string)) (model.Answer, error)

// after ends a request after some time: with an answer, or a failure. Who is
// given up before may have billed.
func after(d time.Duration, failure *model.Error) say {
	return func(ctx context.Context, _ func(string)) (model.Answer, error) {
		select {
		case <-ctx.Done():
			return model.Answer{}, &model.Error{Kind: model.TimedOut, Billed: true}
		case <-time.After(d):
		}
		if failure != nil {
			return model.Answer{}, failure
		}
		return model.Answer{Finish: model.FinishStop, Text: "done", Usage: model.Usage{Input: 1000, Output: 500}, Thread: []byte("thread")}, nil
	}
}

// plays lets the models of a house do what is said of them, behind breakers.
func (h *house) plays(says map[string]say) (asked map[string]int, register *health.Register) {
	asked, register = map[string]int{}, health.New(health.Config{})
	for _, kit := range h.kits {
		kit.Health = register
		kit.Provider = func(name string) (model.Provider, bool) {
			entry, _ := kit.Organisation.Model(name)
			return register.Watch(health.KeyOf(entry), played{func(ctx context.Context, deltas func(string)) (model.Answer, error) {
				h.mu.Lock()
				asked[name]++
				h.mu.Unlock()
				return says[name](ctx, deltas)
			}}), true
		}
	}
	return asked, register
}

type played struct{ say say }

func (p played) Take(ctx context.Context, _ model.Request, deltas func(string)) (model.Answer, error) {
	return p.say(ctx, deltas)
}

var overloaded = &model.Error{Kind: model.Overloaded}

func TestASecondModelIsAskedWhereTheFirstKeepsSilent(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		a, b  say
		asked map[string]int
		by    string
		holds string // model whose reservation stays held
		took  time.Duration
	}{
		"in time":          {after(s, nil), after(s, nil), map[string]int{"a": 1}, "a", "", s},
		"the second wins":  {after(9*s, nil), after(s, nil), map[string]int{"a": 1, "b": 1}, "b", "a", 3 * s},
		"the first wins":   {after(3*s, nil), after(9*s, nil), map[string]int{"a": 1, "b": 1}, "a", "b", 3 * s},
		"the first fails":  {after(4*s, overloaded), after(3*s, nil), map[string]int{"a": 1, "b": 1}, "b", "", 5 * s},
		"the second fails": {after(4*s, nil), after(s, overloaded), map[string]int{"a": 1, "b": 1}, "a", "", 4 * s},
	} {
		t.Run(name, func(t *testing.T) {
			inside(t, hedging(), func(t *testing.T, h *house) {
				asked, register := h.plays(map[string]say{"a": row.a, "b": row.b})
				id := h.start("do it")
				h.work()
				state := h.state(id)
				turn := state.LastTurn()
				require.Equal(t, run.StatusCompleted, state.Status)
				require.Equal(t, 1, turn.Attempt)
				require.Equal(t, row.asked, asked)
				require.Equal(t, row.by, turn.Model)
				require.Equal(t, "a", turn.First)
				require.Equal(t, "openai:"+row.by, turn.Answer.ThreadOf)
				require.Equal(t, row.took.Milliseconds(), turn.Answer.LatencyMs)
				require.Equal(t, &run.Hedge{Model: "b", AfterMs: 2000, Reserve: turn.Hedge.Reserve}, turn.Hedge)
				price := map[string]int64{"a": 2, "b": 3}[row.by] // 1500 tokens at 1000 or 2000 micro-dollars a million, rounded up
				require.Equal(t, run.Amount{MicroUSD: price, Tokens: 1500}, turn.Answer.Cost)
				held := map[string]run.Amount{"a": turn.Reserve.Minus(turn.Hedge.Reserve), "b": turn.Hedge.Reserve}[row.holds]
				require.Equal(t, held, state.Budget.Unknown)
				require.Zero(t, state.Budget.Reserved)
				for _, standing := range register.Standings() {
					failed := standing.Key.Model == "a" && name == "the first fails" || standing.Key.Model == "b" && name == "the second fails"
					require.Equal(t, failed, standing.Failures == 1, "who is given up did not fail: %+v", standing)
				}
			})
		})
	}
}

// Two models that failed are one failed attempt, with what both may have cost.
func TestTwoRequestsThatFailAreOneAttempt(t *testing.T) {
	inside(t, hedging(), func(t *testing.T, h *house) {
		says := map[string]say{"c": after(time.Second, nil), "b": after(time.Second, &model.Error{Kind: model.Overloaded}),
			"a": after(4*time.Second, &model.Error{Kind: model.TimedOut, Billed: true})}
		asked, _ := h.plays(says)
		id := h.start("do it")
		h.work()
		failed, _ := h.failures(id)
		require.Len(t, failed, 1)
		require.Equal(t, []any{string(model.TimedOut), true, run.SecondFailed}, []any{failed[0].Cause, failed[0].Unknown, failed[0].Second})
		require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, asked, "the next attempt is made with the third, at once")
		require.Equal(t, run.StatusCompleted, h.state(id).Status)
		require.NotZero(t, h.state(id).Budget.Unknown)
	})
}

// What forbids a model forbids it as the second too, and so does its place, its
// quality and what is left.
func TestNoSecondModelIsHeldReadyThatIsNotRight(t *testing.T) {
	for name, change := range map[string]func(*agents.Organisation){
		"none is wanted":            func(o *agents.Organisation) { o.Agents[0].Choice.Hedge = 0 },
		"it is worse":               func(o *agents.Organisation) { o.Models[0].Tier = 2 },
		"below the stated tier":     func(o *agents.Organisation) { o.Models[0].Tier, o.Agents[0].Choice.Tier = 2, 2 },
		"one place":                 func(o *agents.Organisation) { o.Models[1].Endpoint = "http://one" },
		"no tools":                  func(o *agents.Organisation) { o.Models[1].Tools = false },
		"what is left pays for one": func(o *agents.Organisation) { o.Agents[0].Limits.Tokens = 2_000 },
		"a label forbids it": func(o *agents.Organisation) {
			o.Labels = []agents.LabelRule{{Name: "secret", Owner: "olga", Models: []string{"a", "c"}}}
			o.Agents[0].Clearance, o.Principals[0].Clearance = policy.NewLabels("secret"), policy.NewLabels("secret")
			o.Tools[0].Result.Labels = policy.NewLabels("secret")
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := hedging()
			o.Agents[0].Models = []string{"a", "b"}
			change(&o)
			inside(t, o, func(t *testing.T, h *house) {
				reads := 0
				asked, _ := h.plays(map[string]say{"b": after(time.Second, nil), "a": func(ctx context.Context, deltas func(string)) (model.Answer, error) {
					if reads++; name == "a label forbids it" && reads == 1 {
						return model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "things.read", Arguments: []byte(`{"id":"1"}`)}}}, nil
					}
					return after(9*time.Second, nil)(ctx, deltas)
				}})
				id := h.start("do it")
				h.work()
				state := h.state(id)
				require.Equal(t, run.StatusCompleted, state.Status, "%+v", state.Reached)
				require.Nil(t, state.LastTurn().Hedge)
				require.Zero(t, asked["b"])
			})
		})
	}
}

// A second model whose breaker opened meanwhile is not asked, and costs nothing.
func TestASecondModelThatIsOutMeanwhileIsNotAsked(t *testing.T) {
	inside(t, hedging(), func(t *testing.T, h *house) {
		var register *health.Register
		asked, register := h.plays(map[string]say{"a": func(ctx context.Context, deltas func(string)) (model.Answer, error) {
			entry, _ := h.organisation.Model("b")
			for range 5 {
				register.Note(health.KeyOf(entry), health.Outcome{Cause: model.Overloaded})
			}
			return after(5*time.Second, nil)(ctx, deltas)
		}, "b": after(time.Second, nil)})
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, map[string]int{"a": 1}, asked)
		require.NotNil(t, state.LastTurn().Hedge)
		require.Nil(t, state.LastTurn().Answer.Hedged)
		require.Equal(t, run.Amount{}, state.Budget.Unknown)
	})
}

// The answer that comes second of all is paid for, by its own prices.
func TestAnAnswerThatCameTooLateIsPaidFor(t *testing.T) {
	inside(t, hedging(), func(t *testing.T, h *house) {
		deaf := func(ctx context.Context, deltas func(string)) (model.Answer, error) {
			return after(9*time.Second, nil)(context.WithoutCancel(ctx), deltas)
		}
		h.plays(map[string]say{"a": deaf, "b": after(time.Second, nil)})
		id := h.start("do it")
		h.work()
		state := h.state(id)
		answer := state.LastTurn().Answer
		require.Equal(t, &run.Hedged{By: "b", Usage: &run.Usage{Input: 1000, Output: 500}, Cost: run.Amount{MicroUSD: 2, Tokens: 1500}}, answer.Hedged)
		require.Equal(t, run.Amount{MicroUSD: 5, Tokens: 3000}, answer.Cost)
		require.Equal(t, answer.Cost, state.Budget.Settled)
		require.Equal(t, run.Amount{}, state.Budget.Unknown)
	})
}

// Watchers see the text of one model: that of the first which spoke.
func TestACutTextIsNotGoneOnWithByAnotherModel(t *testing.T) {
	speaking := func(text string, at time.Duration, then say) say {
		return func(ctx context.Context, deltas func(string)) (model.Answer, error) {
			time.Sleep(at)
			deltas(text)
			return then(ctx, deltas)
		}
	}
	inside(t, hedging(), func(t *testing.T, h *house) {
		h.plays(map[string]say{"a": speaking("from a", 2500*time.Millisecond, after(time.Second, &model.Error{Kind: model.Unreachable, Billed: true})),
			"b": speaking("from b", time.Second, after(time.Second, nil))})
		id := h.start("do it")
		h.work()
		require.Len(t, h.deltas, 1)
		require.Equal(t, "from a", h.deltas[0].Text)
		turn := h.state(id).LastTurn()
		require.Equal(t, &run.Hedged{By: "b", Unknown: true}, turn.Answer.Hedged)
		require.Equal(t, "done", h.text(turn.Answer.Text))
	})
}

// A hedge that could not be taken is refused with the configuration.
func TestAHedgeThatCannotBeTakenIsRefused(t *testing.T) {
	for name, change := range map[string]func(*agents.Organisation){
		"one place": func(o *agents.Organisation) { o.Models[1].Endpoint = "http://one" },
		"too soon":  func(o *agents.Organisation) { o.Agents[0].Choice.Hedge = tool.Duration(time.Millisecond) },
		"too late":  func(o *agents.Organisation) { o.Agents[0].Choice.Hedge = o.Agents[0].Limits.Turn },
	} {
		o := hedging()
		change(&o)
		require.ErrorContains(t, o.Validate(), "choice.hedge", name)
	}
	o := hedging()
	require.NotContains(t, o.Validate().Error(), "choice.hedge")
}

package perform_test

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/route"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// weather is what three providers do at a time: it is 0 for one that answers.
type weather func(model string, since time.Duration) model.ErrorKind

// storm lets the models of a house answer as the weather is, behind breakers.
// It keeps what each was asked for, and when breakers changed.
type storm struct {
	begun    time.Time
	weather  weather
	does     string         // tool that is called first; empty: things.write
	asked    map[string]int // by model
	answered map[string]int // by run and turn
	timeline []string
}

// providers puts the storm behind the house's models.
func (s *storm) over(h *house) {
	s.begun, s.asked, s.answered = time.Now(), map[string]int{}, map[string]int{}
	register := health.New(health.Config{Changed: func(standing health.Standing) {
		s.timeline = append(s.timeline, fmt.Sprintf("%6.1fs %-5s %s %s", time.Since(s.begun).Seconds(), standing.Key.Model, standing.Mode, standing.Cause))
	}})
	for _, kit := range h.kits {
		kit.Health = register
		kit.Provider = func(name string) (model.Provider, bool) {
			entry, _ := kit.Organisation.Model(name)
			return register.Watch(health.KeyOf(entry), listening{gusting{s, name, h}, h}), true
		}
	}
}

// gusting answers for one model.
type gusting struct {
	storm *storm
	name  string
	house *house
}

func (g gusting) Take(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
	g.house.mu.Lock()
	defer g.house.mu.Unlock()
	g.storm.asked[g.name]++
	if kind := g.storm.weather(g.name, time.Since(g.storm.begun)); kind != "" {
		return model.Answer{}, &model.Error{Kind: kind, Billed: kind == model.TimedOut}
	}
	g.storm.answered[goalOf(request)]++
	usage := model.Usage{Input: 10, Output: 5}
	if len(request.Messages) > 3 { // it has its result
		return model.Answer{Finish: model.FinishStop, Text: "done", Usage: usage}, nil
	}
	return model.Answer{Finish: model.FinishCalls, Usage: usage, Calls: []model.Proposed{{Name: cmp.Or(g.storm.does, "things.write"), Arguments: fmt.Appendf(nil, `{"id":%q}`, goalOf(request))}}}, nil
}

// three is an organisation whose clerk may use three models.
func three() agents.Organisation {
	o := newOrganisation(answering)
	one := o.Models[0]
	o.Models, o.Labels = nil, nil
	for i, name := range []string{"a", "b", "c"} {
		entry := one
		entry.Name, entry.Script = name, ""
		entry.Provider, entry.Model, entry.Free = "openai", name, false
		entry.Prices = agents.Prices{Input: int64(i+1) * 1000, CacheRead: 1, CacheWrite: 1, Output: int64(i+1) * 1000}
		o.Models = append(o.Models, entry)
	}
	o.Agents[0].Models = []string{"a", "b", "c"}
	o.Agents[0].Clearance, o.Tools[0].Result = nil, policy.Marking{Integrity: policy.FromTool}
	o.Principals[0].Clearance = nil
	return o
}

// Two hundred runs in a storm: single providers go out, then all of them, and
// come back one after the other. Every run ends right, no call happens twice,
// nobody is asked, and nothing is spent beyond a budget.
func TestFault_D2_TwoHundredRunsWeatherAnOutageOfThreeProviders(t *testing.T) {
	const runs = 200
	o := three()
	o.Agents[0].Limits.MicroUSD, o.Agents[0].Limits.Tokens = 20_000, 20_000
	inside(t, o, func(t *testing.T, h *house) {
		s := &storm{weather: func(name string, since time.Duration) model.ErrorKind {
			switch {
			case name == "a" && since < 100*time.Second:
				return model.Overloaded
			case name == "b" && since < 300*time.Second:
				return model.RateLimited
			case name == "c" && since < 200*time.Second:
				return model.Unreachable
			}
			return ""
		}}
		s.over(h)
		ids := make([]string, runs)
		for i := range ids {
			ids[i] = h.start(fmt.Sprint("thing ", i))
		}
		h.work()
		waiting := 0
		for _, id := range ids {
			if state := h.state(id); state.Outage != nil {
				waiting++
				require.Equal(t, run.StatusWaiting, state.Status)
			}
		}
		require.Equal(t, runs, waiting, "all wait, visibly")
		early := s.asked["a"] + s.asked["b"] + s.asked["c"]
		require.Less(t, early, runs, "a provider that is out is not stormed")
		for range 15 {
			h.work()
		}
		written := map[string]int{}
		for _, call := range h.calls {
			written[call.Key]++
		}
		require.Len(t, written, runs)
		waits, attempts := 0, 0
		for _, id := range ids {
			state := h.state(id)
			require.Equal(t, run.StatusCompleted, state.Status, "%+v", state.Reached)
			require.Nil(t, state.Reached)
			require.True(t, state.Budget.Committed().Within(state.Budget.Limit))
			require.Zero(t, state.Budget.Unknown)
			require.Equal(t, 1, written[state.Calls[0].Key], "no call twice")
			events := h.events(id)
			last := int64(0)
			for _, event := range events {
				switch e := event.event.(type) {
				case run.ModelsOut:
					waits++
					last = e.RetryAtMs
				case run.TurnStarted:
					attempts++
					require.GreaterOrEqual(t, event.atMs, last, "nothing is attempted before its time")
				}
			}
		}
		fmt.Printf("level: L2 outage runs %d, waits for a model %d, attempts after them %d, requests refused in them %d, breaker changes %d\n", runs, waits, attempts,
			s.asked["a"]+s.asked["b"]+s.asked["c"]-2*runs, len(s.timeline))
		t.Log("\n" + strings.Join(s.timeline, "\n"))
		require.NotEmpty(t, s.timeline)
	})
}

type timed struct {
	event run.Event
	atMs  int64
}

func (h *house) events(id string) (list []timed) {
	h.t.Helper()
	_, records, err := h.Load(h.t.Context(), id, 0)
	require.NoError(h.t, err)
	for _, record := range records {
		event, err := run.Decode(record)
		require.NoError(h.t, err)
		list = append(list, timed{event, record.AtMs})
	}
	return list
}

// The next right model is asked at once, and never one that the labels or their
// places forbid: then the run waits rather than tell it.
func TestFault_D2_NoOutageLeadsToAModelThatMayNotRead(t *testing.T) {
	for name, forbid := range map[string]func(*agents.Organisation){
		"named by the label": func(o *agents.Organisation) { o.Labels[0].Models = []string{"a", "b"} },
		"by its place":       func(o *agents.Organisation) { o.Labels[0].Residency = []string{"eu"} },
		"by its own labels":  func(o *agents.Organisation) { o.Models[2].Plain = true },
	} {
		t.Run(name, func(t *testing.T) {
			o := three()
			o.Labels = []agents.LabelRule{{Name: "secret", Owner: "olga"}}
			o.Tools[0].Result = policy.Marking{Labels: policy.NewLabels("secret"), Integrity: policy.FromTool}
			o.Agents[0].Clearance, o.Principals[0].Clearance = policy.NewLabels("secret"), policy.NewLabels("secret")
			o.Models[0].Residency, o.Models[1].Residency, o.Models[2].Residency = "eu", "eu", "us"
			forbid(&o)
			inside(t, o, func(t *testing.T, h *house) {
				s := &storm{does: "things.read"}
				s.weather = func(name string, _ time.Duration) model.ErrorKind {
					if len(s.answered) == 0 || name == "c" {
						return "" // until it has read, and for whoever may not
					}
					return model.Overloaded
				}
				s.over(h)
				id := h.start("tell")
				h.work()
				state := h.state(id)
				require.Equal(t, policy.NewLabels("secret"), state.Marking.Labels)
				require.NotNil(t, state.Outage)
				require.Zero(t, s.asked["c"], "it would have answered")
				require.Positive(t, s.asked["b"])
				var second []timed // what became of its second turn
				for _, event := range h.events(id) {
					switch e := event.event.(type) {
					case run.TurnStarted:
						if e.Turn == 2 {
							second = append(second, event)
						}
					case run.TurnFailed:
						second = append(second, event)
					}
				}
				first := second[0].event.(run.TurnStarted)
				require.Equal(t, "a", first.Model)
				require.Contains(t, []string{string(route.Labels), string(route.Residency)}, first.Offers[2].Refusal)
				require.Equal(t, "b", second[2].event.(run.TurnStarted).Model)
				require.Equal(t, second[1].atMs, second[2].atMs, "another one is asked at once")
			})
		})
	}
}

// What a run was admitted with it reckons with to its end.
func TestPricesThatChangeMeanwhileChangeNothingForARun(t *testing.T) {
	inside(t, three(), func(t *testing.T, h *house) {
		s := &storm{weather: func(_ string, since time.Duration) model.ErrorKind {
			if since < 30*time.Second {
				return model.Overloaded
			}
			return ""
		}}
		s.over(h)
		before := h.start("before")
		dear := three()
		for i := range dear.Models {
			dear.Models[i].Prices = agents.Prices{Input: 9_000_000, CacheRead: 9_000_000, CacheWrite: 9_000_000, Output: 9_000_000}
		}
		h.organisation, h.admitted = dear, h.kit(dear)
		s.over(h)
		require.NoError(t, h.SetGate(t.Context(), run.GateChange{Gate: run.ConfigGate("o"), Value: h.admitted.Digest}))
		after := h.start("after")
		for range 3 {
			h.work()
		}
		require.Equal(t, run.StatusCompleted, h.state(before).Status)
		for i := range 2 {
			require.Equal(t, int64(1), h.state(before).Turns[i].Answer.Cost.MicroUSD, "at the old prices, rounded up")
			require.Equal(t, int64(9*(10+5)), h.state(after).Turns[i].Answer.Cost.MicroUSD)
		}
		require.NotEqual(t, h.state(before).Started.Snapshot.Prices, h.state(after).Started.Snapshot.Prices)
	})
}

// measured says how good models are.
type measured route.Scores

func (m measured) Scores(context.Context, string, string) (route.Scores, error) {
	return route.Scores(m), nil
}

func TestAModelThatWasMeasuredToBeBadIsNotTaken(t *testing.T) {
	o := three()
	o.Agents[0].Choice.Quality = 80
	inside(t, o, func(t *testing.T, h *house) {
		s := &storm{weather: func(string, time.Duration) model.ErrorKind { return "" }}
		s.over(h)
		h.admitted.Quality = measured{"a": 0.5, "b": 0.9}
		id := h.start("well")
		h.work()
		turn := h.state(id).Turns[0]
		require.Equal(t, "b", turn.Model)
		require.Equal(t, string(route.Quality), turn.Offers[0].Refusal)
	})
}

var _ perform.Quality = measured{}
var _ engine.Performer = (*perform.Performer)(nil)

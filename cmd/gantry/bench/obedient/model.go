package obedient

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	"gantry.dev/agents/model"
)

// Call is a call as a plan or an attack has it.
type Call struct {
	Tool      string
	Arguments map[string]any
	ID        string // what the provider calls it; may repeat
}

func (c Call) with(field string, value any) Call {
	arguments := map[string]any{}
	for name, known := range c.Arguments {
		arguments[name] = known
	}
	arguments[field] = value
	return Call{Tool: c.Tool, Arguments: arguments, ID: c.ID}
}

// Plan is what a model does that nobody talked into anything else.
type Plan struct {
	Turns  []func(s *seen) []Call
	Answer func(s *seen) string

	landings int // how many findings of sidecars there are before the second turn
}

// player is the obedient model of one case. It follows its plan until a marker
// is in its prompt; then it does what the marker says, and goes on as if nothing
// had been.
type player struct{ role *role }

// role is the task that a model plays, and in which of its stages it was given
// an order.
type role struct {
	task *Task

	landed chan struct{} // a finding of a sidecar came to the run that was begun

	mu      sync.Mutex
	ordered map[int]bool // by stage, from 0
}

func newRole(task *Task) *role {
	return &role{task: task, ordered: map[int]bool{}, landed: make(chan struct{}, 8)}
}

// wait waits for findings of sidecars, so that what is played does not depend on
// who is faster.
func (r *role) wait(ctx context.Context, landings int) error {
	for range landings {
		select {
		case <-r.landed:
		case <-ctx.Done():
			return &model.Error{Kind: model.TimedOut, Detail: "no sidecar found anything"}
		}
	}
	return nil
}

func (r *role) order(stage int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ordered[stage] = true
}

func (r *role) wasOrdered(stage int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ordered[stage]
}

var _ model.Provider = player{}

// Take answers a prompt. It keeps nothing: what it did before it reads from the
// prompt, by doing it again up to there.
func (p player) Take(ctx context.Context, request model.Request, _ func(text string)) (model.Answer, error) {
	whole := look(request.Messages)
	stage, plan := p.role.task.stage(whole.requests), &errand
	if stage >= 0 {
		plan = &p.role.task.Stages[stage].Plan
	}
	if whole.marker != nil {
		p.role.order(stage)
	}
	acting, turns := &acting{plan: plan}, 0
	for i, m := range request.Messages {
		if m.Role == model.Assistant && !m.Earlier {
			acting.next(look(request.Messages[:i]))
			turns++
		}
	}
	if turns == 1 {
		if err := p.role.wait(ctx, plan.landings); err != nil {
			return model.Answer{}, err
		}
	}
	calls, text := acting.next(whole)
	answer := model.Answer{Finish: model.FinishStop, Text: text, Model: request.Model, Usage: model.Usage{Input: 100, Output: 100}}
	for _, call := range calls {
		arguments, err := json.Marshal(call.Arguments)
		if err != nil {
			return model.Answer{}, &model.Error{Kind: model.BadAnswer, Detail: "the arguments cannot be written"}
		}
		answer.Finish = model.FinishCalls
		answer.Calls = append(answer.Calls, model.Proposed{ProviderID: call.ID, Name: call.Tool, Arguments: arguments})
	}
	return answer, nil
}

// errand is the plan of a run that an attack sent: it says again what it was
// told.
var errand = Plan{Answer: func(s *seen) string { return "Done: " + strings.Join(s.requests, " ") }}

// acting is how far a model has come.
type acting struct {
	plan   *Plan
	step   int
	attack *attack
	over   bool
}

// next is the next thing to do: calls, or the answer.
func (a *acting) next(s *seen) ([]Call, string) {
	if s.marker != nil && a.attack == nil {
		a.attack = attackOf(*s.marker)
	}
	if a.attack != nil && !a.over {
		if calls := a.attack.next(s); len(calls) > 0 {
			return calls, ""
		}
		a.over = true
	}
	for a.step < len(a.plan.Turns) {
		calls := a.plan.Turns[a.step](s)
		a.step++
		if a.attack != nil && a.attack.bend != nil {
			calls = a.attack.bend(s, calls)
		}
		if len(calls) > 0 {
			return calls, ""
		}
	}
	text := a.plan.Answer(s)
	if a.attack != nil && a.attack.say != nil {
		text = strings.TrimSpace(text + " " + a.attack.say(s))
	}
	return nil, text
}

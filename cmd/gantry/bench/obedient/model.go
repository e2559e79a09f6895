package obedient

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"gantry.dev/agents/model"
	"gantry.dev/cmd/gantry/bench/obedient/canary"
)

// Call is a call as a plan or an attack has it.
type Call struct {
	Tool      string
	Arguments map[string]any
	ID        string // what the provider calls it; may repeat
	Raw       []byte // the arguments as they are written; nil: as they are
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
		arguments, err := call.Raw, error(nil)
		if arguments == nil {
			arguments, err = json.Marshal(call.Arguments)
		}
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

// seen is what a model can know from its prompt, and nothing else.
type seen struct {
	requests []string // what people asked for
	replies  []reply
	marker   *marker
	named    string // an invoice that the injected text names
	secret   string // the first thing that looks like a canary
}

// reply is what came of an earlier call.
type reply struct {
	call Call
	text string
	ok   bool
}

// marker is an injected order.
type marker struct {
	goal, move int
}

var (
	markerShape  = regexp.MustCompile(`⟦goal:(\d{1,4}) move:V(\d{1,2})⟧`)
	invoiceShape = regexp.MustCompile(`INV-\d{4}`)
)

// look reads a prompt.
func look(messages []model.Message) *seen {
	s := &seen{}
	calls := map[string]Call{}
	for _, m := range messages {
		switch m.Role {
		case model.Assistant:
			for _, call := range m.Calls {
				arguments := map[string]any{}
				_ = json.Unmarshal(call.Arguments, &arguments) // it was proposed so
				calls[call.ID] = Call{Tool: call.Name, Arguments: arguments}
			}
			continue // what it said itself orders nothing
		case model.ToolReply:
			s.replies = append(s.replies, reply{call: calls[m.CallID], text: model.Unwrap(m.Text), ok: strings.HasPrefix(m.Text, "[[data ")})
		case model.User:
			s.requests = append(s.requests, m.Text)
		case model.System:
			continue
		}
		s.read(m.Text)
	}
	return s
}

// read looks for orders and secrets in a text.
func (s *seen) read(text string) {
	if s.secret == "" {
		s.secret = canary.Shape.FindString(text)
	}
	if s.marker != nil {
		return
	}
	at := markerShape.FindStringSubmatchIndex(text)
	if at == nil {
		return
	}
	goal, _ := strconv.Atoi(text[at[2]:at[3]]) // digits
	move, _ := strconv.Atoi(text[at[4]:at[5]])
	s.marker, s.named = &marker{goal, move}, invoiceShape.FindString(text[at[1]:])
}

// last is the latest reply of a tool; nil for none.
func (s *seen) last(tool string) *reply {
	for i := len(s.replies) - 1; i >= 0; i-- {
		if s.replies[i].call.Tool == tool {
			return &s.replies[i]
		}
	}
	return nil
}

// decode reads the latest reply of a tool; false where there is none.
func (s *seen) decode(tool string, into any) bool {
	r := s.last(tool)
	return r != nil && json.Unmarshal([]byte(r.text), into) == nil
}

// number is a whole number in the latest reply of a tool; 0 for none.
func (s *seen) number(tool, field string) int64 {
	r := s.last(tool)
	if r == nil {
		return 0
	}
	var fields map[string]any
	if json.Unmarshal([]byte(r.text), &fields) != nil {
		return 0
	}
	value, _ := fields[field].(float64)
	return int64(value)
}

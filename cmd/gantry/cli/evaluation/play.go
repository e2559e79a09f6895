package evaluation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"gantry.dev/agents/evaluate"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/run"
)

// longest is how long one playing may take.
const longest = 10 * time.Minute

// Evaluate plays every case of a set as often as it says, one after the other,
// and tells each as it ends. Errors: what cannot be tried; a playing that could
// not be followed to its end. What an agent does badly is none.
func (t Trial) Evaluate(ctx context.Context, set evaluate.Set, tell func(evaluate.Scored)) (evaluate.Result, error) {
	cases, err := set.Digest()
	if err != nil {
		return evaluate.Result{}, err
	}
	_, revision, err := t.organisation(set.Agent, *set.Cases[0].Stage, nil, nil)
	if err != nil {
		return evaluate.Result{}, err
	}
	digest, err := revision.Digest()
	if err != nil {
		return evaluate.Result{}, err
	}
	var played []evaluate.Scored
	var models []string
	for _, c := range set.Cases {
		for n := range c.Repeats {
			facts, err := t.play(ctx, set.Agent, c)
			if err != nil {
				return evaluate.Result{}, fmt.Errorf("case %s, time %d: %w", c.Name, n+1, err)
			}
			scored, err := c.Score(facts)
			if err != nil {
				return evaluate.Result{}, err
			}
			played, models = append(played, scored), append(models, facts.Models...)
			tell(scored)
		}
	}
	if t.Model != "" {
		models = []string{t.Model}
	}
	return evaluate.NewResult(set.Agent, digest, cases, models, played), nil
}

// play plays a case once.
func (t Trial) play(ctx context.Context, agent string, c evaluate.Case) (found evaluate.Facts, err error) {
	ctx, stop := context.WithTimeout(ctx, longest)
	defer stop()
	h, err := t.open(ctx, agent, c)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	asker, err := h.as(c.As)
	if err != nil {
		return found, err
	}
	started, err := asker.StartRun(ctx, client.Start{Agent: agent, Goal: c.Goal})
	if err != nil {
		return found, fmt.Errorf("the run did not begin: %w", err)
	}
	p := &playing{house: h, of: c, runs: map[string]*run.State{}, root: client.ShortID(started.ID)}
	if err := p.follow(ctx); err != nil {
		return found, err
	}
	return p.facts(ctx)
}

// playing is one case as it goes on.
type playing struct {
	*house
	of   evaluate.Case
	root string // journal id

	deciding sync.Mutex // one word after the other

	mu    sync.Mutex
	runs  map[string]*run.State // by journal id, as far as they were followed
	order []string              // of the runs, parents first
	first int64                 // when the root began, UTC ms
	last  int64                 // when it ended, or came to rest
}

// follow goes with the run and those below it, has people say their word, and
// comes back when the root has ended, or when all of it rests and nobody will
// move it.
func (p *playing) follow(ctx context.Context) error {
	ctx, over := context.WithCancelCause(ctx)
	defer over(nil)
	var following sync.WaitGroup
	var begin func(id string)
	begin = func(id string) {
		p.mu.Lock()
		p.runs[id], p.order = &run.State{ID: id}, append(p.order, id)
		p.mu.Unlock()
		following.Go(func() {
			if err := p.one(ctx, id, begin, over); err != nil {
				over(err)
			}
		})
	}
	begin(p.root)
	<-ctx.Done()
	following.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, errOver) {
		return cause
	}
	return nil
}

// errOver says that a playing is over.
var errOver = errors.New("over")

// one follows one run.
func (p *playing) one(ctx context.Context, id string, begin func(string), over context.CancelCauseFunc) error {
	tail, err := p.platform.Hub.Tail(ctx, id, 0)
	if err != nil {
		return err
	}
	for record := range tail.Items() {
		event, err := run.Decode(record)
		if err != nil {
			return err
		}
		if e, is := event.(run.ChildStarted); is {
			begin(e.Child)
		}
		if e, is := event.(run.SidecarStarted); is && e.Code == "" {
			begin(e.Sidecar)
		}
		ended, err := p.take(id, record, event)
		if err != nil {
			return err
		}
		if ended {
			over(errOver)
			return nil
		}
		if err := p.word(ctx, event); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// take folds an event, and reports whether the playing is over with it.
func (p *playing) take(id string, record run.Record, event run.Event) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := run.Apply(p.runs[id], event); err != nil {
		return false, err
	}
	if id == p.root && p.first == 0 {
		p.first = record.AtMs
	}
	p.last = max(p.last, record.AtMs)
	return p.runs[p.root].Ended != nil || p.stuck(), nil
}

// stuck reports whether everything waits for people who will say nothing.
func (p *playing) stuck() bool {
	for _, s := range p.runs {
		if s.Started.Task != nil && !s.Started.Task.Awaited() {
			continue // goes on beside, and nobody waits for it
		}
		if s.Ended == nil && !p.rests(s) {
			return false
		}
	}
	return true
}

func (p *playing) rests(s *run.State) bool {
	turn := s.LastTurn()
	if s.Parked != nil || s.Reached != nil {
		return true
	}
	if turn == nil || turn.Phase != run.TurnDone {
		return false
	}
	waits := false
	for i := range s.Calls {
		call := &s.Calls[i]
		switch call.Phase {
		case run.CallDone:
		case run.CallHeld:
			if p.of.Approver != evaluate.Nobody {
				return false
			}
			waits = true
		case run.CallAsking:
			if p.of.Answer != "" {
				return false
			}
			waits = true
		case run.CallDelegated:
			child := p.runs[call.Child]
			if child == nil || child.Ended != nil { // about to be followed, or to be heard
				return false
			}
			waits = true
		case run.CallUncertainOpen:
			if !call.AskPerson {
				return false
			}
			waits = true
		default:
			return false
		}
	}
	return waits
}

// word has people say what the case wants of them.
func (p *playing) word(ctx context.Context, event run.Event) error {
	p.deciding.Lock()
	defer p.deciding.Unlock()
	switch e := event.(type) {
	case run.ApprovalRequested:
		if p.of.Approver != evaluate.Nobody {
			return p.decide(ctx, e)
		}
	case run.QuestionAsked:
		if p.of.Answer != "" {
			return p.answer(ctx, e)
		}
	}
	return nil
}

// decide has those who may decide say their word, as many as it takes. Whoever
// may not grant it denies it.
func (p *playing) decide(ctx context.Context, asked run.ApprovalRequested) error {
	granted := 0
	for _, id := range p.deciders(asked.Approvers, p.of.As) {
		person, err := p.as(id)
		if err != nil {
			return err
		}
		held, err := person.Approval(ctx, asked.Approval)
		if client.IsCode(err, "NOT_FOUND") {
			continue // not theirs, or decided
		}
		if err != nil {
			return err
		}
		grant := p.of.Approver == evaluate.Grants
		if _, err = person.Decide(ctx, held, grant, ""); err != nil && grant {
			grant = false
			_, err = person.Decide(ctx, held, false, "")
		}
		if err != nil {
			return err
		}
		if !grant {
			return nil
		}
		granted++
	}
	if granted == 0 {
		return fmt.Errorf("nobody can decide approval %s", asked.Approval)
	}
	return nil
}

func (p *playing) answer(ctx context.Context, asked run.QuestionAsked) error {
	for _, id := range p.deciders(asked.To, "") {
		person, err := p.as(id)
		if err != nil {
			return err
		}
		question, err := person.Question(ctx, asked.Question)
		if client.IsCode(err, "NOT_FOUND") {
			continue
		}
		if err == nil {
			_, err = person.Answer(ctx, question, p.of.Answer)
		}
		return err
	}
	return fmt.Errorf("nobody can answer question %s", asked.Question)
}

// facts are what was found of the run and those below it.
func (p *playing) facts(ctx context.Context) (evaluate.Facts, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	root := p.runs[p.root]
	found := evaluate.Facts{Outcome: evaluate.Outcome{Status: string(root.Status)}, LatencyMs: p.last - p.first}
	if root.Ended != nil {
		found.Outcome.Reason, found.Outcome.Code = string(root.Ended.Reason), root.Ended.Code
		if root.Ended.Result != nil {
			texts, err := p.platform.Store.Payloads(ctx, []string{root.Ended.Result.ID})
			if err != nil {
				return found, err
			}
			found.Output = texts[root.Ended.Result.ID].Bytes
		}
	}
	for _, id := range p.order {
		if err := p.add(ctx, p.runs[id], &found); err != nil {
			return found, err
		}
	}
	slices.Sort(found.Models)
	found.Models = slices.Compact(found.Models)
	return found, nil
}

// add adds what one run did.
func (p *playing) add(ctx context.Context, s *run.State, found *evaluate.Facts) error {
	var ids []string
	for _, text := range s.Texts() {
		ids = append(ids, text.ID)
	}
	texts, err := p.platform.Store.Payloads(ctx, ids)
	if err != nil {
		return err
	}
	agent := s.Started.Agent.Name
	for i := range s.Turns {
		if s.Turns[i].Answer != nil {
			found.Turns++
			found.MicroUSD += s.Turns[i].Answer.Cost.MicroUSD
			if s.ID == p.root { // what those below it answer with is their own revisions' matter
				found.Models = append(found.Models, s.Turns[i].Model)
			}
		}
	}
	for i := range s.Calls {
		call := &s.Calls[i]
		one := evaluate.Call{Agent: agent, Tool: call.Tool, Arguments: asJSON(texts[call.Arguments.ID].Bytes), Outcome: string(call.Outcome), Code: call.Code, Result: []byte(`""`)}
		if one.Outcome == "" {
			one.Outcome = string(call.Phase)
		}
		if call.Result != nil {
			one.Result = asJSON(texts[call.Result.ID].Bytes)
		}
		found.Calls = append(found.Calls, one)
	}
	for i := range s.Approvals {
		approval := &s.Approvals[i]
		found.Approvals = append(found.Approvals, evaluate.Approval{Agent: agent, Tool: s.Call(approval.Call).Tool, Status: string(approval.Status)})
	}
	return nil
}

// asJSON returns JSON as it is and anything else as a JSON string.
func asJSON(text []byte) json.RawMessage {
	if json.Valid(text) {
		return text
	}
	quoted, _ := json.Marshal(strings.ToValidUTF8(string(text), "\uFFFD")) // a string always marshals
	return quoted
}

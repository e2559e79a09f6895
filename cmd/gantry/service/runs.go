package service

import (
	"context"
	"errors"
	"slices"

	"gantry.dev/agents/perform"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Runs answers for runs.
type Runs struct{ *Service }

// Start admits a run.
func (r Runs) Start(ctx context.Context, caller graph.Caller, in graph.StartInput) (graph.Outcome, error) {
	_, person, err := r.Fresh(ctx, caller)
	if err != nil {
		return graph.Outcome{}, err
	}
	history, participants, err := Conversations(r).History(ctx, caller, in.Conversation)
	if err != nil {
		return graph.Outcome{}, err
	}
	order := perform.Order{Person: person, By: caller.Identity, Agent: in.Agent, Goal: in.Goal, Conversation: in.Conversation,
		Participants: participants, History: history, CommandID: in.CommandID}
	if in.MicroUSD != nil {
		if *in.MicroUSD == 0 {
			return graph.Outcome{}, &run.Refusal{Code: "BUDGET", Detail: "A run with a budget of zero could do nothing; give it some money."}
		}
		order.MicroUSD = *in.MicroUSD
	}
	admitted, err := r.Admission.Start(ctx, order)
	return graph.Outcome{Run: admitted.Run, Replayed: admitted.Replayed}, err
}

// State folds a run that the caller may see.
func (r Runs) State(ctx context.Context, caller graph.Caller, runID string) (*run.State, error) {
	state, err := r.Engine.State(ctx, runID)
	if err != nil {
		return nil, err
	}
	may, err := r.sees(ctx, caller.Principal, state)
	if err != nil {
		return nil, err
	}
	if !may {
		return nil, engine.ErrNotFound
	}
	return state, nil
}

// MayFollow is the one rule of who sees a run: whom it concerns, who takes part
// in its conversation, who was asked to decide in it or did; and while something
// of it waits, whoever may react for those whom it waits for, or was shown it
// because nobody did.
func (s *Service) MayFollow(ctx context.Context, person policy.Principal, state *run.State) (bool, error) {
	if state.Started.Organisation != person.Organisation {
		return false, nil
	}
	o, err := s.Organisation(ctx, person.Organisation)
	if err != nil {
		return false, err
	}
	if _, private := o.Granted(state.Started); private {
		return o.Answers(person, state.Started.Agent.Name), nil
	}
	head := run.Head{Organisation: state.Started.Organisation, Subject: state.Started.Subject.ID, Agent: state.Started.Agent.Name}
	if o.Concerns(person, head) || wasAsked(person, state) || spoke(person, state) {
		return true, nil
	}
	if takes, err := s.Participates(ctx, person, state.Started.Conversation); takes || err != nil {
		return takes, err
	}
	return s.watches(ctx, person, state.ID)
}

// wasAsked reports whether the run named a person to decide or answer.
func wasAsked(person policy.Principal, state *run.State) bool {
	named := func(approvers []policy.Approver) bool {
		return slices.ContainsFunc(approvers, func(a policy.Approver) bool { return a.Names(person) })
	}
	for _, approval := range state.Approvals {
		if named(approval.Approvers) {
			return true
		}
	}
	for _, question := range state.Questions {
		if named(question.To) {
			return true
		}
	}
	for _, access := range state.Accesses {
		if named(access.Approvers) {
			return true
		}
	}
	return state.Reached != nil && named(state.Reached.Approvers) || person.ID == state.Started.Contact
}

// Participates reports whether a person takes part in a conversation; in none,
// and in one that is not there, nobody does.
func (s *Service) Participates(ctx context.Context, person policy.Principal, conversation string) (bool, error) {
	if conversation == "" {
		return false, nil
	}
	c, err := s.Store.Conversation(ctx, person.Organisation, conversation)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return slices.Contains(c.Participants, person.ID), err
}

// Texts opens texts; what the caller is not cleared for is withheld.
func (r Runs) Texts(ctx context.Context, caller graph.Caller, ids []string) (map[string]graph.View, error) {
	payloads, err := r.Store.Payloads(ctx, ids)
	if err != nil {
		return nil, err
	}
	views := make(map[string]graph.View, len(payloads))
	for id, payload := range payloads {
		if caller.Principal.Sees(payload.Text.Marking.Labels) {
			views[id] = graph.View{Text: string(payload.Bytes)}
		} else {
			views[id] = graph.View{Withheld: true}
		}
	}
	return views, nil
}

// Events returns the records of a run after a number.
func (r Runs) Events(ctx context.Context, caller graph.Caller, runID string, after uint64) ([]run.Record, error) {
	if _, err := r.State(ctx, caller, runID); err != nil {
		return nil, err
	}
	_, records, err := r.Store.Load(ctx, runID, after)
	return records, err
}

// pageRows is how many rows one reading of a list takes.
const pageRows = 200

// List pages through the runs that the caller has to do with: those that
// concern them, of their conversations, and where they decided or may decide.
func (r Runs) List(ctx context.Context, caller graph.Caller, filter graph.RunFilter, after string, first int) ([]run.Head, string, error) {
	listed, err := r.listing(ctx, caller.Principal)
	if err != nil {
		return nil, "", err
	}
	rows := journal.Filter{Organisation: caller.Principal.Organisation, Agent: filter.Agent, Subject: filter.Subject,
		Conversation: filter.Conversation, Before: after}
	if len(filter.Statuses) == 1 {
		rows.Status = filter.Statuses[0]
	}
	if there, err := r.below(ctx, filter, &rows); !there {
		return nil, "", err
	}
	var heads []run.Head
	for {
		page, err := r.Store.Heads(ctx, rows, pageRows)
		if err != nil {
			return nil, "", err
		}
		for _, head := range page {
			rows.Before = head.Run
			if len(filter.Statuses) > 0 && !slices.Contains(filter.Statuses, head.Status) {
				continue
			}
			shown, err := listed(head)
			if shown && err == nil {
				shown, err = r.ofKind(ctx, head, filter.Kinds)
			}
			if err != nil {
				return nil, "", err
			}
			if !shown {
				continue
			}
			if len(heads) == first {
				return heads, heads[first-1].Run, nil
			}
			heads = append(heads, head)
		}
		if len(page) < pageRows {
			return heads, "", nil
		}
	}
}

// listing returns which rows a person's list shows.
func (s *Service) listing(ctx context.Context, person policy.Principal) (func(run.Head) (bool, error), error) {
	o, err := s.Organisation(ctx, person.Organisation)
	if err != nil {
		return nil, err
	}
	asked, err := s.Store.CommandedRuns(ctx, person.Organisation, person.ID)
	if err != nil {
		return nil, err
	}
	waiting, err := s.waiting(ctx, person)
	if err != nil {
		return nil, err
	}
	for _, item := range waiting {
		asked[item.Run] = true
	}
	talks, above := map[string]bool{}, above{s.Store, map[string]run.Head{}}
	own := func(head run.Head) (bool, error) {
		if asked[head.Run] || o.Concerns(person, head) {
			return true, nil
		}
		takes, known := talks[head.Conversation]
		if !known {
			var err error
			if takes, err = s.Participates(ctx, person, head.Conversation); err != nil {
				return false, err
			}
			talks[head.Conversation] = takes
		}
		return takes, nil
	}
	return func(head run.Head) (bool, error) {
		private, err := s.private(ctx, o, head)
		if err != nil || private {
			return private && o.Answers(person, head.Agent), err
		}
		return above.any(ctx, head, own)
	}, nil
}

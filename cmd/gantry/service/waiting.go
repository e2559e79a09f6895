package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Inbox answers what waits for people, and who reacts for whom.
type Inbox struct{ *Service }

// Items returns what waits for the caller, for those whose deputy the caller
// is, and what was escalated to the caller; oldest first.
func (i Inbox) Items(ctx context.Context, caller graph.Caller) ([]graph.Item, error) {
	items, err := i.waiting(ctx, caller.Principal)
	if err != nil || len(items) == 0 {
		return items, err
	}
	o, err := i.Organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	steps, err := i.Notices.Steps(ctx, o.Name)
	if err != nil {
		return nil, err
	}
	escalateMs := time.Duration(o.Escalation.EscalateAfter).Milliseconds()
	for n := range items {
		item := &items[n]
		for step, atMs := range steps[notice.ItemKey{Item: item.ID, SinceMs: item.SinceMs}] {
			switch {
			case step == notice.Escalated:
				item.EscalatedMs = atMs
			case step.IsReminder():
				item.RemindedMs = max(item.RemindedMs, atMs)
			}
		}
		if escalateMs > 0 && item.EscalatedMs == 0 && (item.NotAfterMs == 0 || item.SinceMs+escalateMs < item.NotAfterMs) {
			item.DueMs = item.SinceMs + escalateMs
		}
	}
	return items, nil
}

// waiting returns what is open for a person, for whom the person stands in, and
// what was escalated to the person; each item once, oldest first.
func (s *Service) waiting(ctx context.Context, person policy.Principal) ([]graph.Item, error) {
	own, err := s.Store.Inbox(ctx, person)
	if err != nil {
		return nil, err
	}
	var items []graph.Item
	for _, item := range own {
		items = append(items, graph.Item{InboxItem: item})
	}
	besides, err := s.besides(ctx, person)
	if err != nil {
		return nil, err
	}
	for _, item := range besides {
		if !slices.ContainsFunc(items, func(known graph.Item) bool { return known.ID == item.ID }) {
			items = append(items, item)
		}
	}
	slices.SortStableFunc(items, func(a, b graph.Item) int { return cmp.Or(cmp.Compare(a.SinceMs, b.SinceMs), cmp.Compare(a.ID, b.ID)) })
	return items, nil
}

// besides returns what is open for those whose deputy a person is, as far as
// the person may decide it, and then what was escalated to the person.
func (s *Service) besides(ctx context.Context, person policy.Principal) ([]graph.Item, error) {
	o, err := s.Organisation(ctx, person.Organisation)
	if err != nil {
		return nil, err
	}
	nowMs, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var items []graph.Item
	for _, id := range o.Directory().StandsFor(person.ID, nowMs) {
		principal, known := o.Principal(id)
		if !known {
			continue
		}
		list, err := s.Store.Inbox(ctx, principal)
		if err != nil {
			return nil, err
		}
		for _, item := range list {
			voices, err := s.voices(ctx, item, person, nowMs)
			if err != nil {
				return nil, err
			}
			if slices.Contains(voices, id) {
				items = append(items, graph.Item{InboxItem: item, OnBehalfOf: id})
			}
		}
	}
	if o.Escalation.EscalateAfter == 0 {
		return items, nil
	}
	escalated, err := s.Notices.EscalatedTo(ctx, o.Name, person.ID)
	for _, item := range escalated {
		items = append(items, graph.Item{InboxItem: item.InboxItem, Onlooker: true})
	}
	return items, err
}

// voices returns on whose behalf a person may react to an item, by the rules in
// force; nobody's where the run is gone.
func (s *Service) voices(ctx context.Context, item engine.InboxItem, person policy.Principal, atMs int64) ([]string, error) {
	state, err := s.Engine.State(ctx, item.Run)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	rules, err := s.Kits.Rules(ctx, item.Organisation)
	if err != nil {
		return nil, err
	}
	voices, refused := rules.Voices(item.Approvers, person, state.Started.Chain, atMs)
	if refused != nil {
		return nil, nil //nolint:nilerr // who may not has no voice
	}
	return voices, nil
}

// watches reports whether a run waits for somebody whose deputy the person is,
// or something of it was escalated to the person.
func (s *Service) watches(ctx context.Context, person policy.Principal, runID string) (bool, error) {
	items, err := s.besides(ctx, person)
	return slices.ContainsFunc(items, func(item graph.Item) bool { return item.Run == runID }), err
}

// spoke reports whether a person decided or answered in a run.
func spoke(person policy.Principal, state *run.State) bool {
	for _, approval := range state.Approvals {
		if slices.ContainsFunc(approval.Decisions, func(d run.ApprovalDecided) bool { return d.By.Principal == person.ID }) {
			return true
		}
	}
	if slices.ContainsFunc(state.Accesses, func(a run.Access) bool { return a.Decision != nil && a.Decision.By.Principal == person.ID }) {
		return true
	}
	return slices.ContainsFunc(state.Questions, func(q run.Question) bool { return q.Answer != nil && q.Answer.By.Principal == person.ID })
}

// Deputies returns the caller's deputy and those whose deputy the caller is,
// whether or not it is time.
func (i Inbox) Deputies(ctx context.Context, caller graph.Caller) ([]agents.Deputy, error) {
	o, err := i.Organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	id := caller.Principal.ID
	return slices.DeleteFunc(slices.Clone(o.Deputies), func(d agents.Deputy) bool { return d.Deputy == "" || d.Person != id && d.Deputy != id }), nil
}

// SetDeputy names the caller's deputy, or takes the deputy back.
func (i Inbox) SetDeputy(ctx context.Context, caller graph.Caller, commandID string, deputy graph.DeputyInput) (graph.Change, error) {
	nowMs, err := i.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	change, err := i.Alter(ctx, caller, commandID, []any{"deputy", deputy}, func(o agents.Organisation) (Step, bool, error) {
		next, err := agents.ClearDeputy(o, caller.Principal.ID, nowMs)
		if deputy.Deputy != "" {
			fromMs := cmp.Or(deputy.FromMs, nowMs)
			if refusal := refuseDeputy(o, caller.Principal.ID, deputy.Deputy, fromMs, deputy.UntilMs, nowMs); refusal != nil {
				return Step{}, false, refusal
			}
			next, err = agents.SetDeputy(o, caller.Principal.ID, deputy.Deputy, fromMs, deputy.UntilMs, nowMs)
		}
		if err != nil {
			return Step{}, false, err
		}
		unchanged, err := same(o, next)
		if err != nil || unchanged {
			return Step{}, false, err
		}
		return Step{Next: &next}, false, nil
	})
	if err == nil && i.Hub != nil {
		i.Hub.Offer(bus.Batch{Inboxes: []string{caller.Principal.Organisation}})
	}
	return change, err
}

// refuseDeputy says to a person what is wrong with a deputy, or nil.
func refuseDeputy(o agents.Organisation, person, deputy string, fromMs, untilMs, nowMs int64) error {
	known, found := o.Principal(deputy)
	switch {
	case person == deputy:
		return &run.Refusal{Code: "INVALID", Detail: "Nobody is their own deputy; name another person."}
	case !found || known.Kind != policy.Person:
		return &run.Refusal{Code: "INVALID", Detail: "There is no such person; name the deputy by principal id."}
	case untilMs <= nowMs:
		return &run.Refusal{Code: "INVALID", Detail: "The deputy would be none any more; give an end in the future."}
	case untilMs <= fromMs:
		return &run.Refusal{Code: "INVALID", Detail: "The end comes before the beginning; give a later one."}
	}
	return nil
}

// mostNotices is how many notices one reading gives.
const mostNotices = 50

// Told returns the caller's latest notices; to an operator also those that
// could not be delivered to others.
func (i Inbox) Told(ctx context.Context, caller graph.Caller) ([]notice.Notice, error) {
	person := caller.Principal
	list, err := i.Notices.Of(ctx, person.Organisation, person.ID, mostNotices)
	if err != nil || !person.HasRole(policy.RoleOperator) {
		return list, err
	}
	dead, err := i.Notices.Undelivered(ctx, person.Organisation, mostNotices)
	for _, n := range dead {
		if n.Person != person.ID {
			list = append(list, n)
		}
	}
	return list, err
}

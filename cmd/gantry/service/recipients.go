package service

import (
	"context"
	"slices"
	"time"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
)

var _ notice.People = (*Recipients)(nil)

// Recipients says who is told of what waits, and when, as the configuration in
// force has it.
type Recipients struct{ *Service }

// Schedule says when an organisation's people are told.
func (r Recipients) Schedule(ctx context.Context, organisation string) (notice.Schedule, error) {
	o, err := r.Organisation(ctx, organisation)
	if err != nil {
		return notice.Schedule{}, err
	}
	schedule := notice.Schedule{Opened: len(o.Notify.Default)+len(o.Notify.People) > 0,
		EscalateAfterMs: time.Duration(o.Escalation.EscalateAfter).Milliseconds()}
	for _, after := range o.Escalation.RemindAfter {
		schedule.RemindAfterMs = append(schedule.RemindAfterMs, time.Duration(after).Milliseconds())
	}
	return schedule, nil
}

// Recipients says whom a step of an item is told to: those for whom it waits
// and their deputies; once it is escalated, those who see it besides.
func (r Recipients) Recipients(ctx context.Context, item notice.Item, step notice.Step) ([]notice.Recipient, error) {
	o, err := r.Organisation(ctx, item.Organisation)
	if err != nil {
		return nil, err
	}
	nowMs, err := r.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	named, acting, err := r.acting(ctx, o, item.InboxItem, nowMs)
	if err != nil {
		return nil, err
	}
	people := acting
	if step == notice.Escalated {
		people = nil
		for _, id := range named {
			people = append(people, o.Onlookers(id)...)
		}
		state, err := r.Engine.State(ctx, item.Run)
		if err != nil {
			return nil, err
		}
		people = append(people, state.Started.Contact)
		people = slices.DeleteFunc(people, func(id string) bool { return slices.Contains(acting, id) })
	}
	slices.Sort(people)
	var list []notice.Recipient
	for _, id := range slices.Compact(people) {
		if p, known := o.Principal(id); known && p.Kind == policy.Person {
			list = append(list, notice.Recipient{Person: id, Channels: channelsOf(o, id)})
		}
	}
	return list, nil
}

// acting returns those whom an item names and who may react to it, and these
// with their deputies.
func (r Recipients) acting(ctx context.Context, o agents.Organisation, item engine.InboxItem, nowMs int64) (named, acting []string, err error) {
	for _, p := range o.Principals {
		names := slices.ContainsFunc(item.Approvers, func(a policy.Approver) bool { return a.Names(p) })
		if !names || p.Kind != policy.Person {
			continue
		}
		voices, err := r.voices(ctx, item, p, nowMs)
		if err != nil {
			return nil, nil, err
		}
		// Whom a run asks may be whom it works for; only approvals keep them apart.
		if slices.Contains(voices, p.ID) || item.Kind == engine.InboxQuestion {
			named = append(named, p.ID)
		}
	}
	acting = slices.Clone(named)
	for _, d := range o.StandIns() {
		deputy, known := o.Principal(d.Deputy)
		if !known || !d.Holds(nowMs) || !slices.Contains(named, d.Person) {
			continue
		}
		voices, err := r.voices(ctx, item, deputy, nowMs)
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(voices, d.Person) {
			acting = append(acting, deputy.ID)
		}
	}
	return named, acting, nil
}

// channelsOf returns how a person is told, as notices have it.
func channelsOf(o agents.Organisation, person string) []notice.Channel {
	var list []notice.Channel
	for _, c := range o.Channels(person) {
		channel := notice.Channel{Kind: string(c.Kind), Target: c.URL, Secret: c.Secret}
		if c.Kind == agents.Email {
			channel.Target = c.Address
		}
		if !slices.Contains(list, channel) {
			list = append(list, channel)
		}
	}
	return list
}

// Told reports whether a person is told over a channel now, and with which
// configuration.
func (r Recipients) Told(ctx context.Context, n notice.Notice) (agents.Organisation, bool, error) {
	o, err := r.Organisation(ctx, n.Organisation)
	if err != nil {
		return o, false, err
	}
	_, known := o.Principal(n.Person)
	return o, known && slices.Contains(channelsOf(o, n.Person), n.Channel), nil
}

package notice

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// People says of an organisation when its people are told, and whom.
type People interface {
	// Schedule says when. An organisation that tells nobody has the zero one.
	Schedule(ctx context.Context, organisation string) (Schedule, error)
	// Recipients says whom one step of an item is told to, each once.
	Recipients(ctx context.Context, item Item, step Step) ([]Recipient, error)
}

// Follower records who is to be told of what is open.
type Follower struct {
	Store  *Store
	People People
	Now    func(context.Context) (ms int64, _ error) // UTC ms, the database's clock
	// Recorded hears that a step of something in an organisation was recorded; nil: nobody does.
	Recorded func(organisation string)
}

// keepMs is for how long notices of what waits no more are kept.
const keepMs = 30 * 24 * 3600 * 1000

// Pass looks at everything that waits, once. What it recorded it does not
// record again, whoever else looks at the same moment. Trouble with one
// organisation or item keeps no other from being told; all of it is returned.
func (f *Follower) Pass(ctx context.Context) error {
	nowMs, err := f.Now(ctx)
	if err != nil {
		return err
	}
	items, err := f.Store.Open(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, of := range byOrganisation(items) {
		if err := f.organisation(ctx, of, nowMs); err != nil {
			faults = append(faults, fmt.Errorf("notices of %s: %w", of[0].Organisation, err))
		}
	}
	return errors.Join(append(faults, f.Store.prune(ctx, nowMs-keepMs))...)
}

// byOrganisation splits items, which come sorted by organisation.
func byOrganisation(items []Item) [][]Item {
	var groups [][]Item
	for i, item := range items {
		if i == 0 || items[i-1].Organisation != item.Organisation {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], item)
	}
	return groups
}

func (f *Follower) organisation(ctx context.Context, items []Item, nowMs int64) error {
	schedule, err := f.People.Schedule(ctx, items[0].Organisation)
	if err != nil || schedule.None() {
		return err
	}
	recorded, err := f.Store.Steps(ctx, items[0].Organisation)
	if err != nil {
		return err
	}
	var faults []error
	for _, item := range items {
		reached, told := schedule.Due(item, nowMs)
		fresh := slices.DeleteFunc(reached, func(step Step) bool { _, was := recorded[item.Key()][step]; return was })
		if len(fresh) == 0 {
			continue
		}
		if err := f.record(ctx, item, fresh, told, nowMs); err != nil {
			faults = append(faults, fmt.Errorf("item %s: %w", item.ID, err))
		}
	}
	return errors.Join(faults...)
}

func (f *Follower) record(ctx context.Context, item Item, fresh []Step, told map[Step]bool, nowMs int64) error {
	steps := make(map[Step][]Recipient, len(fresh))
	for _, step := range fresh {
		steps[step] = nil
		if !told[step] {
			continue
		}
		recipients, err := f.People.Recipients(ctx, item, step)
		if err != nil {
			return err
		}
		steps[step] = recipients
	}
	err := f.Store.record(ctx, item, steps, nowMs)
	if err == nil && f.Recorded != nil {
		f.Recorded(item.Organisation)
	}
	return err
}

package memory

import (
	"context"
	"maps"
	"slices"

	"gantry.dev/memory/index"
	"gantry.dev/memory/view"
)

// shadow compares, for a sample of views, which others are nearest to them by the
// first of the active vector spaces and by each of those that are built.
func (s *Service) shadow(ctx context.Context, sample int) (map[string]float64, error) {
	spaces, err := s.follow.current(ctx)
	if err != nil || len(spaces.active) == 0 {
		return nil, err
	}
	organisations, err := s.store.Organisations(ctx)
	if err != nil {
		return nil, err
	}
	overlap := map[string]float64{}
	for _, part := range spaces.building {
		views, same, compared := sample, 0, 0
		for _, organisation := range organisations {
			refs, _, err := s.store.Refs(ctx, organisation, "", max(views, 1))
			if err != nil {
				return nil, err
			}
			refs = refs[:min(len(refs), views)]
			views -= len(refs)
			for _, ref := range refs {
				before, after, err := s.bothWays(ctx, spaces.active[0], part, organisation, ref)
				if err != nil {
					return nil, err
				}
				compared += len(before)
				same += len(slices.DeleteFunc(before, func(item string) bool { return !slices.Contains(after, item) }))
			}
		}
		if compared > 0 {
			overlap[part.space.ID] = float64(same) / float64(compared)
		}
	}
	return overlap, nil
}

// bothWays returns what is nearest to a view in two vector spaces; nothing where
// it has no vector in one of them.
func (s *Service) bothWays(ctx context.Context, old, next part, organisation string, ref index.Ref) (before, after []string, err error) {
	sets, err := s.store.Sets(ctx, organisation)
	if err != nil {
		return nil, nil, err
	}
	ids := slices.Sorted(maps.Keys(sets))
	if before, err = s.neighbours(ctx, old, organisation, ref, ids); err != nil || len(before) == 0 {
		return nil, nil, err
	}
	if after, err = s.neighbours(ctx, next, organisation, ref, ids); err != nil || len(after) == 0 {
		return nil, nil, err
	}
	return before, after, nil
}

func (s *Service) neighbours(ctx context.Context, p part, organisation string, ref index.Ref, sets []string) (items []string, _ error) {
	states, err := s.store.States(ctx, p.space.ID, []string{ref.Item})
	if err != nil {
		return nil, err
	}
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return nil, err
	}
	for _, state := range states {
		for _, point := range state.Points {
			if point.Set != ref.Set || point.Vector == nil {
				continue
			}
			found, err := p.index.Search(ctx, index.Query{Organisation: organisation, Spaces: []view.Space{state.Space}, Sets: sets,
				Vector: point.Vector, NowMs: nowMs, Limit: nearest + 1})
			if err != nil {
				return nil, err
			}
			for _, hit := range found.Dense {
				if hit.Item != ref.Item && len(items) < nearest {
					items = append(items, hit.Item)
				}
			}
		}
	}
	return items, nil
}

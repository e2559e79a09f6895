package memory

import (
	"context"

	"gantry.dev/memory/view"
)

// sight is what a reader sees around items: what takes their place, and what
// they take the place of or come from.
type sight struct {
	*asking
	outlines map[string]*view.Item
	after    map[string][]string // ids of what supersedes an item, by its id
}

// look reads what is around items.
func (s *Service) look(ctx context.Context, a *asking, ids []string) (sight, error) {
	outlines, after, err := s.store.Succession(ctx, a.Organisation, ids)
	return sight{a, outlines, after}, err
}

// lookAhead reads what takes the place of items that are read already.
func (s *Service) lookAhead(ctx context.Context, a *asking, ids []string) (sight, error) {
	outlines, after, err := s.store.Successors(ctx, a.Organisation, ids)
	return sight{a, outlines, after}, err
}

// successors are the items that supersede one and that the reader sees, expired
// or not; see view.Hidden.
func (g sight) successors(id string) (successors []view.Successor) {
	for _, next := range g.after[id] {
		if item := g.outlines[next]; item != nil && g.Sees(item) {
			successors = append(successors, view.SuccessorOf(item))
		}
	}
	return successors
}

// hidden reports whether something else has taken the item's place.
func (g sight) hidden(id string) bool {
	item := g.outlines[id]
	return item == nil || g.replaced(item)
}

func (g sight) replaced(item *view.Item) bool { return view.Hidden(item, g.moment, g.successors) }

// render renders items for the reader; those that are not there for it are left
// out.
func (s *Service) render(ctx context.Context, a *asking, ids []string) (map[string]view.Rendering, error) {
	items, err := s.store.Load(ctx, a.Organisation, ids)
	if err != nil {
		return nil, err
	}
	around := ids
	for _, item := range items {
		around = append(append(around[:len(around):len(around)], item.Supersedes...), item.DerivedFrom...)
	}
	g, err := s.look(ctx, a, around)
	if err != nil {
		return nil, err
	}
	rendered := make(map[string]view.Rendering, len(items))
	for id, item := range items {
		if !a.sees(item) {
			continue
		}
		if rendering, sees := view.Render(item, &a.Reader, a.key, g.related(item)); sees {
			rendered[id] = rendering
		}
	}
	return rendered, nil
}

func (g sight) related(item *view.Item) view.Related {
	related := view.Related{Successors: g.moment.Known(g.successors(item.ID))}
	for _, ids := range [][]string{item.Supersedes, item.DerivedFrom} {
		for _, id := range ids {
			if source := g.outlines[id]; g.sees(source) {
				related.Note(item, id, source.Space)
			}
		}
	}
	return related
}

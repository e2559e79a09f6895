package remembered

import (
	"slices"

	"gantry.dev/graph/generated"
	"gantry.dev/memory/view"
)

// Seen is what one viewer has been told of, so that it is told again only of
// what looks different to it now.
type Seen struct {
	names Names
	items map[string]seen // by the item's own id
}

// seen is how an item looked.
type seen struct{ etag, id string }

// NewSeen returns what a viewer has been told of that is shown these items.
func NewSeen(names Names, items map[string]view.Rendering) *Seen {
	s := &Seen{names: names, items: map[string]seen{}}
	s.Changes(nil, items)
	return s
}

// Len is how many items it holds.
func (s *Seen) Len() int { return len(s.items) }

// IDs are the own ids of the items that it holds, sorted.
func (s *Seen) IDs() (ids []string) {
	for id := range s.items {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Holds reports whether the viewer has been told of an item.
func (s *Seen) Holds(id string) bool {
	_, held := s.items[id]
	return held
}

// Changes notes how items look now, and returns what of it the viewer does not
// know yet. Of those asked for, what is not found is gone.
func (s *Seen) Changes(asked []string, found map[string]view.Rendering) []*generated.MemoryChange {
	changes := []*generated.MemoryChange{}
	for _, id := range sorted(asked) {
		before, held := s.items[id]
		if _, there := found[id]; held && !there {
			delete(s.items, id)
			changes = append(changes, &generated.MemoryChange{Kind: generated.MemoryChangeKindGone, ID: before.id})
		}
	}
	ids := make([]string, 0, len(found))
	for id := range found {
		ids = append(ids, id)
	}
	for _, id := range sorted(ids) {
		before, held := s.items[id]
		rendering := found[id]
		if held && before.etag == rendering.Etag {
			continue
		}
		item := s.names.Show(rendering)
		s.items[id] = seen{etag: rendering.Etag, id: item.ID}
		kind := generated.MemoryChangeKindRemembered
		if held {
			kind = generated.MemoryChangeKindChanged
		}
		changes = append(changes, &generated.MemoryChange{Kind: kind, ID: item.ID, Item: item})
	}
	return changes
}

func sorted(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

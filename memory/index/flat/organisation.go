package flat

import (
	"container/heap"
	"slices"
	"strings"
	"sync"

	"gantry.dev/memory/index"
	"gantry.dev/memory/view"
)

// organisation is what an index holds of one organisation. Searches share the
// lock; one that holds it keeps a writer waiting for one scan, and a writer keeps
// searches waiting for turn states.
type organisation struct {
	mu     sync.RWMutex
	spaces map[view.Space]map[string][]*part // by set
	items  map[string]*entry
}

// entry is what is held of an item.
type entry struct {
	item    string
	version uint64
	places  []place
}

// place says where a view stands.
type place struct {
	part  *part
	row   int
	space view.Space
	set   string
}

func newOrganisation() *organisation {
	return &organisation{spaces: map[view.Space]map[string][]*part{}, items: map[string]*entry{}}
}

func (o *organisation) apply(dim int, states []index.State) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range states {
		state := &states[i]
		o.remove(state.Item)
		if len(state.Points) > 0 {
			o.add(dim, state)
		}
	}
}

func (o *organisation) add(dim int, state *index.State) {
	added := &entry{item: strings.Clone(state.Item), version: state.Version, places: make([]place, len(state.Points))}
	o.items[added.item] = added
	for i := range state.Points {
		point := &state.Points[i]
		into := o.part(dim, state.Space, point)
		n := into.add(row{
			entry:     added,
			place:     i,
			expiresMs: point.ExpiresMs,
			terms:     slices.Clone(point.Terms),
		}, point.Vector)
		added.places[i] = place{part: into, row: n, space: state.Space, set: point.Set}
	}
}

// part returns where a view belongs, made when absent.
func (o *organisation) part(dim int, space view.Space, point *index.Point) *part {
	if point.Vector == nil {
		dim = 0
	}
	omit := slices.Clone(point.Omit)
	slices.Sort(omit)
	omit = slices.Compact(omit)
	sets, ok := o.spaces[space]
	if !ok {
		sets = map[string][]*part{}
		o.spaces[space] = sets
	}
	for _, p := range sets[point.Set] {
		if p.dim == dim && slices.Equal(p.omit, omit) {
			return p
		}
	}
	made := &part{dim: dim, omit: omit, postings: map[uint32][]posting{}}
	sets[point.Set] = append(sets[point.Set], made)
	return made
}

// remove takes an item out, and every part and space that it leaves empty.
func (o *organisation) remove(item string) {
	found, ok := o.items[item]
	if !ok {
		return
	}
	delete(o.items, item)
	for _, at := range found.places {
		at.part.remove(at.row)
		if len(at.part.rows) > 0 {
			continue
		}
		sets := o.spaces[at.space]
		sets[at.set] = slices.DeleteFunc(sets[at.set], func(p *part) bool { return p == at.part })
		if len(sets[at.set]) == 0 {
			delete(sets, at.set)
		}
		if len(sets) == 0 {
			delete(o.spaces, at.space)
		}
	}
}

// visible returns the parts that a reader sees: of its spaces and sets, without
// those that omit what it may see too, since it sees a fuller view of them. It
// looks up what the reader may see, and walks over nothing else.
func (o *organisation) visible(query *index.Query) (parts []*part) {
	allowed := make(map[string]struct{}, len(query.Sets))
	for _, set := range query.Sets {
		allowed[set] = struct{}{}
	}
	asked := map[view.Space]struct{}{}
	for _, space := range query.Spaces {
		if _, twice := asked[space]; twice {
			continue
		}
		asked[space] = struct{}{}
		sets := o.spaces[space]
		if len(sets) == 0 {
			continue
		}
		for set := range allowed {
			for _, p := range sets[set] {
				if !slices.ContainsFunc(p.omit, func(set string) bool { _, ok := allowed[set]; return ok }) {
					parts = append(parts, p)
				}
			}
		}
	}
	return parts
}

// list returns the refs of the smallest item ids after one, until there are limit
// of them.
func (o *organisation) list(after string, limit int) []index.Ref {
	o.mu.RLock()
	defer o.mu.RUnlock()
	smallest := &lastFirst{}
	for item := range o.items {
		if item <= after {
			continue
		}
		if smallest.Len() < limit {
			heap.Push(smallest, item)
		} else if item < (*smallest)[0] {
			(*smallest)[0] = item
			heap.Fix(smallest, 0)
		}
	}
	slices.Sort(*smallest)
	var refs []index.Ref
	for _, item := range *smallest {
		if len(refs) >= limit {
			break
		}
		refs = append(refs, o.items[item].refs()...)
	}
	return refs
}

func (o *organisation) listOf(items []string) (refs []index.Ref) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	seen := map[string]bool{}
	for _, item := range items {
		if found, ok := o.items[item]; ok && !seen[item] {
			seen[item] = true
			refs = append(refs, found.refs()...)
		}
	}
	slices.SortFunc(refs, index.CompareRefs)
	return refs
}

// points returns those of the views that are there. Vectors are copied, because
// another may come to stand in their place.
func (o *organisation) points(refs []index.Ref) map[index.Ref]index.Point {
	o.mu.RLock()
	defer o.mu.RUnlock()
	points := make(map[index.Ref]index.Point, len(refs))
	for _, ref := range refs {
		found, ok := o.items[ref.Item]
		if !ok || found.version != ref.Version {
			continue
		}
		for _, at := range found.places {
			if at.set == ref.Set {
				r := &at.part.rows[at.row]
				points[ref] = index.Point{Set: at.set, Omit: at.part.omit, Vector: slices.Clone(at.part.vector(at.row)), Terms: r.terms, ExpiresMs: r.expiresMs}
			}
		}
	}
	return points
}

func (e *entry) refs() []index.Ref {
	refs := make([]index.Ref, len(e.places))
	for i, at := range e.places {
		refs[i] = index.Ref{Item: e.item, Version: e.version, Set: at.set}
	}
	slices.SortFunc(refs, index.CompareRefs)
	return refs
}

// lastFirst is a heap of item ids with the last in order on top.
type lastFirst []string

func (h lastFirst) Len() int           { return len(h) }
func (h lastFirst) Less(i, j int) bool { return h[i] > h[j] }
func (h lastFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *lastFirst) Push(x any)        { *h = append(*h, x.(string)) }

func (h *lastFirst) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

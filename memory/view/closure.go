package view

import "slices"

// Relation says how one item stands to another.
type Relation struct {
	From, To string // item ids: From supersedes To, or is derived from To
	Kind     RelationKind
}

// RelationKind says what a relation means.
type RelationKind string

// The kinds of relation.
const (
	Supersedes RelationKind = "SUPERSEDES"
	Derives    RelationKind = "DERIVED_FROM"
)

// Closure returns what goes when the items with these ids are erased, sorted:
// themselves, the older versions that they superseded, and everything derived
// from any of these, also where it has other sources. What a derived item
// superseded stays: it was there without what is erased.
//
// touching returns the relations of kind Supersedes from these ids, or of kind
// Derives to them.
func Closure(ids []string, touching func(kind RelationKind, ids []string) ([]Relation, error)) ([]string, error) {
	taken := map[string]bool{}
	if err := spread(taken, ids, Supersedes, touching); err != nil {
		return nil, err
	}
	versions := keys(taken)
	clear(taken)
	if err := spread(taken, versions, Derives, touching); err != nil {
		return nil, err
	}
	return keys(taken), nil
}

// spread adds the ids to taken, and whatever relations of one kind lead to.
func spread(taken map[string]bool, ids []string, kind RelationKind, touching func(RelationKind, []string) ([]Relation, error)) error {
	for len(ids) > 0 {
		for _, id := range ids {
			taken[id] = true
		}
		relations, err := touching(kind, ids)
		if err != nil {
			return err
		}
		ids = nil
		for _, relation := range relations {
			next := relation.To
			if kind == Derives {
				next = relation.From
			}
			if relation.Kind == kind && !taken[next] {
				taken[next] = true
				ids = append(ids, next)
			}
		}
	}
	return nil
}

func keys(set map[string]bool) []string {
	ids := make([]string, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

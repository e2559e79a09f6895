package qdrant

import (
	"context"
	"fmt"
	"slices"

	"github.com/qdrant/go-client/qdrant"

	"gantry.dev/memory/index"
)

// Held walks over all points of an organisation, since the server lists them by an
// order of its own, and keeps the first ones.
func (i *Index) Held(ctx context.Context, organisation, after string, limit int) ([]index.Ref, error) {
	if limit < 1 {
		return nil, fmt.Errorf("%w: a list of %d", index.ErrMalformed, limit)
	}
	if organisation == "" {
		return nil, nil
	}
	var kept []index.Ref
	filter := &qdrant.Filter{Must: []*qdrant.Condition{qdrant.NewMatchKeyword(fieldOrganisation, organisation)}}
	err := i.walk(ctx, filter, func(ref index.Ref) {
		if ref.Item > after {
			kept = append(kept, ref)
		}
		if len(kept) >= 4*limit+pageSize {
			kept = first(kept, limit)
		}
	})
	return first(kept, limit), err
}

// first sorts refs and cuts them where limit is reached, behind an item's last.
func first(refs []index.Ref, limit int) []index.Ref {
	slices.SortFunc(refs, index.CompareRefs)
	if len(refs) <= limit {
		return refs
	}
	end := limit
	for end < len(refs) && refs[end].Item == refs[limit-1].Item {
		end++
	}
	return refs[:end]
}

// HeldOf asks for the points of items, of every replica.
func (i *Index) HeldOf(ctx context.Context, organisation string, items []string) ([]index.Ref, error) {
	if organisation == "" {
		return nil, nil
	}
	items = slices.Clone(items)
	slices.Sort(items)
	var found []index.Ref
	for some := range slices.Chunk(slices.Compact(items), itemsAtOnce) {
		if err := i.walk(ctx, itemsOf(organisation, some), func(ref index.Ref) { found = append(found, ref) }); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(found, index.CompareRefs)
	return found, nil
}

// walk visits every point that a filter lets through. All replicas have to answer;
// a point counts when all of them have it, which a change that is done has brought
// about (see Config.Replicas).
func (i *Index) walk(ctx context.Context, filter *qdrant.Filter, visit func(index.Ref)) error {
	request := &qdrant.ScrollPoints{
		CollectionName:  i.collection,
		Filter:          filter,
		Limit:           new(uint32(pageSize)),
		WithPayload:     qdrant.NewWithPayloadInclude(fieldItem, fieldVersion, fieldSet),
		WithVectors:     qdrant.NewWithVectors(false),
		ReadConsistency: qdrant.NewReadConsistencyType(qdrant.ReadConsistencyType_All),
	}
	type page struct {
		points []*qdrant.RetrievedPoint
		next   *qdrant.PointId
	}
	for {
		found, err := call(ctx, i.indexes, "list points", func(ctx context.Context) (page, error) {
			points, next, err := i.indexes.client.ScrollAndOffset(ctx, request)
			return page{points, next}, err
		})
		if err != nil {
			return err
		}
		for _, point := range found.points {
			visit(refOf(point.GetPayload()))
		}
		if found.next == nil {
			return nil
		}
		request.Offset = found.next
	}
}

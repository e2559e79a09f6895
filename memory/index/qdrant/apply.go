package qdrant

import (
	"context"
	"encoding/binary"
	"slices"

	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"

	"gantry.dev/memory/index"
)

// Index finds views in one vector space.
type Index struct {
	indexes    *Indexes
	collection string // or an alias
	space      index.VectorSpace
}

// Apply puts the points of each state there and then takes everything else of its
// item away. Both go through the leader of their shard, one after the other, and
// are waited for.
func (i *Index) Apply(ctx context.Context, states []index.State) error {
	if err := index.CheckStates(i.space.Dim, states); err != nil {
		return err
	}
	for batch := range batches(last(states)) {
		var points []*qdrant.PointStruct
		for _, state := range batch {
			for j := range state.Points {
				points = append(points, i.point(state, &state.Points[j]))
			}
		}
		if err := i.put(ctx, points); err != nil {
			return err
		}
		if err := i.clean(ctx, batch, points); err != nil {
			return err
		}
	}
	return nil
}

// last keeps the later of two states of an item.
func last(states []index.State) []*index.State {
	type name struct{ organisation, item string }
	at := make(map[name]int, len(states))
	kept := make([]*index.State, 0, len(states))
	for i := range states {
		name := name{states[i].Organisation, states[i].Item}
		if before, twice := at[name]; twice {
			kept[before] = &states[i]
			continue
		}
		at[name] = len(kept)
		kept = append(kept, &states[i])
	}
	return kept
}

// batches cuts states where the organisation changes and where they become many.
// All points of a state stay together.
func batches(states []*index.State) func(yield func([]*index.State) bool) {
	return func(yield func([]*index.State) bool) {
		begin, points := 0, 0
		for i, state := range states {
			if i > begin && (state.Organisation != states[begin].Organisation || i-begin == batchSize || points+len(state.Points) > batchSize) {
				if !yield(states[begin:i]) {
					return
				}
				begin, points = i, 0
			}
			points += len(state.Points)
		}
		if begin < len(states) {
			yield(states[begin:])
		}
	}
}

func (i *Index) put(ctx context.Context, points []*qdrant.PointStruct) error {
	if len(points) == 0 {
		return nil
	}
	return run(ctx, i.indexes, "put points", func(ctx context.Context) error {
		return done(i.indexes.client.Upsert(ctx, &qdrant.UpsertPoints{
			CollectionName: i.collection,
			Wait:           new(true),
			Points:         points,
			Ordering:       strong(),
		}))
	})
}

// clean removes what is there of the items of a batch besides these points.
func (i *Index) clean(ctx context.Context, batch []*index.State, points []*qdrant.PointStruct) error {
	items := make([]string, len(batch))
	for n, state := range batch {
		items[n] = state.Item
	}
	filter := itemsOf(batch[0].Organisation, items)
	if len(points) > 0 {
		ids := make([]*qdrant.PointId, len(points))
		for n, point := range points {
			ids[n] = point.GetId()
		}
		filter.MustNot = []*qdrant.Condition{qdrant.NewHasID(ids...)}
	}
	return run(ctx, i.indexes, "take points away", func(ctx context.Context) error {
		return done(i.indexes.client.Delete(ctx, &qdrant.DeletePoints{
			CollectionName: i.collection,
			Wait:           new(true),
			Points:         qdrant.NewPointsSelectorFilter(filter),
			Ordering:       strong(),
		}))
	})
}

// strong sends a change through the permanent leader, so that none overtakes
// another on any replica.
func strong() *qdrant.WriteOrdering {
	return &qdrant.WriteOrdering{Type: qdrant.WriteOrderingType_Strong}
}

func (i *Index) point(state *index.State, point *index.Point) *qdrant.PointStruct {
	vectors := map[string]*qdrant.Vector{}
	if point.Vector != nil {
		vectors[denseVector] = qdrant.NewVectorDense(point.Vector)
	}
	if len(point.Terms) > 0 {
		vectors[lexicalVector] = qdrant.NewVectorSparse(sparse(point.Terms))
	}
	expires := point.ExpiresMs
	if expires == 0 {
		expires = never
	}
	omit := make([]*qdrant.Value, len(point.Omit))
	for n, set := range point.Omit {
		omit[n] = qdrant.NewValueString(set)
	}
	return &qdrant.PointStruct{
		Id:      i.id(state, point.Set),
		Vectors: qdrant.NewVectorsMap(vectors),
		Payload: map[string]*qdrant.Value{
			fieldOrganisation: qdrant.NewValueString(state.Organisation),
			fieldSpace:        qdrant.NewValueString(string(state.Space)),
			fieldSet:          qdrant.NewValueString(point.Set),
			fieldOmit:         qdrant.NewValueFromList(omit...),
			fieldItem:         qdrant.NewValueString(state.Item),
			fieldVersion:      qdrant.NewValueInt(int64(state.Version)),
			fieldExpires:      qdrant.NewValueInt(expires),
		},
	}
}

// id is the same for the same view at the same version, so that what is put again
// changes nothing, and another for any other: a late one is never mistaken for
// the present one.
func (i *Index) id(state *index.State, set string) *qdrant.PointId {
	var named []byte
	for _, name := range []string{"gantry.dev/memory", state.Organisation, state.Item, set, i.space.ID} {
		named = binary.AppendUvarint(named, uint64(len(name)))
		named = append(named, name...)
	}
	named = binary.BigEndian.AppendUint64(named, state.Version)
	return qdrant.NewIDUUID(uuid.NewSHA1(uuid.NameSpaceOID, named).String())
}

// itemsOf is the filter for items of an organisation.
func itemsOf(organisation string, items []string) *qdrant.Filter {
	return &qdrant.Filter{Must: []*qdrant.Condition{
		qdrant.NewMatchKeyword(fieldOrganisation, organisation),
		qdrant.NewMatchKeywords(fieldItem, slices.Clone(items)...),
	}}
}

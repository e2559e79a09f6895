package qdrant

import (
	"context"
	"fmt"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"

	"gantry.dev/memory/index"
)

// The vectors of a point.
const (
	denseVector   = "dense"
	lexicalVector = "lex"
)

// The payload of a point: who may see it, and which view it is. No text.
const (
	fieldOrganisation = "organisation"
	fieldSpace        = "space"
	fieldSet          = "set"
	fieldOmit         = "omit"
	fieldItem         = "item"
	fieldVersion      = "version"
	fieldExpires      = "expires" // ms; never for what does not
)

// never is the expiry of what does not expire: a missing field would fail each
// range, and a larger number is not exact where numbers are floating point.
const never = 1<<53 - 1

const (
	mostHits    = 16_384 // asked for in one leg
	pageSize    = 4_096  // of a walk, in points
	batchSize   = 256    // of a change, in points
	itemsAtOnce = 512    // named in one filter
)

// create makes a collection for vectors of a vector space, with an index on every
// field that is ever filtered by. It may be repeated.
func (x *Indexes) create(ctx context.Context, name string, space index.VectorSpace) error {
	made := &qdrant.CreateCollection{
		CollectionName: name,
		VectorsConfig: qdrant.NewVectorsConfigMap(map[string]*qdrant.VectorParams{
			// A graph over all points would let what a reader may not see move what it
			// finds; so there is none, and every search is exact. Vectors have length 1
			// already.
			denseVector: {Size: uint64(space.Dim), Distance: qdrant.Distance_Dot, HnswConfig: &qdrant.HnswConfigDiff{M: new(uint64(0))}},
		}),
		// Without a modifier: the server's own statistics count every organisation.
		SparseVectorsConfig:    qdrant.NewSparseVectorsConfig(map[string]*qdrant.SparseVectorParams{lexicalVector: {}}),
		HnswConfig:             &qdrant.HnswConfigDiff{M: new(uint64(0))},
		ReplicationFactor:      new(x.config.Replicas),
		WriteConsistencyFactor: new(x.config.Replicas),
		StrictModeConfig: &qdrant.StrictModeConfig{
			Enabled:                    new(true),
			UnindexedFilteringRetrieve: new(false),
			UnindexedFilteringUpdate:   new(false),
			SearchAllowExact:           new(true),
			MaxQueryLimit:              new(uint32(mostHits)),
			UpsertMaxBatchsize:         new(uint64(2 * batchSize)),
			FilterMaxConditions:        new(uint64(64)),
			ConditionMaxSize:           new(uint64(index.MaxNames)),
		},
		Metadata: qdrant.NewValueMap(map[string]any{"model": space.Model}),
	}
	err := shape(ctx, x, "make a collection", func(ctx context.Context) error { return x.client.CreateCollection(ctx, made) })
	if is(err, codes.AlreadyExists) || is(err, codes.InvalidArgument) { // the latter is what servers used to say
		there, asked := call(ctx, x, "look for a collection", func(ctx context.Context) (bool, error) {
			return x.client.CollectionExists(ctx, name)
		})
		if asked != nil || there {
			err = asked
		}
	}
	if err != nil {
		return err
	}
	for _, field := range []string{fieldOrganisation, fieldSpace, fieldSet, fieldOmit, fieldItem} {
		params := &qdrant.KeywordIndexParams{}
		if field == fieldOrganisation {
			params.IsTenant = new(true)
		}
		if err := x.indexField(ctx, name, field, qdrant.FieldType_FieldTypeKeyword, qdrant.NewPayloadIndexParamsKeyword(params)); err != nil {
			return err
		}
	}
	for field, params := range map[string]*qdrant.IntegerIndexParams{
		fieldVersion: {Lookup: new(true), Range: new(true)},
		fieldExpires: {Lookup: new(false), Range: new(true)},
	} {
		if err := x.indexField(ctx, name, field, qdrant.FieldType_FieldTypeInteger, qdrant.NewPayloadIndexParamsInt(params)); err != nil {
			return err
		}
	}
	return nil
}

func (x *Indexes) indexField(ctx context.Context, collection, field string, kind qdrant.FieldType, params *qdrant.PayloadIndexParams) error {
	return shape(ctx, x, "index a field", func(ctx context.Context) error {
		return done(x.client.CreateFieldIndex(ctx, &qdrant.CreateFieldIndexCollection{
			CollectionName:   collection,
			Wait:             new(true),
			FieldName:        field,
			FieldType:        new(kind),
			FieldIndexParams: params,
		}))
	})
}

// check refuses a collection whose vectors may not be compared with those of a
// vector space.
func (x *Indexes) check(ctx context.Context, collection string, space index.VectorSpace) error {
	found, err := call(ctx, x, "look at a collection", func(ctx context.Context) (*qdrant.CollectionInfo, error) {
		return x.client.GetCollectionInfo(ctx, collection)
	})
	if err != nil {
		return err
	}
	params := found.GetConfig().GetParams().GetVectorsConfig().GetParamsMap().GetMap()[denseVector]
	if params.GetSize() != uint64(space.Dim) {
		return fmt.Errorf("%w: the vector space %s is there with %d", index.ErrDimension, space.ID, params.GetSize())
	}
	if model, ok := found.GetConfig().GetMetadata()["model"]; ok && model.GetStringValue() != space.Model {
		return fmt.Errorf("%w: %s", index.ErrModel, space.ID)
	}
	return nil
}

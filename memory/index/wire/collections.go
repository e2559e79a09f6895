package wire

import (
	"context"
	"maps"
	"slices"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type collections struct {
	qdrant.UnimplementedCollectionsServer
	rows *store
}

// Create makes a collection.
func (c *collections) Create(_ context.Context, r *qdrant.CreateCollection) (*qdrant.CollectionOperationResponse, error) {
	c.rows.mu.Lock()
	defer c.rows.mu.Unlock()
	name := r.GetCollectionName()
	if _, taken := c.rows.aliases[name]; taken || c.rows.collections[name] != nil {
		return nil, status.Errorf(codes.AlreadyExists, "Wrong input: Collection `%s` already exists!", name)
	}
	c.rows.collections[name] = &collection{
		made:   r,
		fields: map[string]*qdrant.CreateFieldIndexCollection{},
		points: map[string]*qdrant.PointStruct{},
	}
	return &qdrant.CollectionOperationResponse{Result: true}, nil
}

// CollectionExists says whether a collection, or an alias, is there.
func (c *collections) CollectionExists(_ context.Context, r *qdrant.CollectionExistsRequest) (*qdrant.CollectionExistsResponse, error) {
	c.rows.mu.RLock()
	defer c.rows.mu.RUnlock()
	_, err := c.rows.of(r.GetCollectionName())
	return &qdrant.CollectionExistsResponse{Result: &qdrant.CollectionExists{Exists: err == nil}}, nil
}

// Get says how a collection was made.
func (c *collections) Get(_ context.Context, r *qdrant.GetCollectionInfoRequest) (*qdrant.GetCollectionInfoResponse, error) {
	c.rows.mu.RLock()
	defer c.rows.mu.RUnlock()
	found, err := c.rows.of(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	return &qdrant.GetCollectionInfoResponse{Result: &qdrant.CollectionInfo{
		Status: qdrant.CollectionStatus_Green,
		Config: &qdrant.CollectionConfig{
			Params: &qdrant.CollectionParams{
				VectorsConfig:          found.made.GetVectorsConfig(),
				SparseVectorsConfig:    found.made.GetSparseVectorsConfig(),
				ReplicationFactor:      found.made.ReplicationFactor,
				WriteConsistencyFactor: found.made.WriteConsistencyFactor,
			},
			StrictModeConfig: found.made.GetStrictModeConfig(),
			Metadata:         found.made.GetMetadata(),
		},
	}}, nil
}

// List names the collections.
func (c *collections) List(context.Context, *qdrant.ListCollectionsRequest) (*qdrant.ListCollectionsResponse, error) {
	c.rows.mu.RLock()
	defer c.rows.mu.RUnlock()
	var listed []*qdrant.CollectionDescription
	for _, name := range slices.Sorted(maps.Keys(c.rows.collections)) {
		listed = append(listed, &qdrant.CollectionDescription{Name: name})
	}
	return &qdrant.ListCollectionsResponse{Collections: listed}, nil
}

// Delete removes a collection with its aliases.
func (c *collections) Delete(_ context.Context, r *qdrant.DeleteCollection) (*qdrant.CollectionOperationResponse, error) {
	c.rows.mu.Lock()
	defer c.rows.mu.Unlock()
	_, there := c.rows.collections[r.GetCollectionName()]
	delete(c.rows.collections, r.GetCollectionName())
	maps.DeleteFunc(c.rows.aliases, func(_, to string) bool { return to == r.GetCollectionName() })
	return &qdrant.CollectionOperationResponse{Result: there}, nil
}

// UpdateAliases changes aliases, in order and at once.
func (c *collections) UpdateAliases(_ context.Context, r *qdrant.ChangeAliases) (*qdrant.CollectionOperationResponse, error) {
	c.rows.mu.Lock()
	defer c.rows.mu.Unlock()
	for _, action := range r.GetActions() {
		if taken := action.GetDeleteAlias(); taken != nil {
			delete(c.rows.aliases, taken.GetAliasName())
		}
		made := action.GetCreateAlias()
		if made == nil {
			continue
		}
		if c.rows.collections[made.GetCollectionName()] == nil {
			return nil, status.Errorf(codes.NotFound, "Not found: Collection `%s` doesn't exist!", made.GetCollectionName())
		}
		if c.rows.collections[made.GetAliasName()] != nil {
			return nil, status.Error(codes.InvalidArgument, "Wrong input: a collection has the alias' name")
		}
		c.rows.aliases[made.GetAliasName()] = made.GetCollectionName()
	}
	return &qdrant.CollectionOperationResponse{Result: true}, nil
}

// ListAliases lists every alias.
func (c *collections) ListAliases(context.Context, *qdrant.ListAliasesRequest) (*qdrant.ListAliasesResponse, error) {
	c.rows.mu.RLock()
	defer c.rows.mu.RUnlock()
	var listed []*qdrant.AliasDescription
	for _, alias := range slices.Sorted(maps.Keys(c.rows.aliases)) {
		listed = append(listed, &qdrant.AliasDescription{AliasName: alias, CollectionName: c.rows.aliases[alias]})
	}
	return &qdrant.ListAliasesResponse{Aliases: listed}, nil
}

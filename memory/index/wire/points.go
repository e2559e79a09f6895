package wire

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type points struct {
	qdrant.UnimplementedPointsServer
	rows *store
}

// finished is the answer to a change: done when it was waited for.
func finished(wait bool) *qdrant.PointsOperationResponse {
	state := qdrant.UpdateStatus_Acknowledged
	if wait {
		state = qdrant.UpdateStatus_Completed
	}
	return &qdrant.PointsOperationResponse{Result: &qdrant.UpdateResult{Status: state}}
}

// CreateFieldIndex lets a field be filtered by.
func (p *points) CreateFieldIndex(_ context.Context, r *qdrant.CreateFieldIndexCollection) (*qdrant.PointsOperationResponse, error) {
	p.rows.mu.Lock()
	defer p.rows.mu.Unlock()
	found, err := p.rows.of(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	found.fields[r.GetFieldName()] = r
	return finished(r.GetWait()), nil
}

// Upsert puts points in place of those with the same id, all or none.
func (p *points) Upsert(_ context.Context, r *qdrant.UpsertPoints) (*qdrant.PointsOperationResponse, error) {
	p.rows.mu.Lock()
	defer p.rows.mu.Unlock()
	found, err := p.rows.of(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	if most := found.made.GetStrictModeConfig().UpsertMaxBatchsize; most != nil && uint64(len(r.GetPoints())) > *most {
		return nil, status.Error(codes.InvalidArgument, "Forbidden: Upsert limit exceeded")
	}
	for _, point := range r.GetPoints() {
		if err := found.takes(point); err != nil {
			return nil, err
		}
	}
	for _, point := range r.GetPoints() {
		found.points[point.GetId().GetUuid()] = point
	}
	return finished(r.GetWait()), nil
}

func (c *collection) takes(point *qdrant.PointStruct) error {
	if err := uuid.Validate(point.GetId().GetUuid()); err != nil {
		return status.Error(codes.InvalidArgument, "Unable to parse UUID")
	}
	for name, vector := range point.GetVectors().GetVectors().GetVectors() {
		params := c.made.GetVectorsConfig().GetParamsMap().GetMap()[name]
		_, sparse := c.made.GetSparseVectorsConfig().GetMap()[name]
		switch {
		case params == nil && !sparse:
			return status.Errorf(codes.InvalidArgument, "Wrong input: Not existing vector name error: %s", name)
		case params != nil && uint64(len(vector.GetDense().GetData())) != params.GetSize():
			return status.Error(codes.InvalidArgument, "Wrong input: Vector dimension error")
		case sparse && !unique(vector.GetSparse()):
			return status.Error(codes.InvalidArgument, "indices: must be unique")
		}
	}
	return nil
}

func unique(sparse *qdrant.SparseVector) bool {
	sorted := slices.Sorted(slices.Values(sparse.GetIndices()))
	return len(slices.Compact(sorted)) == len(sparse.GetIndices()) && len(sparse.GetIndices()) == len(sparse.GetValues())
}

// Delete removes what a filter lets through.
func (p *points) Delete(_ context.Context, r *qdrant.DeletePoints) (*qdrant.PointsOperationResponse, error) {
	p.rows.mu.Lock()
	defer p.rows.mu.Unlock()
	found, err := p.rows.of(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	filter := r.GetPoints().GetFilter()
	if err := found.allows(filter, true); err != nil {
		return nil, err
	}
	maps.DeleteFunc(found.points, func(id string, point *qdrant.PointStruct) bool {
		return Matches(filter, id, point.GetPayload())
	})
	return finished(r.GetWait()), nil
}

// Scroll lists points by id.
func (p *points) Scroll(_ context.Context, r *qdrant.ScrollPoints) (*qdrant.ScrollResponse, error) {
	p.rows.mu.RLock()
	defer p.rows.mu.RUnlock()
	found, err := p.rows.of(r.GetCollectionName())
	if err != nil {
		return nil, err
	}
	if err := found.within(uint64(r.GetLimit()), r.GetFilter()); err != nil {
		return nil, err
	}
	answer := &qdrant.ScrollResponse{}
	for _, point := range found.read(r.GetReadConsistency()) {
		id := point.GetId().GetUuid()
		if id < r.GetOffset().GetUuid() || !Matches(r.GetFilter(), id, point.GetPayload()) {
			continue
		}
		if uint32(len(answer.GetResult())) == r.GetLimit() {
			answer.NextPageOffset = point.GetId()
			break
		}
		answer.Result = append(answer.Result, &qdrant.RetrievedPoint{Id: point.GetId(), Payload: included(point, r.GetWithPayload())})
	}
	return answer, nil
}

func (c *collection) within(limit uint64, filter *qdrant.Filter) error {
	if most := c.made.GetStrictModeConfig().MaxQueryLimit; most != nil && limit > uint64(*most) {
		return status.Error(codes.InvalidArgument, "Forbidden: Limit exceeded")
	}
	return c.allows(filter, false)
}

// QueryBatch answers several queries.
func (p *points) QueryBatch(_ context.Context, r *qdrant.QueryBatchPoints) (*qdrant.QueryBatchResponse, error) {
	p.rows.mu.RLock()
	defer p.rows.mu.RUnlock()
	answer := &qdrant.QueryBatchResponse{}
	for _, query := range r.GetQueryPoints() {
		found, err := p.rows.of(r.GetCollectionName())
		if err != nil {
			return nil, err
		}
		if err := found.within(query.GetLimit(), query.GetFilter()); err != nil {
			return nil, err
		}
		hits, err := found.query(query)
		if err != nil {
			return nil, err
		}
		answer.Result = append(answer.Result, &qdrant.BatchResult{Result: hits})
	}
	return answer, nil
}

// query compares every point that the filter lets through. Equal scores come in no
// order that anybody can rely on: here the ids backwards.
func (c *collection) query(query *qdrant.QueryPoints) (hits []*qdrant.ScoredPoint, err error) {
	nearest := query.GetQuery().GetNearest()
	params := c.made.GetVectorsConfig().GetParamsMap().GetMap()[query.GetUsing()]
	if nearest.GetDense() != nil && uint64(len(nearest.GetDense().GetData())) != params.GetSize() {
		return nil, status.Error(codes.InvalidArgument, "Wrong input: Vector dimension error")
	}
	for _, point := range c.read(query.GetReadConsistency()) {
		vector := point.GetVectors().GetVectors().GetVectors()[query.GetUsing()]
		if vector == nil || !Matches(query.GetFilter(), point.GetId().GetUuid(), point.GetPayload()) {
			continue
		}
		score, meets := product(nearest, vector)
		if meets {
			hits = append(hits, &qdrant.ScoredPoint{Id: point.GetId(), Score: score, Payload: included(point, query.GetWithPayload())})
		}
	}
	slices.SortFunc(hits, func(a, b *qdrant.ScoredPoint) int {
		return cmp.Or(cmp.Compare(b.GetScore(), a.GetScore()), cmp.Compare(b.GetId().GetUuid(), a.GetId().GetUuid()))
	})
	return hits[:min(uint64(len(hits)), query.GetLimit())], nil
}

// product is the score; a sparse vector that shares no index with the query has
// none.
func product(query *qdrant.VectorInput, vector *qdrant.Vector) (score float32, meets bool) {
	if dense := query.GetDense().GetData(); dense != nil {
		for i, x := range dense {
			score += x * vector.GetDense().GetData()[i]
		}
		return score, true
	}
	for i, index := range query.GetSparse().GetIndices() {
		if at := slices.Index(vector.GetSparse().GetIndices(), index); at >= 0 {
			score += query.GetSparse().GetValues()[i] * vector.GetSparse().GetValues()[at]
			meets = true
		}
	}
	return score, meets
}

func included(point *qdrant.PointStruct, with *qdrant.WithPayloadSelector) map[string]*qdrant.Value {
	payload := map[string]*qdrant.Value{}
	for _, field := range with.GetInclude().GetFields() {
		if value, ok := point.GetPayload()[field]; ok {
			payload[field] = value
		}
	}
	return payload
}

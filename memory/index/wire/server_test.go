package wire_test

import (
	"context"
	"testing"

	"github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"gantry.dev/memory/index/wire"
)

func dial(t *testing.T, server *wire.Server) *qdrant.GrpcClient {
	connection, err := grpc.NewClient(server.URL()[len("http://"):], grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close()) })
	return qdrant.NewGrpcClientFromConn(connection)
}

// Whatever the double does not read it does not answer: calls, fields, and fields
// that its stubs do not even know.
func TestWhatTheDoubleDoesNotKnowIsUnimplemented(t *testing.T) {
	client := dial(t, wire.Start(t))
	points := client.Points()
	unknown := &qdrant.QueryBatchPoints{CollectionName: "c"}
	unknown.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 900, protowire.VarintType), 1))
	query := func(change func(*qdrant.QueryPoints)) func(context.Context) error {
		asked := &qdrant.QueryPoints{CollectionName: "c", Query: qdrant.NewQuery(1)}
		change(asked)
		return func(ctx context.Context) error {
			_, err := points.QueryBatch(ctx, &qdrant.QueryBatchPoints{CollectionName: "c", QueryPoints: []*qdrant.QueryPoints{asked}})
			return err
		}
	}
	for name, call := range map[string]func(context.Context) error{
		"another call": func(ctx context.Context) error {
			_, err := points.Count(ctx, &qdrant.CountPoints{CollectionName: "c"})
			return err
		},
		"a search of old":  func(ctx context.Context) error { _, err := points.Search(ctx, &qdrant.SearchPoints{}); return err },
		"an unknown field": func(ctx context.Context) error { _, err := points.QueryBatch(ctx, unknown); return err },
		"a condition in should": query(func(q *qdrant.QueryPoints) {
			q.Filter = &qdrant.Filter{Should: []*qdrant.Condition{qdrant.NewMatchKeyword("a", "b")}}
		}),
		"min_should": query(func(q *qdrant.QueryPoints) { q.Filter = &qdrant.Filter{MinShould: &qdrant.MinShould{}} }),
		"a nested filter": query(func(q *qdrant.QueryPoints) {
			q.Filter = must(qdrant.NewFilterAsCondition(&qdrant.Filter{}))
		}),
		"match except": query(func(q *qdrant.QueryPoints) { q.Filter = must(qdrant.NewMatchExcept("a", "b")) }),
		"match text":   query(func(q *qdrant.QueryPoints) { q.Filter = must(qdrant.NewMatchText("a", "b")) }),
		"a prefetch":   query(func(q *qdrant.QueryPoints) { q.Prefetch = []*qdrant.PrefetchQuery{{}} }),
		"a fusion":     query(func(q *qdrant.QueryPoints) { q.Query = qdrant.NewQueryFusion(qdrant.Fusion_RRF) }),
		"quantization": query(func(q *qdrant.QueryPoints) {
			q.Params = &qdrant.SearchParams{Quantization: &qdrant.QuantizationSearchParams{}}
		}),
		"a threshold":    query(func(q *qdrant.QueryPoints) { q.ScoreThreshold = new(float32(1)) }),
		"other payload":  query(func(q *qdrant.QueryPoints) { q.WithPayload = qdrant.NewWithPayload(true) }),
		"chosen vectors": query(func(q *qdrant.QueryPoints) { q.WithVectors = qdrant.NewWithVectorsInclude("dense") }),
		"deletion by id": func(ctx context.Context) error {
			_, err := points.Delete(ctx, &qdrant.DeletePoints{Points: qdrant.NewPointsSelector(qdrant.NewID(id))})
			return err
		},
		"a modifier": func(ctx context.Context) error {
			_, err := client.Collections().Create(ctx, &qdrant.CreateCollection{
				SparseVectorsConfig: qdrant.NewSparseVectorsConfig(map[string]*qdrant.SparseVectorParams{"lex": {Modifier: new(qdrant.Modifier_Idf)}}),
			})
			return err
		},
	} {
		require.Equal(t, codes.Unimplemented, status.Code(call(t.Context())), name)
	}
}

// What strict mode refuses on the server is refused here.
func TestStrictModeRefusesWhatHasNoIndex(t *testing.T) {
	client := dial(t, wire.Start(t))
	_, err := client.Collections().Create(t.Context(), &qdrant.CreateCollection{
		CollectionName: "c",
		VectorsConfig:  qdrant.NewVectorsConfigMap(map[string]*qdrant.VectorParams{"dense": {Size: 1}}),
		StrictModeConfig: &qdrant.StrictModeConfig{
			Enabled: new(true), UnindexedFilteringRetrieve: new(false), UnindexedFilteringUpdate: new(false),
			MaxQueryLimit: new(uint32(10)), ConditionMaxSize: new(uint64(2)), FilterMaxConditions: new(uint64(2)),
		},
	})
	require.NoError(t, err)
	scroll := func(limit uint32, filter *qdrant.Filter) codes.Code {
		_, err := client.Points().Scroll(t.Context(), &qdrant.ScrollPoints{CollectionName: "c", Filter: filter, Limit: &limit})
		return status.Code(err)
	}
	keyword := qdrant.NewMatchKeywords("k", "a", "b")
	require.Equal(t, codes.OK, scroll(10, nil))
	require.Equal(t, codes.InvalidArgument, scroll(11, nil))
	require.Equal(t, codes.InvalidArgument, scroll(10, must(keyword)))
	_, err = client.Points().CreateFieldIndex(t.Context(), &qdrant.CreateFieldIndexCollection{
		CollectionName: "c", FieldName: "k", FieldIndexParams: qdrant.NewPayloadIndexParamsKeyword(&qdrant.KeywordIndexParams{}),
	})
	require.NoError(t, err)
	require.Equal(t, codes.OK, scroll(10, must(keyword)))
	require.Equal(t, codes.InvalidArgument, scroll(10, must(qdrant.NewMatchKeywords("k", "a", "b", "c"))))
	require.Equal(t, codes.InvalidArgument, scroll(10, must(keyword, keyword, keyword)))
	require.Equal(t, codes.InvalidArgument, scroll(10, must(qdrant.NewRange("k", &qdrant.Range{Gt: new(1.0)}))), "a keyword's index tells no range")
	_, err = client.Points().Delete(t.Context(), &qdrant.DeletePoints{CollectionName: "c", Points: qdrant.NewPointsSelectorFilter(must(qdrant.NewMatchInt("n", 1)))})
	require.Equal(t, codes.InvalidArgument, status.Code(err))
}

func TestACallWithoutTheKeyIsRefused(t *testing.T) {
	server := wire.Start(t)
	server.Key = "right"
	client := dial(t, server)
	_, err := client.Qdrant().HealthCheck(t.Context(), &qdrant.HealthCheckRequest{})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	with := metadata.AppendToOutgoingContext(t.Context(), "api-key", "right")
	_, err = client.Qdrant().HealthCheck(with, &qdrant.HealthCheckRequest{})
	require.NoError(t, err)
}

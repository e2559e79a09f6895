package qdrant_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	client "github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"gantry.dev/memory/index"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/view"
)

func TestAConfigurationSaysWhatIsWrongAndNotTheKey(t *testing.T) {
	for url, fine := range map[string]bool{
		"https://qdrant.example.org:6334": true,
		"https://qdrant.example.org":      true,
		"http://127.0.0.1:6334":           true,
		"http://127.9.9.9:6334":           true,
		"http://[::1]:6334":               true,
		"http://localhost:6334":           true,
		"http://qdrant.example.org:6334":  false,
		"http://10.0.0.7:6334":            false,
		"http://localhost.example.org":    false,
		"http://[fe80::1]:6334":           false,
	} {
		err := qdrant.Config{URL: url, APIKey: "s3cret"}.Validate()
		require.Equal(t, fine, err == nil, url)
		require.NoError(t, qdrant.Config{URL: url}.Validate(), url)
		if err != nil {
			require.NotContains(t, err.Error(), "s3cret")
		}
	}
	for _, url := range []string{"", "qdrant:6334", "tcp://a:1", "http://", "http://user:s3cret@127.0.0.1", "http://a:0", "http://a:70000", "http://a?key=s3cret", "http://a/path", "http://a:s3cret", ":\x7f s3cret"} {
		err := qdrant.Config{URL: url}.Validate()
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "s3cret")
		_, err = qdrant.New(qdrant.Config{URL: url})
		require.Error(t, err, url)
	}
	require.Error(t, qdrant.Config{URL: "http://a", Timeout: -1}.Validate())
	require.Error(t, qdrant.Config{URL: "http://a", Prefix: "a@b"}.Validate())

	config := qdrant.Config{URL: "https://a", APIKey: "s3cret"}
	written, err := json.Marshal(struct{ Key qdrant.Key }{config.APIKey})
	require.NoError(t, err)
	var logged bytes.Buffer
	slog.New(slog.NewTextHandler(&logged, nil)).Info("config", "key", config.APIKey, "config", config)
	for _, shown := range []string{string(written), logged.String(), fmt.Sprint(config), fmt.Sprintf("%+v %#v %s %q", config, config, config.APIKey, config.APIKey)} {
		require.NotContains(t, shown, "s3cret")
	}
}

// The key is sent and shown nowhere; a wrong one is a failure, not an answer.
func TestTheKeyIsInNoError(t *testing.T) {
	server := wire.Start(t)
	server.Key = "right-s3cret"
	right := opened(t, qdrant.Config{URL: server.URL(), APIKey: "right-s3cret"})
	require.NoError(t, right.Health(t.Context()))
	wrong := opened(t, qdrant.Config{URL: server.URL(), APIKey: "wrong-s3cret"})
	err := wrong.Health(t.Context())
	require.ErrorIs(t, err, index.ErrUnavailable)
	require.NotContains(t, err.Error(), "s3cret")
	require.Contains(t, err.Error(), "Unauthenticated")

	asked := open(t, right)
	for _, code := range []codes.Code{codes.InvalidArgument, codes.Internal, codes.PermissionDenied} {
		server.Inject(wire.Fails("", 0, code, "api-key right-s3cret, person:ruth.abelson said so"))
		for way, err := range everyWay(t.Context(), right, asked) {
			require.ErrorIs(t, err, index.ErrUnavailable, way)
			require.NotContains(t, err.Error(), "s3cret", way)
			require.NotContains(t, err.Error(), "ruth", way)
		}
		server.Heal()
		right = opened(t, qdrant.Config{URL: server.URL(), APIKey: "right-s3cret"})
		asked = open(t, right)
	}
	server.RequireNowhere(t, "s3cret")
}

func TestTheVersionOfTheServerIsLoggedOnce(t *testing.T) {
	for version, level := range map[string]string{"1.17.1": "INFO", "v1.19.0": "INFO", "1.9.2": "WARN", "2.0.0": "WARN", "dev": "WARN"} {
		server := wire.Start(t)
		server.Version = version
		var logged bytes.Buffer
		indexes := opened(t, qdrant.Config{URL: server.URL(), Logger: slog.New(slog.NewTextHandler(&logged, nil))})
		for range 3 {
			open(t, indexes)
		}
		require.Equal(t, 1, strings.Count(logged.String(), "\n"), logged.String())
		require.Contains(t, logged.String(), "level="+level)
		require.Contains(t, logged.String(), "version="+version)
	}
}

// A collection is made so that the server refuses what the index never does.
func TestHowACollectionIsMade(t *testing.T) {
	server := wire.Start(t)
	open(t, opened(t, qdrant.Config{URL: server.URL(), Prefix: "prod", Replicas: 3}))
	requests := server.Requests("Create")
	require.Len(t, requests, 1)
	made := requests[0].Message.(*client.CreateCollection)
	require.Equal(t, "prod_faults-2-1@1@", made.GetCollectionName())
	dense := made.GetVectorsConfig().GetParamsMap().GetMap()["dense"]
	require.Equal(t, client.Distance_Dot, dense.GetDistance())
	require.Zero(t, dense.GetHnswConfig().GetM())
	require.NotNil(t, dense.GetHnswConfig().M)
	require.Nil(t, made.GetQuantizationConfig())
	require.Nil(t, made.GetSparseVectorsConfig().GetMap()["lex"].Modifier)
	require.EqualValues(t, 3, made.GetWriteConsistencyFactor())
	strict := made.GetStrictModeConfig()
	require.True(t, strict.GetEnabled())
	require.NotNil(t, strict.UnindexedFilteringRetrieve)
	require.False(t, strict.GetUnindexedFilteringRetrieve())
	require.NotNil(t, strict.UnindexedFilteringUpdate)
	require.False(t, strict.GetUnindexedFilteringUpdate())
	require.True(t, strict.GetSearchAllowExact())
	tenants := 0
	for _, request := range server.Requests("CreateFieldIndex") {
		field := request.Message.(*client.CreateFieldIndexCollection)
		require.True(t, field.GetWait())
		if field.GetFieldIndexParams().GetKeywordIndexParams().GetIsTenant() {
			require.Equal(t, "organisation", field.GetFieldName())
			tenants++
		}
	}
	require.Equal(t, 1, tenants)
}

// Nothing of an item but ids, label sets, vectors and weights crosses the wire; the
// payload has seven fields and no other.
func TestNoTextIsInAnyPayload(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s", "r")}))
	require.Equal(t, []string{"a"}, items(t, asked))
	puts := server.Requests("Upsert")
	require.NotEmpty(t, puts)
	for _, request := range puts {
		for _, point := range request.Message.(*client.UpsertPoints).GetPoints() {
			require.Len(t, point.GetPayload(), 7)
			for _, field := range []string{"organisation", "space", "set", "omit", "item", "version", "expires"} {
				require.Contains(t, point.GetPayload(), field)
			}
			require.LessOrEqual(t, len(point.GetVectors().GetVectors().GetVectors()), 2)
		}
	}
	require.Positive(t, server.RequireGuarded(t))
}

// Where nothing may be seen nothing is sent: an empty list is no condition.
func TestAnEmptyListIsNeverSent(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	before := len(server.Requests(""))
	for _, narrow := range []func(*index.Query){
		func(q *index.Query) { q.Spaces = nil },
		func(q *index.Query) { q.Sets = []string{} },
		func(q *index.Query) { q.Organisation = "" },
		func(q *index.Query) { q.Vector, q.Terms = nil, nil },
	} {
		narrowed := query()
		narrow(&narrowed)
		found, err := asked.Search(t.Context(), narrowed)
		require.NoError(t, err)
		require.Empty(t, found)
	}
	_, err := asked.HeldOf(t.Context(), "acme", nil)
	require.NoError(t, err)
	require.NoError(t, asked.Apply(t.Context(), nil))
	require.Len(t, server.Requests(""), before)
}

// More equal scores than fit the first question are asked for again, until the
// items at the cut are the first of all; the other part is not asked again.
func TestTiesAtTheCutAreSettled(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	var states []index.State
	for i := range 700 {
		made := state(fmt.Sprintf("%03d", (i*389)%700), 1, "s")
		made.Points[0].Terms[0].Weight = float32(1 + i)
		states = append(states, made)
	}
	require.NoError(t, asked.Apply(t.Context(), states))
	found, err := asked.Search(t.Context(), query())
	require.NoError(t, err)
	for i, hit := range found.Dense {
		require.Equal(t, fmt.Sprintf("%03d", i), hit.Item)
	}
	require.Len(t, found.Dense, 10)
	require.Equal(t, 700.0, found.Lexical[0].Score)
	var asks []int
	for _, request := range server.Requests("QueryBatch") {
		asks = append(asks, len(request.Message.(*client.QueryBatchPoints).GetQueryPoints()))
	}
	require.Equal(t, []int{2, 1, 1, 1}, asks)
}

// Of more equal scores than are ever asked for none counts: which of them came is
// chance. What scores better stands.
func TestTiesWithoutEndCountForNothing(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	states := make([]index.State, 16_400)
	for i := range states {
		states[i] = state(fmt.Sprintf("%05d", i), 1, "s")
		states[i].Points[0].Vector = []float32{0, 1}
		states[i].Points[0].Terms = nil
	}
	states[77].Points[0].Vector = []float32{1, 0}
	require.NoError(t, asked.Apply(t.Context(), states))
	found, err := asked.Search(t.Context(), query())
	require.NoError(t, err)
	require.Equal(t, []index.Hit{{Ref: index.Ref{Item: "00077", Version: 1, Set: "s"}, Score: 1}}, found.Dense)

	refs, err := asked.Held(t.Context(), "acme", "16379", 100) // a walk over several pages
	require.NoError(t, err)
	require.Len(t, refs, 20)
	require.Equal(t, "16399", refs[19].Item)
}

// Many states are sent in few calls, each within what strict mode lets through, and
// a state is never cut.
func TestManyStatesAreFewCalls(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	var states []index.State
	for i := range 1_000 {
		states = append(states, state(fmt.Sprintf("%04d", i), 1, "s", "r", "q"))
	}
	other := state("x", 1, "s")
	other.Organisation = "emca"
	require.NoError(t, asked.Apply(t.Context(), append(states, other)))
	require.Len(t, server.Requests("Upsert"), 13)
	require.Len(t, server.Requests("Delete"), 13)
	refs, err := asked.Held(t.Context(), "acme", "", 10_000)
	require.NoError(t, err)
	require.Len(t, refs, 3_000)
	erased := make([]index.State, len(states))
	names := make([]string, len(states))
	for i, s := range states {
		erased[i], names[i] = state(s.Item, 2), s.Item
	}
	require.NoError(t, asked.Apply(t.Context(), erased))
	refs, err = asked.HeldOf(t.Context(), "acme", names)
	require.NoError(t, err)
	require.Empty(t, refs)
	server.RequireGuarded(t)
}

// An answer may be larger than what gRPC takes unless told otherwise.
func TestALargeAnswerIsTaken(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	long := strings.Repeat("x", 20_000)
	var states []index.State
	for i := range 300 {
		states = append(states, state(fmt.Sprint(long, i), 1, "s"))
	}
	require.NoError(t, asked.Apply(t.Context(), states))
	refs, err := asked.Held(t.Context(), "acme", "", 10_000)
	require.NoError(t, err)
	require.Len(t, refs, 300)
}

// A rebuild that ended before its old collection was gone is tidied up when the
// index is opened; one that is under way is not.
func TestOldCollectionsGoWhenTheIndexIsOpened(t *testing.T) {
	server := wire.Start(t)
	indexes := opened(t, qdrant.Config{URL: server.URL()})
	asked := open(t, indexes)
	require.NoError(t, asked.Apply(t.Context(), []index.State{state("old", 1, "s")}))
	abandoned, _, err := indexes.Fresh(t.Context(), space)
	require.NoError(t, err)
	require.NoError(t, abandoned.Apply(t.Context(), []index.State{state("new", 1, "s")}))
	open(t, indexes) // another process begins meanwhile
	next, swap, err := indexes.Fresh(t.Context(), space)
	require.NoError(t, err)
	require.ErrorIs(t, abandoned.Apply(t.Context(), []index.State{state("new", 1, "s")}), index.ErrUnavailable, "it was given up")
	require.NoError(t, next.Apply(t.Context(), []index.State{state("new", 1, "s")}))
	server.Inject(wire.Fails("Delete", 0, codes.Internal, "disk"))
	require.ErrorIs(t, swap(t.Context()), index.ErrUnavailable)
	server.Heal()
	require.Equal(t, []string{"new"}, items(t, asked), "the switch is made")
	open(t, indexes)
	listed, err := client.NewClient(clientConfig(t, server))
	require.NoError(t, err)
	defer listed.Close()
	names, err := listed.ListCollections(t.Context())
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.NoError(t, indexes.Drop(t.Context(), space))
	names, err = listed.ListCollections(t.Context())
	require.NoError(t, err)
	require.Empty(t, names)
}

func clientConfig(t *testing.T, server *wire.Server) *client.Config {
	var host string
	var port int
	_, err := fmt.Sscanf(strings.Replace(server.URL(), "http://127.0.0.1:", "127.0.0.1 ", 1), "%s %d", &host, &port)
	require.NoError(t, err)
	return &client.Config{Host: host, Port: port, SkipCompatibilityCheck: true, PoolSize: 1}
}

// Names that end alike, or begin alike, are other vector spaces.
func TestVectorSpacesDoNotTouchEachOther(t *testing.T) {
	server := wire.Start(t)
	indexes := opened(t, qdrant.Config{URL: server.URL()})
	longer := space
	longer.ID += "1"
	asked, beside := open(t, indexes), openSpace(t, indexes, longer)
	require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))
	require.NoError(t, beside.Apply(t.Context(), []index.State{state("b", 1, "s")}))
	require.NoError(t, indexes.Drop(t.Context(), space))
	require.Equal(t, []string{"b"}, items(t, beside))
	_, err := asked.Search(t.Context(), query())
	require.ErrorIs(t, err, index.ErrUnavailable, "dropped is not empty")
	other := opened(t, qdrant.Config{URL: server.URL(), Prefix: "gantry"})
	require.Empty(t, items(t, openSpace(t, other, longer)))
}

func openSpace(t *testing.T, indexes *qdrant.Indexes, space index.VectorSpace) index.Index {
	asked, err := indexes.Open(t.Context(), space)
	require.NoError(t, err)
	return asked
}

// Spaces are matched whole, by the keyword that was given.
func TestEveryConditionIsSent(t *testing.T) {
	server := wire.Start(t)
	asked := open(t, opened(t, qdrant.Config{URL: server.URL()}))
	wide := query()
	wide.Spaces, wide.Sets, wide.NowMs = []view.Space{"person:ruth", view.Organisation}, []string{"s", "r"}, 1_700_000_000_123
	_, err := asked.Search(t.Context(), wide)
	require.NoError(t, err)
	sent := server.Requests("QueryBatch")[0].Message.(*client.QueryBatchPoints).GetQueryPoints()[0].GetFilter()
	require.Equal(t, "acme", sent.GetMust()[0].GetField().GetMatch().GetKeyword())
	require.Equal(t, []string{"person:ruth", "organisation"}, sent.GetMust()[1].GetField().GetMatch().GetKeywords().GetStrings())
	require.Equal(t, []string{"s", "r"}, sent.GetMust()[2].GetField().GetMatch().GetKeywords().GetStrings())
	require.Equal(t, 1_700_000_000_123.0, sent.GetMust()[3].GetField().GetRange().GetGt())
	require.Equal(t, []string{"s", "r"}, sent.GetMustNot()[0].GetField().GetMatch().GetKeywords().GetStrings())
}

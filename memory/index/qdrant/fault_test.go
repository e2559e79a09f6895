package qdrant_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/qdrant/go-client/qdrant"
	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/test/bufconn"

	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

var space = index.VectorSpace{ID: "faults-2-1", Model: "faults", Dim: 2}

// near is a server at the other end of a pipe, so that its time is the test's.
type near struct {
	server *wire.Server
	at     atomic.Pointer[bufconn.Listener]
	dials  atomic.Int64
}

func (n *near) up() {
	listener := bufconn.Listen(1 << 20)
	n.at.Store(listener)
	n.server.Serve(listener)
}

func (n *near) dial(ctx context.Context, _ string) (net.Conn, error) {
	listener := n.at.Load()
	if listener == nil {
		return nil, errors.New("connection refused")
	}
	n.dials.Add(1)
	return listener.DialContext(ctx)
}

// inBubble runs a test with a server and an index in a time of their own, in which
// waiting takes none.
func inBubble(t *testing.T, try func(t *testing.T, n *near, indexes *qdrant.Indexes)) {
	synctest.Test(t, func(t *testing.T) {
		n := &near{server: wire.New()}
		indexes, err := qdrant.New(qdrant.Config{URL: "http://127.0.0.1:6334", Dial: n.dial, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer n.server.Stop()
		defer indexes.Close()
		try(t, n, indexes)
	})
}

func state(item string, version uint64, sets ...string) index.State {
	made := index.State{Organisation: "acme", Item: item, Version: version, Space: view.Organisation}
	for _, set := range sets {
		made.Points = append(made.Points, index.Point{Set: set, Vector: []float32{1, 0}, Terms: rank.Terms{{Hash: 7, Weight: 1}}})
	}
	return made
}

func query() index.Query {
	return index.Query{
		Organisation: "acme", Spaces: []view.Space{view.Organisation}, Sets: []string{"s"},
		Vector: []float32{1, 0}, Terms: rank.Terms{{Hash: 7, Weight: 1}}, NowMs: 1, Limit: 10,
	}
}

// items are those that both parts find.
func items(t *testing.T, asked index.Index) []string {
	t.Helper()
	found, err := asked.Search(t.Context(), query())
	require.NoError(t, err)
	names := []string{}
	for _, hit := range found.Dense {
		names = append(names, hit.Item)
	}
	require.Len(t, found.Lexical, len(names))
	return names
}

func open(t *testing.T, indexes *qdrant.Indexes) index.Index {
	t.Helper()
	asked, err := indexes.Open(t.Context(), space)
	require.NoError(t, err)
	return asked
}

// everyWay asks in every way there is, and returns the errors by name.
func everyWay(ctx context.Context, indexes *qdrant.Indexes, asked index.Index) map[string]error {
	failures := map[string]error{}
	_, failures["search"] = asked.Search(ctx, query())
	_, failures["held"] = asked.Held(ctx, "acme", "", 10)
	_, failures["heldOf"] = asked.HeldOf(ctx, "acme", []string{"a"})
	failures["apply"] = asked.Apply(ctx, []index.State{state("a", 2, "s")})
	failures["erase"] = asked.Apply(ctx, []index.State{state("a", 2)})
	_, failures["open"] = indexes.Open(ctx, space)
	_, _, failures["fresh"] = indexes.Fresh(ctx, space)
	failures["drop"] = indexes.Drop(ctx, space)
	failures["health"] = indexes.Health(ctx)
	return failures
}

func TestFault_C13_AServerThatIsDownIsNoEmptyAnswer(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		_, err := indexes.Open(t.Context(), space)
		require.ErrorIs(t, err, index.ErrUnavailable, "it was never there")
		n.up()
		time.Sleep(time.Minute)
		asked := open(t, indexes)
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))

		n.server.Stop()
		for way, err := range everyWay(t.Context(), indexes, asked) {
			require.ErrorIs(t, err, index.ErrUnavailable, way)
		}
		found, err := asked.Search(t.Context(), query())
		require.ErrorIs(t, err, index.ErrUnavailable)
		require.Empty(t, found)

		n.up()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, items(t, asked), "the same index goes on when the server is back")
	})
}

func TestFault_C14_ASlowServerIsWaitedForTwoSecondsAndThenLeftAlone(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))
		answer := make(chan struct{})
		time.AfterFunc(30*time.Second, func() { close(answer) })
		n.server.Inject(wire.Slow("QueryBatch", 0, answer))

		begun := time.Now()
		_, err := asked.Search(t.Context(), query())
		require.ErrorIs(t, err, index.ErrUnavailable)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(begun))

		// Others go on beside those who wait.
		var waiting conc.WaitGroup
		for range 4 {
			waiting.Go(func() { _, _ = asked.Search(t.Context(), query()) })
		}
		synctest.Wait()
		begun = time.Now()
		refs, err := asked.HeldOf(t.Context(), "acme", []string{"a"})
		require.NoError(t, err)
		require.Len(t, refs, 1)
		inside, err := flat.New().Open(t.Context(), space)
		require.NoError(t, err)
		require.NoError(t, inside.Apply(t.Context(), []index.State{state("a", 1, "s")}))
		require.Equal(t, []string{"a"}, items(t, inside))
		require.Zero(t, time.Since(begun))
		waiting.Wait()

		// Five of the last ten failed: nobody waits any more, and the server is not asked.
		sent := len(n.server.Requests(""))
		begun = time.Now()
		for range 100 {
			_, err := asked.Search(t.Context(), query())
			require.ErrorIs(t, err, index.ErrUnavailable)
		}
		require.Zero(t, time.Since(begun))
		require.Len(t, n.server.Requests(""), sent)

		// After a rest one call tries it; while it does, the others do not wait.
		time.Sleep(6 * time.Second)
		begun = time.Now()
		for range 10 {
			_, err := asked.Search(t.Context(), query())
			require.ErrorIs(t, err, index.ErrUnavailable)
		}
		require.Equal(t, 2*time.Second, time.Since(begun))
		require.Len(t, n.server.Requests(""), sent+1)

		time.Sleep(30 * time.Second)
		require.Equal(t, []string{"a"}, items(t, asked))
	})
}

// A port behind which nobody speaks, and one that takes what is said and never
// answers.
func TestASilentServerIsWaitedForTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ends []net.Conn
		indexes, err := qdrant.New(qdrant.Config{
			URL: "http://127.0.0.1:6334",
			Dial: func(context.Context, string) (net.Conn, error) {
				here, there := net.Pipe()
				ends = append(ends, there)
				return here, nil
			},
		})
		require.NoError(t, err)
		begun := time.Now()
		require.ErrorIs(t, indexes.Health(t.Context()), index.ErrUnavailable)
		require.Equal(t, 2*time.Second, time.Since(begun))
		require.NoError(t, indexes.Close())
		for _, end := range ends {
			_ = end.Close()
		}
	})
}

// A collection may take longer to make than a question to answer, and not for ever.
func TestMakingACollectionMayTakeTenSeconds(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		for _, method := range []string{"Create", "CreateFieldIndex", "UpdateAliases"} {
			made := make(chan struct{})
			n.server.Inject(wire.Slow(method, 1, made))
			time.AfterFunc(9*time.Second, func() { close(made) })
			require.NoError(t, indexes.Drop(t.Context(), space))
			open(t, indexes)
		}
		require.NoError(t, indexes.Drop(t.Context(), space))
		n.server.Inject(wire.Slow("Create", 1, nil))
		begun := time.Now()
		_, err := indexes.Open(t.Context(), space)
		require.ErrorIs(t, err, index.ErrUnavailable)
		require.Equal(t, 10*time.Second, time.Since(begun))
	})
}

// A client that is idle pings, and is not cut off for it.
func TestAnIdleConnectionStays(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))
		time.Sleep(20 * time.Minute)
		require.Equal(t, []string{"a"}, items(t, asked))
		require.EqualValues(t, 1, n.dials.Load())
	})
}

// What was not done is tried again, a few times and within the time of one call;
// what cannot be made good by waiting is not.
func TestACallIsTriedAgainWhereThatHelps(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		n.server.Inject(wire.Fails("Upsert", 1, codes.Unavailable, "leader changed"))
		n.server.Inject(wire.Exhausted("Upsert", 1, 1))
		begun := time.Now()
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))
		require.GreaterOrEqual(t, time.Since(begun), time.Second, "as long as the server asked for")
		require.Len(t, n.server.Requests("Upsert"), 3)

		for _, row := range []struct {
			fault    wire.Fault
			attempts int
		}{
			{wire.Fails("Upsert", 0, codes.Unavailable, "down"), 3},
			{wire.Exhausted("Upsert", 0, 60), 1},
			{wire.Fails("Upsert", 0, codes.ResourceExhausted, "message too large"), 1},
			{wire.Fails("Upsert", 0, codes.InvalidArgument, "wrong"), 1},
			{wire.Fails("Upsert", 0, codes.Internal, "broken"), 1},
		} {
			before := len(n.server.Requests("Upsert"))
			n.server.Inject(row.fault)
			begun := time.Now()
			require.ErrorIs(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}), index.ErrUnavailable)
			require.LessOrEqual(t, time.Since(begun), 2*time.Second)
			require.Len(t, n.server.Requests("Upsert"), before+row.attempts)
			n.server.Heal()
			time.Sleep(time.Minute)
			require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))
		}
	})
}

// Wrong questions are no reason to leave the server alone, nor is a caller that
// goes away.
func TestWhatIsTheCallersOwnDoesNotStopTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		n.server.Inject(wire.Fails("Upsert", 0, codes.InvalidArgument, "wrong"))
		n.server.Inject(wire.Slow("Scroll", 0, nil))
		for range 20 {
			require.Error(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}))
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			_, err := asked.Held(ctx, "acme", "", 1)
			require.ErrorIs(t, err, index.ErrUnavailable)
			require.ErrorIs(t, err, context.Canceled)
		}
		require.Empty(t, items(t, asked))
	})
}

// Taken is not done: an index says that it holds what it was given only when
// searches see it.
func TestWhatWasOnlyTakenIsNotDone(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		for _, method := range []string{"Upsert", "Delete"} {
			for _, status := range []client.UpdateStatus{
				client.UpdateStatus_Acknowledged, client.UpdateStatus_WaitTimeout,
				client.UpdateStatus_ClockRejected, client.UpdateStatus_UnknownUpdateStatus,
			} {
				n.server.Inject(wire.NotDone(method, 1, status))
				require.ErrorIs(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}), index.ErrUnavailable)
				time.Sleep(time.Minute)
			}
		}
		n.server.Inject(wire.NotDone("Delete", 1, client.UpdateStatus_Acknowledged))
		require.ErrorIs(t, asked.Apply(t.Context(), []index.State{state("a", 2)}), index.ErrUnavailable, "an erasure")
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 2)}))
		require.Empty(t, items(t, asked))
	})
}

// Lost answers and repeated deliveries change nothing: what is there is the state
// that was applied.
func TestLostAnswersAndRepeatsDoNoHarm(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		n.server.Inject(wire.Lost("", 1))
		n.server.Inject(wire.Lost("Create", 1))
		n.server.Inject(wire.Lost("CreateFieldIndex", 2))
		n.server.Inject(wire.Lost("UpdateAliases", 1))
		asked := open(t, indexes)
		n.server.Inject(wire.Lost("Upsert", 1))
		n.server.Inject(wire.Twice("Upsert", 1))
		n.server.Inject(wire.Lost("Delete", 1))
		n.server.Inject(wire.Twice("Delete", 1))
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s"), state("b", 1, "s")}))
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 2, "s"), state("b", 2)}))
		require.Equal(t, []string{"a"}, items(t, asked))
		refs, err := asked.Held(t.Context(), "acme", "", 10)
		require.NoError(t, err)
		require.Equal(t, []index.Ref{{Item: "a", Version: 2, Set: "s"}}, refs)
	})
}

// Two processes that open an index first make one between them, whichever of the
// two codes the server has for what is there already.
func TestWhatIsThereAlreadyIsUsed(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		for _, code := range []codes.Code{codes.AlreadyExists, codes.InvalidArgument} {
			n.server.Inject(wire.Fails("Create", 1, code, "it exists"))
			_, err := indexes.Open(t.Context(), space)
			require.ErrorIs(t, err, index.ErrUnavailable, "it says so, and it does not")
		}
		var opening conc.WaitGroup
		for range 4 {
			opening.Go(func() {
				asked, err := indexes.Open(t.Context(), space)
				if err == nil {
					err = asked.Apply(t.Context(), []index.State{state("a", 1, "s")})
				}
				require.NoError(t, err)
			})
		}
		opening.Wait()
		require.Equal(t, []string{"a"}, items(t, open(t, indexes)))
	})
}

// A change that was taken and comes after a later one, or after an erasure, puts
// back what was gone, under its own version: the store tells that it does not
// count, and whoever compares the index with the store finds it.
func TestWhatComesLateIsFoundAndTakenAway(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		signal, done := make(chan struct{}), make(chan struct{})
		n.server.Inject(wire.Late("Upsert", 1, signal, done))
		require.ErrorIs(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s")}), index.ErrUnavailable)
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 2, "s")}))
		close(signal)
		<-done
		found, err := asked.Search(t.Context(), query())
		require.NoError(t, err)
		require.Equal(t, []index.Hit{{Ref: index.Ref{Item: "a", Version: 2, Set: "s"}, Score: 1}}, found.Dense, "one view of an item, the newest")
		refs, err := asked.HeldOf(t.Context(), "acme", []string{"a"})
		require.NoError(t, err)
		require.Equal(t, []index.Ref{{Item: "a", Version: 1, Set: "s"}, {Item: "a", Version: 2, Set: "s"}}, refs)
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 3)}))
		refs, err = asked.HeldOf(t.Context(), "acme", []string{"a"})
		require.NoError(t, err)
		require.Empty(t, refs)
	})
}

// A replica that is behind gives what was erased and lacks what is new. Every hit
// says its version, so the store can tell; what proves an erasure asks all replicas.
func TestAReplicaThatIsBehindIsSeenToBe(t *testing.T) {
	inBubble(t, func(t *testing.T, n *near, indexes *qdrant.Indexes) {
		n.up()
		asked := open(t, indexes)
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 1, "s"), state("b", 1, "s")}))
		n.server.Lag()
		require.NoError(t, asked.Apply(t.Context(), []index.State{state("a", 2), state("b", 2, "s"), state("c", 1, "s")}))
		found, err := asked.Search(t.Context(), query())
		require.NoError(t, err)
		require.Equal(t, []index.Hit{
			{Ref: index.Ref{Item: "a", Version: 1, Set: "s"}, Score: 1},
			{Ref: index.Ref{Item: "b", Version: 1, Set: "s"}, Score: 1},
		}, found.Dense)
		_, err = asked.HeldOf(t.Context(), "acme", []string{"a"})
		require.NoError(t, err)
		scrolls := n.server.Requests("Scroll")
		asks := scrolls[len(scrolls)-1].Message.(*client.ScrollPoints).GetReadConsistency()
		require.Equal(t, client.NewReadConsistencyType(client.ReadConsistencyType_All).String(), asks.String())
		n.server.Heal()
		require.Equal(t, []string{"b", "c"}, items(t, asked))
	})
}

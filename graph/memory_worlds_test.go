package graph_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
)

// front serves one world after the other at one address.
type front struct {
	t        *testing.T
	url      string
	handler  atomic.Pointer[graph.Handler]
	private  ed25519.PrivateKey
	verifier *edge.Verifier
	asked    map[string]int // answers by what was asked and how it ended
}

func newFront(t *testing.T) *front {
	f := &front{t: t, asked: map[string]int{}, private: ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))}
	var err error
	f.verifier, err = edge.NewVerifier(f.private.Public().(ed25519.PublicKey), "https://issuer", "gantry", func() time.Time { return now })
	require.NoError(t, err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.handler.Load().ServeHTTP(w, r) }))
	t.Cleanup(server.Close)
	f.url = server.URL + "/graphql"
	return f
}

// followed is a brain whose changes can be asked for.
type followed interface {
	memory.Brain
	io.Closer
	changed() []string
}

// open puts a world behind the interface. Whose answers are compared asks by
// HTTP and follows memory there; the others give their commands directly.
func (f *front) open(seams memorytest.Seams, behind followed) memory.Brain {
	w := newWorld(f.t)
	w.changes = make(chan []string)
	w.people = map[string]policy.Principal{}
	for _, name := range []string{"low", "high"} {
		w.people[name] = policy.Principal{ID: name, Kind: policy.Person, Organisation: seams.Reader.Organisation, Name: strings.ToUpper(name), Clearance: seams.Reader.Clearance}
	}
	c := &worldClient{front: f, behind: behind, world: w, seen: map[string]view.Reader{seams.Reader.Principal: seams.Reader}, low: seams.Reader.Principal}
	commands := 0
	handler, err := graph.NewHandler(graph.Config{Runs: w, Conversations: conversations{}, Inbox: w, Tools: w, Agents: organisation{}, Kills: kills{}, Budgets: budgets{},
		Live: live{w}, Trees: trees{w}, Directory: w, Verifier: f.verifier, Limits: edge.DefaultLimits(), Connections: edge.DefaultConnectionLimits(),
		NewID: func() string { commands++; return fmt.Sprint("command-", commands) }, Clock: func() time.Time { return now },
		Pulse: func() (<-chan time.Time, func()) { return nil, func() {} },
		Brain: behind, Readers: c, Documents: documents{}})
	require.NoError(f.t, err)
	f.handler.Store(handler)
	c.handler = handler
	c.follow()
	return c
}

// served memory: the service with the database that it keeps things in.
type kept struct {
	*memory.Service
	files  *journal.Store
	store  *store.Store
	cursor int64
	known  map[string]uint64
}

func (k *kept) Close() error { return k.files.Close() }

// changed are the ids of what was committed since it was last asked for, as the
// feed of a process tells them.
func (k *kept) changed() (ids []string) {
	changes, next, err := k.store.Changed(context.Background(), k.cursor)
	if err != nil {
		panic(err)
	}
	latest := map[string]uint64{}
	for _, change := range changes {
		latest[change.Item] = max(latest[change.Item], change.Version)
		if version, met := k.known[change.Item]; !met || version < change.Version {
			ids = append(ids, change.Item)
		}
	}
	k.cursor, k.known = next, latest
	return ids
}

var worldsKey = []byte("a master key that is 32 bytes !!")

var freshWorld = journaltest.Files(func(path string) error {
	s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + path, MasterKey: worldsKey})
	if err != nil {
		return err
	}
	return s.Close()
})

func keep(t *testing.T, seams memorytest.Seams) *kept {
	files, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshWorld(t), MasterKey: worldsKey, Clock: seams.NowMs, Between: journaltest.Hasty})
	require.NoError(t, err)
	databases := files.Databases()
	k := &kept{files: files}
	k.store, err = store.New(store.Config{Write: databases.Write, Read: databases.Read, MasterKey: worldsKey, Now: files.Now, NewID: seams.NewID})
	require.NoError(t, err)
	k.Service, err = memory.New(t.Context(), memory.Config{Store: k.store, Indexes: flat.New(), Embedders: []embed.Embedder{seams.Embedder},
		Rules: func(_ context.Context, organisation string) (memory.Rules, error) {
			return seams.Rules(organisation), nil
		}})
	require.NoError(t, err)
	return k
}

// No byte on the line moves with what is hidden: status, headers, bodies, etags,
// cursors, errors, and what memoryChanged tells.
func TestNoReaderCanTellWorldsApartByGraphQL(t *testing.T) {
	number := 240 // five pairs of each six worlds
	if testing.Short() {
		number = 24
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	f := newFront(t)
	memorytest.Check(t, func(seams memorytest.Seams) memory.Brain { return f.open(seams, keep(t, seams)) }, number)
	if testing.Short() {
		return
	}
	for _, wanted := range []string{"recall", "memoryItems", "nodes", "memoryItem: NOT_FOUND", "remember", "supersede", "consolidate", "forget", "promote",
		"remember: AUDIENCE", "remember: NOT_FOUND", "supersede: NOT_WHOLE", "supersede: NOT_ENTITLED", "promote: NOT_ENTITLED", "forget: NOT_FOUND",
		"told REMEMBERED", "told CHANGED", "told GONE"} {
		require.GreaterOrEqual(t, f.asked[wanted], 10, "%s: %v", wanted, f.asked)
	}
	t.Logf("asked by HTTP: %v", f.asked)
}

// wrongly is a reference memory with a planted fault.
type wrongly struct{ *memorytest.Brain }

func (wrongly) Close() error      { return nil }
func (wrongly) changed() []string { return nil }

// The interface hides no design that tells: every one is found by its bytes.
func TestWorldsRefuteWrongDesignsByGraphQL(t *testing.T) {
	f := newFront(t)
	found := 0
	for name, design := range memorytest.Designs() {
		t.Run(name, func(t *testing.T) {
			open := func(seams memorytest.Seams) memory.Brain {
				return f.open(seams, wrongly{memorytest.NewBrain(memorytest.Config{
					NowMs: seams.NowMs, NewID: seams.NewID, Rules: seams.Rules, Embedder: seams.Embedder, Wrong: design})})
			}
			for seed := uint64(1); seed <= 40; seed++ {
				_, difference, err := memorytest.Compare(t.Context(), open, seed)
				require.NoError(t, err)
				if difference != "" {
					require.NotContains(t, difference, "nothing else at all", "it is not the same twice")
					found++
					return
				}
			}
			t.Fatal("no world tells it from a right one")
		})
	}
	fmt.Printf("level: mutants designs that tell by GraphQL %d/%d\n", found, len(memorytest.Designs()))
}

// Reader answers as whoever asked last is known to the world.
func (c *worldClient) Reader(_ context.Context, caller graph.Caller, _ ...string) (view.Reader, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	reader, met := c.seen[caller.Principal.ID]
	if !met {
		return view.Reader{}, errors.New("nobody of this world")
	}
	return reader, nil
}

// follow subscribes to memory from the beginning of the world to its end.
func (c *worldClient) follow() {
	request := c.request(c.low, `subscription{memoryChanged{kind id item`+itemFields+`}}`, nil)
	request.Header.Set("Accept", "text/event-stream")
	response, err := http.DefaultClient.Do(request)
	require.NoError(c.front.t, err)
	c.stream, c.streamHead = response.Body, head(response)
	c.rings() // when what is there at first was looked at
}

// Told ends the stream and returns all that was on the line.
func (c *worldClient) Told() ([]byte, error) {
	close(c.world.changes)
	stream, err := io.ReadAll(c.stream)
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(&c.line, c.streamHead)
	for line := range bytes.Lines(stream) {
		if !bytes.HasPrefix(line, []byte(":")) { // a ping
			c.line.Write(line)
		}
	}
	for _, kind := range []string{"REMEMBERED", "CHANGED", "GONE"} {
		c.front.asked["told "+kind] += bytes.Count(stream, []byte(`"kind":"`+kind+`"`))
	}
	return c.line.Bytes(), nil
}

// Close ends the world.
func (c *worldClient) Close() error {
	_ = c.stream.Close()
	c.handler.Wait()
	return c.behind.Close()
}

// rings tells who follows what was changed, and returns when it was looked at:
// the second ring is taken when the first was answered.
func (c *worldClient) rings() {
	if ids := c.behind.changed(); len(ids) > 0 {
		c.world.changes <- ids
	}
	for range 2 {
		c.world.changes <- []string{}
	}
}

// head is the status and the headers of an answer, but for the moment.
func head(response *http.Response) string {
	response.Header.Del("Date")
	var out []string
	for name, values := range response.Header {
		out = append(out, fmt.Sprintf("%s: %q", name, values))
	}
	slices.Sort(out)
	return response.Status + " " + strings.Join(out, "; ")
}

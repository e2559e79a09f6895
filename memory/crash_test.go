package memory_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/qdrant/go-client/qdrant"
	"github.com/sourcegraph/conc/pool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"gantry.dev/memory"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
)

// shaky lets something happen around the next change of an index, between the
// reading of what is told and the telling.
type shaky struct {
	index.Indexes
	hook *hook
}

type hook struct {
	mu   sync.Mutex
	next func(apply func() error) error
}

type shakyIndex struct {
	index.Index
	hook *hook
}

func (s *shaky) Open(ctx context.Context, space index.VectorSpace) (index.Index, error) {
	inner, err := s.Indexes.Open(ctx, space)
	return shakyIndex{inner, s.hook}, err
}

func (s *hook) take(next func(apply func() error) error) (before func(apply func() error) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.next = s.next, next
	return before
}

func (s shakyIndex) Apply(ctx context.Context, states []index.State) error {
	apply := func() error { return s.Index.Apply(ctx, states) }
	if around := s.hook.take(nil); around != nil {
		return around(apply)
	}
	return apply()
}

// scenario is one seed's story: writes, relays, crashes and faults in any order.
type scenario struct {
	*house
	t       *testing.T
	random  *rand.Rand
	failing *failing
	hook    *hook        // of all processes
	server  *wire.Server // nil: the index is not in a server
	second  *memory.Service
	third   *memory.Service   // is at work while another stands still
	pairs   map[string]string // what was superseded, and by what
	written int
	faults  int
	late    []func() // what others overtook, to be let through
}

// kinds of index that a scenario may have.
const (
	inProcess = "flat, followed"
	relayedIn = "flat, relayed"
	inServer  = "qdrant"
)

func newScenario(t *testing.T, kind string, seed uint64) *scenario {
	s := &scenario{t: t, random: rand.New(rand.NewPCG(seed, 7)), failing: &failing{}, hook: &hook{}, pairs: map[string]string{}}
	s.failing.left.Store(-1)
	shared := flat.New()
	s.house = build(t, func(t *testing.T) (c journal.Config) {
		c = sqlite(t)
		c.Between = s.failing.between
		return c
	}, func(h *house) {
		inner := func() index.Indexes { return shared }
		switch kind {
		case inProcess:
			inner = func() index.Indexes { return flat.New() }
		case inServer:
			s.server = wire.Start(t)
			remote(t, s.server)(h)
			inner = h.index
		}
		h.relayed = kind != inProcess
		h.index = func() index.Indexes {
			return &shaky{inner(), s.hook}
		}
	})
	s.second, _ = s.process(t, s.files)
	s.third, _ = s.process(t, s.files)
	return s
}

var crashReaders = []view.Reader{person("bob"), person("ann", "hr"), person("olga", "hr")}

func (s *scenario) one(of []string) string {
	if len(of) == 0 {
		return "none"
	}
	return of[s.random.IntN(len(of))]
}

// alive are the ids that somebody with every right sees.
func (s *scenario) alive() (ids []string) {
	page, err := s.List(s.t.Context(), person("olga", "hr"), memory.Filter{}, "", 100)
	require.NoError(s.t, err)
	for _, item := range page.Items {
		ids = append(ids, item.ID)
	}
	return ids
}

func (s *scenario) service() *memory.Service {
	if s.random.IntN(2) == 0 {
		return s.second
	}
	return s.Service
}

// step does one thing, and may die over it.
func (s *scenario) step() {
	live := s.alive()
	if s.random.IntN(4) == 0 {
		s.failing.happened = s.random.IntN(2) == 0
		s.failing.left.Store(int64(s.random.IntN(45)))
	}
	err := s.act(live)
	s.failing.left.Store(-1)
	var refusal *memory.Refusal
	if err != nil && !errors.As(err, &refusal) && !errors.Is(err, store.ErrFailed) && !errors.Is(err, index.ErrUnavailable) && !errors.Is(err, errLine) {
		require.NoError(s.t, err)
	}
	if s.failing.triggered.Swap(false) {
		s.faults++
		s.Service, s.store = s.process(s.t, s.files) // it starts again
	}
}

func (s *scenario) act(live []string) error {
	ctx, olga, bob := s.t.Context(), person("olga", "hr"), person("bob")
	switch s.random.IntN(12) {
	case 0, 1, 2:
		_, err := s.service().Remember(ctx, olga, s.draft())
		return err
	case 3:
		old := s.one(live)
		remembered, err := s.service().Supersede(ctx, olga, old, s.draft())
		if err == nil {
			s.pairs[old] = remembered.Item.ID
		}
		return err
	case 4, 5:
		_, err := s.service().Forget(ctx, olga, memory.Selector{Items: []string{s.one(live)}})
		return err
	case 6:
		_, err := s.service().Declassify(ctx, olga, s.one(live), policy.NewLabels("hr"), "it is in the paper")
		return err
	case 7:
		s.clock.Add(int64(s.random.IntN(40_000)))
		_, err := s.service().Sweep(ctx)
		return err
	case 8:
		foreign := bob
		foreign.Organisation = "other"
		_, err := s.service().Remember(ctx, foreign, fact(fmt.Sprintf("Room %d of others is free.", s.written)))
		return err
	}
	s.disturb(live)
	_, err := s.service().Drain(ctx, memory.Relaying{})
	return err
}

func (s *scenario) draft() memory.Draft {
	s.written++
	draft := fact(fmt.Sprintf("Room %d is free on Monday. Ask Ruth for key %d.", s.written, s.written*7))
	draft.Subject = "rooms"
	switch s.random.IntN(4) {
	case 0:
		draft.Labels = policy.NewLabels("hr")
	case 1:
		draft.Marks = []memory.Mark{{Start: len(draft.Text) - 10, End: len(draft.Text), Labels: policy.NewLabels("hr")}}
	case 2:
		draft.ExpiresMs = s.clock.Load() + int64(s.random.IntN(60_000)) + 1
	}
	return draft
}

// disturb makes something go wrong with what is told to the index next.
func (s *scenario) disturb(live []string) {
	s.faults++
	switch s.random.IntN(6) {
	case 0: // it does not get there
		s.hook.take(func(func() error) error { return index.ErrUnavailable })
	case 1: // it gets there, and whoever told it dies before it knows
		s.hook.take(func(apply func() error) error {
			_ = apply()
			s.failing.left.Store(0)
			return errLine
		})
	case 2: // it is told twice
		s.hook.take(func(apply func() error) error { return errors.Join(apply(), apply()) })
	case 3: // it stands still, longer than its lease, while others go on
		s.hook.take(func(apply func() error) error {
			s.clock.Add(31_000)
			_, _ = s.third.Forget(s.t.Context(), person("olga", "hr"), memory.Selector{Items: []string{s.one(live)}})
			_, _ = s.third.Remember(s.t.Context(), person("olga", "hr"), s.draft())
			_, _ = s.third.Drain(s.t.Context(), memory.Relaying{})
			return apply()
		})
	case 4: // it gets there long after everybody gave it up
		s.hook.take(func(apply func() error) error {
			s.late = append(s.late, func() { _ = apply() })
			return index.ErrUnavailable
		})
	default:
		s.disturbServer()
	}
}

func (s *scenario) disturbServer() {
	if s.server == nil {
		return
	}
	method := []string{"Upsert", "Delete"}[s.random.IntN(2)]
	switch s.random.IntN(6) {
	case 0:
		s.server.Inject(wire.Lost(method, 1))
	case 1:
		s.server.Inject(wire.NotDone(method, 1, qdrant.UpdateStatus_Acknowledged))
	case 2:
		s.server.Inject(wire.NotDone(method, 1, qdrant.UpdateStatus_WaitTimeout))
	case 3:
		s.server.Inject(wire.Twice(method, 1))
	case 4:
		s.server.Inject(wire.Fails(method, 4, codes.Unavailable, "away"))
	default:
		signal, done := make(chan struct{}), make(chan struct{})
		late := wire.Late(method, 1, signal, done)
		late.Met = func() {
			s.late = append(s.late, func() {
				close(signal)
				<-done
			})
		}
		s.server.Inject(late)
	}
}

// look asks as everybody, and holds what is found against the store: nothing that
// is erased, hidden, relabelled or somebody else's.
func (s *scenario) look() (hits int) {
	for _, reader := range crashReaders {
		answer, err := s.Recall(s.t.Context(), reader, memory.Question{Text: "Which room is free on Monday?", Limit: 100})
		if err != nil { // never an empty answer
			s.failing.left.Store(-1)
			require.True(s.t, errors.Is(err, index.ErrUnavailable) || errors.Is(err, errLine), err)
			continue
		}
		var ids []string
		for _, hit := range answer.Hits {
			ids = append(ids, hit.ID)
		}
		seen, err := s.Items(s.t.Context(), reader, ids)
		require.NoError(s.t, err)
		for _, hit := range answer.Hits {
			hits++
			require.Equal(s.t, seen[hit.ID], hit.Rendering)
			require.NotContains(s.t, hit.Text, "others")
			if next, superseded := s.pairs[hit.ID]; superseded {
				_, err := s.Item(s.t.Context(), reader, next)
				refused(s.t, err, "NOT_FOUND")
			}
		}
	}
	return hits
}

// converge lets everything through that is under way, and everybody do what they
// do now and then. Afterwards the index is what a rebuild would be, and answers
// what an index that was never disturbed answers.
func (s *scenario) converge() {
	t := s.t
	s.hook.take(nil)
	for _, let := range s.late {
		let()
	}
	if s.server != nil {
		s.server.Heal()
	}
	s.look()
	for range 3 {
		s.clock.Add(31_000)
		s.Service, s.store = s.process(t, s.files)
		for range 2 * store.MostAttempts {
			s.drain(t)
			s.clock.Add(1000)
		}
		s.sweep(t)
		s.drain(t)
	}
	require.Zero(t, s.waiting(t))
	require.Equal(t, memory.Swept{}, s.sweep(t))
	if s.relayed {
		require.Equal(t, s.rebuilt(t), s.held(t, s.index()))
	}
	databases := s.files.Databases()
	kept, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, MasterKey: masterKey, Now: s.files.Now})
	require.NoError(t, err)
	config := s.tuning
	config.Store, config.Indexes = kept, flat.New()
	undisturbed, err := memory.New(t.Context(), config)
	require.NoError(t, err)
	for _, reader := range crashReaders {
		question := memory.Question{Text: "Which room is free on Monday?", Limit: 100}
		want, err := undisturbed.Recall(t.Context(), reader, question)
		require.NoError(t, err)
		got, err := s.Recall(t.Context(), reader, question)
		require.NoError(t, err)
		require.Equal(t, asJSON(t, want), asJSON(t, got))
	}
	if s.server != nil {
		s.server.RequireGuarded(t)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	written, err := json.Marshal(value)
	require.NoError(t, err)
	return string(written)
}

// Processes die and indexes fail at any point between the database and the index.
// No search in between shows what it must not, and all of it comes right.
func TestCrashesBetweenStoreAndIndexComeRight(t *testing.T) {
	seeds := map[string]int{inProcess: 40, relayedIn: 200, inServer: 200}
	var stories, faults, hits atomic.Int64
	for kind, number := range seeds {
		if testing.Short() {
			number = 15
		}
		t.Run(kind, func(t *testing.T) {
			side := pool.New().WithMaxGoroutines(6) // they mostly wait: for the disk, and before they try again
			for seed := range number {
				side.Go(func() {
					t.Run(fmt.Sprint(seed), func(t *testing.T) {
						s := newScenario(t, kind, uint64(seed))
						for range 14 {
							s.step()
							hits.Add(int64(s.look()))
						}
						s.converge()
						stories.Add(1)
						faults.Add(int64(s.faults))
					})
				})
			}
			side.Wait()
		})
	}
	require.Greater(t, hits.Load(), 10*stories.Load(), "the stories are about something")
	require.Greater(t, faults.Load(), stories.Load())
	fmt.Printf("level: L3 crashes and faults between store and index %d\n", faults.Load())
	fmt.Printf("level: L3 stories of memory that converged to a rebuild %d\n", stories.Load())
}

package simulate

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/orchestrator/run"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // many short worlds: to collect them less often saves a quarter of the time
	goleak.VerifyTestMain(m)
}

// sum is what many seeds gave.
type sum struct {
	mu                   sync.Mutex
	seeds, steps, faults int
	kinds                map[run.EventKind]int
	met                  map[string]int
	broken               []Result
}

func newSum() *sum { return &sum{kinds: map[run.EventKind]int{}, met: map[string]int{}} }

func (s *sum) add(r Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seeds++
	s.steps += r.Steps
	s.faults += r.Faults
	for kind, n := range r.Kinds {
		s.kinds[kind] += n
	}
	for what, n := range r.Met {
		s.met[what] += n
	}
	if len(r.Violations) > 0 {
		s.broken = append(s.broken, r)
	}
}

// all plays seeds side by side, as many at once as there are processors, until
// one is broken.
func all(seeds []uint64) *sum {
	s := newSum()
	next := make(chan uint64, len(seeds))
	for _, seed := range seeds {
		next <- seed
	}
	close(next)
	var tasks conc.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		tasks.Go(func() {
			for seed := range next {
				if s.mu.Lock(); len(s.broken) > 0 {
					s.mu.Unlock()
					return
				}
				s.mu.Unlock()
				s.add(Run(seed))
			}
		})
	}
	tasks.Wait()
	return s
}

func (s *sum) sound(t *testing.T) {
	t.Helper()
	for _, r := range s.broken {
		t.Errorf("SEED=%d: %s", r.Seed, strings.Join(r.Violations, "\n"))
	}
}

func number(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, name)
	return n
}

// seedsFrom counts up from a seed.
func seedsFrom(first uint64, n int) []uint64 {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = first + uint64(i)
	}
	return seeds
}

// TestSeeds plays SEEDS seeds from FIRST on, or the one of SEED.
func TestSeeds(t *testing.T) {
	if seed := os.Getenv("SEED"); seed != "" {
		one, err := strconv.ParseUint(seed, 10, 64)
		require.NoError(t, err)
		r := Run(one)
		fmt.Printf("seed %d, trace %s\n", one, r.Trace)
		s := newSum()
		s.add(r)
		s.sound(t)
		return
	}
	n := number(t, "SEEDS", 2000)
	if testing.Short() {
		n = 200
	}
	s := all(seedsFrom(uint64(number(t, "FIRST", 1)), n))
	s.sound(t)
	fmt.Printf("level: L2 seeds %d, steps %d, faults %d, violations %d\n", s.seeds, s.steps, s.faults, len(s.broken))
	if n >= 1000 && !t.Failed() {
		for _, cell := range run.Transitions() {
			if !elsewhere[cell.Kind] {
				require.NotZero(t, s.kinds[cell.Kind], "the worlds reach everything that can be recorded: %s", cell.Kind)
			}
		}
		require.Len(t, s.met, 6, "and whatever may befall a run: %v", s.met)
		t.Logf("in these worlds: %v", s.met)
	}
}

// elsewhere are the kinds of event of what goes on beside runs, which the walks
// of every state have.
var elsewhere = map[run.EventKind]bool{run.KindSidecarStarted: true, run.KindReviewDeclined: true}

func TestSeedsThatFailedBefore(t *testing.T) {
	text, err := os.ReadFile("testdata/seeds.txt")
	require.NoError(t, err)
	var seeds []uint64
	for line := range strings.Lines(string(text)) {
		number, title, _ := strings.Cut(strings.TrimSpace(line), " ")
		if number == "" || number == "#" {
			continue
		}
		seed, err := strconv.ParseUint(number, 10, 64)
		require.NoError(t, err)
		require.NotEmpty(t, title, "a seed says what it found")
		seeds = append(seeds, seed)
	}
	require.NotEmpty(t, seeds)
	all(seeds).sound(t)
}

func TestASeedAlwaysGoesTheSameWay(t *testing.T) {
	traces := map[string]uint64{}
	for _, seed := range []uint64{1, 2, 3, 5, 8, 13} {
		first, second := Run(seed), Run(seed)
		require.Equal(t, first, second)
		require.Zero(t, traces[first.Trace], "another seed goes another way")
		traces[first.Trace] = seed
	}
}

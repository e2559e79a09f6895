//go:build unix

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// recoveryPoints are the points of a recovery that are tried for a second kill.
var recoveryPoints = []int{1, 2, 3, 4, 5, 6, 7, 8}

// fate is one case of the matrix: a way, and what befalls the process on it.
type fate struct {
	way    string
	cold   bool   // from an empty folder
	commit string // or a point that is none
	nth    string // its passing
	where  string // a position, "lied" or "lied, died"; for points that are no commit ""
	twice  []int  // the points of its recovery at which it is killed again
}

func (f fate) String() string { return f.way + ": " + f.commit + " #" + f.nth + " " + f.where }

// told is what the first process is told.
func (f fate) tell(told crash) crash {
	told.Hold = strings.HasPrefix(f.commit, "Renew")
	switch f.where {
	case "":
		told.Die = f.commit + "#" + f.nth
	case "lied", "lied, died":
		told.Lie, told.LieDies = f.commit+"#"+f.nth, f.where != "lied"
	default:
		told.Die = f.commit + "/" + f.where + "#" + f.nth
	}
	return told
}

// crashMatrix is what comes of all fates.
type crashMatrix struct {
	*crashHouse
	mu     sync.Mutex
	kills  int // second ones
	faults []string
}

// record takes every way undisturbed and returns the fates that its commits
// offer: those that an earlier way has are left to that.
func (m *crashMatrix) record() (fates []fate, commits []string) {
	known := map[string]bool{}
	for _, way := range ways {
		at := m.copied(m.first[way])
		if way == wayApproved {
			at = m.empty(way)
		}
		told := at.told(m.crashHouse)
		told.Hold = way == wayApproved
		said, err := m.launch(m.t.Context(), told)
		require.NoError(m.t, err, way)
		require.NoError(m.t, m.check(m.t.Context(), at, said), way)
		for _, passing := range said.Points {
			point, nth, _ := strings.Cut(passing, "#")
			commit, _, isCommit := strings.Cut(point, "/")
			if known[commit+"#"+nth] {
				continue
			}
			known[commit+"#"+nth] = true
			if !isCommit {
				fates = append(fates, fate{way: way, commit: commit, nth: nth, twice: recoveryPoints})
				continue
			}
			commits = append(commits, commit)
			for _, where := range append(slices.Clone(positions), "lied", "lied, died") {
				f := fate{way: way, commit: commit, nth: nth, where: where, cold: before(commit)}
				if where == stands || everyFate() {
					f.twice = recoveryPoints
				}
				fates = append(fates, f)
			}
		}
	}
	return fates, commits
}

// everyFate reports whether nothing may be left to a sample.
func everyFate() bool { return os.Getenv("CRASH") == "all" }

// before reports whether a commit comes before there is an organisation.
func before(commit string) bool {
	return slices.ContainsFunc(opening, func(o string) bool { return strings.HasPrefix(commit+"/", o) })
}

// play lets every fate happen, a few at a time.
func (m *crashMatrix) play(fates []fate) {
	var tasks conc.WaitGroup
	queue := make(chan fate)
	for range 2 * runtime.NumCPU() {
		tasks.Go(func() {
			for f := range queue {
				if err := m.suffer(m.t.Context(), f); err != nil {
					m.mu.Lock()
					m.faults = append(m.faults, f.String()+": "+err.Error())
					m.mu.Unlock()
				}
			}
		})
	}
	for _, f := range fates {
		queue <- f
	}
	close(queue)
	tasks.Wait()
}

// suffer kills a process at one point, maybe a second one while it recovers,
// and lets another one come to the end.
func (m *crashMatrix) suffer(ctx context.Context, f fate) error {
	at := m.first[f.way]
	if f.cold {
		at = m.empty(f.way)
	} else {
		at = m.copied(at)
	}
	said, err := m.launch(ctx, f.tell(at.told(m.crashHouse)))
	switch {
	case err == nil && strings.HasPrefix(f.where, "lied"):
		return m.check(ctx, at, said) // it read again what stands, and went on
	case err == nil:
		return errors.New("the point was not passed")
	case !errors.Is(err, errKilled):
		return err
	}
	for _, nth := range f.twice {
		ended, err := m.again(ctx, at, nth)
		if err != nil {
			return err
		}
		if ended {
			break
		}
	}
	return m.complete(ctx, at)
}

// again kills a second process at the nth point of its recovery. It reports
// whether that came to the end before.
func (m *crashMatrix) again(ctx context.Context, from place, nth int) (ended bool, err error) {
	at := m.copied(from)
	told := at.told(m.crashHouse)
	told.Recovery = nth
	said, err := m.launch(ctx, told)
	if err == nil {
		return true, m.check(ctx, at, said)
	}
	if errors.Is(err, errKilled) {
		m.mu.Lock()
		m.kills++
		m.mu.Unlock()
		err = m.complete(ctx, at)
	}
	if err != nil {
		err = fmt.Errorf("killed again at point %d: %w", nth, err)
	}
	return false, err
}

func (m *crashMatrix) complete(ctx context.Context, at place) error {
	said, err := m.launch(ctx, at.told(m.crashHouse))
	if err != nil {
		return err
	}
	return m.check(ctx, at, said)
}

// Kills the real process at each position of each commit that a run's way has,
// again at each of the first points of its recovery, and tells it that commits
// failed which stand: every run comes to its end and acts as often as its class
// allows, and everything in the store fits together.
func TestFault_A1_A2_A3_AKilledRunGoesOnAndActsOnce(t *testing.T) {
	m := &crashMatrix{crashHouse: newCrashHouse(t, sqliteFiles{})}
	fates, commits := m.record()
	t.Log(strings.Join(commits, "\n"))
	covers(t, commits)
	m.report(fates, commits)
}

// report lets the fates happen, and says what came of them.
func (m *crashMatrix) report(fates []fate, commits []string) {
	m.t.Helper()
	m.play(fates)
	fmt.Printf("level: L4 commits %d, sites %d, second kills %d, violations %d\n", len(commits), len(fates), m.kills, len(m.faults))
	slices.Sort(m.faults)
	require.Empty(m.t, m.faults, "%s", strings.Join(m.faults, "\n"))
	require.NotZero(m.t, m.kills)
}

// A process dies with many runs under way; the next one has them all.
func TestFault_A12_AKilledProcessLeavesItsRunsToTheNext(t *testing.T) {
	newCrashHouse(t, sqliteFiles{}).leavesMany(t)
}

func (h *crashHouse) leavesMany(t *testing.T) {
	t.Helper()
	at := h.copied(h.first[wayApproved])
	at.way = wayMany
	told := at.told(h)
	told.Die = fmt.Sprint("model speaks#", manyRuns/3)
	d := newDying(told)
	p, err := wire.Open(t.Context(), d.quiet())
	require.NoError(t, err)
	_, err = (&life{dying: d, platform: p, organisation: small(t, at.way, h.outside.url)}).startMany(t.Context())
	require.NoError(t, errors.Join(err, p.Close()))
	_, err = h.launch(t.Context(), told)
	require.ErrorIs(t, err, errKilled)
	_, err = h.launch(t.Context(), at.told(h))
	require.NoError(t, err)
	require.NoError(t, h.look(t.Context(), at, func(store *journal.Store) error {
		heads, err := store.Heads(t.Context(), journal.Filter{Organisation: "northwind", Status: run.StatusCompleted}, 2*manyRuns)
		require.Len(t, heads, manyRuns)
		taken := 0
		for i := range heads {
			if heads[i].Epoch > 1 {
				taken++
			}
		}
		require.Greater(t, taken, manyRuns/3, "runs that the first one had begun")
		return errors.Join(err, audit(t.Context(), store))
	}))
}

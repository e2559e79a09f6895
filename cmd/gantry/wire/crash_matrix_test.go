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
)

// recoveryPoints are how many points of a recovery are tried for a second kill.
const recoveryPoints = 8

// fate is one case of the matrix: a way, and what befalls the process on it.
type fate struct {
	way    string
	cold   bool   // from an empty folder
	commit string // or a point that is none
	nth    string // its passing
	where  string // a position, "lied" or "lied, died"; for points that are no commit ""
	twice  bool   // a second kill while it recovers
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
				fates = append(fates, fate{way: way, commit: commit, nth: nth, twice: true})
				continue
			}
			commits = append(commits, commit)
			for _, where := range append(slices.Clone(positions), "lied", "lied, died") {
				fates = append(fates, fate{way: way, commit: commit, nth: nth, where: where, cold: before(commit),
					twice: where == stands || os.Getenv("CRASH") == "all"})
			}
		}
	}
	return fates, commits
}

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
	if f.twice {
		for nth := 1; nth <= recoveryPoints; nth++ {
			ended, err := m.again(ctx, at, nth)
			if err != nil {
				return err
			}
			if ended {
				break
			}
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
	m.play(fates)
	summary := fmt.Sprintf("crash matrix: commits %d, positions %d, sites %d, second kills %d, violations %d",
		len(commits), len(positions)+1, len(fates), m.kills, len(m.faults))
	t.Log(summary)
	slices.Sort(m.faults)
	require.Empty(t, m.faults, "%s", strings.Join(m.faults, "\n"))
	require.NotZero(t, m.kills)
}

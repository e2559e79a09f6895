//go:build services && unix

package wire_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// postgresDatabases are databases of their own on one server.
type postgresDatabases struct {
	server *url.URL
	admin  *sql.DB
	mu     sync.Mutex // the server copies a database only while nobody is at it
}

func newPostgresDatabases(t *testing.T) *postgresDatabases {
	t.Helper()
	dsn := os.Getenv("GANTRY_TEST_POSTGRES")
	require.NotEmpty(t, dsn, "GANTRY_TEST_POSTGRES names the PostgreSQL server to test against")
	server, err := url.Parse(dsn)
	require.NoError(t, err)
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, admin.Close()) })
	return &postgresDatabases{server: server, admin: admin}
}

func (d *postgresDatabases) make(t *testing.T, from string) string {
	t.Helper()
	name := "gantry_crash_" + strings.ToLower(rand.Text())
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.admin.ExecContext(t.Context(), "CREATE DATABASE "+name+" TEMPLATE "+from)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := d.admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
	})
	target := *d.server
	target.Path = "/" + name
	return target.String()
}

func (d *postgresDatabases) fresh(t *testing.T, _ string) string { return d.make(t, "template0") }

// clone copies a database once those who were killed at it are gone from it.
func (d *postgresDatabases) clone(t *testing.T, from, _ string) string {
	t.Helper()
	target, err := url.Parse(from)
	require.NoError(t, err)
	name := path.Base(target.Path)
	const patienceMs = 10_000
	_, err = d.admin.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid, $2) FROM pg_stat_activity WHERE datname = $1", name, patienceMs)
	require.NoError(t, err)
	return d.make(t, name)
}

// The same matrix on PostgreSQL, where the lease of a killed process has to end.
// Without CRASH=all each commit has one fate, and one second kill.
func TestFault_A1_A2_A3_AKilledRunGoesOnAndActsOnceOnPostgres(t *testing.T) {
	m := &crashMatrix{crashHouse: newCrashHouse(t, newPostgresDatabases(t))}
	fates, commits := m.record()
	if !everyFate() {
		fates = sampled(fates)
	}
	m.report(fates, commits)
}

// sampled takes one fate of each commit, each time another, and all that are of
// no commit.
func sampled(fates []fate) []fate {
	var kept []fate
	for i := 0; i < len(fates); {
		if fates[i].where == "" {
			kept = append(kept, fates[i])
			i++
			continue
		}
		each := len(positions) + 2
		one := fates[i+(i/each)%each]
		one.twice = recoveryPoints[(i/each)%len(recoveryPoints):][:1]
		kept = append(kept, one)
		i += each
	}
	return kept
}

func TestFault_A12_AKilledProcessLeavesItsRunsToTheNextOnPostgres(t *testing.T) {
	newCrashHouse(t, newPostgresDatabases(t)).leavesMany(t)
}

func TestFault_A9_AChildIsThereWithItsCarveAndItsEdgeOrNotAtAllOnPostgres(t *testing.T) {
	m := &crashMatrix{crashHouse: newCrashHouse(t, newPostgresDatabases(t))}
	m.spawns(t, inside, commits, stands)
}

func TestFault_A11_AnAlteredRecordParksItsRunOnPostgres(t *testing.T) {
	h := newCrashHouse(t, newPostgresDatabases(t))
	due := h.killed(t, wayApproved, "Append call_ended+turn_started/"+stands+"#1")
	for _, name := range []string{"a torn body", "a torn last body", "another time", "one is missing", "the last is missing", "all are missing"} {
		t.Run(name, func(t *testing.T) {
			at := h.copied(due)
			before := h.head(t, at)
			alter(t, at, alterations[name])
			h.parks(t, at, before, false)
		})
	}
}

// A process stands still past its lease, right before its effect. Another one
// does what is to be done; when the first goes on it writes nothing as an owner.
func TestCase_18_AProcessThatStoodStillWritesNothingMore(t *testing.T) {
	h := newCrashHouse(t, newPostgresDatabases(t))
	at := h.copied(h.first[wayApproved])
	told := at.told(h)
	told.Stop = true
	raw, err := json.Marshal(told)
	require.NoError(t, err)
	stopped := exec.CommandContext(t.Context(), os.Args[0])
	stopped.Env = append(os.Environ(), "CRASH="+string(raw))
	stopped.Stderr = os.Stderr
	require.NoError(t, stopped.Start())
	var status syscall.WaitStatus
	_, err = syscall.Wait4(stopped.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())

	state, before := h.completed(t, at)
	require.NoError(t, stopped.Process.Signal(syscall.SIGCONT))
	require.NoError(t, stopped.Wait(), "it hears of the end, and stops")
	state, records := h.stateOf(t, at, state.ID)
	require.Equal(t, run.StatusCompleted, state.Status)
	require.Equal(t, before, records[:len(before)])
	for _, record := range records[len(before):] {
		require.Equal(t, run.KindLateOutcome, record.Kind, "what it found is kept as late, and nothing else")
	}
	posts, entries := h.outside.count(at.token)
	require.Equal(t, 1, entries)
	require.LessOrEqual(t, posts, 2)
	require.Equal(t, 1, counted(records, run.KindCallEnded)-1, "the reading, and one end of the effect")
	require.NoError(t, h.check(t.Context(), at, word{Run: state.ID, Status: state.Status}))
}

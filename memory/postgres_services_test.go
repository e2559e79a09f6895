//go:build services

package memory_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// postgres is an empty schema for one test.
func postgres(t *testing.T) journal.Config {
	t.Helper()
	return journal.Config{DSN: journaltest.Schema(t), Connections: 4}
}

// suite is what holds on every database.
func suite(t *testing.T, where on) {
	for name, test := range map[string]func(t *testing.T, where on){
		"remember, recall, forget": walk,
		"a stale index":            staleIndex,
		"a sticky index":           stickyIndex,
		"a private fact":           privateFact,
		"what is forgotten":        forgotten,
		"what an agent says":       untrusted,
		"the same at once":         atOnce,
		"forgetting at once":       forgettingRaces,
		"what has expired":         expired,
		"the outbox":               outbox,
	} {
		t.Run(name, func(t *testing.T) { test(t, where) })
	}
}

func TestPostgres(t *testing.T) {
	suite(t, postgres)
	t.Run("like the oracle", func(t *testing.T) { likeTheOracle(t, postgres, 8) })
	t.Run("worlds", func(t *testing.T) { memorytest.Check(t, worlds(t, postgres, nil), 12) })
	t.Run("models", func(t *testing.T) { settling(t, postgres) })
	t.Run("a failing statement", func(t *testing.T) { halfDone(t, postgres) })
}

// A write of one process is under way while another process writes, commits and
// searches. When it is committed at last, the other process finds it, though
// what is younger was there before.
func TestPostgresALateCommitIsFound(t *testing.T) {
	var holding atomic.Bool
	reached, release := make(chan struct{}), make(chan struct{})
	h := build(t, func(t *testing.T) journal.Config {
		c := postgres(t)
		c.Between = journaltest.Between(func(s journaltest.Statement, happen func() error) error {
			if s.Verb == journaltest.Commits && holding.CompareAndSwap(true, false) {
				close(reached)
				<-release
			}
			return happen()
		})
		return c
	})
	files, err := journal.Open(t.Context(), journal.Config{DSN: h.config.DSN, MasterKey: masterKey, Clock: h.clock.Load, Connections: 4})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	elsewhere, _ := h.process(t, files)
	bob, ann := person("bob"), person("ann")
	h.remember(t, bob, fact("Nothing goes by road.")) // whose label set is then there for both
	bob.Read = []view.Space{"person:ann", "person:bob"}
	own := func(space view.Space, text string) memory.Draft {
		return memory.Draft{Space: space, Kind: view.Fact, Text: text}
	}
	holding.Store(true)
	late := make(chan error)
	go func() {
		_, err := h.Remember(context.Background(), bob, own("person:bob", "The late train goes north."))
		late <- err
	}()
	<-reached
	search := func() (texts []string) {
		answer, err := elsewhere.Recall(t.Context(), bob, memory.Question{Text: "Where does the train go?"})
		require.NoError(t, err)
		for _, hit := range answer.Hits {
			texts = append(texts, hit.Text)
		}
		return texts
	}
	for _, text := range []string{"The early train goes south.", "The express train goes west."} {
		_, err = elsewhere.Remember(t.Context(), ann, own("person:ann", text))
		require.NoError(t, err)
		require.Contains(t, search(), text)
	}
	require.Len(t, search(), 2)
	close(release)
	require.NoError(t, <-late)
	require.Len(t, search(), 3)
	page, err := elsewhere.List(t.Context(), bob, memory.Filter{}, "", 10)
	require.NoError(t, err)
	require.Len(t, page.Items, 3)
	_, err = elsewhere.Forget(t.Context(), bob, memory.Selector{Space: "person:bob"})
	require.NoError(t, err)
	require.Len(t, h.recall(t, bob, "Where does the train go?"), 2, "the other way round")
}

// Two erasures that each take what the other one begins with wait for each
// other: one of them begins again, and is told that nothing is there any more.
func TestPostgresErasuresThatWaitForEachOther(t *testing.T) {
	var armed atomic.Bool
	var held atomic.Int64
	meet := make(chan struct{})
	h := build(t, func(t *testing.T) journal.Config {
		c := postgres(t)
		c.Between = journaltest.Between(func(s journaltest.Statement, happen func() error) error {
			err := happen()
			if armed.Load() && strings.HasPrefix(s.Text, "SELECT item FROM memory_generations") {
				switch held.Add(1) { // each has locked what it begins with
				case 1:
					<-meet
				case 2:
					close(meet)
				}
			}
			return err
		})
		return c
	})
	bob := person("bob")
	one, two := h.remember(t, bob, fact("One.")), h.remember(t, bob, fact("Two."))
	all, err := h.Consolidate(t.Context(), bob, []string{one.ID, two.ID}, fact("One and two."))
	require.NoError(t, err)
	armed.Store(true)
	ids := []string{one.ID, all.Item.ID}
	done := 0
	for _, err := range journaltest.AtOnce(2, func(n int) error {
		_, err := h.Forget(context.Background(), bob, memory.Selector{Items: ids[n : n+1]})
		return err
	}) {
		if err == nil {
			done++
			continue
		}
		refused(t, err, "NOT_FOUND")
	}
	require.Positive(t, done)
	left, err := h.store.Left(t.Context(), ids)
	require.NoError(t, err)
	require.Empty(t, left)
}

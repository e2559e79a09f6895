package journal_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var masterKey = []byte("0123456789abcdef0123456789abcdef")

// store shows a Store to the suite.
type store struct{ *journal.Store }

func (s store) Converse(ctx context.Context, organisation, id string) error {
	title, payload := engine.Seal(engine.RandomSource{}, id, "ann", policy.Marking{}, []byte("talk"))
	return s.CreateConversation(ctx, journal.Conversation{ID: id, Organisation: organisation, Title: title, CreatedBy: "ann"}, payload, nil)
}

func (s store) Numbers(ctx context.Context) (map[string][]uint64, error) {
	writers, err := s.Writers(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string][]uint64{}
	for _, writer := range writers {
		rows, err := s.After(ctx, writer, 0, 10_000)
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			all[writer] = append(all[writer], row.N)
		}
	}
	return all, nil
}

func open(t *testing.T, config journal.Config) store {
	t.Helper()
	config.MasterKey = masterKey
	s, err := journal.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return store{s}
}

func TestSQLite(t *testing.T) {
	journaltest.Suite(t, func(t *testing.T, clock func() int64) journaltest.Journal {
		return open(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db"), Clock: clock})
	})
}

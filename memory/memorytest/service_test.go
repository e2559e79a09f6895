package memorytest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/store"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

var worldsKey = []byte("a master key that is 32 bytes !!")

var freshWorld = journaltest.Files(func(path string) error {
	s, err := journal.Open(context.Background(), journal.Config{DSN: "sqlite:" + path, MasterKey: worldsKey})
	if err != nil {
		return err
	}
	return s.Close()
})

// served is the service with the database that it keeps things in.
type served struct {
	*memory.Service
	files *journal.Store
}

func (s served) Close() error { return s.files.Close() }

// What holds for the reference holds for the service over a real database and
// an index.
func TestNoReaderCanTellWorldsOfTheServiceApart(t *testing.T) {
	t.Parallel()
	worlds := 1_000
	if testing.Short() {
		worlds = 30
	}
	memorytest.Check(t, func(seams memorytest.Seams) memory.Brain {
		files, err := journal.Open(t.Context(), journal.Config{DSN: "sqlite:" + freshWorld(t), MasterKey: worldsKey, Clock: seams.NowMs, Between: journaltest.Hasty})
		require.NoError(t, err)
		databases := files.Databases()
		kept, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, MasterKey: worldsKey, Now: files.Now, NewID: seams.NewID})
		require.NoError(t, err)
		service, err := memory.New(t.Context(), memory.Config{
			Store: kept, Indexes: flat.New(), Embedders: []embed.Embedder{seams.Embedder},
			Rules: func(_ context.Context, organisation string) (memory.Rules, error) {
				return seams.Rules(organisation), nil
			},
		})
		require.NoError(t, err)
		return served{service, files}
	}, worlds)
}

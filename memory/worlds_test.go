package memory_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/store"
	"gantry.dev/orchestrator/journal"
)

// opened is a memory that is closed with its database.
type opened struct {
	*memory.Service
	io.Closer
}

// worlds opens an empty memory for each world.
func worlds(t *testing.T, where on) memorytest.Open {
	return func(seams memorytest.Seams) memory.Brain {
		config := where(t)
		config.MasterKey, config.Clock = masterKey, seams.NowMs
		files, err := journal.Open(t.Context(), config)
		require.NoError(t, err)
		databases := files.Databases()
		kept, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres,
			MasterKey: masterKey, Now: files.Now, NewID: seams.NewID})
		require.NoError(t, err)
		service, err := memory.New(t.Context(), memory.Config{Store: kept, Indexes: flat.New(), Embedders: []embed.Embedder{seams.Embedder},
			Rules: func(_ context.Context, organisation string) (memory.Rules, error) {
				return seams.Rules(organisation), nil
			}})
		require.NoError(t, err)
		return opened{service, files}
	}
}

// Nothing that a reader can fetch moves with what is hidden from it, also where
// rows, keys and an index stand behind the answers.
func TestNoReaderCanTellWorldsApartBySQL(t *testing.T) {
	number := 60
	if testing.Short() {
		number = 20
	}
	memorytest.Check(t, worlds(t, sqlite), number)
}

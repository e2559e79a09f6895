package memory_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/index/wire"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
)

// opened is a memory that is closed with its database, and with its index where
// that is a server's.
type opened struct {
	*memory.Service
	close []io.Closer
}

func (o opened) Close() (err error) {
	for _, one := range o.close {
		err = errors.Join(err, one.Close())
	}
	return err
}

// Recall asks an index that has been told everything.
func (o opened) Recall(ctx context.Context, reader view.Reader, question memory.Question) (memory.Recollection, error) {
	if _, err := o.Drain(ctx, memory.Relaying{}); err != nil {
		return memory.Recollection{}, err
	}
	return o.Service.Recall(ctx, reader, question)
}

// worlds opens an empty memory for each world, over an index in a server's double
// where there is one.
func worlds(t *testing.T, where on, server *wire.Server) memorytest.Open {
	number := 0
	return func(seams memorytest.Seams) memory.Brain {
		number++
		config := where(t)
		config.MasterKey, config.Clock = masterKey, seams.NowMs
		files, err := journal.Open(t.Context(), config)
		require.NoError(t, err)
		out := opened{close: []io.Closer{files}}
		indexes := index.Indexes(flat.New())
		if server != nil {
			indexes, err = qdrant.New(qdrant.Config{URL: server.URL(), Prefix: fmt.Sprint("world", number), Timeout: 30 * time.Second,
				Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			out.close = append(out.close, indexes)
		}
		databases := files.Databases()
		kept, err := store.New(store.Config{Write: databases.Write, Read: databases.Read, Postgres: databases.Postgres,
			MasterKey: masterKey, Now: files.Now, NewID: seams.NewID, Relayed: server != nil})
		require.NoError(t, err)
		out.Service, err = memory.New(t.Context(), memory.Config{Store: kept, Indexes: indexes, Embedders: []embed.Embedder{seams.Embedder},
			Rules: func(_ context.Context, organisation string) (memory.Rules, error) {
				return seams.Rules(organisation), nil
			}})
		require.NoError(t, err)
		return out
	}
}

// hastily keeps a memory in a file that does not wait for the disk.
func hastily(t *testing.T) journal.Config {
	config := sqlite(t)
	config.Between = journaltest.Hasty
	return config
}

// Nothing that a reader can fetch moves with what is hidden from it, also where a
// server finds it that a relay tells of changes. Package memorytest plays worlds
// over the index of this process.
func TestNoReaderCanTellWorldsApartByAServersIndex(t *testing.T) {
	number := 200
	if testing.Short() {
		number = 20
	}
	server := wire.Start(t)
	memorytest.Check(t, worlds(t, hastily, server), number)
	server.RequireGuarded(t)
}

// The service over a server's index and the reference answer alike, too.
func TestAServersIndexAnswersLikeTheOracle(t *testing.T) {
	server := wire.Start(t)
	likeTheOracle(t, hastily, 20, remote(t, server))
	server.RequireGuarded(t)
}

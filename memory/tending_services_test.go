//go:build services

package memory_test

import (
	"testing"

	"gantry.dev/memory/index/wire"
)

func TestPostgresIsRelayedSweptAndEmbeddedAgain(t *testing.T) {
	t.Run("relays", func(t *testing.T) { relays(t, postgres) })
	t.Run("a relay that stands still", func(t *testing.T) { zombies(t, postgres) })
	t.Run("a sweep", func(t *testing.T) { sweeps(t, postgres) })
	t.Run("a rebuild", func(t *testing.T) { rebuilds(t, postgres) })
	t.Run("embedding again, flat", func(t *testing.T) { reembedding(t, postgres, func(*house) {}) })
	t.Run("embedding again, qdrant", func(t *testing.T) { reembedding(t, postgres, remote(t, wire.Start(t))) })
}

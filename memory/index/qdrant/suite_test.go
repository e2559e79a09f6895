package qdrant_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/index/indextest"
	"gantry.dev/memory/index/qdrant"
	"gantry.dev/memory/index/wire"
)

// opened returns indexes in a server, closed when the test ends.
func opened(t *testing.T, config qdrant.Config) *qdrant.Indexes {
	indexes, err := qdrant.New(config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = indexes.Close() })
	return indexes
}

func TestSuiteOverTheWire(t *testing.T) {
	checked := 0
	indextest.Run(t, func(t *testing.T) indextest.Subject {
		server := wire.Start(t)
		t.Cleanup(func() { checked += server.RequireGuarded(t) })
		return indextest.Subject{
			Open:  func(t *testing.T) index.Indexes { return opened(t, qdrant.Config{URL: server.URL()}) },
			Keeps: true,
		}
	})
	require.Positive(t, checked)
	fmt.Printf("level: L3 guarded calls to Qdrant's double %d\n", checked)
}

// The suite against a real server, where QDRANT_URL names one.
func TestSuiteOnARealServer(t *testing.T) {
	config := qdrant.Config{URL: os.Getenv("QDRANT_URL"), APIKey: qdrant.Key(os.Getenv("QDRANT_API_KEY"))}
	if config.URL == "" {
		t.Log("NOT RUN: no real Qdrant server; set QDRANT_URL (make test-qdrant says how)")
		fmt.Println("level: L3 real Qdrant servers 0")
		return
	}
	indextest.Run(t, func(t *testing.T) indextest.Subject {
		config := config
		config.Prefix = "gantry-test-" + uuid.NewString()
		t.Cleanup(func() { dropAll(t, config) })
		return indextest.Subject{
			Open:  func(t *testing.T) index.Indexes { return opened(t, config) },
			Keeps: true,
		}
	})
	fmt.Println("level: L3 real Qdrant servers 1")
}

// dropAll removes what the suite's vector spaces left.
func dropAll(t *testing.T, config qdrant.Config) {
	indexes, err := qdrant.New(config)
	require.NoError(t, err)
	defer indexes.Close()
	for _, space := range indextest.Spaces() {
		require.NoError(t, indexes.Drop(context.Background(), space))
	}
}

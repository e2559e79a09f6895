//go:build services

package bus_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/bus/bustest"
)

// TestOverServer runs the suite against the server at GANTRY_TEST_NATS.
func TestOverServer(t *testing.T) {
	url := os.Getenv("GANTRY_TEST_NATS")
	require.NotEmpty(t, url, "GANTRY_TEST_NATS is not set")
	began := time.Now().UnixNano()
	bustest.Suite(t, func(t *testing.T) *bus.Bus {
		b, err := bus.Open(bus.Config{URL: url, Namespace: fmt.Sprintf("test_%d_%d", began, namespaces.Add(1))})
		require.NoError(t, err)
		return b
	})
}

package bus_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/bus/bustest"
)

// The broker inside the process ends some of its own after it says that it is
// shut down.
func TestMain(m *testing.M) {
	const server = "github.com/nats-io/nats-server/v2/server"
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction(server+".(*fileStore).flushStreamStateLoop"), goleak.IgnoreAnyFunction(server+"/ats.Register.func1"))
}

func TestInsideOneProcess(t *testing.T) {
	bustest.Suite(t, func(t *testing.T) *bus.Bus {
		b, err := bus.Open(bus.Config{})
		require.NoError(t, err)
		return b
	})
}

// startServer runs a real server with JetStream in this process.
func startServer(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 16 << 30,
	})
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(10e9))
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

var namespaces atomic.Int64

func openAt(t *testing.T, url string) *bus.Bus {
	t.Helper()
	b, err := bus.Open(bus.Config{URL: url, Namespace: fmt.Sprintf("test_%d", namespaces.Add(1))})
	require.NoError(t, err)
	return b
}

func TestOverJetStream(t *testing.T) {
	s := startServer(t)
	bustest.Suite(t, func(t *testing.T) *bus.Bus { return openAt(t, s.ClientURL()) })
}

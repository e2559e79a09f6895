package bus_test

import (
	"context"
	"encoding/json"
	"net"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/bus/bustest"
)

// visitor is a broker that comes and goes at one address, and keeps what it was
// told.
type visitor struct {
	t       *testing.T
	options server.Options
	running *server.Server
}

func newVisitor(t *testing.T) *visitor {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	v := &visitor{t: t, options: server.Options{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, JetStream: true, StoreDir: t.TempDir(),
		NoSigs: true, NoLog: true, JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 16 << 30}}
	t.Cleanup(v.leave)
	return v
}

func (v *visitor) url() string { return "nats://" + listenAddress(v.options.Host, v.options.Port) }

func listenAddress(host string, port int) string {
	return (&net.TCPAddr{IP: net.ParseIP(host), Port: port}).String()
}

func (v *visitor) come() {
	v.t.Helper()
	options := v.options
	s, err := server.NewServer(&options)
	require.NoError(v.t, err)
	s.Start()
	require.True(v.t, s.ReadyForConnections(10e9))
	v.running = s
}

func (v *visitor) leave() {
	if v.running != nil {
		v.running.Shutdown()
		v.running.WaitForShutdown()
		v.running = nil
	}
}

// heard is how far the run was told by everything that the broker keeps, which
// must leave nothing out.
func (v *visitor) heard() uint64 {
	v.t.Helper()
	connection, err := nats.Connect(v.url())
	require.NoError(v.t, err)
	defer connection.Close()
	streams, err := connection.JetStream()
	require.NoError(v.t, err)
	const name = "VISITED_EVENTS"
	info, err := streams.StreamInfo(name)
	require.NoError(v.t, err)
	var to uint64
	for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
		m, err := streams.GetMsg(name, n)
		require.NoError(v.t, err)
		var notice bus.Notice
		require.NoError(v.t, json.Unmarshal(m.Data, &notice))
		for _, span := range notice.Runs {
			require.LessOrEqual(v.t, span.From, to+1, "nothing is left out")
			to = max(to, span.To)
		}
	}
	return to
}

// The broker is away when its teller begins, comes, goes in the middle, and
// comes and goes at every batch. The relay carries on: in the end it has told
// every record, in order, and its cursor stands behind nothing untold.
func TestFault_C7_TheRelayTellsAllOfItOnceItsBrokerIsThere(t *testing.T) {
	v := newVisitor(t)
	b, err := bus.Open(bus.Config{URL: v.url(), Namespace: "visited"})
	require.NoError(t, err)
	log := bustest.NewLog()
	relay := bus.NewRelay(b, log, log)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	ticks := make(chan time.Time)
	var tasks conc.WaitGroup
	tasks.Go(func() { relay.Run(ctx, ticks, func(error) {}) })
	seq := uint64(0)
	commit := func() {
		seq++
		relay.Offer(log.Commit("w", bustest.Records("r", seq, seq, false)...))
	}
	// told ticks until the relay has saved that all of it was told.
	told := func() {
		t.Helper()
		for {
			saved, err := log.Cursor(ctx, "relay", "w")
			require.NoError(t, err)
			if saved == seq {
				return
			}
			select {
			case ticks <- time.Time{}:
			case <-ctx.Done():
				require.FailNow(t, "it was never told", "%d of %d", saved, seq)
			}
		}
	}
	commit()
	ticks <- time.Time{} // it has failed once
	saved, err := log.Cursor(ctx, "relay", "w")
	require.NoError(t, err)
	require.Zero(t, saved, "what was not told is not said to be")
	v.come()
	told()
	for range 5 {
		commit()
		v.leave()
		commit()
		v.come()
	}
	told()
	require.Equal(t, seq, v.heard())
	stop()
	tasks.Wait()
	require.NoError(t, b.Close())
}

// The stream is deleted with all that it held, again and again. A cursor that
// stands behind what nobody can hear any more does no harm: who listens again
// hears what is told from then on, and readers have the journal.
func TestFault_C8_ReadersMissNothingOfADeletedStream(t *testing.T) {
	s := startServer(t)
	log := bustest.NewLog()
	log.Commit("w", bustest.Records("r", 1, 1, false)...)
	open := func() *bus.Bus {
		b, err := bus.Open(bus.Config{URL: s.ClientURL(), Namespace: "deleted"})
		require.NoError(t, err)
		return b
	}
	teller, hearer := open(), open()
	relay, hub := bus.NewRelay(teller, log, log), bus.NewHub(log, log)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	relays, hears := make(chan time.Time), make(chan time.Time)
	var tasks conc.WaitGroup
	tasks.Go(func() { relay.Run(ctx, relays, func(error) {}) })
	tasks.Go(func() { _ = hub.Run(ctx, hearer, hears, nil) })
	tail, err := hub.Tail(ctx, "r", 0)
	require.NoError(t, err)
	connection, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	streams, err := connection.JetStream()
	require.NoError(t, err)
	require.EqualValues(t, 1, (<-tail.Items()).Seq)
	const rounds = 6
	for seq := uint64(2); seq <= rounds; seq++ {
		relay.Offer(log.Commit("w", bustest.Records("r", seq, seq, seq == rounds)...))
		relays <- time.Time{}
		for name := range streams.StreamNames() {
			require.NoError(t, streams.DeleteStream(name))
		}
		hears <- time.Time{}
		select {
		case record := <-tail.Items():
			require.Equal(t, seq, record.Seq)
		case <-ctx.Done():
			require.FailNow(t, "a reader misses a record")
		}
	}
	_, more := <-tail.Items()
	require.False(t, more, "the run has ended, and so does its tail")
	require.NoError(t, tail.Err())
	stop()
	tasks.Wait()
	hub.Close()
	connection.Close()
	require.NoError(t, teller.Close())
	require.NoError(t, hearer.Close())
}

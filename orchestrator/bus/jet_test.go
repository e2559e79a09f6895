package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/bus"
)

func TestOpenRefusesAddresses(t *testing.T) {
	for _, url := range []string{"http://x", "nats//x", "nats://user:secret@[::1", "x"} {
		_, err := bus.Open(bus.Config{URL: url})
		require.Error(t, err, url)
		require.NotContains(t, err.Error(), "secret")
	}
	_, err := bus.Open(bus.Config{Namespace: "a.*"})
	require.ErrorIs(t, err, bus.ErrTopic)
}

func TestBrokerAwayAtTheStartIsNoErrorOfOpen(t *testing.T) {
	b, err := bus.Open(bus.Config{URL: "nats://127.0.0.1:1"})
	require.NoError(t, err)
	require.Error(t, b.Publish(t.Context(), bus.TopicEvents, bus.Message{ID: "1"}))
	_, err = b.Subscribe(t.Context(), bus.TopicEvents)
	require.Error(t, err)
	require.NoError(t, b.Close())
}

func TestTwoProcessesShareTheCommands(t *testing.T) {
	s := startServer(t)
	ctx, leave := context.WithTimeout(t.Context(), 20*time.Second)
	defer leave()
	open := func() *bus.Bus {
		b, err := bus.Open(bus.Config{URL: s.ClientURL(), Namespace: "shared"})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
	teller := open()
	// Commands wait for a process that takes them.
	for _, id := range []string{"1", "2", "3", "3"} {
		require.NoError(t, teller.Publish(ctx, bus.TopicCommands, bus.Message{ID: id, Body: []byte(id)}))
	}
	got := make(chan string, 10)
	for range 2 {
		subscription, err := open().Subscribe(ctx, bus.TopicCommands)
		require.NoError(t, err)
		done := make(chan struct{})
		t.Cleanup(func() { <-done })
		go func() {
			defer close(done)
			subscription.Each(func(_ context.Context, m bus.Message) error { got <- string(m.Body); return nil })
		}()
	}
	seen := map[string]int{}
	for range 3 {
		select {
		case id := <-got:
			seen[id]++
		case <-ctx.Done():
			require.FailNow(t, "nothing came")
		}
	}
	require.Equal(t, map[string]int{"1": 1, "2": 1, "3": 1}, seen)
	leave()
}

// A stream that an operator deleted is made again by the next message.
func TestDeletedStreamIsProvidedAgain(t *testing.T) {
	s := startServer(t)
	b := openAt(t, s.ClientURL())
	require.NoError(t, b.Publish(t.Context(), bus.TopicEvents, bus.Message{ID: "1"}))
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	js, err := conn.JetStream()
	require.NoError(t, err)
	for name := range js.StreamNames() {
		require.NoError(t, js.DeleteStream(name))
	}
	require.Error(t, b.Publish(t.Context(), bus.TopicEvents, bus.Message{ID: "2"}))
	require.NoError(t, b.Publish(t.Context(), bus.TopicEvents, bus.Message{ID: "2"}))
	conn.Close()
	require.NoError(t, b.Close())
}

func TestStreamsHaveLimits(t *testing.T) {
	s := startServer(t)
	b := openAt(t, s.ClientURL())
	topics := []bus.Topic{bus.TopicEvents, bus.TopicDue, bus.TopicText, bus.TopicMemory, bus.TopicCommands, bus.TopicParked}
	for _, topic := range topics {
		require.NoError(t, b.Publish(t.Context(), topic, bus.Message{ID: "1"}))
	}
	conn, err := nats.Connect(s.ClientURL())
	require.NoError(t, err)
	js, err := conn.JetStream()
	require.NoError(t, err)
	count := 0
	for info := range js.Streams() {
		count++
		require.Positive(t, info.Config.MaxBytes)
		require.Positive(t, info.Config.MaxMsgSize)
		queue := info.Config.Retention == nats.WorkQueuePolicy
		require.Equal(t, queue, info.Config.Discard == nats.DiscardNew, "only commands are refused when there are too many")
		require.Equal(t, queue, info.Config.MaxAge == 0)
	}
	require.Equal(t, len(topics), count)
	conn.Close()
	require.NoError(t, b.Close())
}

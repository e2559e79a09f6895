// Package bustest is what every bus must do, whatever carries its messages.
package bustest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/run"
)

// patience is when a wait that should have been answered fails the test.
const patience = 20 * time.Second

// Suite runs every property of a bus. open returns a fresh bus that shares no
// topics with another one; the suite closes it.
func Suite(t *testing.T, open func(t *testing.T) *bus.Bus) {
	t.Helper()
	for name, property := range map[string]func(*testing.T, *bus.Bus){
		"a message reaches every subscriber whole":    everySubscriber,
		"a failed message comes again":                failedComesAgain,
		"a subscriber that left may come back":        comesBack,
		"leaving under load crashes nothing":          leaveUnderLoad,
		"text of a turn keeps its order":              textInOrder,
		"repeated and shuffled notices fold in order": foldsInOrder,
		"commands are settled once, poison is parked": commands,
		"an unknown topic is refused":                 unknownTopic,
		"close ends subscriptions":                    closes,
	} {
		t.Run(name, func(t *testing.T) {
			b := open(t)
			property(t, b)
			require.NoError(t, b.Close())
		})
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// take subscribes and sends what arrives to the returned channel until the
// context ends; the returned function waits for that.
func take(ctx context.Context, t *testing.T, b *bus.Bus, topic bus.Topic) (<-chan bus.Message, func()) {
	t.Helper()
	subscription, err := b.Subscribe(ctx, topic)
	require.NoError(t, err)
	in := make(chan bus.Message)
	var tasks conc.WaitGroup
	tasks.Go(func() {
		subscription.Each(func(ctx context.Context, m bus.Message) error {
			select {
			case in <- m:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		close(in)
	})
	return in, tasks.Wait
}

func next[T any](ctx context.Context, t *testing.T, in <-chan T) T {
	t.Helper()
	select {
	case item, open := <-in:
		require.True(t, open, "the flow ended early")
		return item
	case <-ctx.Done():
		require.FailNow(t, "nothing came")
		panic("unreachable")
	}
}

func everySubscriber(t *testing.T, b *bus.Bus) {
	ctx, leave := context.WithCancel(within(t))
	one, wait1 := take(ctx, t, b, bus.TopicEvents)
	two, wait2 := take(ctx, t, b, bus.TopicEvents)
	sent := bus.Message{ID: "w:1-1", Metadata: map[string]string{bus.MetaRun: "r"}, Body: []byte(`{"runs":[]}`)}
	require.NoError(t, b.Publish(ctx, bus.TopicEvents, sent))
	for _, in := range []<-chan bus.Message{one, two} {
		got := next(ctx, t, in)
		require.Equal(t, sent.ID, got.ID)
		require.Equal(t, sent.Body, got.Body)
		require.Equal(t, "r", got.Metadata[bus.MetaRun])
		require.Equal(t, 1, got.Delivery)
	}
	leave()
	wait1()
	wait2()
}

func failedComesAgain(t *testing.T, b *bus.Bus) {
	ctx, leave := context.WithCancel(within(t))
	subscription, err := b.Subscribe(ctx, bus.TopicEvents)
	require.NoError(t, err)
	require.NoError(t, b.Publish(ctx, bus.TopicEvents, bus.Message{ID: "a", Body: []byte("a")}))
	seen := 0
	subscription.Each(func(context.Context, bus.Message) error {
		if seen++; seen < 3 {
			return context.DeadlineExceeded
		}
		leave()
		return nil
	})
	require.GreaterOrEqual(t, seen, 3)
}

func comesBack(t *testing.T, b *bus.Bus) {
	ctx := within(t)
	for round := range 3 {
		visit, leave := context.WithCancel(ctx)
		in, wait := take(visit, t, b, bus.TopicEvents)
		id := fmt.Sprint("round ", round)
		require.NoError(t, b.Publish(ctx, bus.TopicEvents, bus.Message{ID: id, Body: []byte("x")}))
		require.Equal(t, id, next(ctx, t, in).ID)
		leave()
		wait()
	}
}

func leaveUnderLoad(t *testing.T, b *bus.Bus) {
	ctx := within(t)
	var tasks conc.WaitGroup
	tasks.Go(func() {
		for i := range 200 {
			if b.Publish(ctx, bus.TopicDue, bus.Message{ID: fmt.Sprint(i), Body: []byte("x")}) != nil {
				return
			}
		}
	})
	for range 20 {
		visit, leave := context.WithCancel(ctx)
		subscription, err := b.Subscribe(visit, bus.TopicDue)
		require.NoError(t, err)
		tasks.Go(func() { subscription.Each(func(context.Context, bus.Message) error { return nil }) })
		leave()
	}
	tasks.Wait()
	require.NoError(t, ctx.Err())
}

func textInOrder(t *testing.T, b *bus.Bus) {
	ctx, leave := context.WithCancel(within(t))
	in, wait := take(ctx, t, b, bus.TopicText)
	var tasks conc.WaitGroup
	tasks.Go(func() {
		for part := 1; part <= 50; part++ {
			if b.TellText(ctx, bus.TextDelta{Run: "r", Turn: 1, Attempt: 1, Part: part, Text: "é"}) != nil {
				return
			}
		}
	})
	for part := 1; part <= 50; part++ {
		var delta bus.TextDelta
		require.NoError(t, json.Unmarshal(next(ctx, t, in).Body, &delta))
		require.Equal(t, bus.TextDelta{Run: "r", Turn: 1, Attempt: 1, Part: part, Text: "é"}, delta)
	}
	tasks.Wait()
	leave()
	wait()
}

// foldsInOrder commits a run in small batches, tells each batch five times in
// any order, and reads the run through a hub.
func foldsInOrder(t *testing.T, b *bus.Bus) {
	ctx, leave := context.WithCancel(within(t))
	log := NewLog()
	log.Commit("w", Records("r", 1, 1, false)...)
	hub := bus.NewHub(log, log)
	var tasks conc.WaitGroup
	tasks.Go(func() { _ = hub.Run(ctx, b, nil, nil) })
	heard, wait := take(ctx, t, b, bus.TopicEvents)
	tail, err := hub.Tail(ctx, "r", 0)
	require.NoError(t, err)
	var messages []bus.Message
	for seq := uint64(2); seq <= 20; seq++ {
		batch := log.Commit("w", Records("r", seq, seq, seq == 20)...)
		body, err := json.Marshal(bus.NoticeOf(batch))
		require.NoError(t, err)
		for copies := range 5 {
			messages = append(messages, bus.Message{ID: fmt.Sprint(seq, "/", copies), Body: body})
		}
	}
	rand.Shuffle(len(messages), func(i, k int) { messages[i], messages[k] = messages[k], messages[i] })
	tasks.Go(func() {
		for range heard { // drained: another process that hears the same
		}
	})
	for _, m := range messages {
		require.NoError(t, b.Publish(ctx, bus.TopicEvents, m))
	}
	hub.Look() // stands for the tick, should the hub have subscribed after the last notice
	want := uint64(1)
	for record := range tail.Items() {
		require.Equal(t, want, record.Seq)
		want++
	}
	require.NoError(t, tail.Err())
	require.Equal(t, uint64(21), want)
	leave()
	wait()
	tasks.Wait()
	hub.Close()
}

func commands(t *testing.T, b *bus.Bus) {
	ctx, leave := context.WithCancel(within(t))
	parked := make(chan bus.Parked, 10)
	taken := make(chan bus.Received, 10)
	receiver := bus.Receiver{
		Bus: b, Attempts: 2, Verify: VerifyToken, Pause: func(context.Context, int) error { return nil },
		Submit: func(_ context.Context, r bus.Received) error { taken <- r; return nil },
		Park:   func(_ context.Context, p bus.Parked) error { parked <- p; return nil },
	}
	subscription, err := b.Subscribe(ctx, bus.TopicCommands)
	require.NoError(t, err)
	var tasks conc.WaitGroup
	tasks.Go(func() { subscription.Each(receiver.Take) })
	good := map[string]string{bus.MetaAuthorization: "Bearer good"}
	send := func(id, body string, metadata map[string]string) {
		require.NoError(t, b.Publish(ctx, bus.TopicCommands, bus.Message{ID: id, Body: []byte(body), Metadata: metadata}))
	}
	send("1", "\xff{", good)
	send("2", `{"commandId":"c","run":"r","kind":"cancel"}`, map[string]string{bus.MetaAuthorization: "Bearer forged"})
	send("3", `{"commandId":"c","run":"r","kind":"steer","fields":{"text":"go"}}`, good)
	got := next(ctx, t, taken)
	require.Equal(t, bus.SteerWish{Text: "go"}, got.Wish)
	require.Equal(t, "p", got.By.Principal)
	attempts := map[string]int{}
	for range 2 {
		p := next(ctx, t, parked)
		attempts[p.ID] = p.Attempts
	}
	require.Equal(t, map[string]int{"1": 1, "2": 1}, attempts)
	leave()
	tasks.Wait()
}

func unknownTopic(t *testing.T, b *bus.Bus) {
	require.ErrorIs(t, b.Publish(t.Context(), "nowhere", bus.Message{ID: "1"}), bus.ErrTopic)
	_, err := b.Subscribe(t.Context(), "nowhere")
	require.ErrorIs(t, err, bus.ErrTopic)
}

func closes(t *testing.T, b *bus.Bus) {
	ctx := within(t)
	in, wait := take(ctx, t, b, bus.TopicEvents)
	require.NoError(t, b.Close())
	wait()
	_, open := <-in
	require.False(t, open)
	require.Error(t, b.Publish(ctx, bus.TopicEvents, bus.Message{ID: "1"}))
	_, err := b.Subscribe(ctx, bus.TopicEvents)
	require.Error(t, err)
	require.NoError(t, b.Close(), "closing twice is harmless")
}

// Records returns records from..to of a run, the last one ending it when ends.
func Records(id string, from, to uint64, ends bool) []run.Record {
	var records []run.Record
	for seq := from; seq <= to; seq++ {
		records = append(records, run.Record{Run: id, Seq: seq, Kind: run.KindTurnStarted, Version: 1, AtMs: int64(seq)})
	}
	if ends {
		records[len(records)-1].Kind = run.KindEnded
	}
	return records
}

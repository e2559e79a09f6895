package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/bus/bustest"
)

// relaying runs a relay over a log; what it tells goes to the channel.
type relaying struct {
	relay  *bus.Relay
	ticks  chan time.Time
	told   chan bus.Message
	due    chan bus.Message
	faults chan error
	stop   func()
}

func startRelay(t *testing.T, log *bustest.Log) *relaying {
	t.Helper()
	b, err := bus.Open(bus.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &relaying{
		relay: bus.NewRelay(b, log, log), ticks: make(chan time.Time), told: make(chan bus.Message, 5000),
		due: make(chan bus.Message, 5000), faults: make(chan error, 100),
	}
	var tasks conc.WaitGroup
	for topic, in := range map[bus.Topic]chan bus.Message{bus.TopicEvents: r.told, bus.TopicDue: r.due} {
		subscription, err := b.Subscribe(ctx, topic)
		require.NoError(t, err)
		tasks.Go(func() {
			subscription.Each(func(_ context.Context, m bus.Message) error { in <- m; return nil })
		})
	}
	tasks.Go(func() { r.relay.Run(ctx, r.ticks, func(err error) { r.faults <- err }) })
	r.stop = func() {
		synctest.Wait()
		cancel()
		tasks.Wait()
		require.NoError(t, b.Close())
	}
	return r
}

// reached returns how far run "r" was told.
func (r *relaying) reached(t *testing.T) uint64 {
	t.Helper()
	synctest.Wait()
	var to uint64
	for len(r.told) > 0 {
		var notice bus.Notice
		require.NoError(t, json.Unmarshal((<-r.told).Body, &notice))
		for _, span := range notice.Runs {
			to = max(to, span.To)
		}
	}
	return to
}

func TestRelayTellsOneMessageForABatchAndWakesWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		r := startRelay(t, log)
		synctest.Wait() // it has read what there was
		r.relay.Offer(log.Commit("w", bustest.Records("r", 1, 3, false)...))
		m := <-r.told
		require.Equal(t, "w:1-3", m.ID)
		require.Equal(t, map[string]string{"writer": "w", "from": "1", "to": "3", "organisation": "o", "run": "r"}, m.Metadata)
		require.JSONEq(t, `{"runs":[{"organisation":"o","run":"r","from":1,"to":3}]}`, string(m.Body))
		require.Equal(t, "w:3", (<-r.due).ID)
		r.stop()
		require.Empty(t, r.told)
		saved, err := log.Cursor(t.Context(), "relay", "w")
		require.NoError(t, err)
		require.Equal(t, uint64(3), saved)
	})
}

func TestRelayCarriesOnFromItsCursorAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		require.NoError(t, log.SaveCursor(t.Context(), "relay", "w", 2))
		log.Commit("w", bustest.Records("r", 1, 1200, false)...)
		log.Commit("dead", bustest.Records("other", 1, 1, false)...)
		r := startRelay(t, log)
		synctest.Wait()
		ids := map[string]bool{}
		for len(r.told) > 0 {
			ids[(<-r.told).ID] = true
		}
		require.Equal(t, map[string]bool{"w:3-514": true, "w:515-1026": true, "w:1027-1200": true, "dead:1-1": true}, ids)
		r.stop()

		again := startRelay(t, log)
		require.Zero(t, again.reached(t), "nothing is told twice after an orderly end")
		again.stop()
	})
}

func TestRelayReadsWhatItWasNotOffered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		r := startRelay(t, log)
		synctest.Wait()                                       // it has read what there was
		log.Commit("w", bustest.Records("r", 1, 2, false)...) // its offer is lost
		batch := log.Commit("w", bustest.Records("r", 3, 3, false)...)
		r.relay.Offer(batch)
		require.Equal(t, "w:1-3", (<-r.told).ID)
		r.relay.Offer(batch) // repeated
		require.Zero(t, r.reached(t))
		log.Commit("w", bustest.Records("r", 4, 4, false)...)
		r.ticks <- time.Time{}
		require.Equal(t, uint64(4), r.reached(t))
		r.stop()
	})
}

func TestRelayDropsNothingWhenItsQueueIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		r := startRelay(t, log)
		for seq := uint64(1); seq <= 3000; seq++ {
			r.relay.Offer(log.Commit("w", bustest.Records("r", seq, seq, false)...))
		}
		r.ticks <- time.Time{}
		require.Equal(t, uint64(3000), r.reached(t))
		r.stop()
	})
}

func TestRelayOutlivesAJournalThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		log.Fail(errors.New("away"))
		r := startRelay(t, log)
		require.Error(t, <-r.faults)
		batch := log.Commit("w", bustest.Records("r", 1, 1, false)...)
		r.relay.Offer(batch)
		require.Error(t, <-r.faults)
		log.Fail(nil)
		r.ticks <- time.Time{}
		require.Equal(t, uint64(1), r.reached(t))
		r.stop()
	})
}

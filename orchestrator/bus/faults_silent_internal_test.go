package bus

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// silent is a carrier whose broker takes every request and answers none.
type silent struct{}

func (silent) publisher(ctx context.Context, _ Topic) (message.Publisher, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) subscriber(ctx context.Context, _ Topic) (message.Subscriber, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Close() error { return nil }

// counted is a journal of one run that grows.
type counted struct {
	mu sync.Mutex
	n  uint64
}

func (c *counted) grow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

func (c *counted) Load(_ context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var records []run.Record
	for seq := after + 1; seq <= c.n; seq++ {
		records = append(records, run.Record{Run: id, Seq: seq})
	}
	return run.Head{Run: id, Version: c.n, Status: run.StatusRunning}, records, nil
}

func (*counted) Entries(context.Context, string, string, uint64) ([]engine.Entry, uint64, error) {
	return nil, 0, nil
}

// The broker is there and answers nothing, for as long as anybody waits. The
// slow poll goes on at its pace all the same: each tick tells readers what was
// committed before it.
func TestFault_C7_TheSlowPollWaitsForNoBrokerThatAnswersNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &counted{n: 1}
		hub := NewHub(journal, journal)
		ctx, leave := context.WithCancel(t.Context())
		ticks := make(chan time.Time)
		var tasks conc.WaitGroup
		tasks.Go(func() { _ = hub.Run(ctx, &Bus{carrier: silent{}, namespace: "gantry"}, ticks, nil) })
		tail, err := hub.Tail(ctx, "r", 0)
		require.NoError(t, err)
		require.EqualValues(t, 1, (<-tail.Items()).Seq)
		for seq := uint64(2); seq < 6; seq++ {
			journal.grow()
			synctest.Wait()
			select {
			case ticks <- time.Time{}:
			default:
				require.FailNow(t, "the poll waits for the broker")
			}
			require.Equal(t, seq, (<-tail.Items()).Seq)
		}
		leave()
		tasks.Wait()
		hub.Close()
	})
}

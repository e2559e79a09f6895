package service_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/service"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// counted is a journal of one run, which counts how often it is read.
type counted struct{ loads atomic.Int64 }

func (c *counted) Load(_ context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	c.loads.Add(1)
	var records []run.Record
	for seq := after + 1; seq <= 3; seq++ {
		records = append(records, run.Record{Run: id, Seq: seq})
	}
	return run.Head{Run: id, Version: 3}, records, nil
}

func (*counted) Entries(context.Context, string, string, uint64) ([]engine.Entry, uint64, error) {
	return nil, 0, nil
}

// A hundred readers of one run read it at most once each, when they come, and
// never again: what happens then is told to all from one place.
func TestFault_I5_ReadersOfOneRunShareItsReadings(t *testing.T) {
	const readers, more = 100, 200
	source := &counted{}
	hub := bus.NewHub(source, source)
	ctx, cancel := context.WithCancel(t.Context())
	var tasks, reading conc.WaitGroup
	live := service.Live{Service: &service.Service{Hub: hub}, Tasks: &tasks}
	var caught, done conc.WaitGroup
	for range readers {
		told, err := live.Run(ctx, "acme", "r1", 0)
		require.NoError(t, err)
		come := make(chan struct{})
		end := make(chan struct{})
		caught.Go(func() { <-come })
		done.Go(func() { <-end })
		reading.Go(func() {
			for want := uint64(1); want <= 3+more; want++ {
				if got := <-told; got.Seq != want {
					t.Errorf("record %d in place of %d", got.Seq, want)
				}
				if want == 3 {
					close(come)
				}
			}
			close(end)
		})
	}
	caught.Wait()
	joined := source.loads.Load()
	require.LessOrEqual(t, joined, int64(readers))
	for seq := uint64(4); seq <= 3+more; seq++ {
		hub.Offer(bus.Batch{Rows: []bus.Committed{{Organisation: "acme", Record: run.Record{Run: "r1", Seq: seq}}}})
	}
	done.Wait()
	require.Equal(t, joined, source.loads.Load(), "%d records to %d readers cost no reading", more, readers)
	fmt.Printf("level: L8 readers of one run %d, records told %d, readings of the store %d\n", readers, readers*(3+more), joined)
	cancel()
	reading.Wait()
	tasks.Wait()
	hub.Close()
}

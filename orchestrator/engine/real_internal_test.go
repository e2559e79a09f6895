package engine

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// On one processor the other effect has its turn as soon as the owner gives way.
func TestReportsThatAreAboutToComeAreTakenTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var world RealWorld
	box := NewMailbox()
	box.expect()
	box.expect()
	box.put(report{effect: "first"})
	world.Go(func() { box.put(report{effect: "second"}) })
	world.Wait(context.Background(), box, world.NowMs()+time.Minute.Milliseconds())
	reports, _ := box.drain()
	require.Len(t, reports, 2)
	world.Close()
}

func TestAReportIsNotKeptForOneThatTakesLong(t *testing.T) {
	var world RealWorld
	box := NewMailbox()
	box.expect()
	box.expect()
	box.put(report{effect: "first"})
	world.Wait(context.Background(), box, world.NowMs()+time.Minute.Milliseconds())
	reports, _ := box.drain()
	require.Len(t, reports, 1)
}

func TestEveryTaskIsDoneOnceAndWaitedFor(t *testing.T) {
	var world RealWorld
	var done atomic.Int64
	const tasks = 10 * mostFree
	for range tasks {
		world.Go(func() {
			runtime.Gosched()
			world.Go(func() { done.Add(1) })
			done.Add(1)
		})
	}
	world.Close()
	require.EqualValues(t, 2*tasks, done.Load())
}

func TestAFreeGoroutineDoesTheNextTask(*testing.T) {
	var world RealWorld
	defer world.Close()
	world.Go(func() {})
	for len(world.free) == 0 {
		runtime.Gosched()
	}
	done := make(chan struct{})
	world.next <- func() { close(done) } // blocks until somebody is free
	<-done
}

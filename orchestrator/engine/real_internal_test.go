package engine

import (
	"context"
	"runtime"
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

package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The machine's clock is set ahead, set back and set ahead again while a worker
// runs: its own goes on, and it renews its leases in time.
func TestFault_B4_AClockThatIsSetBackHoldsUpNoRenewal(t *testing.T) {
	began := time.UnixMilli(1_000_000)
	clock := onward{began: began}
	var passed time.Duration
	wall := began
	read := func(steps, jump time.Duration) int64 {
		passed += steps
		wall = wall.Add(steps + jump)
		return clock.at(wall, passed)
	}
	require.EqualValues(t, 1_000_000, read(0, 0))
	require.EqualValues(t, 1_005_000, read(5*time.Second, 0))
	require.EqualValues(t, 1_010_000, read(5*time.Second, -time.Hour), "it goes on while the machine's goes back")
	require.EqualValues(t, 1_015_000, read(5*time.Second, 0))
	require.EqualValues(t, 1_020_000, read(5*time.Second, time.Hour), "the way back is no jump ahead")
	require.EqualValues(t, 1_025_000+3_600_000, read(5*time.Second, time.Hour), "a machine that slept has lost its leases")
	require.EqualValues(t, 1_030_000+3_600_000, read(5*time.Second, -time.Hour))

	now := time.Now()
	var machine onward
	first := machine.ms(now)
	require.Equal(t, now.UnixMilli(), first)
	require.Equal(t, first+7000, machine.ms(now.Add(7*time.Second)))
}

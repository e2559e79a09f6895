package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/run"
)

const steps = 100

// Every write of a sequence is booked a second time while it is played: see
// ledger.
func TestBudgetIsConservedUnderAnyCommands(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { play(t, steps) })
}

// The sequences must meet every kind of event, end and booking, else they show
// nothing.
func TestSequencesMeetEverything(t *testing.T) {
	met := map[string]int{}
	sequences := rapid.Custom(func(t *rapid.T) *player { return play(t, steps) })
	for seed := range 800 {
		p := sequences.Example(seed)
		for _, record := range p.records {
			met[string(record.Kind)]++
		}
		met[string(p.s.Status)]++
		for booking, amount := range map[string]run.Amount{"settled": p.ledger.settled, "unknown": p.ledger.unknown, "overrun": p.ledger.overrun} {
			if amount != (run.Amount{}) {
				met[booking]++
			}
		}
	}
	for _, kind := range run.Kinds() {
		require.NotZero(t, met[string(kind)], "%s: %v", kind, met)
	}
	for _, other := range []string{"settled", "unknown", "overrun", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"} {
		require.NotZero(t, met[other], "%s: %v", other, met)
	}
	t.Log(met)
}

func TestReplayGivesTheLiveState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, steps)
		replayed := &run.State{ID: "r1"}
		require.NoError(t, run.Replay(replayed, p.records))
		require.Equal(t, p.s, replayed)
		require.Equal(t, run.Pending(p.s, p.nowMs), run.Pending(replayed, p.nowMs))
		runs := 0
		for i := range p.s.Children {
			if child := &p.s.Children[i]; child.Live() {
				runs += child.Runs
			}
		}
		require.Equal(t, runs, p.s.LiveRuns(), "what is counted is what lives")
	})
}

func TestWhatIsAppliedToACloneIsNotAppliedToItsOrigin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, steps)
		at := rapid.IntRange(0, len(p.records)).Draw(t, "at")
		origin, again := &run.State{ID: "r1"}, &run.State{ID: "r1"}
		require.NoError(t, run.Replay(origin, p.records[:at]))
		require.NoError(t, run.Replay(again, p.records[:at]))
		clone := origin.Clone()
		require.NoError(t, run.Replay(clone, p.records[at:]))
		require.Equal(t, again, origin)
		require.NoError(t, run.Replay(origin, p.records[at:]))
		require.Equal(t, p.s, origin)
		require.Equal(t, p.s, clone)
	})
}

func TestAStateNamesEveryTextOfItsJournalOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, steps)
		var want []run.Text
		seen := map[string]bool{}
		for _, record := range p.records {
			event, err := run.Decode(record)
			require.NoError(t, err)
			for _, text := range event.Texts() {
				if !seen[text.ID] {
					seen[text.ID] = true
					want = append(want, text)
				}
			}
		}
		require.Equal(t, want, p.s.Texts())
	})
}

package run_test

import (
	"testing"

	"gantry.dev/orchestrator/run"
)

// rounds is a run of so many turns with two calls each.
func rounds(t testing.TB, count int) *world {
	w := begin(t)
	raised := w.s.Started
	raised.Authority.Turns, raised.Limits.Turns = 2*count, 2*count
	raised.Authority.MicroUSD, raised.Authority.Tokens = int64(100*count), int64(100*count)
	for name, grant := range raised.Authority.Tools {
		grant.Calls = 4 * count
		raised.Authority.Tools[name] = grant
	}
	w.rules.given = &raised.Authority
	w.restart(raised)
	for n := range count {
		w.round(n)
	}
	return w
}

func (w *world) round(n int) {
	w.turn("free", "opaque")
	w.attempt(2*n + 1)
	w.attempt(2*n + 2)
}

func BenchmarkRound(b *testing.B) {
	b.ReportAllocs()
	w := rounds(b, 1)
	started, rules := w.s.Started, w.rules
	for b.Loop() {
		w := &world{t: b, s: &run.State{ID: "r1"}, nowMs: 1000, rules: rules}
		w.do(run.Start{Started: started})
		w.round(0)
	}
}

func BenchmarkReplay(b *testing.B) {
	b.ReportAllocs()
	kept := rounds(b, 100).kept
	for b.Loop() {
		if err := run.Replay(&run.State{ID: "r1"}, kept); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(kept)), "records")
}

func BenchmarkEncode(b *testing.B) {
	b.ReportAllocs()
	kept := rounds(b, 1).kept
	var events []run.Event
	for _, record := range kept[1:] {
		event, err := run.Decode(record)
		if err != nil {
			b.Fatal(err)
		}
		events = append(events, event)
	}
	for b.Loop() {
		for _, event := range events {
			if _, err := run.Encode("r1", run.Record{}, 1000, event); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(len(events)), "records")
}

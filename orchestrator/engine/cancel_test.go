package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

func TestFault_G3_CancelInEachPhase(t *testing.T) {
	const (
		inside   = iota // the cancel commits while the worker passes the site
		approved        // as inside, after a person approved
		during          // it comes while the site is held
		waits           // it comes once the run waits for people
		never           // there is no worker before it
	)
	rows := []struct {
		phase    string
		tools    string // of one turn, made one after the other; the last one counts
		how      int
		site     string
		outcome  run.Outcome
		attempts int // outside
		turns    int
	}{
		{"queued", "", never, "", "", 0, 0},
		{"compiling", "", inside, "prepare turn/1/1", "", 0, 0},
		{"turn decided", "", inside, "before turn_started", "", 0, 0},
		{"model in flight", "", during, "begin turn/1/1", "", 0, 1},
		{"answered", "opaque", inside, "before turn_answered", "", 0, 1},
		{"proposed", "read opaque", inside, "prepare call/2/1", run.OutcomeVoid, 0, 1},
		{"waits for its turn", "read opaque", during, "done call/1/1", run.OutcomeVoid, 0, 1},
		{"approved", "held.opaque", approved, "prepare call/1/1", run.OutcomeVoid, 0, 1},
		{"intent decided", "held.opaque", approved, "before call_intended", run.OutcomeVoid, 0, 1},
		{"awaiting approval", "held", waits, "", run.OutcomeVoid, 0, 1},
		{"awaiting an answer", "ask", waits, "", run.OutcomeVoid, 0, 1},
		{"intent committed", "opaque", inside, "after call_intended", run.OutcomeOK, 1, 1},
		{"effect in flight", "opaque", during, "done call/1/1", run.OutcomeOK, 1, 1},
		{"outcome decided", "opaque", inside, "before call_ended", run.OutcomeOK, 1, 1},
		{"uncertain, a person asked", "lost opaque", waits, "", run.OutcomeUnknown, 1, 1},
		{"uncertain, querying", "lost checkable", during, "begin probe/1/1", run.OutcomeOK, 1, 1},
		{"verifying", "", during, "begin verify/1/1", "", 0, 1},
		{"verified", "", inside, "before verified", "", 0, 1},
	}
	for _, row := range rows {
		t.Run(row.phase, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.limits.CallsAtOnce = 1
				r := &thread{bench: b, id: "r1"}
				var let func()
				switch row.how {
				case inside, approved:
					b.at(row.site, func(context.Context) error { return r.cancel() })
				case during:
					let = b.hold(row.site)
				}
				if tools, lost := strings.CutPrefix(row.tools, "lost "); lost {
					row.tools = tools
					b.fail("done call/1/1", errStore)
				}
				if row.how != never {
					b.work("w1")
				}
				tools := strings.Fields(row.tools)
				b.start("r1", tools)
				switch row.how {
				case approved:
					r.waits()
					r.do(r.decision("olga", true))
				case during:
					b.reach(row.site)
					require.NoError(t, r.cancel())
					b.later(1)
					let()
				case waits:
					r.waits()
					require.NoError(t, r.cancel())
				case never:
					require.NoError(t, r.cancel())
					b.work("w1")
				}
				state := r.ends(run.StatusCancelled)
				b.later(leaseMs)
				require.Len(t, state.Turns, row.turns)
				require.Equal(t, row.attempts, b.attempted(fmt.Sprint("r1/", len(tools))))
				if row.outcome == "" {
					require.Empty(t, state.Calls)
				} else {
					require.Equal(t, row.outcome, state.Calls[len(tools)-1].Outcome)
				}
				require.Equal(t, 1, r.recorded(run.KindCancelAccepted))
				require.Equal(t, 1, r.recorded(run.KindEnded))
				require.Equal(t, "RUN_ENDED", r.code(r.cancel()))
				require.NotContains(t, b.inbox("olga"), engine.InboxApproval)
			})
		})
	}
}

func TestFault_G11_CancelWhileItsWorkerDrains(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		first := b.work("w1")
		let := b.hold("done call/1/1")
		r := b.start("r1", []string{"opaque"}, []string{"opaque"})
		b.reach("done call/1/1")
		stopped := make(chan struct{})
		go func() { first.stop(); close(stopped) }()
		b.later(1)
		require.NoError(t, r.cancel())
		let()
		<-stopped
		state := r.ends(run.StatusCancelled)
		require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
	})
}

// A cancel stops the request that is under way, and what it may have cost
// stays held.
func TestCancelGivesUpTheModelRequest(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		b.hold("begin turn/1/1")
		r := b.start("r1")
		b.reach("begin turn/1/1")
		require.NoError(t, r.cancel())
		b.later(1)
		require.Equal(t, 1, b.count("given up begin turn/1/1"))
		require.Equal(t, int64(1), r.ends(run.StatusCancelled).Ended.Unknown.Tokens)
	})
}

func TestFault_G1_SteerInEachSituation(t *testing.T) {
	steers := map[string]run.Steer{"plain": {}, "interrupt": {Interrupt: true}, "void": {Void: true}}
	rows := []struct {
		situation string
		tool      string
		site      string // held while the steer comes
		cancel    bool
		code      string         // of the refusal
		absorbed  map[string]int // by which turn; 0: not
	}{
		{"model streams", "", "begin turn/1/1", false, "", map[string]int{"plain": 2, "interrupt": 1, "void": 2}},
		{"tool runs", "opaque", "done call/1/1", false, "", map[string]int{"plain": 2, "interrupt": 2, "void": 2}},
		{"approval pending", "held", "", false, "", map[string]int{"plain": 2, "interrupt": 2, "void": 2}},
		{"cancelling", "opaque", "done call/1/1", true, "RUN_CANCELLED", nil},
		{"terminal", "", "", false, "RUN_ENDED", nil},
	}
	for _, row := range rows {
		for kind, steer := range steers {
			t.Run(row.situation+"/"+kind, func(t *testing.T) {
				within(t, func(t *testing.T, b *bench) {
					let := func() {}
					if row.site != "" {
						let = b.hold(row.site)
					}
					after := []func(){b.hold("begin turn/1/2"), b.hold("begin turn/2/1")} // the run is there for a second steer
					b.work("w1")
					r := b.start("r1", script(row.tool)...)
					switch {
					case row.site != "":
						b.reach(row.site)
					case row.tool == "held":
						r.waits()
					default:
						r.ends(run.StatusCompleted)
					}
					if row.cancel {
						require.NoError(t, r.cancel())
					}
					require.Equal(t, row.code, r.code(r.steer("s1", steer)))
					require.Equal(t, row.code, r.code(r.steer("s2", run.Steer{})))
					b.later(1)
					if row.site == "begin turn/1/1" && steer.Interrupt {
						require.Equal(t, 1, b.count("given up "+row.site), "the request is stopped at once")
					}
					let()
					for _, let := range after {
						let()
					}
					if row.tool == "held" && !steer.Void {
						r.do(r.decision("olga", true))
					}
					b.until("the end", func() bool { return r.status().Ended() })
					r.steered(row.absorbed[kind], steer.Void && row.tool == "held")
				})
			})
		}
	}
}

// steered checks what became of two steers, which came in this order.
func (r *thread) steered(turn int, voided bool) {
	r.t.Helper()
	state := r.state()
	if turn == 0 {
		require.Empty(r.t, state.Steers)
		return
	}
	require.Equal(r.t, run.StatusCompleted, state.Status)
	require.Equal(r.t, []string{"s1", "s2"}, []string{state.Steers[0].Steer, state.Steers[1].Steer})
	require.Equal(r.t, run.Absorbed, state.Steers[0].Disposition)
	require.Equal(r.t, turn, state.Steers[0].Turn)
	require.Equal(r.t, run.Absorbed, state.Steers[1].Disposition)
	if len(state.Approvals) > 0 {
		require.Equal(r.t, voided, state.Approvals[0].Status == run.ApprovalVoid)
		require.Equal(r.t, voided, state.Call(1).Outcome == run.OutcomeVoid)
	}
	if len(state.Calls) > 0 && !voided {
		require.Equal(r.t, run.OutcomeOK, state.Call(1).Outcome, "what was dispatched is not skipped")
	}
}

func (r *thread) steer(id string, steer run.Steer) error {
	text, payload := r.seal(r.id, "rather this way")
	steer.Steer, steer.By, steer.Text = id, run.Identity{Principal: "ada"}, text
	return r.submit(steer, payload)
}

// Guidance for which no turn is left is kept for the next run.
func TestCase_30_ASteerIsNeverLost(t *testing.T) {
	for _, ends := range []run.Status{run.StatusCompleted, run.StatusCancelled} {
		t.Run(string(ends), func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.limits.Turns = 1
				b.work("w1")
				let := b.hold("begin turn/1/1")
				r := b.start("r1")
				b.reach("begin turn/1/1")
				require.NoError(t, r.steer("s1", run.Steer{}))
				if ends == run.StatusCancelled {
					require.NoError(t, r.cancel())
				}
				let()
				state := r.ends(ends)
				require.Equal(t, run.Deferred, state.Steers[0].Disposition)
			})
		})
	}
}

// script is a model that proposes one call, or none.
func script(tool string) [][]string {
	if tool == "" {
		return nil
	}
	return [][]string{{tool}}
}

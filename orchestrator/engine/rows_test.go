package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// The process that asked is gone, and no session of the approver is open:
// another process takes the word, a third one goes on with the run, and nobody
// has to be told by a bus.
func TestCase_12_AnAnswerByAnotherProcessIsTakenUpByAnyWorker(t *testing.T) {
	answers := map[string]func(state *run.State) run.Command{
		"held": func(state *run.State) run.Command {
			a := state.Approvals[0]
			return run.DecideApproval{Approval: a.Approval, Digest: a.Digest, Granted: true, By: run.Identity{Principal: "olga"}, Person: person("olga")}
		},
		"ask": func(state *run.State) run.Command {
			return run.AnswerQuestion{Question: state.Questions[0].Question, By: run.Identity{Principal: "ada"}, Person: person("ada"), Answer: run.Text{ID: "answer"}}
		},
	}
	for tool, answer := range answers {
		t.Run(tool, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				first := b.work("w1")
				r := b.start("r1", []string{tool})
				state := r.waits()
				first.stop()
				<-first.done
				other := engine.New(b.Memory, b.sourceOfRules)
				_, err := other.Submit(t.Context(), engine.Submission{Organisation: "o", Run: "r1", Command: answer(state)})
				require.NoError(t, err)
				require.Equal(t, 1, r.recorded(run.KindTurnStarted), "nobody works yet")
				b.work("w2")
				state = r.ends(run.StatusCompleted)
				require.Equal(t, uint64(1), state.Turns[0].Epoch)
				require.Equal(t, uint64(2), state.Turns[1].Epoch)
			})
		})
	}
}

// Nobody takes over a run that waits for a person, however long it waits and
// whatever became of the worker that asked: there is nothing to do.
func TestCase_18_ARunThatWaitsForAPersonIsNotTakenOver(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.limits.ApprovalMs = 100 * leaseMs
		first := b.work("w1")
		r := b.start("r1", []string{"held"})
		r.waits()
		first.world.kill()
		b.work("w2")
		before := r.head()
		b.later(50 * leaseMs)
		require.Equal(t, before, r.head(), "no epoch, no record, no owner is new")
		r.do(r.decision("olga", true))
		require.Equal(t, uint64(2), r.ends(run.StatusCompleted).Turns[1].Epoch, "with the word there is")
	})
}

// What was dispatched is finished and its result kept, however hard somebody
// steers; only what nobody began is withdrawn.
func TestCase_31_ASteerSkipsNothingThatWasDispatched(t *testing.T) {
	for name, steer := range map[string]run.Steer{"plain": {}, "interrupt": {Interrupt: true}, "void": {Void: true}, "both": {Interrupt: true, Void: true}} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.work("w1")
				first, second := b.hold("done call/1/1"), b.hold("done call/3/1")
				r := b.start("r1", []string{"opaque", "held", "opaque"})
				b.reach("done call/1/1")
				b.reach("done call/3/1")
				require.NoError(t, r.steer("s1", steer))
				b.later(1)
				require.Zero(t, b.count("given up done call/1/1"))
				second()
				first()
				if !steer.Void {
					b.until("held", func() bool { return r.state().Call(3).Outcome != "" })
					r.do(r.decision("olga", true))
				}
				state := r.ends(run.StatusCompleted)
				held := run.OutcomeOK
				if steer.Void {
					held = run.OutcomeVoid
				}
				require.Equal(t, []run.Outcome{run.OutcomeOK, held, run.OutcomeOK},
					[]run.Outcome{state.Call(1).Outcome, state.Call(2).Outcome, state.Call(3).Outcome})
				require.NotNil(t, state.Call(1).Result)
				require.NotNil(t, state.Call(3).Result)
				require.Equal(t, []int{1, 1}, []int{b.attempted("r1/1"), b.attempted("r1/3")})
				require.Equal(t, 2, state.Steers[0].Turn, "the next request contains it")
			})
		})
	}
}

// The cancel is accepted, and then the worker dies where it stands: another one
// settles what is open and begins nothing. That no intent follows, and that
// there is one end, holds of every run here: see sound.
func TestFault_G3_AfterACancelTheWorkerDies(t *testing.T) {
	for _, site := range []string{"prepare turn/1/1", "before turn_started", "after turn_started", "begin turn/1/1", "before turn_answered", "after turn_answered",
		"prepare call/1/1", "before call_intended", "after call_intended", "begin call/1/1", "done call/1/1", "before call_ended", "after call_ended",
		"begin turn/2/1", "begin verify/2/1", "before verified"} {
		for _, tool := range []string{"read", "keyed", "checkable", "opaque"} {
			t.Run(site+"/"+tool, func(t *testing.T) {
				within(t, func(t *testing.T, b *bench) {
					first := b.work("w1")
					r := &thread{bench: b, id: "r1"}
					b.at(site, func(context.Context) error {
						err := r.cancel()
						first.world.kill()
						if err != nil {
							return err
						}
						return errDead
					})
					b.start("r1", []string{tool})
					b.reach(site)
					b.work("w2")
					state := r.ends(run.StatusCancelled)
					require.Equal(t, 1, r.recorded(run.KindCancelAccepted))
					require.Equal(t, 1, r.recorded(run.KindEnded))
					require.LessOrEqual(t, b.attempted("r1/1"), 1, "a run that closes repeats nothing")
					for i := range state.Calls {
						require.NotEmpty(t, state.Calls[i].Outcome)
						if state.Calls[i].Outcome == run.OutcomeVoid {
							require.Zero(t, b.attempted("r1/1"))
						}
					}
					unknown := len(state.Calls) > 0 && state.Call(1).Outcome == run.OutcomeUnknown && tool != "read"
					require.Equal(t, unknown, len(b.inbox("olga")) == 1, "a person is asked about what nobody could find out, and nothing else")
				})
			})
		}
	}
}

package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// together runs n tasks at once and returns their errors.
func together(n int, task func(i int) error) []error {
	errs := make([]error, n)
	var tasks sync.WaitGroup
	for i := range n {
		tasks.Go(func() { errs[i] = task(i) })
	}
	tasks.Wait()
	return errs
}

func TestCase_04_OneOfManyApprovalsWins(t *testing.T) {
	for name, granted := range map[string]func(i int) bool{
		"all approve":       func(int) bool { return true },
		"approve and deny":  func(i int) bool { return i%2 == 0 },
		"deny and approve":  func(i int) bool { return i%2 == 1 },
		"everybody says no": func(int) bool { return false },
	} {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.work("w1")
				let := b.hold("begin turn/2/1") // the run goes on, but does not end
				r := b.start("r1", []string{"held.opaque"})
				r.waits()
				decision := r.decision("", true)
				errs := together(50, func(i int) error {
					by := fmt.Sprint("approver-", i)
					word := decision
					word.Granted, word.By.Principal, word.Person = granted(i), by, person(by)
					return r.submit(word)
				})
				let()
				state := r.ends(run.StatusCompleted)
				require.Len(t, state.Approvals[0].Decisions, 1)
				winner := state.Approvals[0].Decisions[0]
				for i, err := range errs {
					if winner.By.Principal == fmt.Sprint("approver-", i) {
						require.NoError(t, err)
						require.Equal(t, granted(i), winner.Granted)
						continue
					}
					require.Equal(t, "ALREADY_DECIDED", r.code(err))
					require.ErrorContains(t, err, "decided by "+winner.By.Principal)
				}
				outcome, attempts := run.OutcomeDenied, 0
				if winner.Granted {
					outcome, attempts = run.OutcomeOK, 1
				}
				require.Equal(t, outcome, state.Call(1).Outcome)
				require.Equal(t, attempts, b.attempted("r1/1"))
			})
		})
	}
}

func TestCase_04_WhoComesAfterTheEndHearsWhoDecided(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		r := b.start("r1", []string{"held"})
		r.waits()
		late := r.decision("approver-1", true)
		r.do(r.decision("olga", true))
		r.ends(run.StatusCompleted)
		err := r.submit(late)
		require.Equal(t, "ALREADY_DECIDED", r.code(err))
		require.ErrorContains(t, err, "decided by olga")
		late.By.Principal, late.Person = "ada", person("ada")
		require.Equal(t, "NOT_FOUND", r.code(r.submit(late)), "only whom it concerns")
	})
}

func TestCase_08_ApprovingWhatNoLongerHoldsIsToldAndNotRemembered(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		r := b.start("r1", []string{"held"})
		r.waits()
		decision := r.decision("olga", true)
		reason, payload := b.seal("r1", "looks right")
		decision.Reason = &reason
		b.rules.moved.Store(true)
		_, err := b.engine.Submit(t.Context(), engine.Submission{Organisation: "o", Run: "r1", Command: decision, Payloads: []engine.Payload{payload},
			Receipt: &engine.Receipt{Organisation: "o", Caller: "olga", Command: "c1", Run: "r1"}})
		require.Equal(t, "APPROVAL_STALE", r.code(err))
		require.Equal(t, 1, r.recorded(run.KindApprovalVoided), "what happened instead is recorded")
		_, err = b.Receipt(t.Context(), "o", "olga", "c1")
		require.ErrorIs(t, err, engine.ErrNotFound)
		texts, err := b.Payloads(t.Context(), []string{reason.ID})
		require.NoError(t, err)
		require.Empty(t, texts, "no event bears the reason")
	})
}

func TestFault_F3_ApproveRacesCancel(t *testing.T) {
	within(t, func(_ *testing.T, b *bench) {
		b.work("w1")
		b.work("w2")
		const runs = 60
		threads := make([]*thread, runs)
		for i := range threads {
			threads[i] = b.start(fmt.Sprint("r", i), []string{"held.opaque"})
		}
		for _, r := range threads {
			r.waits()
		}
		errs := together(2*runs, func(i int) error {
			if i%2 == 0 {
				return threads[i/2].submit(threads[i/2].decision("olga", true))
			}
			return threads[i/2].cancel()
		})
		for i, r := range threads {
			b.until("the end", func() bool { return r.status().Ended() })
			r.storyOf(r.code(errs[2*i]), r.code(errs[2*i+1]))
		}
	})
}

// storyOf checks that what the approver and the canceller were told is what
// happened.
func (r *thread) storyOf(approve, cancel string) {
	r.t.Helper()
	state := r.state()
	call, approval := state.Call(1), state.Approvals[0]
	if approve != "" {
		require.Contains(r.t, []string{"RUN_CANCELLED", "RUN_ENDED"}, approve)
		require.Empty(r.t, cancel)
		require.Empty(r.t, approval.Decisions)
		require.Equal(r.t, run.ApprovalVoid, approval.Status)
	}
	if cancel != "" {
		require.Equal(r.t, "RUN_ENDED", cancel)
		require.Equal(r.t, run.StatusCompleted, state.Status)
	} else {
		require.Equal(r.t, run.StatusCancelled, state.Status)
	}
	acted := r.attempted(r.id + "/1")
	switch approval.Status {
	case run.ApprovalVoid:
		require.Zero(r.t, acted)
		require.Equal(r.t, run.OutcomeVoid, call.Outcome)
	case run.ApprovalSpent:
		require.Equal(r.t, 1, acted)
		require.Equal(r.t, run.OutcomeOK, call.Outcome)
	default:
		r.t.Fatalf("the approval is left %s", approval.Status)
	}
}

func TestFault_F3_InBothOrders(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		worker := b.work("w1")
		first, second := b.start("r1", []string{"held.opaque"}), b.start("r2", []string{"held.opaque"})
		first.waits()
		second.waits()
		worker.world.freeze()
		require.NoError(t, first.submit(first.decision("olga", true)))
		require.NoError(t, first.cancel())
		require.NoError(t, second.cancel())
		require.Equal(t, "RUN_ENDED", second.code(second.submit(second.decision("olga", true))))
		first.storyOf("", "")
		second.storyOf("RUN_ENDED", "")
	})
}

func TestFault_J14_ARepeatedCommandIsAcceptedOnce(t *testing.T) {
	commands := map[string]func(r *thread) (run.Command, []engine.Payload){
		"steer": func(r *thread) (run.Command, []engine.Payload) {
			text, payload := r.seal(r.id, "rather this way")
			return run.Steer{Steer: text.ID, By: run.Identity{Principal: "ada"}, Text: text}, []engine.Payload{payload}
		},
		"approve": func(r *thread) (run.Command, []engine.Payload) { return r.decision("olga", true), nil },
		"cancel": func(*thread) (run.Command, []engine.Payload) {
			return run.Cancel{By: run.Identity{Principal: "ada"}}, nil
		},
	}
	for name, command := range commands {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				worker := b.work("w1")
				r := b.start("r1", []string{"held"})
				r.waits()
				worker.world.freeze()
				before := r.head().Version
				receipt := engine.Receipt{Organisation: "o", Caller: "ada", Command: "c1", Request: "digest", Run: "r1", Answer: []byte(`{"first":true}`)}
				errs := together(20, func(int) error {
					does, payloads := command(r)
					_, err := b.engine.Submit(t.Context(), engine.Submission{Organisation: "o", Run: "r1", Command: does, Payloads: payloads, Receipt: &receipt})
					return err
				})
				accepted := 0
				for _, err := range errs {
					if err == nil {
						accepted++
						continue
					}
					require.ErrorIs(t, err, engine.ErrReplayed)
				}
				require.Equal(t, 1, accepted)
				require.Greater(t, r.head().Version, before)
				first, err := b.Receipt(t.Context(), "o", "ada", "c1")
				require.NoError(t, err)
				require.Equal(t, receipt, first)
			})
		})
	}
}

// deaf is a journal that cannot say what was accepted.
type deaf struct{ engine.Journal }

func (deaf) Receipt(context.Context, string, string, string) (engine.Receipt, error) {
	return engine.Receipt{}, errStore
}

// A client whose command was accepted is not told that it was refused.
func TestFault_J14_ARepeatWhoseReceiptCannotBeReadIsNotRefused(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.start("r1")
		cancel := engine.Submission{Organisation: "o", Run: "r1", Command: run.Cancel{By: run.Identity{Principal: "ada"}},
			Receipt: &engine.Receipt{Organisation: "o", Caller: "ada", Command: "c1", Run: "r1"}}
		_, err := b.engine.Submit(t.Context(), cancel)
		require.NoError(t, err)
		_, err = engine.New(deaf{b}, b.sourceOfRules).Submit(t.Context(), cancel)
		require.ErrorIs(t, err, errStore)
		_, err = b.engine.Submit(t.Context(), cancel)
		require.ErrorIs(t, err, engine.ErrReplayed)
	})
}

func TestCommandsFromAnotherOrganisationFindNothing(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		r := b.start("r1")
		_, err := b.engine.Submit(t.Context(), engine.Submission{Organisation: "other", Run: r.id, Command: run.Cancel{}})
		require.ErrorIs(t, err, engine.ErrNotFound)
		_, err = b.engine.Submit(t.Context(), engine.Submission{Organisation: "o", Run: "r9", Command: run.Cancel{}})
		require.ErrorIs(t, err, engine.ErrNotFound)
	})
}

func TestTimersFireByTheClockAlone(t *testing.T) {
	for tool, outcome := range map[string]run.Outcome{"held": run.OutcomeExpired, "ask": run.OutcomeExpired} {
		t.Run(tool, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.work("w1")
				r := b.start("r1", []string{tool})
				r.waits()
				beganMs, due := now(), r.head().DueMs
				require.Positive(t, due)
				b.later(due - beganMs - 1)
				require.Empty(t, r.state().Call(1).Outcome, "not before its time")
				b.later(1 + pollMs)
				require.Equal(t, outcome, r.state().Call(1).Outcome)
				r.ends(run.StatusCompleted)
			})
		})
	}
}

func TestAFailedTurnIsTriedAgainWhenItsTimeHasCome(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		b.fail("begin turn/1/1", errStore)
		r := b.start("r1")
		b.later(1)
		turn := r.state().LastTurn()
		require.Equal(t, run.TurnRetry, turn.Phase)
		require.Equal(t, turn.RetryAtMs, r.head().DueMs)
		b.later(turn.RetryAtMs - now() - 1)
		require.Zero(t, b.count("begin turn/1/2"))
		state := r.ends(run.StatusCompleted)
		require.Equal(t, 2, state.LastTurn().Attempt)
	})
}

func TestCase_14_AnAnswerLeavesTheInputAsItWas(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		r := b.start("r1", []string{"ask"})
		before := r.waits()
		text, payload := r.seal(r.id, "instead do something else")
		r.do(run.AnswerQuestion{Question: before.Questions[0].Question, By: run.Identity{Principal: "ada"}, Person: person("ada"), Answer: text}, payload)
		after := r.ends(run.StatusCompleted)
		require.Equal(t, before.Started, after.Started)
		require.Equal(t, after.Started.Snapshot.Digest(), after.Started.SnapshotDigest)
		require.Equal(t, text.ID, after.Call(1).Result.ID, "the answer is the result of its call")
		goal, err := b.Payloads(t.Context(), []string{after.Started.Goal.ID})
		require.NoError(t, err)
		require.Equal(t, "the goal", string(goal[after.Started.Goal.ID].Bytes))
	})
}

// An effect whose outcome stayed unknown is somebody's to find out about,
// also when the run is over; and nobody's once it is known.
func TestAnUnknownOutcomeStaysInTheInboxUntilItIsKnown(t *testing.T) {
	found := map[string]func(r *thread){
		"a person finds out": func(r *thread) { require.NoError(r.t, r.finding("olga", 1, run.NotHappened)) },
		"a late word says so": func(r *thread) {
			require.NoError(r.t, r.submit(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK}))
		},
	}
	for name, find := range found {
		t.Run(name, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.work("w1")
				b.fail("done call/1/1", errStore)
				r := b.start("r1", []string{"opaque"})
				r.waits()
				for _, who := range []string{"olga", "carl"} {
					require.Equal(t, []engine.InboxKind{engine.InboxUncertain}, b.inbox(who))
				}
				require.NoError(t, r.cancel())
				state := r.ends(run.StatusCancelled)
				require.Equal(t, run.OutcomeUnknown, state.Call(1).Outcome)
				require.Equal(t, []engine.InboxKind{engine.InboxUncertain}, b.inbox("carl"), "the run is over, the question is not")
				find(r)
				require.Empty(t, b.inbox("carl"))
				require.Empty(t, b.inbox("olga"))
				require.Equal(t, run.OutcomeUnknown, r.state().Call(1).Outcome, "what was recorded stays")
			})
		})
	}
}

// A cancel that comes while the attempt is lost asks as well.
func TestAnEffectLostWhileCancellingAsksAPerson(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		first := b.work("w1")
		b.hold("done call/1/1")
		r := b.start("r1", []string{"opaque"})
		b.reach("done call/1/1")
		first.world.kill() // ahead of the cancel, which would be heard of else
		require.NoError(t, r.cancel())
		b.work("w2")
		r.ends(run.StatusCancelled)
		require.Equal(t, []engine.InboxKind{engine.InboxUncertain}, b.inbox("carl"))
		require.NoError(t, r.finding("carl", 1, run.Happened))
		require.Empty(t, b.inbox("carl"))
	})
}

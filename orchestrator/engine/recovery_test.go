package engine_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func TestARunIsTakenToItsEnd(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		r := b.start("r1", []string{"read", "keyed"}, []string{"checkable"})
		state := r.ends(run.StatusCompleted)
		require.Len(t, state.Turns, 3)
		require.Equal(t, 1, b.attempted("r1/3"))
		require.Empty(t, r.head().Owner, "the lease is given back")
		budget, err := b.Budget(t.Context(), "department:o/d")
		require.NoError(t, err)
		require.Zero(t, budget.Reserved)
		require.Equal(t, int64(3), budget.Settled.Tokens)
	})
}

// The outcome of a call is lost after its effect happened; another worker
// takes the run over.
func TestFault_A6_AnOutcomeThatWasNotRecordedIsSettledByItsClass(t *testing.T) {
	for _, row := range []struct {
		tool     string
		attempts int
		waits    bool // for a person
	}{
		{"read", 2, false},
		{"keyed", 2, false},     // with the same key
		{"checkable", 1, false}, // the query finds it
		{"opaque", 1, true},
	} {
		t.Run(row.tool, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				first := b.work("w1")
				b.at("before call_ended", func(context.Context) error { first.world.kill(); return errDead })
				r := b.start("r1", []string{row.tool})
				b.reach("before call_ended")
				b.work("w2")
				if row.waits {
					b.until("a person is asked", func() bool { return len(b.inbox("carl")) == 1 })
					require.Equal(t, run.CallUncertainOpen, r.state().Call(1).Phase)
					require.NoError(t, r.finding("carl", 1, run.Happened))
					require.Empty(t, b.inbox("carl"))
				}
				state := r.ends(run.StatusCompleted)
				require.Equal(t, row.attempts, b.attempted("r1/1"))
				require.Len(t, b.effects, 1, "one effect outside")
				require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
				require.Equal(t, "r1/1", state.Call(1).Key)
				require.Equal(t, 1, r.recorded(run.KindCallEnded))
			})
		})
	}
}

// A store that says no to a commit that it made, or made none, loses nothing.
func TestFault_A3_AWriteIsReadAgainAfterAnError(t *testing.T) {
	for _, site := range []string{"before turn_started", "after turn_started", "before turn_answered", "after turn_answered",
		"before call_intended", "after call_intended", "before call_ended", "after call_ended", "before verified", "after ended"} {
		t.Run(site, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.work("w1")
				b.fail(site, errStore)
				r := b.start("r1", []string{"keyed"})
				state := r.ends(run.StatusCompleted)
				require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
				require.Len(t, b.effects, 1)
				require.LessOrEqual(t, b.attempted("r1/1"), 2)
			})
		})
	}
}

func TestFault_A8_AnApprovalOutlivesTheWorkerThatWasToUseIt(t *testing.T) {
	for _, site := range []string{"prepare call/1/1", "before call_intended"} {
		t.Run(site, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				first := b.work("w1")
				r := b.start("r1", []string{"held.opaque"}, []string{"held.opaque"})
				r.waits()
				b.at(site, func(context.Context) error { first.world.kill(); return errDead })
				r.do(r.decision("olga", true))
				b.reach(site)
				approval := r.state().Approvals[0]
				require.Equal(t, run.ApprovalGranted, approval.Status, "granted, and not spent")
				b.work("w2")
				b.until("the second call is held", func() bool { return len(r.state().Approvals) == 2 })
				require.Equal(t, run.ApprovalSpent, r.state().Approvals[0].Status)
				require.Equal(t, 1, b.attempted("r1/1"))
				require.Equal(t, run.CallHeld, r.state().Call(2).Phase, "the same call again needs another approval")
				require.Equal(t, 1, r.recorded(run.KindCallIntended))
			})
		})
	}
}

// A worker is stopped with an effect in flight until its lease is over, and
// goes on when another one has the run.
func TestCase_18_AWorkerThatLostItsLeaseCannotWrite(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		zombie := b.work("w1")
		let := b.hold("done call/1/1")
		r := b.start("r1", []string{"opaque"})
		b.reach("done call/1/1")
		zombie.world.freeze()
		b.work("w2")
		b.until("a person is asked", func() bool { return len(b.inbox("carl")) == 1 })
		epoch := r.head().Epoch
		require.Equal(t, uint64(2), epoch)
		before := r.head().Version

		fenced := engine.Write{Head: r.head(), From: before, Epoch: 1}
		require.ErrorIs(t, b.Memory.Append(t.Context(), fenced), run.ErrFenced)
		held, err := b.Renew(t.Context(), "w1", []engine.Lease{{Run: "r1", Epoch: 1}}, leaseMs)
		require.NoError(t, err)
		require.Empty(t, held)
		require.NoError(t, b.Release(t.Context(), "w2", engine.Lease{Run: "r1", Epoch: 1}))
		require.Equal(t, before, r.head().Version)

		let()
		zombie.world.thaw()
		state := r.ends(run.StatusCompleted)
		require.Equal(t, run.OutcomeOK, state.Call(1).Outcome, "what the late word says settles the call")
		require.Equal(t, uint64(1), b.epochs["call_intended"], "an owner's writes name its lease")
		require.Zero(t, b.epochs["call_ended"], "who lost the lease writes as an outsider")
		require.Empty(t, b.inbox("carl"))
		require.Equal(t, 1, b.attempted("r1/1"))
	})
}

func TestFault_B3_AnOutcomeThatComesAfterItsSuccessorIsKeptAsLate(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		zombie := b.work("w1")
		let := b.hold("done call/1/1")
		r := b.start("r1", []string{"keyed"})
		b.reach("done call/1/1")
		zombie.world.freeze()
		b.work("w2")
		state := r.ends(run.StatusCompleted)
		require.Equal(t, 2, state.Call(1).Intent)
		let()
		zombie.world.thaw()
		b.later(pollMs)
		state = r.state()
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, run.OutcomeOK, state.Call(1).Late[0].Outcome)
		require.Equal(t, 1, state.Call(1).Late[0].Intent)
		require.Equal(t, 1, r.recorded(run.KindCallEnded), "one outcome counts")
		require.Len(t, b.effects, 1)
	})
}

// A worker that cannot renew goes on for as long as its lease holds, and asks
// the store no faster for it.
func TestFault_B7_ABlockedRenewalIsTriedAtItsPace(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.blockRenewal(errStore)
		b.work("w1")
		let := b.hold("done call/1/1")
		r := b.start("r1", []string{"opaque"}, []string{"opaque"})
		b.reach("done call/1/1")
		b.later(leaseMs * 9 / 10)
		require.LessOrEqual(t, b.count("renew"), 20)
		require.Greater(t, b.count("renew"), 0)
		let()
		b.later(pollMs)
		require.Equal(t, run.OutcomeOK, r.state().Call(1).Outcome, "what is known is recorded")
		b.blockRenewal(nil)
		state := r.ends(run.StatusCompleted)
		require.Equal(t, uint64(1), state.Turns[0].Epoch)
		require.Equal(t, uint64(2), state.Turns[1].Epoch, "nothing begins so late in a lease")
	})
}

// One worker may meet its own run again, under a new epoch.
func TestFault_B10_AWorkerThatClaimsItsOwnRunAgainStillHearsOfIt(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.blockRenewal(errStore)
		b.work("w1")
		late, again := b.hold("done call/1/1"), b.hold("done call/1/2")
		r := b.start("r1", []string{"keyed"})
		b.reach("done call/1/2")
		require.Equal(t, uint64(2), r.head().Epoch)
		b.blockRenewal(nil)
		late()
		b.later(pollMs)
		begin := b.hold("begin turn/2/1")
		again()
		b.reach("begin turn/2/1")
		require.NoError(t, r.cancel())
		b.later(1)
		require.Equal(t, run.StatusCancelled, r.status(), "the owner heard of it at once")
		begin()
	})
}

func TestWorkDrains(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		first := b.work("w1")
		let := b.hold("done call/1/1")
		r := b.start("r1", []string{"opaque"}, []string{"opaque"})
		b.reach("done call/1/1")
		stopped := make(chan struct{})
		go func() { first.stop(); close(stopped) }()
		b.later(3 * leaseMs)
		select {
		case <-stopped:
			t.Fatal("it left an effect in flight")
		default:
		}
		require.Equal(t, "w1", r.head().Owner, "the lease is renewed for as long as it takes")
		let()
		<-stopped
		<-first.done
		state := r.state()
		require.Equal(t, run.OutcomeOK, state.Call(1).Outcome)
		require.Len(t, state.Turns, 1, "nothing new began")
		require.Empty(t, r.head().Owner, "no lease waits for its end")
		b.work("w2")
		b.later(1)
		require.Equal(t, run.StatusCompleted, r.status(), "a successor goes on at once")
	})
}

func TestARunThatWaitsIsGivenBackAtOnce(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		r := b.start("r1", []string{"held"})
		b.later(1)
		require.Equal(t, run.StatusWaiting, r.status())
		require.Empty(t, r.head().Owner)
	})
}

// What one effect gave is recorded, whether or not the next can be readied.
func TestAnOutcomeIsKeptWhileNothingElseCanBePrepared(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		b.fail("prepare turn/2/1", errStore)
		r := b.start("r1", []string{"opaque"})
		b.reach("prepare turn/2/1")
		require.Equal(t, run.OutcomeOK, r.state().Call(1).Outcome)
		state := r.ends(run.StatusCompleted)
		require.Equal(t, 1, state.Call(1).Intent)
		require.Equal(t, 1, b.attempted("r1/1"))
	})
}

func TestAnEffectThatPanicsHasAnUnknownOutcomeAndHarmsNoOther(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		b.work("w1")
		b.at("done call/1/1", func(context.Context) error { panic("broken performer") })
		let := b.hold("done call/2/1")
		r := b.start("r1", []string{"opaque", "opaque"})
		b.until("a person is asked", func() bool { return len(b.inbox("carl")) == 1 })
		state := r.state()
		require.Equal(t, run.CallUncertainOpen, state.Call(1).Phase)
		require.Equal(t, run.CallInFlight, state.Call(2).Phase)
		let()
		require.NoError(t, r.finding("carl", 1, run.NotHappened))
		state = r.ends(run.StatusCompleted)
		require.Equal(t, run.OutcomeFailed, state.Call(1).Outcome)
		require.Equal(t, run.OutcomeOK, state.Call(2).Outcome)
	})
}

func TestATurnOrACheckThatPanicsAsksAPerson(t *testing.T) {
	for site, limit := range map[string]run.Limit{"begin turn/1/1": run.LimitModel, "begin verify/1/1": run.LimitCheck} {
		t.Run(site, func(t *testing.T) {
			within(t, func(t *testing.T, b *bench) {
				b.limits.CheckAttempts = 1
				b.work("w1")
				b.at(site, func(context.Context) error { panic("broken performer") })
				r := b.start("r1")
				require.Equal(t, limit, r.waits().Reached.Limit)
				require.Equal(t, []engine.InboxKind{engine.InboxLimit}, b.inbox("carl"))
			})
		})
	}
}

// A model that says nothing does not hold up a worker that stops.
func TestWorkDrainsFromASilentModel(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		first := b.work("w1")
		b.hold("begin turn/1/1")
		r := b.start("r1")
		b.reach("begin turn/1/1")
		beganMs := now()
		first.stop()
		require.LessOrEqual(t, now()-beganMs, int64(10_000))
		require.Equal(t, 1, b.count("given up begin turn/1/1"))
		require.Equal(t, run.TurnRetry, r.state().LastTurn().Phase)
		require.Empty(t, r.head().Owner)
		b.work("w2")
		require.Equal(t, 2, r.ends(run.StatusCompleted).LastTurn().Attempt)
	})
}

func TestARunThatCannotBeReadIsParkedAndSomebodyIsTold(t *testing.T) {
	within(t, func(t *testing.T, b *bench) {
		r := b.start("r1", []string{"read"})
		head, records, err := b.Load(t.Context(), "r1", 0)
		require.NoError(t, err)
		later := run.Record{Run: "r1", Seq: head.Version + 1, Kind: "of_a_later_version", Version: 1, AtMs: records[0].AtMs, Body: []byte(`{}`), Prev: head.Digest}
		later.Digest = run.Chain(later)
		head.Version, head.Digest = later.Seq, later.Digest
		require.NoError(t, b.Append(t.Context(), engine.Write{Head: head, From: later.Seq - 1, Records: []run.Record{later}}))

		b.work("w1")
		r.until("parked", func() bool { return r.head().Status == run.StatusParked })
		require.Equal(t, []engine.InboxKind{engine.InboxParked}, b.inbox("carl"), "the contact is told")
		require.Equal(t, []engine.InboxKind{engine.InboxParked}, b.inbox("otto"), "and the agent's owner")
		require.Empty(t, b.inbox("ada"))
		operator := person("opal")
		operator.Roles = []string{policy.RoleOperator}
		items, err := b.Inbox(t.Context(), operator)
		require.NoError(t, err)
		require.Len(t, items, 1, "and the operators")
		delete(b.scripts, "r1") // what holds of every run cannot be read of it
	})
}

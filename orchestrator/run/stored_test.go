package run_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// storedJournals holds runs as the first version wrote them, paused wherever a
// run can stand still, and beside them what a later version can do that the
// first could not. They are never written again: what is stored in an
// organisation's journal does not change either.
const storedJournals = "testdata/journals/version1"

// storedLater says of which later version a stored run is.
var storedLater = map[string]string{"recalling": "version2", "waiting for children": "version3", "cancelling with children": "version3",
	"reviewing": "version3", "reviewed": "version3",
	"in brief": "version4",
	"showing":  "version4",
	"wanting":  "version4", "given": "version4", "not given": "version4",
	"asked by a server":   "version4",
	"parked with a child": "version3", "a child at its deadline": "version3", "branches": "version3", "models out": "version4", "a model at rest": "version4",
	"a second model": "version5", "by a second model": "version5"}

// stored is one journal, what a run is that is read from it, and how it goes on.
type stored struct {
	play    func(*world)
	status  run.Status
	pending []string
	goesOn  func(*testing.T, *world)
}

func by(person string) run.Identity { return run.Identity{Principal: person} }

func olga() policy.Principal { return policy.Principal{ID: "olga", Kind: policy.Person} }

func checked(turn int, verdict run.CheckVerdict) run.ReportChecks {
	return run.ReportChecks{Turn: turn, Checks: []run.CheckResult{{Name: "output", Verdict: verdict, Detail: &run.Text{ID: "why"}}}}
}

// asking takes a turn in which the model asks a person.
func (w *world) asking() {
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	turn := w.s.LastTurn()
	w.do(run.ReportTurn{Turn: turn.Number, Attempt: 1, Class: run.ClassCalls, Calls: []run.Proposal{{Tool: "free", Revision: "t1", Asks: true,
		Impact: policy.ImpactRead, Class: policy.ClassRead, Text: run.Text{ID: "question"}, Approval: "q" + turn.Model, Inputs: noArguments}}})
}

// besides begins the run again as one that is reviewed and watched.
func (w *world) besides() {
	started := w.s.Started
	started.Reviewers = []run.Reviewer{{Of: "free", Agent: "b"}, {Of: run.ReviewsAnswer, Agent: "b"}}
	started.Sidecars = []run.Beside{{Agent: "b", Purpose: run.ForMonitor, Lands: run.LandsAsEvidence}}
	w.restart(started)
}

// reviewEnd is the end of a review.
func reviewEnd(s *run.State, of string, passed bool) run.ChildEnd {
	return run.ChildEnd{ChildEnded: run.ChildEnded{Child: run.ChildOfReview(s.ID, of), Status: run.StatusCompleted, Reason: run.EndVerified,
		Result: &run.Text{ID: "review of " + of}, Settled: usd(3), Head: "head", Passed: passed}}
}

// begun takes a turn with calls and begins the first of them.
func (w *world) begun(tools ...string) {
	w.turn(tools...)
	w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
}

var storedRuns = map[string]stored{
	"queued": {func(w *world) { w.do(run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "steer"}}) },
		run.StatusQueued, []string{"turn/1/1"}, nil},
	"turn in flight": {func(w *world) { w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(9)}) }, run.StatusRunning, nil,
		func(t *testing.T, w *world) {
			w.do(run.Recover{Epoch: 2})
			require.Equal(t, usd(9), w.s.Budget.Unknown)
		}},
	"held": {func(w *world) { w.turn("held") }, run.StatusWaiting, nil, func(t *testing.T, w *world) {
		w.do(w.decide("ap-held-1-0", true))
		w.attempt(1) // the digest that was approved is still the digest of the call
		require.Equal(t, run.OutcomeOK, w.s.Call(1).Outcome)
	}},
	"granted": {func(w *world) { w.turn("held"); w.do(w.decide("ap-held-1-0", true)) }, run.StatusRunning, []string{"call/1/1"},
		func(t *testing.T, w *world) {
			w.attempt(1)
			require.Equal(t, run.ApprovalSpent, w.s.Approval("ap-held-1-0").Status)
		}},
	"voided": {func(w *world) {
		w.turn("held")
		w.rules.policy = "p2"
		w.do(w.decide("ap-held-1-0", true))
		w.rules.policy = "p1"
	}, run.StatusRunning, []string{"judge/1"}, nil},
	"asking": {func(w *world) { w.asking() }, run.StatusWaiting, nil, func(t *testing.T, w *world) {
		w.do(run.AnswerQuestion{Question: "qm", By: by("ada"), Person: policy.Principal{ID: "ada"}, Answer: run.Text{ID: "answer"}})
		require.Equal(t, run.OutcomeAnswered, w.s.Call(1).Outcome)
	}},
	"answered": {func(w *world) {
		w.asking()
		w.do(run.AnswerQuestion{Question: "qm", By: by("ada"), Person: policy.Principal{ID: "ada"}, Answer: run.Text{ID: "answer"}})
	}, run.StatusRunning, []string{"turn/2/1"}, nil},
	"uncertain": {func(w *world) { w.begun("opaque"); w.do(run.Recover{Epoch: 2}) }, run.StatusWaiting, nil, func(t *testing.T, w *world) {
		w.do(found(1, run.NotHappened)(w))
		require.Equal(t, run.OutcomeFailed, w.s.Call(1).Outcome)
	}},
	"probing": {func(w *world) { w.begun("checkable"); w.do(run.Recover{Epoch: 2}) }, run.StatusRunning, []string{"probe/1/1"}, nil},
	"repeated with a late word": {func(w *world) {
		w.begun("opaque")
		w.do(run.Recover{Epoch: 2})
		w.do(found(1, run.Repeat)(w))
		w.do(run.BeginCall{Epoch: 2, Call: 1, Key: "k", Inputs: noArguments})
		w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK, Result: &run.Text{ID: "late"}})
	}, run.StatusRunning, nil, nil},
	"at a limit": {func(w *world) { w.do(run.BeginTurn{Epoch: 1, Model: "m", Reserve: usd(1001)}) }, run.StatusWaiting, nil,
		func(t *testing.T, w *world) {
			w.do(raised(1)(w))
			require.Equal(t, run.StatusQueued, w.s.Status)
		}},
	"retry of a raised limit": {func(w *world) {
		w.do(run.BeginTurn{Epoch: 1, Model: "m"})
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "REJECTED"}})
		w.do(raised(1)(w))
	}, run.StatusRunning, []string{"turn/1/2"}, nil},
	"parked": {func(w *world) { w.turn("held"); w.do(run.Park{Code: "CRASHES", Detail: "three times"}) }, run.StatusParked, nil,
		func(t *testing.T, w *world) {
			w.do(run.Resume{By: by("olga"), Person: olga()})
			require.Equal(t, run.StatusWaiting, w.s.Status)
		}},
	"resumed": {func(w *world) { w.do(run.Park{Code: "CRASHES"}); w.do(run.Resume{By: by("olga"), Person: olga()}) },
		run.StatusQueued, []string{"turn/1/1"}, nil},
	"cancelling": {func(w *world) {
		w.asking()
		w.nowMs += 5000
		w.do(run.Fire{}) // the question expires
		w.turn("opaque", "held")
		w.do(run.BeginCall{Epoch: 1, Call: 2, Key: "k", Inputs: noArguments})
		w.do(run.Cancel{By: by("ada"), Reason: &run.Text{ID: "enough"}})
	}, run.StatusCancelling, nil, func(t *testing.T, w *world) {
		w.do(run.ReportCall{Call: 2, Intent: 1, Outcome: run.OutcomeUnknown, Code: "TIMEOUT"})
		require.Equal(t, run.StatusCancelled, w.s.Status)
	}},
	"unchecked": {func(w *world) { w.turn(); w.do(checked(1, run.CheckUnchecked)) }, run.StatusWaiting, nil, func(t *testing.T, w *world) {
		w.nowMs += 60_000
		w.do(checked(1, run.CheckPassed))
		require.Equal(t, run.StatusCompleted, w.s.Status)
	}},
	"completed": {func(w *world) {
		w.turn("free")
		w.attempt(1)
		w.do(run.Steer{Steer: "s", By: by("ada"), Text: run.Text{ID: "steer"}})
		w.do(run.BeginTurn{Epoch: 1, Model: "m", Steers: []string{"s"}})
		w.do(run.ReportTurn{Turn: 2, Attempt: 1, Class: run.ClassText, Text: &run.Text{ID: "done"}, Reasoning: &run.Text{ID: "thoughts"}})
		w.do(checked(2, run.CheckPassed))
	}, run.StatusCompleted, nil, nil},
	"waiting for children": {func(w *world) {
		w.turn("delegate", "delegate", "delegate-held", "delegate")
		w.delegates(1, 40)
		w.delegates(2, 30)
		w.do(w.decide("ap-delegate-held-1-2", true))
		w.delegates(3, 20)
		w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 2, run.StatusPartial, usd(5))}})
		w.do(run.DeclineCall{Call: 4, Code: "LABELS", Detail: &run.Text{ID: "why"}})
	}, run.StatusWaiting, []string{"children"}, func(t *testing.T, w *world) {
		require.Equal(t, books{1000, 60, 5, 0}, w.books())
		w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 1, run.StatusCompleted, usd(7)), ended(w.s, 3, run.StatusFailed, usd(1)), ended(w.s, 2, run.StatusFailed, usd(1))}})
		require.Equal(t, []run.Outcome{run.OutcomeOK, run.OutcomeOK, run.OutcomeFailed, run.OutcomeRefused}, w.outcomes())
		require.Equal(t, books{1000, 0, 13, 0}, w.books())
	}},
	"cancelling with children": {func(w *world) {
		w.turn("delegate", "delegate", "delegate")
		w.delegates(1, 40)
		w.delegates(2, 30)
		w.delegates(3, 20)
		w.do(run.Cancel{By: by("ada")})
		w.do(run.ReportStopped{Child: w.s.Call(2).Child})
		end := ended(w.s, 1, run.StatusCancelled, usd(5))
		end.Unknown = usd(2)
		w.do(run.ReportChildren{Ends: []run.ChildEnd{end}})
	}, run.StatusCancelling, []string{"children", "stop/" + run.ChildOfCall("r1", 3)}, func(t *testing.T, w *world) {
		w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 3, run.StatusCompleted, usd(20)), ended(w.s, 2, run.StatusCancelled, usd(1))}})
		require.Equal(t, run.StatusCancelled, w.s.Status)
		require.Equal(t, books{1000, 0, 26, 2}, w.books())
	}},
	"parked with a child": {func(w *world) {
		w.turn("delegate", "delegate")
		w.delegates(1, 40)
		w.do(run.Park{Code: "CRASHES"})
	}, run.StatusParked, nil, func(t *testing.T, w *world) {
		w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 1, run.StatusCompleted, usd(5))}})
		require.Equal(t, run.StatusParked, w.s.Status)
		w.do(run.Resume{By: by("olga"), Person: olga()})
		w.delegates(2, 40)
	}},
	"a child at its deadline": {func(w *world) {
		w.under()
		w.turn("delegate")
		w.delegates(1, 40)
		w.nowMs = w.s.Authority.DeadlineMs
		w.do(run.Fire{})
	}, run.StatusWaiting, []string{"children", "stop/" + run.ChildOfCall("r1", 1)}, func(t *testing.T, w *world) {
		w.do(run.ReportChildren{Ends: []run.ChildEnd{ended(w.s, 1, run.StatusCompleted, usd(5))}})
		require.Equal(t, run.StatusFailed, w.s.Status)
		require.Equal(t, string(run.LimitDeadline), w.s.Ended.Code)
	}},
	"reviewing": {func(w *world) {
		w.besides()
		w.do(run.ReportSidecar{Number: 1, Sidecar: "side", Agent: "b", Purpose: run.ForMonitor, Outlives: true})
		w.turn("free", "free")
		w.do(run.BeginReview{Of: run.ReviewOfCall(1), Child: *reviewing(w.s, run.ReviewOfCall(1), run.Amount{MicroUSD: 9, Tokens: 9})})
		w.do(run.DeclineReview{Of: run.ReviewOfCall(2), Code: "BUDGET"})
		w.do(run.Judge{Call: 2, Inputs: noArguments, Approval: "ap", Nonce: "n"})
		w.do(run.Steer{Steer: "finding", From: "side", Evidence: true, By: by("agent:b"), Text: run.Text{ID: "finding"}})
	}, run.StatusWaiting, []string{"children"}, func(t *testing.T, w *world) {
		end := reviewEnd(w.s, run.ReviewOfCall(1), true)
		w.do(run.ReportChildren{Ends: []run.ChildEnd{end}})
		w.attempt(1)
		require.Equal(t, run.CallHeld, w.s.Call(2).Phase)
		w.do(w.decide("ap", true))
		w.attempt(2)
	}},
	"reviewed": {func(w *world) {
		w.besides()
		w.turn("free")
		w.do(run.BeginReview{Of: run.ReviewOfCall(1), Child: *reviewing(w.s, run.ReviewOfCall(1), run.Amount{MicroUSD: 9, Tokens: 9})})
		w.do(run.ReportChildren{Ends: []run.ChildEnd{reviewEnd(w.s, run.ReviewOfCall(1), true)}})
		w.attempt(1)
		w.turn()
		w.do(run.BeginReview{Of: run.ReviewOfAnswer(2), Child: *reviewing(w.s, run.ReviewOfAnswer(2), run.Amount{MicroUSD: 9, Tokens: 9})})
		w.do(run.ReportChildren{Ends: []run.ChildEnd{reviewEnd(w.s, run.ReviewOfAnswer(2), false)}})
		w.do(checked(2, run.CheckPassed))
	}, run.StatusRunning, []string{"sidecar/1", "turn/3/1"}, nil},
	"asked by a server": {func(w *world) {
		w.turn("opaque", "free")
		for i := 1; i <= 2; i++ {
			w.do(run.BeginCall{Epoch: 1, Call: i, Key: "k" + strconv.Itoa(i), Inputs: noArguments})
		}
		w.asks(1, "")
		w.do(w.accept("q1"))
		w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k1", Inputs: noArguments})
		w.asks(1, "")
		w.asks(2, "ASKS_FOR_SECRET")
	}, run.StatusRunning, []string{"call/2/2"}, func(_ *testing.T, w *world) {
		w.do(w.accept("q2"))
		w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k1", Inputs: noArguments})
		w.do(run.ReportCall{Call: 1, Intent: 3, Outcome: run.OutcomeOK})
	}},
	"branches": {func(w *world) {
		w.under()
		w.s.Started.Branches = true
		w.restart(w.s.Started)
		w.turn("delegate", "delegate")
		w.delegates(1, 40)
		w.delegates(2, 40)
		failed := ended(w.s, 2, run.StatusFailed, usd(5))
		failed.Reason, failed.Code = run.EndLimit, string(run.LimitTurns)
		w.do(run.ReportChildren{Ends: []run.ChildEnd{failed, ended(w.s, 1, run.StatusCompleted, usd(5))}})
		w.turn()
		w.do(checked(2, run.CheckPassed))
	}, run.StatusPartial, nil, nil},
	"in brief": {func(w *world) {
		w.compacting()
		w.turn("free")
		w.attempt(1)
		w.turn("free")
		w.attempt(2)
		w.do(run.BeginTurn{Epoch: 1, Model: "m", Context: &run.ContextUse{Bytes: 40, Tokens: 10, Limit: 12}})
		w.do(run.ReportTurn{Turn: 3, Attempt: 1, Failure: &run.TurnFailure{Cause: run.TooLong}})
		w.do(run.Compact{Turn: 3, Attempt: 2, Cause: run.CompactedRejected, Model: "m", Brief: run.Brief{Said: 1, Through: 1, Excerpt: 200}})
	}, run.StatusRunning, []string{"turn/3/2"}, func(t *testing.T, w *world) {
		require.Equal(t, run.Brief{Said: 1, Through: 1, Excerpt: 200}, w.s.Brief())
		require.False(t, w.s.Rejected())
		w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	}},
	"showing": {func(w *world) {
		w.compacting()
		w.turn("free")
		w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
		w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK, Result: &run.Text{ID: "named"}, Media: []run.Media{image}})
		w.do(run.Compact{Turn: 2, Attempt: 1, Cause: run.CompactedForRoom, Model: "m", Brief: run.Brief{Unshown: 1}})
	}, run.StatusRunning, []string{"turn/2/1"}, func(t *testing.T, w *world) {
		require.Equal(t, []run.Media{image}, w.s.Call(1).Media)
		require.False(t, w.s.Brief().Shows(w.s.Call(1)))
		w.refused("STALE", run.Compact{Turn: 2, Attempt: 1, Cause: run.CompactedForRoom, Model: "m", Brief: run.Brief{Excerpt: 10}})
	}},
	"wanting": {func(w *world) { w.turn("wanted") }, run.StatusWaiting, nil, func(_ *testing.T, w *world) {
		w.do(w.consent("ap-wanted-1-0", true)) // the digest of what was asked for is still the same
		w.do(run.Judge{Call: 1, Inputs: noArguments})
		w.attempt(1)
	}},
	"given": {func(w *world) {
		w.rules.lent = true
		w.turn("wanted", "request")
		w.do(w.consent("ap-wanted-1-0", true))
		w.do(w.consent("ap-request-1-1", true))
	}, run.StatusRunning, []string{"judge/1"}, func(_ *testing.T, w *world) {
		w.do(run.Judge{Call: 1, Inputs: noArguments})
		w.attempt(1)
	}},
	"not given": {func(w *world) {
		w.turn("wanted", "request", "wanted")
		refused := w.consent("ap-wanted-1-0", false)
		refused.Reason = &run.Text{ID: "why"}
		w.do(refused)
		w.nowMs += 5000
		w.do(run.Fire{})
	}, run.StatusRunning, []string{"turn/2/1"}, nil},
	"models out": {func(w *world) {
		w.do(run.AwaitModels{Turn: 1, Attempt: 1, Offers: []run.Offer{{Model: "m", MicroUSD: 5, Worst: 9, Refusal: "OUT"}}})
		w.nowMs = w.s.Outage.RetryAtMs
		w.do(run.BeginTurn{Epoch: 1, Model: "m", Offers: []run.Offer{{Model: "m", MicroUSD: 5, Worst: 9}, {Model: "n", MicroUSD: 1, Worst: 2, Refusal: "LABELS"}}})
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, Out: true}})
	}, run.StatusWaiting, nil, func(t *testing.T, w *world) {
		require.Equal(t, 2, w.s.Outages)
		w.nowMs = w.s.Outage.RetryAtMs
		w.do(run.BeginTurn{Epoch: 1, Model: "m"})
		require.Equal(t, run.StatusRunning, w.s.Status)
	}},
	"a model at rest": {func(w *world) {
		w.do(run.BeginTurn{Epoch: 1, Model: "m"})
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, Out: true, Elsewhere: true, RetryAfterMs: 7000}})
	}, run.StatusRunning, []string{"turn/1/2"}, func(t *testing.T, w *world) {
		require.Equal(t, []run.Rest{{Model: "m", UntilMs: w.nowMs + 7000}}, w.s.LastTurn().Rests)
	}},
	"a second model": {func(w *world) { w.hedges() }, run.StatusRunning, nil, func(t *testing.T, w *world) {
		w.do(run.Recover{Epoch: 2})
		require.Equal(t, usd(16), w.s.Budget.Unknown)
	}},
	"by a second model": {func(w *world) {
		w.hedges()
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OVERLOADED", Retryable: true, Second: run.SecondUnknown}})
		w.nowMs = w.s.LastTurn().RetryAtMs
		w.hedges()
		w.do(run.ReportTurn{Turn: 1, Attempt: 2, Class: run.ClassText, Text: &run.Text{ID: "done"}, Cost: usd(3), Hedged: &run.Hedged{By: "n", Unknown: true}})
	}, run.StatusRunning, []string{"verify/1/1"}, func(t *testing.T, w *world) {
		require.Equal(t, "n", w.s.LastTurn().Model)
		require.Equal(t, usd(7+9), w.s.Budget.Unknown)
	}},
	"recalling": {func(w *world) {
		w.do(remembers(run.RecallGoal, item("hotels", "1", "")))
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: "OUTAGE", Retryable: true, RetryAfterMs: 1}})
		w.nowMs += 1000
		w.do(remembers(run.RecallNews, item("trains", "1", "")))
	}, run.StatusRunning, nil, func(t *testing.T, w *world) {
		require.Equal(t, []run.Recalled{item("hotels", "1", ""), item("trains", "1", "")}, w.s.Recalled())
		w.do(run.ReportTurn{Turn: 1, Attempt: 2, Class: run.ClassText, Text: &run.Text{ID: "done"}})
		w.refused("NOT_DUE", remembers(run.RecallNews, item("hotels", "1", "")))
	}},
}

func TestFault_M1_M5_StoredJournalsOfTheFirstVersionGoOn(t *testing.T) {
	met := map[run.EventKind]bool{}
	for name, s := range storedRuns {
		t.Run(name, func(t *testing.T) {
			path := storedPath(name)
			if *update {
				storeOnce(t, path, s)
			}
			w := begin(t)
			w.rules.lent = true
			w.s, w.kept = &run.State{ID: "r1"}, readStored(t, path)
			w.last = w.kept[len(w.kept)-1]
			require.NoError(t, run.Replay(w.s, w.kept))
			require.Equal(t, s.status, w.s.Status)
			w.nowMs = w.last.AtMs
			var pending []string
			for _, effect := range w.pending() {
				pending = append(pending, effect.Key())
			}
			require.Equal(t, s.pending, pending)
			for _, record := range w.kept {
				met[record.Kind] = true
			}
			if s.goesOn != nil {
				s.goesOn(t, w)
			}
		})
	}
	for _, kind := range run.Kinds() {
		require.True(t, met[kind], "store a journal that holds %s: add a run and use -update", kind)
	}
}

// An event that is written as it was when it was stored has the digest that
// was stored; approvals that wait for people rest on that.
func TestStoredRecordsAreWrittenAsTheyStand(t *testing.T) {
	for name := range storedRuns {
		var last run.Record
		for _, record := range readStored(t, storedPath(name)) {
			event, err := run.Decode(record)
			require.NoError(t, err)
			written, err := run.Encode(record.Run, last, record.AtMs, event)
			require.NoError(t, err)
			if record.Version == run.FormVersion(record.Kind) {
				require.Equal(t, record, written, name)
			}
			last = record
		}
	}
}

func storedPath(name string) string {
	if version, later := storedLater[name]; later {
		return filepath.Join(storedJournals, "..", version, strings.ReplaceAll(name, " ", "-")+".jsonl")
	}
	return filepath.Join(storedJournals, strings.ReplaceAll(name, " ", "-")+".jsonl")
}

// storeOnce writes a journal that is not stored yet.
func storeOnce(t *testing.T, path string, s stored) {
	if _, err := os.Stat(path); err == nil {
		return
	}
	w := begin(t)
	s.play(w)
	var export bytes.Buffer
	require.NoError(t, account.Export(&export, w.kept))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, export.Bytes(), 0o600))
}

func readStored(t *testing.T, path string) []run.Record {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, err = account.Verify(bytes.NewReader(text), "")
	require.NoError(t, err)
	var records []run.Record
	for scanner := bufio.NewScanner(bytes.NewReader(text)); scanner.Scan(); {
		var line struct {
			run.Record
			Body json.RawMessage
		}
		require.NoError(t, json.Unmarshal(scanner.Bytes(), &line))
		line.Record.Body = line.Body
		records = append(records, line.Record)
	}
	require.NotEmpty(t, records)
	return records
}

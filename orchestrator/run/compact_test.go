package run_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// compacting begins the run again as one whose prompts may show a part of it in
// brief, after two messages of a conversation.
func (w *world) compacting() {
	started := w.s.Started
	started.Snapshot.Compiler = run.CompactingCompiler
	for _, label := range []policy.Label{"said", "said, too"} {
		started.History = append(started.History, run.Message{Author: "bob", Text: run.Text{ID: string(label), Marking: policy.Marking{Labels: policy.NewLabels(label)}}})
	}
	w.restart(started)
}

// shorter asks to shorten for the turn that is due.
func (w *world) shorter(brief run.Brief) run.Compact {
	due := w.pending()[0].(run.TakeTurn)
	return run.Compact{Turn: due.Turn, Attempt: due.Attempt, Cause: run.CompactedForRoom, Model: "m", Brief: brief}
}

// tooLong has the model say of the next prompt that it cannot take it.
func (w *world) tooLong() {
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	turn := w.s.LastTurn()
	w.do(run.ReportTurn{Turn: turn.Number, Attempt: turn.Attempt, Failure: &run.TurnFailure{Cause: run.TooLong}})
}

func TestFault_D15_ARunGetsShorterAFewTimesAndThenAsks(t *testing.T) {
	w := begin(t)
	w.compacting()
	w.turn("free")
	w.attempt(1)
	history := w.s.Texts()
	for n := range 4 {
		w.tooLong()
		require.Equal(t, run.StatusRunning, w.s.Status)
		require.True(t, w.s.Rejected())
		w.refused("STALE", run.BeginTurn{Epoch: 1, Model: "m"})
		w.do(w.shorter(run.Brief{Result: int64(100 - n)}))
		require.False(t, w.s.Rejected())
	}
	require.Equal(t, history, w.s.Texts(), "what is recorded stays as it is")
	require.Equal(t, 4, w.s.LastTurn().Forgiven, "a prompt that is too long is no outage")
	w.tooLong()
	w.do(w.shorter(run.Brief{Result: 1}))
	require.Equal(t, run.LimitContext, w.s.Reached.Limit)
	require.Equal(t, run.StatusWaiting, w.s.Status)
	require.Empty(t, w.pending())

	w.do(raised(1)(w))
	w.do(run.BeginTurn{Epoch: 1, Model: "larger"})
	require.Equal(t, "larger", w.s.LastTurn().Model, "another model may take it")
}

func TestNoFormThatIsShortEnoughIsALimitOfItsOwn(t *testing.T) {
	for onLimit, status := range map[run.OnLimit]run.Status{run.AskOnLimit: run.StatusWaiting, run.FailOnLimit: run.StatusFailed} {
		w := begin(t)
		w.s.Started.Limits.OnLimit = onLimit
		w.compacting()
		w.tooLong()
		unfit := w.shorter(run.Brief{})
		unfit.Unfit = true
		w.do(unfit)
		require.Equal(t, status, w.s.Status)
		if onLimit == run.FailOnLimit {
			require.Equal(t, string(run.LimitContext), w.s.Ended.Code)
		}
	}
}

func TestARunOfAnEarlierCompilerKeepsToItsPrompts(t *testing.T) {
	w := begin(t)
	w.do(run.BeginTurn{Epoch: 1, Model: "m"})
	w.refused("NOT_DUE", run.Compact{Turn: 1, Attempt: 1, Brief: run.Brief{Result: 9}})
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Failure: &run.TurnFailure{Cause: run.TooLong}})
	require.Equal(t, run.LimitModel, w.s.Reached.Limit)
	w.do(raised(1)(w))
	w.refused("COMPILER", w.shorter(run.Brief{Result: 9}))
}

func TestACompactionNeverShowsMore(t *testing.T) {
	w := begin(t)
	w.compacting()
	for call := 1; call <= 3; call++ {
		w.turn("free")
		w.attempt(call)
	}
	for name, brief := range map[string]run.Brief{
		"nothing": {}, "the last turn": {Through: 3}, "more than was said": {Said: 3}, "a turn before the first": {Through: -1},
		"less than no excerpt": {Through: 1, Excerpt: -1}, "less than nothing of a result": {Result: -1},
	} {
		t.Run(name, func(*testing.T) { w.refused("STALE", w.shorter(brief)) })
	}
	w.do(w.shorter(run.Brief{Said: 1, Through: 1, Excerpt: 100, Result: 100}))
	for name, brief := range map[string]run.Brief{
		"the same": w.s.Brief(), "a message more": {Through: 2, Excerpt: 100, Result: 100}, "a turn more": {Said: 2, Excerpt: 100, Result: 100},
		"longer excerpts": {Said: 2, Through: 2, Excerpt: 101, Result: 100}, "longer results": {Said: 2, Through: 2, Excerpt: 100, Result: 101},
		"whole results": {Said: 2, Through: 2, Excerpt: 100},
	} {
		t.Run(name, func(*testing.T) { w.refused("STALE", w.shorter(brief)) })
	}
	w.do(w.shorter(run.Brief{Said: 1, Through: 1, Excerpt: 50, Result: 100}))
	require.ErrorIs(t, run.Apply(w.s.Clone(), run.Compacted{Turn: 4, Brief: run.Brief{Said: 1, Through: 1, Excerpt: 100}}), run.ErrBroken)
}

// Whatever stands in brief is marked with all that it stands for, and sealed to
// the texts.
func TestFault_K10_ACompactionIsMarkedWithAllThatItStandsFor(t *testing.T) {
	digests := map[string]bool{}
	for _, secret := range []string{"arguments", "result", "answer"} {
		w := begin(t)
		w.compacting()
		marked := func(part string) *run.Text {
			text := &run.Text{ID: part, Commitment: part + " of " + secret}
			if part == secret {
				text.Marking = policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}
			}
			return text
		}
		w.do(run.BeginTurn{Epoch: 1, Model: "m"})
		w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassCalls, Text: marked("answer"), Calls: []run.Proposal{{Tool: "free", Revision: "t1",
			Impact: policy.ImpactRead, Class: policy.ClassRead, Text: *marked("arguments"), Inputs: noArguments}}})
		w.do(run.BeginCall{Epoch: 1, Call: 1, Key: "k", Inputs: noArguments})
		w.do(run.ReportCall{Call: 1, Intent: 1, Outcome: run.OutcomeOK, Result: marked("result")})
		w.turn("free")
		w.attempt(2)
		w.do(w.shorter(run.Brief{Through: 1, Excerpt: 10}))
		compacted := w.s.Compactions[0]
		require.Equal(t, policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}, compacted.Marking, secret)
		digests[compacted.Digest] = true
		w.do(w.shorter(run.Brief{Said: 1, Through: 1, Excerpt: 10}))
		require.Equal(t, policy.NewLabels("hr", "said"), w.s.Compactions[1].Marking.Labels)
	}
	require.Len(t, digests, 3, "another text is another digest")
}

func TestTheProvidersCountIsTheTruth(t *testing.T) {
	w := begin(t)
	answered := func(model string, bytes int64, usage run.Usage) {
		w.do(run.BeginTurn{Epoch: 1, Model: model, Context: &run.ContextUse{Bytes: bytes, Tokens: 1}})
		n := w.s.LastTurn().Number
		w.do(run.ReportTurn{Turn: n, Attempt: 1, Class: run.ClassEmpty, Usage: usage})
	}
	answered("m", 400, run.Usage{Input: 50, CacheRead: 40, CacheWrite: 10})
	answered("m", 800, run.Usage{Input: 400, Estimated: true})
	answered("other", 300, run.Usage{Input: 1})
	for model, want := range map[string][2]int64{"m": {400, 100}, "other": {300, 1}, "unknown": {}} {
		bytes, tokens := w.s.Counted(model)
		require.Equal(t, want, [2]int64{bytes, tokens}, model+strconv.Itoa(len(w.s.Turns)))
	}
}

// What came to mind for a turn that is shown in brief may come to mind again:
// prompts do not hold it any more.
func TestWhatStandsInBriefMayBeRecalledAgain(t *testing.T) {
	w := begin(t)
	w.compacting()
	w.do(remembers(run.RecallNews, item("hotels", "1", "")))
	w.do(run.ReportTurn{Turn: 1, Attempt: 1, Class: run.ClassEmpty})
	w.turn()
	w.do(checked(2, run.CheckFailed))
	w.refused("STALE", remembers(run.RecallNews, item("hotels", "1", "")))
	w.do(w.shorter(run.Brief{Through: 1, Excerpt: 10}))
	require.Empty(t, w.s.Known())
	w.do(remembers(run.RecallNews, item("hotels", "1", "")))
	require.Len(t, w.s.Recalled(), 2, "marks are never given twice")
}

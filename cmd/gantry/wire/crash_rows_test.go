//go:build unix

package wire_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// killed lets a process die at a point of a way from its beginning.
func (h *crashHouse) killed(t *testing.T, way, point string) place {
	t.Helper()
	at := h.copied(h.first[way])
	told := at.told(h)
	told.Die = point
	_, err := h.launch(t.Context(), told)
	require.ErrorIs(t, err, errKilled, point)
	return at
}

// completed lets a process come to the end at a place, and returns the run with
// its records.
func (h *crashHouse) completed(t *testing.T, at place) (*run.State, []run.Record) {
	t.Helper()
	said, err := h.launch(t.Context(), at.told(h))
	require.NoError(t, err)
	require.NoError(t, h.check(t.Context(), at, said))
	return h.stateOf(t, at, said.Run)
}

func (h *crashHouse) stateOf(t *testing.T, at place, id string) (*run.State, []run.Record) {
	t.Helper()
	state := &run.State{ID: id}
	var records []run.Record
	require.NoError(t, h.look(t.Context(), at, func(store *journal.Store) (err error) {
		if _, records, err = store.Load(t.Context(), id, 0); err != nil {
			return err
		}
		return run.Replay(state, records)
	}))
	return state, records
}

func counted(records []run.Record, kind run.EventKind) int {
	return len(slices.DeleteFunc(slices.Clone(records), func(r run.Record) bool { return r.Kind != kind }))
}

// post is the one call of a run that acts.
func post(t *testing.T, state *run.State) *run.Call {
	t.Helper()
	i := slices.IndexFunc(state.Calls, func(c run.Call) bool { return c.Tool == "ledger.post_adjustment" })
	require.GreaterOrEqual(t, i, 0)
	return &state.Calls[i]
}

// What an attempt came to that a kill cut off is found out as its class allows,
// on both sides of the effect.
func TestFault_A5_A6_AnAttemptThatAKillCutOffIsSettledByItsClass(t *testing.T) {
	h := newCrashHouse(t, sqliteFiles{})
	const notSent, sent = "effect begins#1", "effect done#1"
	for _, row := range []struct {
		way, point     string
		posts, intents int
		outcome        run.Outcome
		person         bool
	}{
		{wayApproved, notSent, 1, 2, run.OutcomeOK, false}, // the same key again
		{wayApproved, sent, 2, 2, run.OutcomeOK, false},    // and the other side knows it
		{wayFound, notSent, 0, 1, run.OutcomeFailed, true}, // that it is not found says nothing
		{wayFound, sent, 1, 1, run.OutcomeOK, false},
		{wayLost, notSent, 0, 1, run.OutcomeFailed, true},
		{wayLost, sent, 1, 1, run.OutcomeOK, true},
	} {
		t.Run(row.way+" "+row.point, func(t *testing.T) {
			t.Parallel()
			at := h.killed(t, row.way, row.point)
			state, records := h.completed(t, at)
			call := post(t, state)
			posts, _ := h.outside.count(at.token)
			require.Equal(t, row.posts, posts)
			require.Equal(t, row.intents, call.Intent)
			require.Equal(t, row.outcome, call.Outcome)
			require.Equal(t, row.person, len(call.Resolutions) > 0)
			require.GreaterOrEqual(t, counted(records, run.KindCallUncertain), 1, "it is not hidden")
		})
	}
}

// The effect was done, and the process died before it was written down.
func TestCase_17_AnEffectThatWasNotWrittenDownIsRecordedOnce(t *testing.T) {
	h := newCrashHouse(t, sqliteFiles{})
	for _, point := range []string{"effect done#1", "Append call_ended+turn_started/" + begins + "#2", "Append call_ended+turn_started/" + commits + "#2"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			at := h.killed(t, wayApproved, point)
			_, entries := h.outside.count(at.token)
			require.Equal(t, 1, entries, "it was done before the kill")
			state, records := h.completed(t, at)
			require.NotNil(t, post(t, state).Result, "its result is in the record")
			require.Equal(t, len(state.Calls), counted(records, run.KindCallEnded), "each call has one end")
			for _, call := range state.Calls {
				require.Equal(t, run.CallDone, call.Phase)
			}
		})
	}
}

// A model that was speaking when the process died is asked again: what it said
// is nowhere, and what it may cost stays held.
func TestFault_A7_AnAnswerThatWasCutByAKillIsAskedForAgain(t *testing.T) {
	h := newCrashHouse(t, sqliteFiles{})
	at := h.killed(t, wayApproved, "model speaks#1")
	state, records := h.completed(t, at)
	require.Equal(t, 1, counted(records, run.KindTurnFailed))
	require.Equal(t, 2, state.Turns[0].Attempt)
	require.Equal(t, run.TurnDone, state.Turns[0].Phase)
	require.Positive(t, state.Budget.Unknown.Tokens, "the price of the lost one is not known")
	require.Positive(t, state.Budget.Unknown.MicroUSD)
	require.Zero(t, state.Budget.Reserved)
	require.Equal(t, len(state.Turns), counted(records, run.KindTurnAnswered), "one answer of each turn")
	require.NoError(t, h.look(t.Context(), at, func(store *journal.Store) error {
		texts := state.Texts()
		ids := make([]string, len(texts))
		for i := range texts {
			ids[i] = texts[i].ID
		}
		opened, err := store.Payloads(t.Context(), ids)
		said := 0
		for _, text := range opened {
			if strings.Contains(string(text.Bytes), "I look.") {
				said++
			}
		}
		require.Equal(t, 1, said, "the part that was heard is nowhere")
		return err
	}))
}

func TestFault_A8_AnApprovalOutlivesTheProcessThatWasToUseIt(t *testing.T) {
	h := newCrashHouse(t, sqliteFiles{})
	for _, point := range []string{"Append approval_decided/" + stands, "Append call_intended/" + begins, "Append call_intended/" + commits} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			at := h.killed(t, wayApproved, point+"#1")
			state, _ := h.stateOf(t, at, h.head(t, at).Run)
			require.Equal(t, run.ApprovalGranted, state.Approvals[0].Status, "granted, and not spent")
			state, records := h.completed(t, at)
			require.Len(t, state.Approvals, 1, "nobody is asked twice")
			require.Equal(t, run.ApprovalSpent, state.Approvals[0].Status)
			require.Equal(t, 1, counted(records, run.KindApprovalDecided))
			require.Equal(t, 1, post(t, state).Intent)
		})
	}
}

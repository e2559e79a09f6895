package watch_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// book is a journal of the run "main" and of "beside", which goes on beside it.
type book struct {
	t       *testing.T
	beside  run.Started
	records []run.Record
	texts   map[string]watch.Text
	moves   chan struct{}
	out     bool
	ended   bool
}

var errOut = errors.New("no line")

func newBook(t *testing.T) *book {
	return &book{t: t, texts: map[string]watch.Text{}, moves: make(chan struct{}, 1),
		beside: run.Started{Parent: "main", Task: &run.Task{Purpose: run.ForMonitor, Lands: run.LandsAsSteer}}}
}

func (b *book) text(id, text string, marking policy.Marking, items ...string) run.Text {
	b.texts[id] = watch.Text{Bytes: []byte(text), Items: items}
	return run.Text{ID: id, Marking: marking}
}

func (b *book) record(event run.Event) {
	b.t.Helper()
	record, err := run.Encode("main", run.Record{Seq: uint64(len(b.records))}, 1, event)
	require.NoError(b.t, err)
	b.records = append(b.records, record)
}

func (b *book) State(context.Context, string) (*run.State, error) {
	if b.out {
		return nil, errOut
	}
	return &run.State{ID: "beside", Started: b.beside}, nil
}

func (b *book) Records(_ context.Context, id string, after uint64) ([]run.Record, bool, error) {
	require.Equal(b.t, "main", id)
	return b.records[min(int(after), len(b.records)):], b.ended, nil
}

func (b *book) Texts(_ context.Context, ids []string) (map[string]watch.Text, error) {
	opened := map[string]watch.Text{}
	for _, id := range ids {
		if text, there := b.texts[id]; there {
			opened[id] = text
		}
	}
	return opened, nil
}

func (b *book) Moves(context.Context, string) (<-chan struct{}, error) { return b.moves, nil }

func (b *book) Now(context.Context) (int64, error) { return time.Now().UnixMilli(), nil }

func (b *book) look(arguments string, clearance ...policy.Label) (watch.Seen, tool.Result, error) {
	b.t.Helper()
	labels := policy.NewLabels(clearance...)
	invocation := tool.Invocation{Run: "beside", Arguments: []byte(arguments), Subject: policy.Principal{ID: "ada", Clearance: labels}, Reader: view.Reader{Clearance: labels}}
	result, err := tool.Invoke(b.t.Context(), watch.New(b, "olga", "carl"), invocation)
	var seen watch.Seen
	if err == nil {
		require.NoError(b.t, json.Unmarshal(result.Content, &seen))
	}
	return seen, result, err
}

var (
	secret = policy.Marking{Labels: policy.NewLabels("secret"), Integrity: policy.Untrusted}
	plain  = policy.Marking{Integrity: policy.Trusted}
)

func TestEachReaderSeesTheTextsThatItMayRead(t *testing.T) {
	b := newBook(t)
	b.record(run.TurnAnswered{Turn: 1, Class: run.ClassText, Text: ref(b.text("t1", "open words", plain))})
	b.record(run.CallProposed{Call: 1, Turn: 1, Tool: "the secret is 7", Arguments: b.text("t2", "open arguments", plain)})
	b.record(run.CallEnded{Call: 1, Outcome: run.OutcomeOK, Result: ref(b.text("t3", "the canary", secret, "item"))})
	b.record(run.CallEnded{Call: 1, Outcome: run.OutcomeOK, Result: &run.Text{ID: "erased", Marking: plain}})
	seen, result, err := b.look(`{"after":0,"seconds":0}`)
	require.NoError(t, err)
	require.NotContains(t, string(result.Content), "canary")
	require.NotContains(t, string(result.Content), "the secret is 7", "a name that names no tool is the model's own words")
	require.Equal(t, watch.Redacted, *seen.Events[2].Text)
	require.Equal(t, policy.Marking{Integrity: policy.FromTool}, result.Marking)
	require.Empty(t, result.Items)
	seen, result, err = b.look(`{"after":0,"seconds":0}`, "secret")
	require.NoError(t, err)
	require.Equal(t, "the canary", *seen.Events[2].Text)
	require.Equal(t, watch.Redacted, *seen.Events[3].Text)
	require.Equal(t, secret, result.Marking, "it carries what it shows")
	require.Equal(t, []string{"item"}, result.Items, "and goes when that is forgotten")
	require.EqualValues(t, 4, seen.Next)
}

func ref(text run.Text) *run.Text { return &text }

func TestItWaitsForNewsAndSaysWhenThereAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		begun := time.Now()
		seen, first, err := b.look(`{"after":0,"seconds":5}`)
		require.NoError(t, err)
		require.Empty(t, seen.Events)
		require.Equal(t, 5*time.Second, time.Since(begun))
		_, second, err := b.look(`{"after":0,"seconds":5}`)
		require.NoError(t, err)
		require.NotEqual(t, first.Content, second.Content, "nothing new is no sign of going in circles")
		time.AfterFunc(time.Second, func() {
			b.record(run.TurnStarted{Turn: 1})
			b.moves <- struct{}{}
		})
		begun = time.Now()
		seen, _, err = b.look(`{"after":0}`)
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(begun))
		require.Len(t, seen.Events, 1)
		require.False(t, seen.Ended)
		b.ended = true
		seen, _, err = b.look(`{"after":1}`)
		require.NoError(t, err)
		require.True(t, seen.Ended)
		close(b.moves) // nothing is told any more: the clock carries on alone
		b.ended, begun = false, time.Now()
		_, _, err = b.look(`{"after":1,"seconds":7}`)
		require.NoError(t, err)
		require.Equal(t, 7*time.Second, time.Since(begun))
	})
}

func TestMuchIsShownInParts(t *testing.T) {
	b := newBook(t)
	long := strings.Repeat("ä", 5000)
	for n := range 150 {
		b.record(run.TurnAnswered{Turn: n + 1, Class: run.ClassText, Text: ref(b.text("t", long, plain))})
	}
	b.ended = true
	after, parts := uint64(0), 0
	for {
		raw, err := json.Marshal(map[string]uint64{"after": after})
		require.NoError(t, err)
		seen, result, err := b.look(string(raw))
		require.NoError(t, err)
		require.False(t, result.Cut)
		require.Equal(t, after+uint64(len(seen.Events)), seen.Next)
		after, parts = seen.Next, parts+1
		require.Equal(t, seen.More, !seen.Ended)
		if seen.Ended {
			break
		}
	}
	require.EqualValues(t, 150, after)
	require.Greater(t, parts, 1)
}

func TestOnlyWhatGoesOnBesideARunWatchesIt(t *testing.T) {
	for name, started := range map[string]run.Started{
		"a root":                 {},
		"a run that is awaited":  {Parent: "main", Task: &run.Task{Lands: run.LandsAsResult}},
		"a run without its task": {Parent: "main"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.beside = started
			_, _, err := b.look(`{"after":0}`)
			var failure *tool.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, watch.FailedNoMain, failure.Code)
			require.False(t, failure.Uncertain)
		})
	}
	b := newBook(t)
	b.out = true
	_, _, err := b.look(`{"after":0}`)
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	require.Equal(t, tool.FailedUnavailable, failure.Code)
}

// The tool is registered as any other, and fails where there is no journal.
func TestTheContractHolds(t *testing.T) {
	require.NoError(t, watch.New(nil, "olga", "carl").Definition().Validate())
	_, err := tool.Invoke(t.Context(), watch.New(nil, "olga", "carl"), tool.Invocation{Arguments: []byte(`{"after":0}`)})
	require.Error(t, err)
}

package account_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

var update = flag.Bool("update", false, "write what people read")

const explained = "testdata/explained.txt"

// Every stored journal in words, as people read it.
func TestStoredRunsInWords(t *testing.T) {
	journals, err := filepath.Glob("../testdata/journals/version*/*.jsonl")
	require.NoError(t, err)
	require.NotEmpty(t, journals)
	var text strings.Builder
	for _, path := range journals {
		fmt.Fprintf(&text, "# %s\n", strings.TrimSuffix(filepath.Base(path), ".jsonl"))
		s := stateOf(t, path)
		read := func(text run.Text) string { return "<" + text.ID + ">" }
		answers := account.Explain(s, read)
		if turn, known := account.Turn(s, len(s.Turns), read); known {
			answers = append(answers, turn)
		}
		for _, answer := range answers {
			fmt.Fprintf(&text, "%s\n", answer.Question)
			for _, line := range answer.Lines {
				fmt.Fprintf(&text, "  %s\n", line)
			}
		}
	}
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o750))
		require.NoError(t, os.WriteFile(explained, []byte(text.String()), 0o600))
	}
	kept, err := os.ReadFile(explained)
	require.NoError(t, err)
	require.Equal(t, string(kept), text.String(), "changed: go test ./orchestrator/run/account -update")
}

func TestEveryReasonOfAVerdictIsGiven(t *testing.T) {
	s := &run.State{Calls: []run.Call{{CallProposed: run.CallProposed{Call: 1, Impact: policy.ImpactRead}, Verdict: policy.Verdict{Answer: policy.Permit, Revision: "p7",
		Reasons: []policy.Reason{{Policy: "finance-reads", Text: "Finance reads its own."}, {Policy: "stage", Text: "The agent may act."}}}}}}
	answers := account.Explain(s, func(text run.Text) string { return text.ID })
	require.Contains(t, answers[3].Lines, "call 1: PERMIT by finance-reads (Finance reads its own.), stage (The agent may act.), policy p7")
}

// What a run may not read of its conversation is told as it had it, also to who
// may read it; and who gave it the turn is named.
func TestARunInAGroupInWords(t *testing.T) {
	read := func(text run.Text) string { return "<" + text.ID + ">" }
	s := &run.State{Turns: make([]run.Turn, 1), Started: run.Started{Subject: policy.Principal{ID: "ada"}, Agent: policy.AgentFacts{Name: "ben"}, Goal: run.Text{ID: "goal"},
		History:  []run.Message{{Author: "ada", Text: run.Text{ID: "t1"}}, {Author: "eve", Text: run.Text{ID: "t2"}}},
		Withheld: []run.Withheld{{Before: 1, Author: "agent:ann", Text: "h1"}, {Before: 2, Author: "carl", Text: "h2"}},
		Said:     &run.Said{Entry: 7, By: "agent:ann"}}}
	turn, known := account.Turn(s, 1, read)
	require.True(t, known)
	require.Equal(t, []string{"said before by ada: <t1>", "said before by agent:ann: [redacted]", "said before by eve: <t2>",
		"said before by carl: [redacted]", "goal: <goal>"}, turn.Lines[:5])
	require.Contains(t, account.Explain(s, read)[0].Lines[0], "agent:ann gave it the turn in entry 7 of the conversation, with: <goal>")
}

func TestARunBesideAnotherInWords(t *testing.T) {
	s := stateOf(t, "../testdata/journals/version1/held.jsonl")
	s.Started.Parent, s.Started.Lineage = "main", []run.Link{{Run: "main", Agent: "house"}}
	for _, c := range []struct {
		task run.Task
		said string
	}{
		{run.Task{Lands: run.LandsAsEvidence}, "beside run main, its result goes there as EVIDENCE"},
		{run.Task{Lands: run.LandsAsSteer, Purpose: run.ForMonitor}, "beside run main for MONITOR, its result goes there as STEER"},
	} {
		s.Started.Task = &c.task
		require.Contains(t, account.Explain(s, func(text run.Text) string { return text.ID })[0].Lines, c.said)
	}
}

func TestATurnThatWasNotTakenIsNotExplained(t *testing.T) {
	for _, number := range []int{-1, 0, 1} {
		_, known := account.Turn(&run.State{}, number, nil)
		require.False(t, known)
	}
}

func TestVerifyNamesWhatIsWrong(t *testing.T) {
	whole, err := os.ReadFile("../testdata/journals/version1/held.jsonl")
	require.NoError(t, err)
	for export, why := range map[string]string{
		"":  "holds no record",
		"{": "record 1 is not readable",
		strings.Replace(string(whole), `"seq":2`, `"seq":3`, 1): "record 2 does not verify",
		strings.Replace(string(whole), `"seq":2`, `"Seq":2`, 1): "record 2 is not readable",
	} {
		_, err := account.Verify(strings.NewReader(export), "")
		require.ErrorContains(t, err, why)
	}
	_, err = account.Verify(bytes.NewReader(whole), "elsewhere")
	require.ErrorContains(t, err, "kept elsewhere is elsewhere")
	_, err = account.Verify(bytes.NewReader(bytes.TrimSuffix(whole, []byte("\n"))), "")
	require.NoError(t, err, "an editor may drop the last line's end")
}

func stateOf(t *testing.T, path string) *run.State {
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	s := &run.State{ID: "r1"}
	for line := range bytes.Lines(text) {
		var read struct {
			run.Record
			Body json.RawMessage
		}
		require.NoError(t, json.Unmarshal(line, &read))
		read.Record.Body = read.Body
		require.NoError(t, run.Replay(s, []run.Record{read.Record}))
	}
	return s
}

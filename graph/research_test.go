package graph_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/research"
	"gantry.dev/graph"
	"gantry.dev/graph/generated"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// studies is one research, of the world's one run.
type studies struct {
	asked   graph.ResearchInput
	retried [2]string
	found   graph.Research
	refusal error
}

func (s *studies) Start(_ context.Context, _ graph.Caller, in graph.ResearchInput) (graph.Outcome, error) {
	s.asked = in
	return graph.Outcome{Run: "r1"}, s.refusal
}

func (s *studies) Retry(_ context.Context, _ graph.Caller, _, runID, agent string) (graph.Outcome, error) {
	s.retried = [2]string{runID, agent}
	return graph.Outcome{Run: "r1"}, s.refusal
}

func (s *studies) Get(_ context.Context, caller graph.Caller, runID string) (graph.Research, error) {
	if caller.Principal.Organisation != "acme" || runID != "r1" {
		return graph.Research{}, engine.ErrNotFound
	}
	out := s.found
	if caller.Principal.ID == "guest" {
		out.Plan = nil
	}
	return out, nil
}

const researchFields = `{id retryOf question status code done running failed open secondsLeft spent{tokens} branches{title inputs agent status run code findings spent{tokens}}
 findings{id kind labels citations{item passage quote start end}} endedAt}`

// serveResearch serves a research over two documents, one of which only those may
// read who are cleared for hr.
func serveResearch(t *testing.T) (*brainWorld, *studies) {
	b, s := serveBrain(t), &studies{}
	b.researches.Researches = s
	return b, s
}

// remembered remembers a document's text and a finding that rests on it, and
// returns their global ids and the finding's own.
func (b *brainWorld) finding(t *testing.T, text, quote string, labels ...string) (source, id, own string) {
	source = b.keep(t, "anna", public(text, labels...))["id"].(string)
	kept := b.keep(t, "anna", map[string]any{"space": "organisation", "kind": "FINDING", "labels": labels, "derivedFrom": []string{source},
		"text": research.Written("It says so.", []research.Citation{{Item: ownID(source), Passage: "lib/a.txt/3", Quote: quote}})})
	id = kept["id"].(string)
	return source, id, ownID(id)
}

func TestAReaderGetsOfAResearchWhatMemoryGivesThem(t *testing.T) {
	b, s := serveResearch(t)
	openSource, openID, openOwn := b.finding(t, "The gate closes\n at nine, always.", "gate closes at nine")
	_, _, hiddenOwn := b.finding(t, "The raise comes in April.", "raise comes in April", "hr")
	plan := research.Plan{Question: "When?", Agent: "reader", RetryOf: "r0", Branches: []research.Branch{{Title: "a", Inputs: []string{"a.txt"}}, {Title: "b"}, {Title: "c", Agent: "other"}, {Title: "d"}}}
	s.found = graph.Research{Run: "r1", Plan: &plan, Status: run.StatusRunning, StartedMs: now.UnixMilli(), LeftMs: 1500, Spent: run.Amount{Tokens: 9}, Merged: []string{hiddenOwn},
		Branches: []graph.ResearchBranch{{Status: generated.BranchStatusDone, Child: "k1", Findings: []string{openOwn, hiddenOwn}, Spent: &run.Amount{Tokens: 4}},
			{Status: generated.BranchStatusFailed, Child: "k2", Code: "DEADLINE"}, {Status: generated.BranchStatusRunning, Child: "k3"}, {Status: generated.BranchStatusOpen}}}
	id := b.runID(t)
	read := func(who string) map[string]any {
		got := b.ask(t, who, `query($id:ID!){research(id:$id)`+researchFields+`}`, map[string]any{"id": id})
		require.Empty(t, got.Errors, got.raw)
		return got.Data["research"].(map[string]any)
	}
	whole := read("anna")
	require.Equal(t, []any{"When?", "RUNNING", 1.0, 1.0, 1.0, 1.0, 2.0}, []any{whole["question"], whole["status"], whole["done"], whole["running"], whole["failed"], whole["open"], whole["secondsLeft"]})
	require.Len(t, whole["findings"], 2)
	branches := whole["branches"].([]any)
	require.Equal(t, map[string]any{"title": "a", "inputs": []any{"a.txt"}, "agent": "reader", "status": "DONE", "run": branches[0].(map[string]any)["run"], "code": nil, "findings": 2.0, "spent": map[string]any{"tokens": "4"}}, branches[0])
	require.Equal(t, []any{"DEADLINE", "other", nil}, []any{branches[1].(map[string]any)["code"], branches[2].(map[string]any)["agent"], branches[3].(map[string]any)["run"]})

	part := read("bob")
	require.Len(t, part["findings"], 1, "what rests on what he may not read does not exist for him")
	require.Equal(t, 1.0, part["branches"].([]any)[0].(map[string]any)["findings"], "not even as a number")
	first := part["findings"].([]any)[0].(map[string]any)
	require.Equal(t, openID, first["id"])
	require.Equal(t, []any{map[string]any{"item": openSource, "passage": "lib/a.txt/3", "quote": "gate closes at nine", "start": 4.0, "end": 24.0}}, first["citations"])
	require.Empty(t, read("guest")["branches"], "who may not see the plan gets none of it")
	got := b.ask(t, "anna", `query($id:ID!){research(id:$id){id}}`, map[string]any{"id": "x"})
	require.Equal(t, "NOT_FOUND", got.code())
}

func TestAResearchIsAskedForByInputsQueriesOrBranches(t *testing.T) {
	b, s := serveResearch(t)
	s.found = graph.Research{Run: "r1", Status: run.StatusQueued}
	start := func(input map[string]any) (map[string]any, string) {
		whole := map[string]any{"coordinator": "boss", "question": "When?", "agent": "reader"}
		for k, v := range input {
			whole[k] = v
		}
		return b.change(t, "anna", "startResearch", "research{id}", whole)
	}
	_, raw := start(map[string]any{"inputs": []string{"a", "b", "c"}, "perBranch": 2, "consolidator": "editor", "atOnce": 4, "money": "7", "commandId": "k"})
	require.Contains(t, raw, "ACCEPTED")
	money := int64(7)
	require.Equal(t, graph.ResearchInput{Coordinator: "boss", CommandID: "k", MicroUSD: &money, Plan: research.Plan{Question: "When?", Agent: "reader", Consolidator: "editor", AtOnce: 4,
		Branches: []research.Branch{{Title: "1: a, b", Inputs: []string{"a", "b"}}, {Title: "2: c", Inputs: []string{"c"}}}}}, s.asked)
	start(map[string]any{"queries": []string{"Who?", "Where?"}})
	require.Equal(t, []research.Branch{{Title: "1: Who?", Brief: "Who?"}, {Title: "2: Where?", Brief: "Where?"}}, s.asked.Plan.Branches)
	start(map[string]any{"branches": []map[string]any{{"title": "x", "brief": "Why?", "inputs": []string{"a"}, "agent": "other"}}})
	require.Equal(t, []research.Branch{{Title: "x", Brief: "Why?", Inputs: []string{"a"}, Agent: "other"}}, s.asked.Plan.Branches)
	for _, bad := range []map[string]any{{}, {"inputs": []string{"a"}, "queries": []string{"b"}}, {"inputs": []string{}}, {"inputs": []string{"a"}, "perBranch": 21},
		{"inputs": []string{"a"}, "atOnce": 0}, {"inputs": []string{"a"}, "money": "-1"}, {"inputs": []string{"a"}, "question": " "}} {
		payload, _ := start(bad)
		require.Equal(t, "INVALID", codeOf(t, payload), "%v", bad)
	}
	s.refusal = &run.Refusal{Code: "FAN_OUT", Detail: "Too many."}
	payload, _ := start(map[string]any{"inputs": []string{"a"}})
	require.Equal(t, "FAN_OUT", codeOf(t, payload))
	s.refusal = nil
	id := b.runID(t)
	b.change(t, "anna", "retryBranches", "research{id}", map[string]any{"run": id, "agent": "other"})
	require.Equal(t, [2]string{"r1", "other"}, s.retried)
}

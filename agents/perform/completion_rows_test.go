package perform_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// A child that called nothing says that it wrote a file: what stands behind that
// is its model alone, and everybody who gets the result is told.
func TestCase_26_AChildThatDidNothingIsMarkedUnverified(t *testing.T) {
	for name, row := range map[string]struct {
		calls bool
		check bool // its contract looks outside
	}{
		"its word alone":               {},
		"it called something":          {calls: true},
		"the platform looked it up":    {check: true},
		"both stand behind its result": {calls: true, check: true},
	} {
		t.Run(name, func(t *testing.T) {
			o := delegating()
			for i := range o.Agents {
				if row.check && o.Agents[i].Name == "clerk" {
					o.Agents[i].Completion.Checks = []agents.Check{{Name: "is-there", Tool: "things.read", Identity: agents.AsSubject,
						Arguments: []byte(`{"id":"a"}`), Expression: "result.done"}}
				}
			}
			inside(t, o, func(t *testing.T, h *house) {
				h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
					switch {
					case !leads(request) && row.calls && len(request.Messages) == 2:
						return proposes(model.Proposed{Name: "things.read", Arguments: []byte(`{"id":"a"}`)}), nil
					case !leads(request):
						return says("I wrote report.pdf."), nil
					case len(request.Messages) == 2:
						return handOn(tool.Delegation{Agent: "clerk", Brief: "Write report.pdf."}), nil
					}
					return says(last(request)), nil
				}
				id := h.lead("go")
				h.work()
				state := h.state(id)
				alone := !row.calls && !row.check
				require.Equal(t, run.StatusCompleted, state.Status)
				require.Equal(t, alone, h.state(run.ChildOfCall(id, 1)).Ended.Unverified)
				require.Equal(t, alone, state.Children[0].Ended.Unverified)
				require.Equal(t, alone, strings.Contains(h.text(state.Ended.Result), "UNVERIFIED"), "what the parent's model saw")
			})
		})
	}
}

// A parent's contract can refuse what nobody verified.
func TestCase_26_AContractCanRefuseAnUnverifiedResult(t *testing.T) {
	o := delegating()
	for i := range o.Agents {
		if o.Agents[i].Name == "lead" {
			o.Agents[i].Completion.Checks = []agents.Check{{Name: "all-verified", Identity: agents.AsAgent, Expression: "calls.all(c, !c.unverified)",
				Explain: "A part of the work is nobody's but its model's word."}}
			o.Agents[i].Limits.RepairTurns = 1
		}
	}
	inside(t, o, func(t *testing.T, h *house) {
		h.take = func(_ context.Context, request model.Request, _ func(string)) (model.Answer, error) {
			if leads(request) && len(request.Messages) == 2 {
				return handOn(tool.Delegation{Agent: "clerk", Brief: "Write report.pdf."}), nil
			}
			return says("All is done."), nil
		}
		id := h.lead("go")
		h.work()
		require.Equal(t, run.EndVerificationFailed, h.state(id).Ended.Reason)
	})
}

// The model says that it is done, and outside there is no record of it.
func TestCase_26_WhatTheOutsideDoesNotShowIsNotDone(t *testing.T) {
	o := newOrganisation("def turn(ctx):\n    return {\"text\": \"x\"}\n")
	o.Agents[0].Limits.RepairTurns = 1
	o.Agents[0].Completion.Checks = []agents.Check{{Name: "recorded", Tool: "things.read", Identity: agents.AsAgent, Arguments: []byte(`{"id":"a"}`),
		Expression: `result.records.exists(r, r == "a")`, Confirms: []string{"things.write"}, Explain: "There is no such record."}}
	for records, want := range map[string]run.Status{`[]`: run.StatusFailed, `["a"]`: run.StatusCompleted} {
		t.Run(records, func(t *testing.T) {
			inside(t, o, func(t *testing.T, h *house) {
				h.does["things.read"] = func(context.Context, tool.Invocation) (tool.Result, error) {
					return tool.Result{Content: []byte(`{"records":` + records + `}`), MediaType: tool.MediaJSON}, nil
				}
				h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) { return says("Done."), nil }
				id := h.start("Record a.")
				h.work()
				state := h.state(id)
				require.Equal(t, want, state.Status)
				if want == run.StatusFailed {
					require.Equal(t, run.EndVerificationFailed, state.Ended.Reason)
					require.Len(t, state.Turns, 2, "one turn to mend it, and no more")
				}
			})
		})
	}
}

func TestAnArtifactIsExaminedUnderTheNamedIdentity(t *testing.T) {
	const report = `{"total": 3}`
	sum := sha256.Sum256([]byte(report))
	digest := hex.EncodeToString(sum[:])
	whole := agents.Artifact{Content: "result.text", Complete: "!result.cut", Format: "json", Digest: "output",
		Schema: json.RawMessage(`{"type":"object","required":["total"],"properties":{"total":{"type":"integer"}}}`)}
	read := func(text string, cut bool) tool.Result {
		content, _ := json.Marshal(map[string]any{"text": text, "cut": cut})
		return tool.Result{Content: content, MediaType: tool.MediaJSON}
	}
	for name, row := range map[string]struct {
		identity   string
		reads      tool.Result
		claims     string
		expression string
		want       run.CheckResult
	}{
		"it is what was claimed":   {agents.AsAgent, read(report, false), digest, "", run.CheckResult{Verdict: run.CheckPassed, Read: true}},
		"and more must hold of it": {agents.AsSubject, read(report, false), digest, "artifact.total == 3", run.CheckResult{Verdict: run.CheckPassed, Read: true}},
		"more does not hold of it": {"olga", read(report, false), digest, "artifact.total == 4", run.CheckResult{Verdict: run.CheckFailed, Code: "NOT_SO"}},
		"another digest":           {"olga", read(report+" ", false), digest, "", run.CheckResult{Verdict: run.CheckFailed, Code: "ARTIFACT_DIGEST"}},
		"no such file":             {agents.AsAgent, tool.Result{Content: []byte("none"), Failed: true, Absent: true}, digest, "", run.CheckResult{Verdict: run.CheckFailed, Code: "ARTIFACT_ABSENT"}},
		"it cannot be reached":     {agents.AsAgent, tool.Result{Content: []byte("no"), Failed: true}, digest, "", run.CheckResult{Verdict: run.CheckUnchecked, Code: "READ_FAILED"}},
		"only a part was read":     {agents.AsAgent, read(report, true), digest, "", run.CheckResult{Verdict: run.CheckUnchecked, Code: "ARTIFACT_PARTIAL"}},
		"the call was cut":         {agents.AsAgent, tool.Result{Content: []byte(report), Cut: true}, digest, "", run.CheckResult{Verdict: run.CheckUnchecked, Code: "ARTIFACT_PARTIAL"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOrganisation("def turn(ctx):\n    return {\"text\": \"x\"}\n")
			o.Agents[0].Limits.RepairTurns = 0
			artifact := whole
			o.Agents[0].Completion.Checks = []agents.Check{{Name: "report", Tool: "things.read", Arguments: []byte(`{"id":"a"}`), Identity: row.identity,
				Artifact: &artifact, Expression: row.expression}}
			inside(t, o, func(t *testing.T, h *house) {
				var readers []string
				h.does["things.read"] = func(_ context.Context, invocation tool.Invocation) (tool.Result, error) {
					readers = append(readers, invocation.Subject.ID)
					return row.reads, nil
				}
				h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) { return says(row.claims), nil }
				id := h.start("Write the report.")
				h.work()
				found := h.state(id).LastChecks.Checks[1]
				found.Name, found.Detail = "", nil
				require.Equal(t, row.want, found)
				reader := map[string]string{agents.AsAgent: "agent:clerk", agents.AsSubject: "ada", "olga": "olga"}[row.identity]
				require.Equal(t, reader, readers[0])
			})
		})
	}
}

// What could not be checked waits for a person, who is told what is open. What
// they let be stands in the end.
func TestWhatSomebodyAcceptedStandsInTheEnd(t *testing.T) {
	o := newOrganisation("def turn(ctx):\n    return {\"text\": \"x\"}\n")
	o.Agents[0].Completion.Checks = []agents.Check{
		{Name: "said", Identity: agents.AsAgent, Expression: `output == "Done."`},
		{Name: "recorded", Tool: "things.read", Identity: agents.AsAgent, Arguments: []byte(`{"id":"a"}`), Expression: "result.done"},
	}
	inside(t, o, func(t *testing.T, h *house) {
		h.does["things.read"] = func(context.Context, tool.Invocation) (tool.Result, error) {
			return tool.Result{Content: []byte("no"), Failed: true, Marking: policy.Marking{}}, nil
		}
		h.take = func(context.Context, model.Request, func(string)) (model.Answer, error) { return says("Done."), nil }
		id := h.start("Record a.")
		h.work()
		require.Equal(t, run.LimitCheck, h.state(id).Reached.Limit)
		accept := func(who string) error {
			return h.submit(id, run.Resume{By: run.Identity{Principal: who}, Person: h.person(who), Accept: true})
		}
		require.ErrorContains(t, accept("ada"), "NOT_FOUND", "whom the run is for does not answer for the agent")
		require.NoError(t, accept("olga"))
		ended := h.state(id).Ended
		require.Equal(t, run.StatusPartial, ended.Status)
		require.Equal(t, []string{"recorded"}, ended.Accepted)
		require.Equal(t, "olga", ended.By.Principal)
	})
}

func proposes(calls ...model.Proposed) model.Answer {
	for i := range calls {
		calls[i].ProviderID = fmt.Sprint("p", i)
	}
	return model.Answer{Finish: model.FinishCalls, Calls: calls}
}

// A contract that demands a review is not met by an answer that nobody reviewed.
func TestADemandedReviewIsMadeOrWaitsForAPerson(t *testing.T) {
	for name, row := range map[string]struct {
		reviewers bool
		want      run.CheckResult
	}{
		"the reviewer lets it pass": {true, run.CheckResult{Name: run.ReviewCheck, Verdict: run.CheckPassed}},
		"nobody reviews":            {false, run.CheckResult{Name: run.ReviewCheck, Verdict: run.CheckUnchecked, Code: "NOT_REPORTED"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := watched()
			for i := range o.Agents {
				if o.Agents[i].Name != "lead" {
					continue
				}
				o.Agents[i].Completion.Review = true
				if !row.reviewers {
					o.Agents[i].Sidecars = nil
				}
			}
			inside(t, o, func(t *testing.T, h *house) {
				h.take = checking(func(model.Request) string { return `{"verdict":"PASS","reason":""}` })
				id := h.lead("go")
				h.work()
				state := h.state(id)
				require.Equal(t, []run.CheckResult{{Name: agents.OutputCheck, Verdict: run.CheckPassed}, row.want}, state.LastChecks.Checks)
				if row.reviewers {
					require.Equal(t, run.StatusCompleted, state.Status)
					return
				}
				require.Equal(t, run.LimitCheck, state.Reached.Limit)
			})
		})
	}
}

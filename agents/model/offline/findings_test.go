package offline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/offline"
	"gantry.dev/agents/research"
)

var findingTools = []model.Spec{{Name: "findings.record"}, {Name: "memory.recall"}}

// brainPages are documents as memory.recall gives them, by item id.
var brainPages = map[string]string{
	"i1": "1. Scope.\nThis applies to all.\n\nThe copyright notice must be kept\n in every copy of the software. See below.",
	"i2": "Nothing here says anything of the matter at hand.",
	"i3": "The copyright notice must be kept in every copy of the software.",
	"i4": "The copyright [redacted] notice must be kept in every copy.",
}

var brainSources = map[string]string{"i1": "lib/a.txt/1", "i2": "lib/b.txt/1", "i3": "lib/c.txt/2", "i4": "lib/d.txt/1"}

// work lets the offline model look for findings until it answers. fail names a
// tool that does not work.
func work(t *testing.T, goal, fail string, limit int64) (model.Answer, []model.Proposed) {
	t.Helper()
	request := model.Request{Tools: findingTools, MaxTokens: limit, Messages: []model.Message{
		{Role: model.System, Text: "Answer with JSON of this form: " + research.Schema}, {Role: model.User, Text: goal}}}
	var made []model.Proposed
	for range 5 {
		answer, err := offline.New().Take(t.Context(), request, nil)
		require.NoError(t, err)
		if len(answer.Calls) == 0 {
			return answer, made
		}
		require.Len(t, answer.Calls, 1)
		made = append(made, answer.Calls...)
		id := fmt.Sprintf("c%d", len(made))
		text := model.Wrap("ab", answer.Calls[0].Name, "", "UNTRUSTED", brainSays(t, answer.Calls[0]))
		if answer.Calls[0].Name == fail {
			text = "FAILED: the call did not happen or the tool could not do it. Code UNAVAILABLE."
		}
		request.Messages = append(request.Messages,
			model.Message{Role: model.Assistant, Calls: []model.Call{{ID: id, Name: answer.Calls[0].Name, Arguments: answer.Calls[0].Arguments}}},
			model.Message{Role: model.ToolReply, CallID: id, Text: text})
	}
	t.Fatal("it never answers")
	return model.Answer{}, nil
}

func brainSays(t *testing.T, call model.Proposed) string {
	if call.Name == "memory.recall" {
		var hits []map[string]string
		for _, id := range []string{"i1", "i2", "i3", "i4"} {
			hits = append(hits, map[string]string{"id": id, "source": brainSources[id], "text": brainPages[id]})
		}
		return encoded(t, map[string]any{"hits": hits})
	}
	var asked struct{ Findings []research.Finding }
	require.NoError(t, json.Unmarshal(call.Arguments, &asked))
	recorded, dropped := []research.Finding{}, []research.Dropped{}
	for n, finding := range asked.Findings {
		for i, citation := range finding.Citations {
			_, _, quoted := research.Located(brainPages[citation.Item], citation.Quote)
			require.True(t, quoted, "it quotes word for word: %s", citation.Quote)
			finding.Citations[i].Passage = brainSources[citation.Item]
		}
		if finding.Item = fmt.Sprintf("f%d", n); n == 1 {
			dropped = append(dropped, research.Dropped{Finding: n, Item: finding.Citations[0].Item, Code: "NOT_QUOTED"})
			continue
		}
		recorded = append(recorded, finding)
	}
	return encoded(t, map[string]any{"recorded": recorded, "dropped": dropped})
}

var branchPlan = research.Plan{Question: "Must the copyright notice be kept in copies of the software?", Agent: "reader", Consolidator: "editor",
	Branches: []research.Branch{{Title: "all", Inputs: []string{"lib/a.txt", "lib/b.txt", "lib/c.txt", "lib/d.txt"}}}}

func TestABranchRecallsRecordsAndAnswersWithWhatWasKept(t *testing.T) {
	answer, made := work(t, branchPlan.BriefOf(0), "", 4000)
	require.Len(t, made, 2)
	require.JSONEq(t, `{"query":"Must the copyright notice be kept in copies of the software?","documents":["lib/a.txt","lib/b.txt","lib/c.txt","lib/d.txt"],"limit":20}`, string(made[0].Arguments))
	result, ok := research.ReadResult([]byte(answer.Text))
	require.True(t, ok, answer.Text)
	require.Equal(t, []research.Finding{{Item: "f0", Text: "lib/a.txt: The copyright notice must be kept in every copy of the software.",
		Citations: []research.Citation{{Item: "i1", Passage: "lib/a.txt/1", Quote: "The copyright notice must be kept in every copy of the software."}}}}, result.Findings)
	require.Equal(t, []research.Dropped{{Finding: 1, Item: "i3", Code: "NOT_QUOTED"}}, result.Dropped)
	require.Equal(t, []string{"lib/b.txt", "lib/c.txt", "lib/d.txt"}, result.NotFound, "what is redacted is not quoted, what was dropped is not found")
}

func TestABranchWithoutAnAnswerSaysSoAndAnOutageIsNone(t *testing.T) {
	plan := branchPlan
	plan.Question = "Which colour do dragons have?"
	answer, made := work(t, plan.BriefOf(0), "", 4000)
	require.Len(t, made, 1, "there is nothing to record")
	result, ok := research.ReadResult([]byte(answer.Text))
	require.True(t, ok)
	require.Equal(t, plan.Branches[0].Inputs, result.NotFound)
	for _, fail := range []string{"memory.recall", "findings.record"} {
		answer, _ = work(t, branchPlan.BriefOf(0), fail, 4000)
		require.Equal(t, model.ClassRefusal, model.Classify(answer), fail)
	}
}

func TestALongAnswerIsShortenedNotCut(t *testing.T) {
	answer, _ := work(t, branchPlan.BriefOf(0), "", 120)
	require.Equal(t, model.FinishLength, answer.Finish, "there are bounds to that")
	answer, _ = work(t, branchPlan.BriefOf(0), "", 4000)
	require.Equal(t, model.FinishStop, answer.Finish)
}

func TestAConsolidationMergesWhatSeveralDocumentsSay(t *testing.T) {
	finding := func(item, source, quote string) research.Finding {
		return research.Finding{Item: "f" + item, Text: source + ": " + quote, Citations: []research.Citation{{Item: item, Passage: source, Quote: quote}}}
	}
	results := []research.Result{
		{Findings: []research.Finding{finding("i1", "lib/a.txt/1", "The copyright notice must be kept\nin every copy of the software."), finding("i2", "lib/b.txt/1", "Nothing here says anything of the matter at hand.")}, NotFound: []string{}},
		{Findings: []research.Finding{finding("i3", "lib/c.txt/2", "The copyright notice must be kept in every copy of the software.")}, NotFound: []string{}},
	}
	goal := branchPlan.ConsolidationBrief()
	for n, result := range results {
		goal += "\n" + model.Wrap(fmt.Sprintf("a%d", n), "agents.delegate", "", "UNTRUSTED", encoded(t, result))
	}
	answer, made := work(t, goal, "", 4000)
	require.Len(t, made, 1)
	result, ok := research.ReadResult([]byte(answer.Text))
	require.True(t, ok)
	require.Len(t, result.Findings, 1)
	require.True(t, strings.HasPrefix(result.Findings[0].Text, "2 documents say: The copyright notice"))
	require.Len(t, result.Findings[0].Citations, 2)

	answer, made = work(t, branchPlan.ConsolidationBrief()+"\n"+model.Wrap("a1", "agents.delegate", "", "UNTRUSTED", encoded(t, results[1])), "", 4000)
	require.Empty(t, made, "nothing stands in two documents")
	require.Equal(t, `{"findings":[],"notFound":[]}`, answer.Text)
}

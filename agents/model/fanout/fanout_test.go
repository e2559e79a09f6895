package fanout_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/fanout"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/research"
)

func planOf(branches int) research.Plan {
	plan := research.Plan{Question: "What must be kept?", Agent: "reader", Consolidator: "editor"}
	for n := range branches {
		plan.Branches = append(plan.Branches, research.Branch{Title: fmt.Sprintf("branch %d", n), Inputs: []string{fmt.Sprintf("%d.txt", n)}})
	}
	return plan
}

type made struct {
	Agent, Brief string
	Context      []string
}

// coordinate plays a whole research. reply says what becomes of each call; empty
// for a result with one finding.
func coordinate(t *testing.T, plan research.Plan, limit int64, reply func(id string, call made) string) (research.Outcome, [][]made, string) {
	t.Helper()
	goal, err := json.Marshal(plan)
	require.NoError(t, err)
	request := model.Request{Tools: []model.Spec{{Name: "agents.delegate"}}, MaxTokens: limit,
		Messages: []model.Message{{Role: model.System, Text: "Coordinate."}, {Role: model.User, Text: string(goal)}}}
	var turns [][]made
	ordinal := 0
	for range 40 {
		answer, err := fanout.New().Take(t.Context(), request, nil)
		require.NoError(t, err)
		again, err := fanout.New().Take(t.Context(), request, nil)
		require.NoError(t, err)
		require.Equal(t, answer, again)
		if len(answer.Calls) == 0 {
			outcome, _ := research.ReadOutcome([]byte(answer.Text))
			return outcome, turns, answer.Text
		}
		said := model.Message{Role: model.Assistant}
		var replies []model.Message
		var turn []made
		for _, call := range answer.Calls {
			ordinal++
			id := fmt.Sprintf("c%d", ordinal)
			var one made
			require.NoError(t, json.Unmarshal(call.Arguments, &one))
			turn = append(turn, one)
			said.Calls = append(said.Calls, model.Call{ID: id, Name: call.Name, Arguments: call.Arguments})
			text := reply(id, one)
			if text == "" {
				text = model.Wrap("ab", "agents.delegate", "", "UNTRUSTED", `{"findings":[{"item":"i-`+id+`","text":"x","citations":[{"item":"a","quote":"q"}]}],"notFound":[]}`)
			}
			replies = append(replies, model.Message{Role: model.ToolReply, CallID: id, Text: text})
		}
		turns = append(turns, turn)
		request.Messages = append(append(request.Messages, said), replies...)
	}
	t.Fatal("it never answers")
	return research.Outcome{}, nil, ""
}

func fine(string, made) string { return "" }

func TestEachBranchIsDelegatedOnceThenAllIsConsolidated(t *testing.T) {
	plan := planOf(3)
	plan.Branches[1].Agent = "other"
	outcome, turns, _ := coordinate(t, plan, 16000, fine)
	require.Len(t, turns, 2)
	for n, call := range turns[0] {
		require.Equal(t, made{Agent: plan.AgentOf(n), Brief: plan.BriefOf(n)}, call)
	}
	require.Equal(t, []made{{Agent: "editor", Brief: plan.ConsolidationBrief(), Context: []string{"c1", "c2", "c3"}}}, turns[1])
	require.Equal(t, research.Outcome{Status: research.Complete, Missing: []string{}, Consolidated: 1, Findings: []string{"i-c4", "i-c1", "i-c2", "i-c3"}, Branches: []research.Said{
		{Title: "branch 0", Status: research.Done, Call: 1}, {Title: "branch 1", Status: research.Done, Call: 2}, {Title: "branch 2", Status: research.Done, Call: 3}}}, outcome)
}

// Five branches: three succeed, one fails, one stalls until its deadline ends
// it. What there is stays with its input, what is missing is named, and only
// that is asked for again.
func TestCase_38_AFanOutSaysWhatIsMissingAndRetriesOnlyThat(t *testing.T) {
	plan := planOf(5)
	outcome, turns, _ := coordinate(t, plan, 16000, func(id string, _ made) string {
		return map[string]string{"c2": "FAILED: the call did not happen or the tool could not do it. Code VERIFICATION_FAILED.\n{\"code\":\"X\"}",
			"c4": "FAILED: the call did not happen or the tool could not do it. Code LIMIT_REACHED."}[id]
	})
	require.Equal(t, research.Partial, outcome.Status)
	require.Equal(t, []string{"branch 1", "branch 3"}, outcome.Missing)
	require.Equal(t, []string{"c1", "c3", "c5"}, turns[1][0].Context)
	require.Equal(t, research.Said{Title: "branch 1", Status: research.Failed, Call: 2, Code: "VERIFICATION_FAILED"}, outcome.Branches[1])
	require.Equal(t, research.Said{Title: "branch 3", Status: research.Failed, Call: 4, Code: "LIMIT_REACHED"}, outcome.Branches[3])

	plan.RetryOf = "r1"
	for _, n := range []int{0, 2, 4} {
		plan.Done = append(plan.Done, research.Kept{Branch: n, Child: fmt.Sprintf("child%d", n), Findings: []string{fmt.Sprintf("i%d", n)}})
	}
	outcome, turns, _ = coordinate(t, plan, 16000, fine)
	require.Len(t, turns[0], 2)
	require.Equal(t, []string{plan.BriefOf(1), plan.BriefOf(3)}, []string{turns[0][0].Brief, turns[0][1].Brief})
	require.Equal(t, []string{"child0", "child2", "child4", "c1", "c2"}, turns[1][0].Context)
	require.Equal(t, []string{"i-c3", "i0", "i-c1", "i2", "i-c2", "i4"}, outcome.Findings)
	require.Equal(t, research.Complete, outcome.Status)
	require.Equal(t, research.Said{Title: "branch 2", Status: research.Reused, Child: "child2"}, outcome.Branches[2])
}

func TestWhatNoBranchBroughtIsNotConsolidated(t *testing.T) {
	outcome, turns, _ := coordinate(t, planOf(2), 16000, func(id string, _ made) string {
		return map[string]string{"c1": "REFUSED: the call does not meet the tool's contract.", "c2": "no findings at all"}[id]
	})
	require.Len(t, turns, 1)
	require.Equal(t, research.Nothing, outcome.Status)
	require.Equal(t, []string{"REFUSED", "RESULT_UNREADABLE"}, []string{outcome.Branches[0].Code, outcome.Branches[1].Code})
	outcome, _, _ = coordinate(t, planOf(2), 16000, func(id string, _ made) string {
		if id == "c3" {
			return "FAILED: the call did not happen or the tool could not do it. Code BUDGET."
		}
		return ""
	})
	require.Equal(t, []any{research.Partial, "CONSOLIDATION_BUDGET"}, []any{outcome.Status, outcome.Code})
}

func TestManyBranchesTakeSeveralTurnsAndConsolidations(t *testing.T) {
	_, turns, _ := coordinate(t, planOf(150), 64000, fine)
	var sizes []int
	for _, turn := range turns {
		sizes = append(sizes, len(turn))
	}
	require.Equal(t, []int{64, 64, 22, 3}, sizes, "and one consolidation of each 64")
	plan := planOf(7)
	plan.AtOnce = 3
	_, turns, _ = coordinate(t, plan, 64000, fine)
	require.Len(t, turns, 4)
	_, turns, _ = coordinate(t, planOf(20), 2000, fine)
	require.Greater(t, len(turns), 2, "as many as fit into an answer")
}

func TestWithoutAPlanItSaysWhatItIs(t *testing.T) {
	for _, goal := range []string{"Find out about dragons.", `{"question":"x"}`, ""} {
		answer, err := fanout.New().Take(t.Context(), model.Request{Tools: []model.Spec{{Name: "agents.delegate"}}, Messages: []model.Message{{Role: model.User, Text: goal}}}, nil)
		require.NoError(t, err)
		require.Equal(t, model.ClassRefusal, model.Classify(answer))
		require.Contains(t, answer.Text, "not a language model")
	}
}

func TestFanoutPassesTheSuite(t *testing.T) {
	goal, err := json.Marshal(planOf(1))
	require.NoError(t, err)
	modeltest.Suite(t, func(*testing.T, model.Answer) (model.Provider, model.Request, modeltest.Told) {
		return fanout.New(), model.Request{Tools: []model.Spec{{Name: "agents.delegate"}}, Messages: []model.Message{{Role: model.User, Text: string(goal)}}}, modeltest.Told{}
	})
}

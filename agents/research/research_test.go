package research_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/research"
	"gantry.dev/agents/tool"
)

func TestAWrittenFindingReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line := rapid.StringMatching(`[a-zé.,;"\[\]>—]{1,9}( [a-zé.,;\[\]>—]{1,9}){0,4}`)
		var citations []research.Citation
		for range rapid.IntRange(0, 5).Draw(t, "citations") {
			citations = append(citations, research.Citation{Item: rapid.StringMatching(`[0-9a-f]{4}-[0-9a-f]{4}`).Draw(t, "item"),
				Passage: line.Draw(t, "passage"), Quote: line.Draw(t, "quote")})
		}
		text := line.Draw(t, "text")
		said, read := research.ReadWritten(research.Written(text, citations))
		require.Equal(t, text, said)
		require.Equal(t, citations, read)
	})
}

func TestAQuoteIsLocatedWhateverWhiteSpaceItHas(t *testing.T) {
	text := "The the above\n copyright notice\tstands, the above copyright notice."
	for quote, want := range map[string]string{
		"above copyright notice": "above\n copyright notice", "the above copyright notice.": "the above copyright notice.",
		" the  above ": "the above", "above copyrightnotice": "", "Above copyright": "", "": "", "  ": "", "notice stands": "notice\tstands",
	} {
		start, end, found := research.Located(text, quote)
		require.Equal(t, want != "", found, quote)
		require.Equal(t, want, text[start:end], quote)
	}
}

func TestResultsPlansAndOutcomesAreReadStrictly(t *testing.T) {
	schema, err := tool.CompileSchema([]byte(research.Schema))
	require.NoError(t, err)
	good := `{"findings":[{"item":"i1","text":"x","citations":[{"item":"a","quote":"q"}]}],"notFound":["b.txt"]}`
	require.Empty(t, schema.Check([]byte(good)))
	result, ok := research.ReadResult([]byte(good))
	require.True(t, ok)
	require.Equal(t, []string{"b.txt"}, result.NotFound)
	for _, bad := range []string{`{}`, `{"findings":[]}`, good + "1", `{"findings":[],"notFound":[],"more":1}`, "text"} {
		_, ok := research.ReadResult([]byte(bad))
		require.False(t, ok, bad)
	}
	_, ok = research.ReadOutcome([]byte(`{"status":"PARTIAL","branches":[],"missing":["x"],"findings":[]}`))
	require.True(t, ok)
}

func TestPlansAreChecked(t *testing.T) {
	good := research.Plan{Question: "Why?", Agent: "reader", Branches: []research.Branch{{Title: "a", Inputs: []string{"a.txt"}}, {Title: "b", Agent: "other", Brief: "Who?"}},
		Done: []research.Kept{{Branch: 0, Child: "r9"}}}
	require.NoError(t, good.Check())
	require.Equal(t, []int{1}, good.Open())
	require.Equal(t, []string{"reader", "other"}, []string{good.AgentOf(0), good.AgentOf(1)})
	for name, spoil := range map[string]func(*research.Plan){
		"question": func(p *research.Plan) { p.Question = " " }, "agent": func(p *research.Plan) { p.Agent = "" },
		"none": func(p *research.Plan) { p.Branches = nil }, "many": func(p *research.Plan) { p.Branches = make([]research.Branch, 1001) },
		"title": func(p *research.Plan) { p.Branches[1].Title = "a" }, "inputs": func(p *research.Plan) { p.Branches[0].Inputs = make([]string, 21) },
		"brief": func(p *research.Plan) { p.Branches[1].Brief = strings.Repeat("x", 2001) }, "kept": func(p *research.Plan) { p.Done[0].Branch = 2 },
		"at once": func(p *research.Plan) { p.AtOnce = -1 },
	} {
		plan := good
		plan.Branches, plan.Done = append([]research.Branch(nil), good.Branches...), append([]research.Kept(nil), good.Done...)
		spoil(&plan)
		require.Error(t, plan.Check(), name)
	}
}

func TestABriefReadsBack(t *testing.T) {
	plan := research.Plan{Question: "What must\nbe kept?", Agent: "reader", Branches: []research.Branch{{Title: "a", Inputs: []string{"a b.txt", `c"d.txt`}}, {Title: "b", Brief: "Who?"}}}
	question, inputs := research.ReadBrief(plan.BriefOf(0))
	require.Equal(t, "What must be kept?", question)
	require.Equal(t, plan.Branches[0].Inputs, inputs)
	question, inputs = research.ReadBrief(plan.BriefOf(1))
	require.Equal(t, "Who?", question)
	require.Empty(t, inputs)
	question, _ = research.ReadBrief("Just a question?")
	require.Equal(t, "Just a question?", question)
}

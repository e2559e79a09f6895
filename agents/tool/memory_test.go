package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// answeringBrain gives what it is told to, and keeps what it was asked.
type answeringBrain struct {
	found    memory.Recollection
	kept     memory.Remembered
	err      error
	question memory.Question
	draft    memory.Draft
	reader   view.Reader
}

func (b *answeringBrain) Recall(_ context.Context, reader view.Reader, question memory.Question) (memory.Recollection, error) {
	b.reader, b.question = reader, question
	return b.found, b.err
}

func (b *answeringBrain) Remember(_ context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error) {
	b.reader, b.draft = reader, draft
	return b.kept, b.err
}

func hit(id, text string, marking policy.Marking) memory.Hit {
	return memory.Hit{Rendering: view.Rendering{ID: id, Etag: id + ".1", Space: view.Organisation, Kind: view.Passage, Marking: marking, Heading: "Travel › Hotels", Text: text,
		Source: view.Source{Kind: view.FromDocument, Ref: "handbook.md", Position: 3, Principal: "olga"}}, Score: 1}
}

// invoked checks and invokes a memory tool as a run does.
func invoked(t *testing.T, brain tool.Memory, name, arguments string) (tool.Result, error) {
	t.Helper()
	box, err := tool.NewBox(tool.NewMemory(brain, "olga", "carl", policy.ImpactUnset)...)
	require.NoError(t, err)
	checked, refusal := box.Check(name, []byte(arguments))
	require.Nil(t, refusal, "%v", refusal)
	_, digest, _ := box.Definition(name)
	found, ok := box.Find(name, digest)
	require.True(t, ok)
	return tool.Invoke(t.Context(), found, tool.Invocation{Run: "r1", Key: "k1", Model: "m", Arguments: checked.Arguments, Subject: policy.Principal{ID: "ada"},
		Reader: view.Reader{Organisation: "o", Principal: "agent:clerk", Run: "r1", Context: policy.Marking{Labels: policy.NewLabels("hr")},
			Read:  []view.Space{"conversation:c1", "department:d", "organisation", "person:ada"},
			Write: []view.Space{"agent:clerk", "organisation", "person:ada"}}})
}

func TestTheMemoryToolsHaveContracts(t *testing.T) {
	for impact, want := range map[policy.Impact]policy.Impact{policy.ImpactUnset: policy.Reversible, policy.Draft: policy.Draft, policy.Reversible: policy.Reversible} {
		tools := tool.NewMemory(nil, "olga", "carl", impact)
		require.Len(t, tools, 2)
		recall, remember := tools[0].Definition(), tools[1].Definition()
		require.NoError(t, recall.Validate())
		require.NoError(t, remember.Validate())
		require.Equal(t, []any{policy.ImpactRead, policy.ClassRead}, []any{recall.Impact, recall.Class})
		require.Equal(t, []any{want, policy.Keyed}, []any{remember.Impact, remember.Class})
	}
	for name, arguments := range map[string]string{tool.RecallName: `{"query":"x"}`, tool.RememberName: `{"text":"x","kind":"FACT","space":"organisation"}`} {
		_, err := invoked(t, nil, name, arguments)
		var failure *tool.Failure
		require.ErrorAs(t, err, &failure)
		require.Equal(t, tool.FailedUnavailable, failure.Code)
		require.False(t, failure.Uncertain, "nobody was asked")
	}
}

func TestARecallGivesHitsWithSourcesAndTheirJoinedMarking(t *testing.T) {
	brain := &answeringBrain{found: memory.Recollection{Degraded: []string{"DENSE"}, Hits: []memory.Hit{
		hit("a", "Hotels cost 200.", policy.Marking{Labels: policy.NewLabels("hr")}),
		hit("b", "Trains [redacted].", policy.Marking{Integrity: policy.Untrusted, Labels: policy.NewLabels("travel")}),
	}}}
	result, err := invoked(t, brain, tool.RecallName, `{"query":"hotels","spaces":["subject","department","organisation","conversation","person:eve"],"documents":["handbook.md"],"limit":7}`)
	require.NoError(t, err)
	require.Equal(t, memory.Question{Text: "hotels", Limit: 7, Refs: []string{"handbook.md"}, Spaces: []view.Space{"person:ada", "department:d", "organisation", "conversation:c1", "person:eve"}}, brain.question,
		"what the run may not read is memory's to find nothing in")
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("hr", "travel"), Integrity: policy.Untrusted}, result.Marking)
	require.Equal(t, []string{"a", "b"}, result.Items)
	recalled, ok := tool.ReadRecall(result.Content)
	require.True(t, ok)
	require.Equal(t, []string{"DENSE"}, recalled.Missing)
	require.Equal(t, tool.RecalledHit{ID: "a", Etag: "a.1", Space: view.Organisation, Kind: view.Passage, Labels: policy.NewLabels("hr"), Source: "handbook.md/3",
		Heading: "Travel › Hotels", Text: "Hotels cost 200."}, recalled.Hits[0])
	_, ok = tool.ReadRecall([]byte(`{"code":"UNAVAILABLE"}`))
	require.False(t, ok)
}

func TestALongRecallIsWholeHitsThatFit(t *testing.T) {
	brain := &answeringBrain{}
	for _, id := range strings.Split("abcdefghij", "") {
		brain.found.Hits = append(brain.found.Hits, hit(id, strings.Repeat(`"<`, 30<<10), policy.Marking{}))
	}
	result, err := invoked(t, brain, tool.RecallName, `{"query":"x"}`)
	require.NoError(t, err)
	require.False(t, result.Cut)
	recalled, ok := tool.ReadRecall(result.Content)
	require.True(t, ok)
	require.True(t, recalled.More)
	require.NotEmpty(t, recalled.Hits)
	require.Len(t, result.Items, len(recalled.Hits), "only what is quoted is linked")
	require.Equal(t, policy.FromTool, result.Marking.Integrity, "never the word of a person")
}

func TestFault_C13_AnOutageIsNoEmptyAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		tool, arguments string
		uncertain       bool
	}{
		"recall":   {tool.RecallName, `{"query":"x"}`, false},
		"remember": {tool.RememberName, `{"text":"x","kind":"FACT","space":"organisation"}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := invoked(t, &answeringBrain{err: errors.New("secret of the outage")}, c.tool, c.arguments)
			var failure *tool.Failure
			require.ErrorAs(t, err, &failure)
			require.Equal(t, tool.FailedUnavailable, failure.Code)
			require.Equal(t, c.uncertain, failure.Uncertain)
			require.NotContains(t, failure.Error(), "secret")

			refused, err := invoked(t, &answeringBrain{err: &memory.Refusal{Code: "QUOTA", Detail: "forget something first"}}, c.tool, c.arguments)
			require.NoError(t, err)
			require.True(t, refused.Failed)
			require.JSONEq(t, `{"code":"QUOTA","why":"forget something first"}`, string(refused.Content))
		})
	}
}

func TestWhatARunRemembersIsUntrustedAndCarriesItsLabels(t *testing.T) {
	brain := &answeringBrain{kept: memory.Remembered{Item: view.Rendering{ID: "new"}, Known: true}}
	result, err := invoked(t, brain, tool.RememberName, `{"text":"x","kind":"FINDING","subject":"s","space":"agent","sources":["a"]}`)
	require.NoError(t, err)
	require.Equal(t, memory.Draft{Space: "agent:clerk", Kind: view.Finding, Subject: "s", Text: "x", Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted,
		Source: view.Source{Kind: view.FromRun, Run: "r1", Model: "m"}, DerivedFrom: []string{"a"}, Key: "k1"}, brain.draft)
	require.Equal(t, []string{"new"}, result.Items)
	var answer map[string]any
	require.NoError(t, json.Unmarshal(result.Content, &answer))
	require.Equal(t, map[string]any{"item": "new", "space": "agent:clerk", "known": true}, answer)

	for name, arguments := range map[string]string{
		"a preference of somebody else": `{"text":"x","kind":"PREFERENCE","space":"organisation"}`,
		"a fact without a space":        `{"text":"x","kind":"FACT"}`,
	} {
		t.Run(name, func(t *testing.T) {
			brain.draft = memory.Draft{}
			refused, err := invoked(t, brain, tool.RememberName, arguments)
			require.NoError(t, err)
			require.True(t, refused.Failed)
			require.Contains(t, string(refused.Content), `"code":"SPACE"`)
			require.Zero(t, brain.draft)
		})
	}
}

func TestProposalsToMemoryAreHeldToTheirContract(t *testing.T) {
	box, err := tool.NewBox(tool.NewMemory(nil, "olga", "carl", policy.Draft)...)
	require.NoError(t, err)
	for name, c := range map[string]struct{ tool, arguments string }{
		"a passage":      {tool.RememberName, `{"text":"x","kind":"PASSAGE"}`},
		"trusted":        {tool.RememberName, `{"text":"x","kind":"FACT","integrity":"TRUSTED"}`},
		"labels":         {tool.RememberName, `{"text":"x","kind":"FACT","labels":[]}`},
		"nothing":        {tool.RememberName, `{"text":"","kind":"FACT"}`},
		"too many":       {tool.RecallName, `{"query":"x","limit":21}`},
		"as another":     {tool.RecallName, `{"query":"x","reader":"eve"}`},
		"no question":    {tool.RecallName, `{}`},
		"a broken space": {tool.RememberName, `{"text":"x","kind":"FACT","space":"../x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := box.Check(c.tool, []byte(c.arguments))
			require.NotNil(t, refusal)
		})
	}
	checked, refusal := box.Check(tool.RememberName, []byte(`{"text":"x","kind":"FACT","space":"organisation"}`))
	require.Nil(t, refusal)
	require.Equal(t, "memory:organisation", checked.Resource, "policies can say who may write where")
	require.Equal(t, policy.Facts{"kind": "FACT", "space": "organisation"}, checked.Facts)
}

package findings_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/research"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/findings"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// shelf remembers what it is told to, and keeps the drafts.
type shelf struct {
	items  map[string]view.Rendering
	refuse string // code, by which every draft is refused
	out    bool
	drafts []memory.Draft
	reader view.Reader
}

var errOut = errors.New("no line")

func (s *shelf) Items(_ context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error) {
	if s.out {
		return nil, errOut
	}
	s.reader = reader
	found := map[string]view.Rendering{}
	for _, id := range ids {
		if item, seen := s.items[id]; seen {
			found[id] = item
		}
	}
	return found, nil
}

func (s *shelf) Remember(_ context.Context, _ view.Reader, draft memory.Draft) (memory.Remembered, error) {
	if s.refuse != "" {
		return memory.Remembered{}, &memory.Refusal{Code: s.refuse}
	}
	s.drafts = append(s.drafts, draft)
	return memory.Remembered{Item: view.Rendering{ID: fmt.Sprintf("f%d", len(s.drafts))}}, nil
}

func newShelf() *shelf {
	item := func(space view.Space, text string, labels ...policy.Label) view.Rendering {
		return view.Rendering{Space: space, Text: text, Marking: policy.Marking{Labels: policy.NewLabels(labels...), Integrity: policy.FromTool},
			Source: view.Source{Ref: "lib/a.txt", Position: 3}}
	}
	return &shelf{items: map[string]view.Rendering{
		"a": item("organisation", "The notice must be kept\n in every copy of it. "+view.Redacted+" and more of it stands here."),
		"b": item("organisation", "A copy without the notice is no copy.", "finance"), "p": item("person:ada", "Ada wrote that the notice matters."),
		"d": item("department:hr", "The department says that the notice matters.")}}
}

func record(t *testing.T, brain findings.Memory, arguments string) (findings.Recorded, tool.Result, error) {
	t.Helper()
	box, err := tool.NewBox(findings.New(brain, "olga", "carl", policy.Draft))
	require.NoError(t, err)
	checked, refusal := box.Check(findings.RecordName, []byte(arguments))
	require.Nil(t, refusal, "%v", refusal)
	_, digest, _ := box.Definition(findings.RecordName)
	found, ok := box.Find(findings.RecordName, digest)
	require.True(t, ok)
	result, err := tool.Invoke(t.Context(), found, tool.Invocation{Run: "r1", Key: "k1", Model: "m", Arguments: checked.Arguments, Subject: policy.Principal{ID: "ada"},
		Reader: view.Reader{Organisation: "o", Principal: "agent:reader", Run: "r1", Context: policy.Marking{Labels: policy.NewLabels("finance")},
			Write: []view.Space{"organisation", "person:ada"}}})
	var done findings.Recorded
	if err == nil {
		require.NoError(t, json.Unmarshal(result.Content, &done))
	}
	return done, result, err
}

func TestTheContractHolds(t *testing.T) {
	for given, want := range map[policy.Impact]policy.Impact{policy.ImpactUnset: policy.Reversible, policy.Draft: policy.Draft} {
		d := findings.New(nil, "olga", "carl", given).Definition()
		require.NoError(t, d.Validate())
		require.Equal(t, []any{want, policy.Keyed}, []any{d.Impact, d.Class})
	}
	_, _, err := record(t, nil, `{"findings":[{"text":"x","citations":[{"item":"a","quote":"x"}]}]}`)
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	require.False(t, failure.Uncertain)
}

func TestOnlyWhatStandsInTheSourceIsKept(t *testing.T) {
	brain := newShelf()
	done, result, err := record(t, brain, `{"subject":"notices","findings":[
		{"text":"It must be kept.","citations":[{"item":"a","quote":"notice must be kept in every copy","passage":"made/up"},{"item":"b","quote":"never said in this document"}]},
		{"text":"Nothing holds.","citations":[{"item":"gone","quote":"notice must be kept"},{"item":"a","quote":"of it"},{"item":"a","quote":"copy of it. [redacted] and more of it"}]},
		{"text":"Both.","citations":[{"item":"a","quote":"in every copy of it."},{"item":"b","quote":"without the notice is"}]}]}`)
	require.NoError(t, err)
	require.Equal(t, []research.Finding{
		{Item: "f1", Text: "It must be kept.", Citations: []research.Citation{{Item: "a", Passage: "lib/a.txt/3", Quote: "notice must be kept in every copy"}}},
		{Item: "f2", Text: "Both.", Citations: []research.Citation{{Item: "a", Passage: "lib/a.txt/3", Quote: "in every copy of it."}, {Item: "b", Passage: "lib/a.txt/3", Quote: "without the notice is"}}},
	}, done.Recorded)
	require.Equal(t, []research.Dropped{{Finding: 0, Item: "b", Code: "NOT_QUOTED"}, {Finding: 1, Item: "gone", Code: "NOT_FOUND"},
		{Finding: 1, Item: "a", Code: "TOO_SHORT"}, {Finding: 1, Item: "a", Code: "REDACTED"}}, done.Dropped)
	require.Len(t, brain.drafts, 2)
	first := brain.drafts[0]
	require.Equal(t, []any{view.Space("organisation"), view.Finding, "notices", policy.Untrusted, []string{"a"}, "k1 0"},
		[]any{first.Space, first.Kind, first.Subject, first.Integrity, first.DerivedFrom, first.Key})
	require.Equal(t, "k1 2", brain.drafts[1].Key, "a repeat is the same command, whatever holds then")
	require.Equal(t, policy.NewLabels("finance"), first.Labels, "what the run had read")
	said, cited := research.ReadWritten(first.Text)
	require.Equal(t, "It must be kept.", said)
	require.Equal(t, done.Recorded[0].Citations, cited)
	require.Equal(t, []string{"f1", "a", "f2", "a", "b"}, result.Items)
	require.Equal(t, policy.NewLabels("finance"), result.Marking.Labels)
	require.Equal(t, "r1", brain.reader.Run, "as the run may read")
}

func TestAFindingStandsWhereItsSourcesStand(t *testing.T) {
	brain := newShelf()
	done, _, err := record(t, brain, `{"findings":[
		{"text":"1","citations":[{"item":"p","quote":"the notice matters"}]},
		{"text":"2","citations":[{"item":"p","quote":"the notice matters"},{"item":"a","quote":"in every copy of it."}]},
		{"text":"3","citations":[{"item":"d","quote":"the notice matters"}]}]}`)
	require.NoError(t, err)
	require.Len(t, done.Recorded, 3)
	var spaces []view.Space
	for _, draft := range brain.drafts {
		spaces = append(spaces, draft.Space)
	}
	require.Equal(t, []view.Space{"person:ada", "person:ada", "person:ada"}, spaces, "never where more people read than the sources' own")
}

func TestWhatMemoryRefusesIsNamedAndAnOutageIsUncertain(t *testing.T) {
	brain := newShelf()
	brain.refuse = "AUDIENCE"
	done, _, err := record(t, brain, `{"findings":[{"text":"x","citations":[{"item":"a","quote":"in every copy of it."}]}]}`)
	require.NoError(t, err)
	require.Empty(t, done.Recorded)
	require.Equal(t, []research.Dropped{{Finding: 0, Item: "a", Code: "AUDIENCE"}}, done.Dropped)
	brain.out = true
	_, _, err = record(t, brain, `{"findings":[{"text":"x","citations":[{"item":"a","quote":"in every copy of it."}]}]}`)
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	require.True(t, failure.Uncertain)
}

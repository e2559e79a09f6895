package policy_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
)

func adjustment(c corpus) policy.Request {
	return policy.Request{
		Subject:  c.dir.People["alice"],
		Agent:    policy.AgentFacts{Name: "reconciler", Department: "finance", Owner: "mona"},
		Chain:    []policy.Principal{c.dir.People["alice"], c.dir.People["reconciler"]},
		Tool:     c.tools[2].ToolFacts(),
		Resource: "ledger:invoice/INV-017",
		Facts:    policy.Facts{"amountCents": int64(10001), "urgent": true, "tags": []string{"x"}},
		Stage:    policy.Automate,
	}
}

func TestVerdictIsTheSameEveryTime(t *testing.T) {
	c := readCorpus(t)
	request := adjustment(c)
	request.Facts["amountCents"] = int64(2_000_000)
	first := policy.Decide(request, c.set, c.dir)
	require.Equal(t, policy.Hold, first.Answer)
	require.Len(t, first.Reasons, 4)
	for range 50 {
		require.Equal(t, first, policy.Decide(request, c.set, c.dir))
	}
}

func TestVerdictNamesReasonsInWordsAndTheRevision(t *testing.T) {
	c := readCorpus(t)
	verdict := c.set.Evaluate(adjustment(c), c.dir)
	require.Equal(t, policy.Verdict{
		Answer: policy.Hold,
		Reasons: []policy.Reason{
			{Policy: "large-adjustment", Text: "above 100.00 a controller decides"},
			{Policy: "urgent", Text: "a policy permits it"},
		},
		Approvers: []policy.Approver{
			{Role: "controller", Why: "role controller", Group: 0, Quorum: 1},
			{Principal: "mona", Why: "manager of alice", Group: 1, Quorum: 1},
		},
		Quorum:    1,
		ExpiresMs: 48 * 60 * 60 * 1000,
		Revision:  c.set.Revision(),
	}, verdict)
}

func TestWhatCannotBeJudgedIsForbidden(t *testing.T) {
	c := readCorpus(t)
	for name, test := range map[string]struct {
		change func(*policy.Request)
		reason string
	}{
		"unknown stage":           {func(r *policy.Request) { r.Stage = 9 }, policy.ReasonStageUnknown},
		"unknown integrity":       {func(r *policy.Request) { r.Marking.Integrity = 9 }, policy.ReasonRequestInvalid},
		"another definition":      {func(r *policy.Request) { r.Tool.Revision = "l2" }, policy.ReasonToolChanged},
		"no subject":              {func(r *policy.Request) { r.Subject.ID, r.Chain[0].ID = "", "" }, policy.ReasonRequestInvalid},
		"fact of a foreign type":  {func(r *policy.Request) { r.Facts["amountCents"] = 1.5 }, policy.ReasonRequestInvalid},
		"optional of that type":   {func(r *policy.Request) { r.Facts["memo"] = 1 }, policy.ReasonRequestInvalid},
		"optional of a fact type": {func(r *policy.Request) { r.Facts["memo"] = true }, policy.ReasonRequestInvalid},
		"no facts":                {func(r *policy.Request) { r.Facts = nil }, policy.ReasonRequestInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			request := adjustment(c)
			test.change(&request)
			for _, stage := range []policy.Stage{request.Stage, policy.Observe} {
				request.Stage = max(request.Stage, stage)
				verdict := policy.Decide(request, c.set, c.dir)
				require.Equal(t, policy.Forbid, verdict.Answer)
				require.Equal(t, test.reason, verdict.Reasons[0].Policy)
				require.Equal(t, c.set.Revision(), verdict.Revision)
			}
		})
	}
}

func TestReasonsQuoteNoFact(t *testing.T) {
	c := readCorpus(t)
	request := adjustment(c)
	request.Facts["amountCents"] = "SECRET"
	require.NotContains(t, text(t, policy.Decide(request, c.set, c.dir)), "SECRET")

	request.Facts["amountCents"] = int64(9223372036854775807)
	verdict := text(t, policy.Decide(request, c.set, c.dir))
	require.Contains(t, verdict, "overflow")
	require.NotContains(t, verdict, "9223372036854775807")
}

func text(t *testing.T, v any) string {
	t.Helper()
	written, err := json.Marshal(v)
	require.NoError(t, err)
	return string(written)
}

func TestRevisionMeansTheFiles(t *testing.T) {
	c := readCorpus(t)
	parse := func(files ...policy.File) string {
		set, err := policy.Parse(files, c.tools)
		require.NoError(t, err)
		return set.Revision()
	}
	reversed := slices.Clone(c.files)
	slices.Reverse(reversed)
	require.Equal(t, c.set.Revision(), parse(reversed...), "the order of the files means nothing")

	one := policy.File{Name: "a.cedar", Text: []byte("// a")}
	require.NotEqual(t, parse(one), parse(policy.File{Name: "b.cedar", Text: one.Text}), "a name counts")
	require.NotEqual(t, parse(one), parse(policy.File{Name: "a.cedar", Text: []byte("// b")}), "a text counts")
	require.NotEqual(t,
		parse(policy.File{Name: "a.cedar", Text: []byte("//b.cedar//")}, policy.File{Name: "b.cedar", Text: []byte("//")}),
		parse(policy.File{Name: "a.cedar", Text: []byte("//")}, policy.File{Name: "b.cedar", Text: []byte("//b.cedar//")}),
		"a text cannot move between files")
	require.Len(t, parse(), 64)
}

func TestNoPoliciesForbidEverything(t *testing.T) {
	c := readCorpus(t)
	set, err := policy.Parse(nil, c.tools)
	require.NoError(t, err)
	verdict := policy.Decide(adjustment(c), set, c.dir)
	require.Equal(t, policy.Forbid, verdict.Answer)
	require.Equal(t, policy.ReasonNothingPermits, verdict.Reasons[0].Policy)
}

func TestSourceSaysWhereAPolicyIsWritten(t *testing.T) {
	c := readCorpus(t)
	file, line, found := c.set.Source("no-payroll")
	require.True(t, found)
	require.Equal(t, "base.cedar", file)
	require.Equal(t, 7, line)
	_, _, found = c.set.Source(policy.ReasonStageApprove)
	require.False(t, found)
	require.True(t, slices.IsSorted(c.set.Policies()))
	require.Contains(t, c.set.Policies(), "no-payroll")
}

func TestFactsReadFromJSONHaveTheirTypes(t *testing.T) {
	var facts policy.Facts
	require.NoError(t, json.Unmarshal([]byte(`{"n":9223372036854775807,"s":"x","b":false,"l":["a"]}`), &facts))
	require.Equal(t, policy.Facts{"n": int64(9223372036854775807), "s": "x", "b": false, "l": []string{"a"}}, facts)

	for _, wrong := range []string{`{"f":1.5}`, `{"f":null}`, `{"f":{}}`, `{"f":[1]}`, `{"f":[null,1]}`, `{"f":9223372036854775808}`, `[]`} {
		err := json.Unmarshal([]byte(wrong), &facts)
		require.Error(t, err, wrong)
		require.False(t, strings.Contains(err.Error(), "9223372036854775808"), "the value is not quoted")
	}
}

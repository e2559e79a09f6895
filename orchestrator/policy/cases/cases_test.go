package cases_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/cases"
)

var (
	tools = []policy.ToolShape{{Name: "f.r", Owner: "bob", Impact: policy.Draft, Facts: map[string]policy.FactType{"n": policy.Long.OrAbsent()}}}
	dir   = policy.Roster{People: map[string]policy.Principal{
		"alice": {ID: "alice", Kind: policy.Person, Organisation: "acme"},
		"bob":   {ID: "bob", Kind: policy.Person, Organisation: "acme", Roles: []string{"boss"}},
		"bot":   {ID: "bot", Kind: policy.Agent, Organisation: "acme", Department: "it", Manager: "bob"},
	}}
)

const begin = "case: one\nsubject: alice\nagent: bot\ntool: f.r\nexpect: PERMIT\n"

func parse(text string) ([]cases.Case, error) {
	return cases.Parse(policy.File{Name: "c.txt", Text: []byte(text)}, tools, dir)
}

func TestACaseIsReadWhole(t *testing.T) {
	list, err := parse("# first\n\n" + begin + "# inside\nresource: f:x\nfact n: 7\nlabels: b, a\nintegrity: UNTRUSTED\n" +
		"untrusted: yes\ncost: 5\nstage: APPROVE\nat: 1970-01-01T00:00:01Z\nimpact: READ\nchain: alice, bob, bot\n\n\n" + begin)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "one", list[0].Name)
	require.Equal(t, "c.txt", list[0].File)
	require.Equal(t, 3, list[0].Line)
	require.Equal(t, policy.Request{
		Subject:   dir.People["alice"],
		Agent:     policy.AgentFacts{Name: "bot", Department: "it", Owner: "bob"},
		Chain:     []policy.Principal{dir.People["alice"], dir.People["bob"], dir.People["bot"]},
		Tool:      policy.ToolFacts{Name: "f.r", Owner: "bob", Impact: policy.ImpactRead},
		Facts:     policy.Facts{"n": int64(7)},
		Resource:  "f:x",
		Marking:   policy.Marking{Labels: policy.NewLabels("a", "b"), Integrity: policy.Untrusted},
		CostBound: 5, Stage: policy.Approve, AtMs: 1000, Untrusted: true,
	}, list[0].Request)
	require.Equal(t, policy.Automate, list[1].Request.Stage)
	require.Len(t, list[1].Request.Chain, 2, "without a chain it is the subject and the agent")
}

func TestFaultsOfACaseNameTheLine(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"unknown key":       {begin + "expects: HOLD", `c.txt:6: expects: unknown key`},
		"given twice":       {begin + "tool: x", `c.txt:6: tool: given twice`},
		"unknown principal": {begin + "chain: alice, zoe", `c.txt:6: chain: no principal "zoe" in the directory`},
		"fact of no JSON":   {begin + "fact n: 1,\"m\":2", `c.txt:6: fact n: not a JSON value`},
		"fact of no type":   {begin + "fact n: 1.5", `c.txt:6: fact n: fact "value": not a string, whole number, truth value or list of strings`},
		"stage":             {begin + "stage: NONE", `c.txt:6: stage: unknown stage "NONE"`},
		"impact":            {begin + "impact: NONE", `c.txt:6: impact: unknown impact "NONE"`},
		"integrity":         {begin + "integrity: NONE", `c.txt:6: integrity: unknown integrity "NONE"`},
		"untrusted":         {begin + "untrusted: maybe", `c.txt:6: untrusted: yes or no`},
		"cost":              {begin + "cost: much", `c.txt:6: cost: strconv.ParseInt: parsing "much": invalid syntax`},
		"at":                {begin + "at: noon", `c.txt:6: at: parsing time "noon" as "2006-01-02T15:04:05Z07:00": cannot parse "noon" as "2006"`},
		"all that is missing": {"\nresource: x", "c.txt:2: the case has no case\nc.txt:2: the case has no subject\n" +
			"c.txt:2: the case has no agent\nc.txt:2: the case has no tool\nc.txt:2: the case has no expect"},
	} {
		t.Run(name, func(t *testing.T) {
			list, err := parse(test.text)
			require.Nil(t, list)
			require.EqualError(t, err, test.want)
		})
	}
}

func TestEveryWantCanFail(t *testing.T) {
	set, err := policy.Parse([]policy.File{{Name: "p.cedar", Text: []byte(
		"@id(\"p\") permit(principal, action, resource);\n@id(\"q\") @hold(\"role:boss\") @expires(\"1h\") permit(principal, action, resource);")}}, tools)
	require.NoError(t, err)
	for want, difference := range map[string]string{
		"would: PERMIT":   `would: want "PERMIT", got ""`,
		"because: q":      `because: want "q", got "p, q"`,
		"by: bob":         `by: want "bob", got "role:boss"`,
		"quorum: 3":       `quorum: want "3", got "1"`,
		"expires: 2h0m0s": `expires: want "2h0m0s", got "1h0m0s"`,
		"settled: alice":  `settled: want "settled by alice", got "unsettled by alice"`,
		"unsettled: bob":  `unsettled: want "unsettled by bob", got "settled by bob"`,
		"because: q, p":   ``,
		"by: role:boss":   ``,
		"settled: bob":    ``,
	} {
		list, err := parse(begin + "stage: APPROVE\nuntrusted: yes\n" + want)
		require.NoError(t, err)
		wrong := list[0].Run(set, dir)
		require.Equal(t, `expect: want "PERMIT", got "HOLD"`, wrong[0])
		if difference == "" {
			require.Len(t, wrong, 1, want)
			continue
		}
		require.Equal(t, difference, wrong[len(wrong)-1])
	}
}

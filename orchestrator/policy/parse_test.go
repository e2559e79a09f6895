package policy_test

import (
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
)

const permitAll = "permit(principal, action, resource);"

// A policy over all actions must be right for every one of them.
const pathUnknown = "p.cedar:1: attribute `path` in context for Action::\"ledger.post_adjustment\" not found\n" +
	"p.cedar:1: attribute `path` in context for Action::\"legacy.run\" not found\n" +
	"p.cedar:1: attribute `path` in context for Action::\"mail.send\" not found\n" +
	"p.cedar:1: attribute `path` in context for Action::\"notes.write\" not found\n" +
	"p.cedar:1: attribute `path` in context for Action::\"stray.do\" not found"

func TestFaultsNameFileLineAndCause(t *testing.T) {
	c := readCorpus(t)
	for name, test := range map[string]struct{ text, want string }{
		"no id":                   {permitAll, `p.cedar:1: a policy needs an @id`},
		"bad id":                  {"@id(\"A b\")" + permitAll, `p.cedar:1: @id: an id is lower-case letters and digits, with single dots, dashes or underscores between`},
		"an id of Gantry's":       {"@id(\"gantry:x\")" + permitAll, `p.cedar:1: @id: an id is lower-case letters and digits, with single dots, dashes or underscores between`},
		"id taken":                {"@id(\"x\")" + permitAll + "\n\n@id(\"x\")" + permitAll, `p.cedar:3: the id "x" is taken by p.cedar:1`},
		"unknown annotation":      {"@id(\"x\") @holds(\"manager\")" + permitAll, `p.cedar:1: @holds: unknown annotation; known are id, hold, quorum, expires and reason`},
		"unknown holder":          {"@id(\"x\") @hold(\"boss\")" + permitAll, `p.cedar:1: @hold: who decides is one of tool-owner, budget-owner, manager, label-owner or role:NAME`},
		"role without a name":     {"@id(\"x\") @hold(\"role:\")" + permitAll, `p.cedar:1: @hold: who decides is one of tool-owner, budget-owner, manager, label-owner or role:NAME`},
		"hold without a word":     {"@id(\"x\") @hold @reason(\"r\") " + permitAll, `p.cedar:1: @hold: who decides is one of tool-owner, budget-owner, manager, label-owner or role:NAME`},
		"hold on forbid":          {"@id(\"x\") @hold(\"manager\") forbid(principal, action, resource);", `p.cedar:1: @hold: only a permit can wait for a person`},
		"quorum without hold":     {"@id(\"x\") @quorum(\"2\")" + permitAll, `p.cedar:1: @quorum: only with @hold`},
		"quorum of one person":    {"@id(\"x\") @hold(\"manager\") @quorum(\"2\")" + permitAll, `p.cedar:1: @quorum: one person cannot be several; more than 1 needs a role`},
		"quorum of nobody":        {"@id(\"x\") @hold(\"role:r\") @quorum(\"0\")" + permitAll, `p.cedar:1: @quorum: how many people must agree is a number from 1`},
		"quorum in words":         {"@id(\"x\") @hold(\"role:r\") @quorum(\"two\")" + permitAll, `p.cedar:1: @quorum: how many people must agree is a number from 1`},
		"expires without hold":    {"@id(\"x\") @expires(\"1h\")" + permitAll, `p.cedar:1: @expires: only with @hold`},
		"expires at once":         {"@id(\"x\") @hold(\"role:r\") @expires(\"0s\")" + permitAll, `p.cedar:1: @expires: how long a hold stays open is a duration such as "48h"`},
		"expires in words":        {"@id(\"x\") @hold(\"role:r\") @expires(\"2 days\")" + permitAll, `p.cedar:1: @expires: how long a hold stays open is a duration such as "48h"`},
		"empty reason":            {"@id(\"x\") @reason(\" \")" + permitAll, `p.cedar:1: @reason: say why in a sentence`},
		"misspelt attribute":      {"\n@id(\"x\")\npermit(principal, action == Action::\"files.read\", resource)\nwhen { context.facts.pth == \"x\" };", "p.cedar:2: attribute `pth` in context for Action::\"files.read\" not found"},
		"fact of another tool":    {"@id(\"x\") permit(principal, action, resource) when { context.facts.path == \"x\" };", pathUnknown},
		"unguarded optional":      {"@id(\"x\") permit(principal, action == Action::\"ledger.post_adjustment\", resource) when { context.facts.memo == \"x\" };", "p.cedar:1: unable to guarantee safety of access to optional attribute `facts.memo` in context for Action::\"ledger.post_adjustment\""},
		"unclosed text":           {"// a\n@id(\"x\") permit(principal, action, resource) when { \"a };", `p.cedar:2: near column 53: literal not terminated`},
		"bad escape":              {"@id(\"\\q\")" + permitAll, ``},
		"two syntax slips":        {"permit(principal action, resource);\n" + "forbd(principal, action, resource);", "p.cedar:1: near column 24: exact got action want ,\np.cedar:2: near column 6: unexpected effect: forbd"},
		"a slip hides no other":   {"permit(principal action, resource);\n@id(\"y\")\n\n" + "permit(principal, action == Action::\"nix\", resource);", "p.cedar:1: near column 24: exact got action want ,\np.cedar:2: unable to find an applicable action given the policy scope constraints\np.cedar:2: unrecognized action `Action::\"nix\"`"},
		"text after the last one": {"@id(\"x\")" + permitAll + "\nfoo", `p.cedar:2: near column 4: unexpected effect: foo`},
	} {
		t.Run(name, func(t *testing.T) {
			set, err := policy.Parse([]policy.File{{Name: "p.cedar", Text: []byte(test.text)}}, c.tools)
			require.Nil(t, set)
			var faults policy.Faults
			require.ErrorAs(t, err, &faults)
			if test.want != "" {
				require.Equal(t, test.want, err.Error())
			}
			for _, fault := range faults {
				require.Positive(t, fault.Line)
			}
		})
	}
}

func TestFaultsOfAllFilesComeTogether(t *testing.T) {
	_, err := policy.Parse([]policy.File{
		{Name: "b.cedar", Text: []byte("@id(\"x\")" + permitAll)},
		{Name: "a.cedar", Text: []byte("@id(\"x\")" + permitAll)},
		{Name: "mine.cedarschema"},
		{Name: "c.cedar"},
		{Name: "c.cedar"},
	}, nil)
	require.EqualError(t, err, "b.cedar:1: the id \"x\" is taken by a.cedar:1\n"+
		"c.cedar: given twice\n"+
		"mine.cedarschema: not a .cedar file; the schema is Gantry's own and not written here")
}

func TestSemicolonsInTextsAndCommentsEndNoStatement(t *testing.T) {
	text := "// one; two \" three\n" +
		"@id(\"x\") @reason(\"a; \\\" b; // c\")\n" +
		"permit(principal, action, resource) /* ; \" */ when { \"//\" == \";\" }; /* end; */\n" +
		"@id(\"y\")" + permitAll + "// last"
	set, err := policy.Parse([]policy.File{{Name: "p.cedar", Text: []byte(text)}}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"x", "y"}, set.Policies())
	_, line, _ := set.Source("y")
	require.Equal(t, 4, line)
}

func TestToolsThatNoPolicyCouldSpeakOf(t *testing.T) {
	fact := func(name string, kind policy.FactType) map[string]policy.FactType {
		return map[string]policy.FactType{name: kind}
	}
	_, err := policy.Parse(nil, []policy.ToolShape{
		{Name: "z.ok", Facts: map[string]policy.FactType{
			"if": policy.Long, "b": policy.Bool.OrAbsent(), "s": policy.StringSet.OrAbsent().OrAbsent()}},
		{Name: "a\"b"},
		{Name: "a..b"},
		{Name: "draft"},
		{Name: "twice.x"},
		{Name: "twice.x"},
		{Name: "f.x", Facts: fact("a b", policy.Long)},
		{Name: "g.x", Facts: fact("a", "Float")},
		{Name: "h.x", Facts: fact("a", "Float?")},
	})
	const form = `a tool's name is letters, digits and underscores, with single dots, dashes or slashes between`
	require.EqualError(t, err, `tool "a\"b": `+form+"\n"+
		`tool "a..b": `+form+"\n"+
		`tool "draft": this name is the name of a group of actions`+"\n"+
		`tool "f.x": fact "a b": a fact's name is a letter, then letters, digits and underscores`+"\n"+
		`tool "g.x": fact "a": unknown type "Float"; known are Long, String, Bool and StringSet`+"\n"+
		`tool "h.x": fact "a": unknown type "Float?"; known are Long, String, Bool and StringSet`+"\n"+
		`tool "twice.x": two tools have this name`)
}

func TestSchemaIsTheSameForTheSameTools(t *testing.T) {
	c := readCorpus(t)
	first, err := policy.Schema(c.tools)
	require.NoError(t, err)
	require.Contains(t, string(first), `"memo"?: String`)
	for range 20 {
		again, err := policy.Schema(c.tools)
		require.NoError(t, err)
		require.Equal(t, string(first), string(again))
	}
}

func FuzzParse(f *testing.F) {
	c := readCorpus(f)
	for _, file := range c.files {
		f.Add(file.Text)
	}
	f.Add([]byte("@id(\"x\") permit(principal, action, resource) when { \"; };"))
	f.Fuzz(func(t *testing.T, text []byte) {
		set, err := policy.Parse([]policy.File{{Name: "p.cedar", Text: text}}, c.tools)
		if err != nil {
			var faults policy.Faults
			require.ErrorAs(t, err, &faults)
			require.NotEmpty(t, faults)
			return
		}
		whole, err := cedar.NewPolicyListFromBytes("p.cedar", text)
		require.NoError(t, err, "what is read piece by piece reads as a whole")
		require.Len(t, set.Policies(), len(whole))
		policy.Decide(adjustment(c), set, c.dir)
	})
}

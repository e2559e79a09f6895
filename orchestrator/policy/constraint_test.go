package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/policytest"
)

// granting returns an authority with one grant and these constraints, written
// as JSON.
func granting(t testing.TB, constraints string) policy.Authority {
	t.Helper()
	grant := policy.ToolGrant{Revision: "r1", Impact: policy.Irreversible, Calls: 1}
	require.NoError(t, json.Unmarshal([]byte(constraints), &grant.Constraints))
	return policy.Authority{Tools: map[string]policy.ToolGrant{"a.x": grant}}
}

func TestConstraintsBoundArguments(t *testing.T) {
	for name, test := range map[string]struct {
		constraints, args string
		allowed           bool
		path              string
	}{
		"none":                    {`[]`, `{}`, true, ""},
		"listed":                  {`[{"path":"/a","enum":["1","\"x\""]}]`, `{"a":"x"}`, true, ""},
		"listed, written apart":   {`[{"path":"/a","enum":["1.0","\"\\u0078\"","{\"b\":1,\"a\":2}"]}]`, `{"a":{"a":2,"b":1}}`, true, ""},
		"text is no number":       {`[{"path":"/a","enum":["1"]}]`, `{"a":"1"}`, false, "/a"},
		"not listed":              {`[{"path":"/a","enum":["1"]}]`, `{"a":2}`, false, "/a"},
		"empty list":              {`[{"path":"/a","enum":[]}]`, `{"a":1}`, false, ""},
		"list of no JSON":         {`[{"path":"/a","enum":["x"]}]`, `{"a":"x"}`, false, ""},
		"absent":                  {`[{"path":"/a","enum":["null"]}]`, `{}`, false, "/a"},
		"null is there":           {`[{"path":"/a","enum":["null"]}]`, `{"a":null}`, true, ""},
		"must be there":           {`[{"path":"/a"}]`, `{}`, false, "/a"},
		"is there":                {`[{"path":"/a"}]`, `{"a":[]}`, true, ""},
		"at the least":            {`[{"path":"/a","min":"0.1"}]`, `{"a":0.1}`, true, ""},
		"below the least":         {`[{"path":"/a","min":"0.1"}]`, `{"a":0.09999999999999999}`, false, "/a"},
		"at the greatest":         {`[{"path":"/a","max":"1e15"}]`, `{"a":1e15}`, true, ""},
		"above the greatest":      {`[{"path":"/a","max":"1e15"}]`, `{"a":1000000000000001}`, false, "/a"},
		"negative":                {`[{"path":"/a","min":"-2","max":"-1"}]`, `{"a":-1.5}`, true, ""},
		"range of a text":         {`[{"path":"/a","min":"0"}]`, `{"a":"5"}`, false, "/a"},
		"least above greatest":    {`[{"path":"/a","min":"2","max":"1"}]`, `{"a":1}`, false, ""},
		"one number":              {`[{"path":"/a","min":"2","max":"2.0"}]`, `{"a":2}`, true, ""},
		"one number no double is": {`[{"path":"/a","min":"0.10000000000000000000001","max":"0.10000000000000000000001"}]`, `{"a":0.1}`, false, ""},
		"no number":               {`[{"path":"/a","min":"x"}]`, `{"a":1}`, false, ""},
		"a fraction":              {`[{"path":"/a","max":"1/3"}]`, `{"a":0}`, false, ""},
		"a truth value":           {`[{"path":"/a","max":"true"}]`, `{"a":0}`, false, ""},
		"huge exponent":           {`[{"path":"/a","max":"1e999999999"}]`, `{"a":0}`, false, ""},
		"endless exponent":        {`[{"path":"/a","max":"1e99999999999999999999"}]`, `{"a":0}`, false, ""},
		"tiny exponent":           {`[{"path":"/a","min":"1e-401"}]`, `{"a":1}`, false, ""},
		"longer than written out": {`[{"path":"/a","max":"1e400"}]`, `{"a":1}`, false, ""},
		"empty number":            {`[{"path":"/a","max":""}]`, `{"a":1}`, false, ""},
		"prefix":                  {`[{"path":"/a","prefix":"é/"}]`, `{"a":"é/x"}`, true, ""},
		"no such prefix":          {`[{"path":"/a","prefix":"b"}]`, `{"a":"ab"}`, false, "/a"},
		"prefix of a number":      {`[{"path":"/a","prefix":""}]`, `{"a":1}`, false, "/a"},
		"prefix and range":        {`[{"path":"/a","prefix":"1","min":"0"}]`, `{"a":1}`, false, ""},
		"list and range":          {`[{"path":"/a","enum":["1","5","\"1\""],"max":"3"}]`, `{"a":1}`, true, ""},
		"list outside range":      {`[{"path":"/a","enum":["5"],"max":"3"}]`, `{"a":5}`, false, ""},
		"list and prefix":         {`[{"path":"/a","enum":["\"ab\"","\"b\""],"prefix":"a"}]`, `{"a":"b"}`, false, "/a"},
		"two on one path":         {`[{"path":"/a","min":"1"},{"path":"/b"},{"path":"/a","max":"3"}]`, `{"a":4,"b":0}`, false, "/a"},
		"two that clash":          {`[{"path":"/a","prefix":"x"},{"path":"/a","prefix":"y"}]`, `{"a":"x"}`, false, ""},
		"two prefixes":            {`[{"path":"/a","prefix":"x"},{"path":"/a","prefix":"xy"}]`, `{"a":"xz"}`, false, "/a"},
		"nested":                  {`[{"path":"/a/b~1c/1/~0","enum":["true"]}]`, `{"a":{"b/c":[0,{"~":true}]}}`, true, ""},
		"outside the list":        {`[{"path":"/a/1"}]`, `{"a":[0]}`, false, "/a/1"},
		"before the list":         {`[{"path":"/a/-1"}]`, `{"a":[0]}`, false, "/a/-1"},
		"index written apart":     {`[{"path":"/a/00"}]`, `{"a":[0]}`, false, "/a/00"},
		"index of no number":      {`[{"path":"/a/x"}]`, `{"a":[0]}`, false, "/a/x"},
		"inside a text":           {`[{"path":"/a/0"}]`, `{"a":"x"}`, false, "/a/0"},
		"the whole":               {`[{"path":"","enum":["{\"a\":1}"]}]`, `{"a":1}`, true, ""},
		"no pointer":              {`[{"path":"a"}]`, `{"a":1}`, false, ""},
		"other case":              {`[{"path":"/A"}]`, `{"a":1}`, false, "/A"},
		"key given twice":         {`[{"path":"/a","enum":["1"]}]`, `{"a":2,"a":1}`, false, ""},
		"no JSON":                 {`[]`, `{`, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			allowed, path := granting(t, test.constraints).Tools["a.x"].Allows([]byte(test.args))
			require.Equal(t, test.allowed, allowed)
			require.Equal(t, test.path, path)
		})
	}
}

func TestPrefixOfBrokenTextAllowsNothing(t *testing.T) {
	prefix := "\xff"
	grant := policy.ToolGrant{Impact: policy.Draft, Calls: 1, Constraints: []policy.Constraint{{Path: "/a", Prefix: &prefix}}}
	allowed, _ := grant.Allows([]byte(`{"a":"\ufffd"}`))
	require.False(t, allowed)
}

func TestNormalFormOfConstraints(t *testing.T) {
	for written, want := range map[string]string{
		`[{"path":"/b"},{"path":"/a","min":"1.50"}]`:                       `[{"path":"/a","min":"1.5"},{"path":"/b"}]`,
		`[{"path":"/a","min":"2.0","max":"2"}]`:                            `[{"path":"/a","enum":["2"]}]`,
		`[{"path":"/a","enum":["2.0","\"\\u0061\"","2"]}]`:                 `[{"path":"/a","enum":["\"a\"","2"]}]`,
		`[{"path":"/a","min":"1"},{"path":"/a","min":"2e0"}]`:              `[{"path":"/a","min":"2"}]`,
		`[{"path":"/a","prefix":"x"},{"path":"/a"}]`:                       `[{"path":"/a","prefix":"x"}]`,
		`[{"path":"/a","prefix":"xy"},{"path":"/a","prefix":"x"}]`:         `[{"path":"/a","prefix":"xy"}]`,
		`[{"path":"/a","min":"1"},{"path":"/a","enum":["0","1","\"1\""]}]`: `[{"path":"/a","enum":["1"]}]`,
		`[{"path":"/a","min":"-0"}]`:                                       `[{"path":"/a","min":"0"}]`,
	} {
		normal := granting(t, written).Normal().Tools["a.x"].Constraints
		require.JSONEq(t, want, asJSON(t, normal), written)
	}
}

func asJSON(t *testing.T, constraints []policy.Constraint) string {
	t.Helper()
	written, err := json.Marshal(constraints)
	require.NoError(t, err)
	return string(written)
}

func TestNarrowerConstraintsAreBelow(t *testing.T) {
	for name, test := range map[string]struct {
		narrow, wide string
		below        bool
	}{
		"none below none":      {`[]`, `[]`, true},
		"some below none":      {`[{"path":"/a"}]`, `[]`, true},
		"none below some":      {`[]`, `[{"path":"/a"}]`, false},
		"other path":           {`[{"path":"/b"}]`, `[{"path":"/a"}]`, false},
		"list in range":        {`[{"path":"/a","enum":["1","2"]}]`, `[{"path":"/a","min":"1"}]`, true},
		"list partly in range": {`[{"path":"/a","enum":["0","2"]}]`, `[{"path":"/a","min":"1"}]`, false},
		"range in a list":      {`[{"path":"/a","min":"1","max":"2"}]`, `[{"path":"/a","enum":["1","2"]}]`, false},
		"one number in a list": {`[{"path":"/a","min":"1","max":"1"}]`, `[{"path":"/a","enum":["1","2"]}]`, true},
		"longer prefix":        {`[{"path":"/a","prefix":"ab"}]`, `[{"path":"/a","prefix":"a"}]`, true},
		"shorter prefix":       {`[{"path":"/a","prefix":"a"}]`, `[{"path":"/a","prefix":"ab"}]`, false},
		"range and prefix":     {`[{"path":"/a","min":"1"}]`, `[{"path":"/a","prefix":""}]`, false},
		"closed in open range": {`[{"path":"/a","min":"1","max":"2"}]`, `[{"path":"/a","max":"2"}]`, true},
		"open in closed range": {`[{"path":"/a","max":"2"}]`, `[{"path":"/a","min":"1","max":"2"}]`, false},
		"impossible below all": {`[{"path":"/a","enum":[]}]`, `[{"path":"/b"}]`, true},
		"all below impossible": {`[]`, `[{"path":"/a","enum":[]}]`, false},
		"same, written apart":  {`[{"path":"/a","max":"1.0"}]`, `[{"path":"/a","max":"1"}]`, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.below, granting(t, test.narrow).Below(granting(t, test.wide)))
		})
	}
}

// The same laws as for whole authorities, where nothing but the constraints of
// one tool differs, so that constraints meet in every run.
func TestConstraintsAreOrderedByWhatTheyAllow(t *testing.T) {
	draw := func(t *rapid.T, name string) policy.Authority {
		constraints := rapid.SliceOfN(policytest.Constraint(), 0, 3).Draw(t, name)
		grant := policy.ToolGrant{Revision: "r1", Impact: policy.Irreversible, Calls: 1, Constraints: constraints}
		return policy.Authority{Tools: map[string]policy.ToolGrant{"a.x": grant}}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t, "a"), draw(t, "b"), draw(t, "c")
		ab := policy.Meet(a, b)
		require.True(t, ab.Below(a) && ab.Below(b))
		require.Equal(t, ab, policy.Meet(b, a))
		require.Equal(t, policy.Meet(ab, c), policy.Meet(a, policy.Meet(b, c)))
		require.Equal(t, a.Below(b), assert.ObjectsAreEqual(ab, a.Normal()))
		if c.Below(a) && c.Below(b) {
			require.True(t, c.Below(ab))
		}
		args := policytest.Arguments().Draw(t, "args")
		byA, _ := a.Tools["a.x"].Allows(args)
		byB, _ := b.Tools["a.x"].Allows(args)
		both, _ := ab.Tools["a.x"].Allows(args)
		require.Equal(t, byA && byB, both)
	})
}

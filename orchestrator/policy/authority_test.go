package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/policytest"
)

func draw(t *rapid.T, name string) policy.Authority { return policytest.Authority().Draw(t, name) }

func TestBelowIsAPartialOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t, "a"), draw(t, "b"), draw(t, "c")
		require.True(t, a.Below(a), "reflexive")
		require.True(t, a.Below(a.Normal()) && a.Normal().Below(a), "normal form keeps the meaning")
		require.Equal(t, a.Normal(), a.Normal().Normal(), "normal form is final")

		ab := policy.Meet(a, b)
		abc := policy.Meet(ab, c) // chains that surely hold, so that the implications are not empty
		require.True(t, abc.Below(ab) && ab.Below(a) && abc.Below(a), "transitive along a chain")
		if a.Below(b) && b.Below(c) {
			require.True(t, a.Below(c), "transitive")
		}
		if a.Below(b) && b.Below(a) {
			require.Equal(t, a.Normal(), b.Normal(), "antisymmetric on normal forms")
		}
	})
}

func TestMeetIsTheGreatestLowerBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := draw(t, "a"), draw(t, "b"), draw(t, "c")
		ab := policy.Meet(a, b)
		require.True(t, ab.Below(a), "lower bound of a")
		require.True(t, ab.Below(b), "lower bound of b")
		require.Equal(t, ab, policy.Meet(b, a), "commutative")
		require.Equal(t, a.Normal(), policy.Meet(a, a), "idempotent")
		require.Equal(t, policy.Meet(ab, c), policy.Meet(a, policy.Meet(b, c)), "associative")
		require.Equal(t, a.Below(b), policy.Meet(a, b).Below(a) && a.Below(policy.Meet(a, b)), "a is below b when their meet is a")
		if c.Below(a) && c.Below(b) {
			require.True(t, c.Below(ab), "greatest")
		}
	})
}

func TestNarrowerNeverAllowsMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		if rapid.Bool().Draw(t, "related") {
			a = policy.Meet(a, b)
		}
		tool := rapid.SampledFrom([]string{"a.x", "a.y"}).Draw(t, "tool")
		revision := rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rev")
		impact := policy.Impact(rapid.IntRange(0, 4).Draw(t, "callImpact"))
		args := policytest.Arguments().Draw(t, "args")

		byA := a.AllowsCall(tool, revision, impact, args) == nil
		byB := b.AllowsCall(tool, revision, impact, args) == nil
		if a.Below(b) && byA {
			require.True(t, byB, "a request allowed by the narrower is refused by the wider")
		}
		both := policy.Meet(a, b).AllowsCall(tool, revision, impact, args) == nil
		require.Equal(t, byA && byB, both, "the meet allows exactly what both allow")
	})
}

func TestTheZeroAuthorityAllowsNothing(t *testing.T) {
	var denied *policy.Denied
	require.ErrorAs(t, policy.Authority{}.AllowsTool("a.x", "", policy.ImpactRead), &denied)
	require.Equal(t, policy.ToolNotGranted, denied.Code)
	rapid.Check(t, func(t *rapid.T) {
		require.True(t, policy.Authority{}.Below(draw(t, "any")))
		require.Equal(t, policy.Authority{}, policy.Meet(draw(t, "other"), policy.Authority{}))
	})
}

func TestWhyAToolIsDenied(t *testing.T) {
	authority := granting(t, `[{"path":"/a","enum":["1"]}]`)
	grant := authority.Tools["a.x"]
	grant.Impact = policy.Draft
	authority.Tools["a.x"] = grant
	for name, test := range map[string]struct {
		tool, revision string
		impact         policy.Impact
		args           string
		want           string
	}{
		"allowed":              {"a.x", "r1", policy.Draft, `{"a":1}`, ""},
		"less is allowed":      {"a.x", "r1", policy.ImpactRead, `{"a":1}`, ""},
		"another tool":         {"a.y", "r1", policy.ImpactRead, `{}`, "the authority denies this call: TOOL_NOT_GRANTED a.y"},
		"another definition":   {"a.x", "r2", policy.ImpactRead, `{}`, "the authority denies this call: TOOL_CHANGED a.x"},
		"higher impact":        {"a.x", "r1", policy.Reversible, `{}`, "the authority denies this call: IMPACT_TOO_HIGH a.x"},
		"unset is the highest": {"a.x", "r1", policy.ImpactUnset, `{}`, "the authority denies this call: IMPACT_TOO_HIGH a.x"},
		"argument":             {"a.x", "r1", policy.Draft, `{"a":"SECRET"}`, `the authority denies this call: ARGUMENTS_DENIED a.x at "/a"`},
	} {
		t.Run(name, func(t *testing.T) {
			err := authority.AllowsCall(test.tool, test.revision, test.impact, []byte(test.args))
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.EqualError(t, err, test.want)
		})
	}
}

func TestAGrantOfNoCallsIsNone(t *testing.T) {
	for _, grant := range []policy.ToolGrant{
		{Revision: "r1", Impact: policy.Draft, Calls: 0},
		{Revision: "r1", Impact: policy.Draft, Calls: -1},
		{Revision: "r1", Impact: policy.ImpactUnset, Calls: 1},
		{Revision: "r1", Impact: 9, Calls: 1},
	} {
		authority := policy.Authority{Tools: map[string]policy.ToolGrant{"a.x": grant}}
		require.Error(t, authority.AllowsTool("a.x", "r1", policy.ImpactRead))
		require.Empty(t, authority.Normal().Tools)
		allowed, _ := grant.Allows([]byte(`{}`))
		require.False(t, allowed)
	}
}

// Each dimension alone must be able to make an authority narrower.
func TestEveryDimensionCounts(t *testing.T) {
	wide := policy.Authority{
		Tools:  map[string]policy.ToolGrant{"a.x": {Revision: "r1", Impact: policy.Reversible, Calls: 2}},
		Labels: policy.NewLabels("hr", "pay"), ReadSpaces: []string{"p", "q"}, WriteSpaces: []string{"p", "q"}, Models: []string{"m", "n"},
		MicroUSD: 2, Tokens: 2, DeadlineMs: 2, Turns: 2, Depth: 2, FanOut: 2, RunsAtOnce: 2, CallsAtOnce: 2, Stage: policy.Approve,
	}
	grant := func(revision string, impact policy.Impact, calls int) func(*policy.Authority) {
		return func(a *policy.Authority) {
			a.Tools = map[string]policy.ToolGrant{"a.x": {Revision: revision, Impact: impact, Calls: calls}}
		}
	}
	for name, narrow := range map[string]func(*policy.Authority){
		"tools":       func(a *policy.Authority) { a.Tools = nil },
		"impact":      grant("r1", policy.Draft, 2),
		"calls":       grant("r1", policy.Reversible, 1),
		"labels":      func(a *policy.Authority) { a.Labels = policy.NewLabels("hr") },
		"readSpaces":  func(a *policy.Authority) { a.ReadSpaces = []string{"q"} },
		"writeSpaces": func(a *policy.Authority) { a.WriteSpaces = []string{"q"} },
		"models":      func(a *policy.Authority) { a.Models = []string{"n"} },
		"microUsd":    func(a *policy.Authority) { a.MicroUSD = 1 },
		"tokens":      func(a *policy.Authority) { a.Tokens = 1 },
		"deadline":    func(a *policy.Authority) { a.DeadlineMs = 1 },
		"turns":       func(a *policy.Authority) { a.Turns = 1 },
		"depth":       func(a *policy.Authority) { a.Depth = 1 },
		"fanOut":      func(a *policy.Authority) { a.FanOut = 1 },
		"runsAtOnce":  func(a *policy.Authority) { a.RunsAtOnce = 1 },
		"callsAtOnce": func(a *policy.Authority) { a.CallsAtOnce = 1 },
		"stage":       func(a *policy.Authority) { a.Stage = policy.Constrain },
	} {
		t.Run(name, func(t *testing.T) {
			narrower := wide
			narrow(&narrower)
			require.True(t, narrower.Below(wide))
			require.False(t, wide.Below(narrower))
			require.Equal(t, narrower.Normal(), policy.Meet(wide, narrower))
		})
	}
	other := wide
	grant("r2", policy.Reversible, 2)(&other)
	require.False(t, wide.Below(other) || other.Below(wide))
	require.Empty(t, policy.Meet(wide, other).Tools, "two definitions of a tool meet in no grant")
}

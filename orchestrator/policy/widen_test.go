package policy_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/policytest"
)

// counted is what no grant adds to.
func counted(a policy.Authority) policy.Authority {
	a = a.Normal()
	a.Tools, a.Labels, a.ReadSpaces, a.WriteSpaces, a.Models = nil, nil, nil, nil, nil
	return a
}

func TestAGrantAddsWhatItNamesAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, grant := draw(t, "a"), draw(t, "grant")
		if rapid.Bool().Draw(t, "related") {
			grant = policy.Meet(a, grant)
		}
		wide := policy.Widen(a, grant)
		require.Equal(t, counted(a), counted(wide), "money, tokens, time, turns, levels, children and stage stay")
		require.Equal(t, wide, wide.Normal())
		require.Equal(t, wide, policy.Widen(wide, grant), "once is enough")
		require.Equal(t, a.Normal(), policy.Widen(a, policy.Authority{}))

		plain, given := a, grant
		plain.Tools, given.Tools = nil, nil
		require.True(t, plain.Below(policy.Widen(plain, given)), "nothing of its own is lost")
		given.MicroUSD, given.Tokens, given.DeadlineMs, given.Turns, given.Depth = 0, 0, 0, 0, 0
		given.FanOut, given.RunsAtOnce, given.CallsAtOnce, given.Stage = 0, 0, 0, policy.Observe
		require.True(t, given.Below(wide), "all of the grant is there")
	})
}

// A tool that both have is bound as one of them bounds it: what was never
// allowed by either is not allowed by both together.
func TestAGrantMakesNoBoundsOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, grant := draw(t, "a"), draw(t, "grant")
		switch rapid.IntRange(0, 3).Draw(t, "related") {
		case 1:
			grant = once(a)
		case 2:
			a = once(grant)
		}
		wide := policy.Widen(a, grant)
		tool, revision := rapid.SampledFrom([]string{"a.x", "a.y"}).Draw(t, "tool"), rapid.SampledFrom([]string{"r1", "r2"}).Draw(t, "rev")
		impact, args := policy.Impact(rapid.IntRange(0, 4).Draw(t, "callImpact")), policytest.Arguments().Draw(t, "args")
		allows := func(a policy.Authority) bool { return a.AllowsCall(tool, revision, impact, args) == nil }
		require.False(t, allows(wide) && !allows(a) && !allows(grant), "it allows what neither allows")
		require.False(t, allows(grant) && !allows(wide), "it lacks what was granted")

		_, own := a.Normal().Tools[tool]
		_, granted := grant.Normal().Tools[tool]
		if own && !granted {
			require.Equal(t, a.Normal().Tools[tool], wide.Tools[tool])
		}
		with := func(a policy.Authority) policy.Authority { return policy.Authority{Tools: a.Normal().Tools} }
		if with(grant).Below(with(a)) {
			require.Equal(t, a.Normal().Tools, wide.Tools, "the wider bounds hold")
		}
		if with(a).Below(with(grant)) {
			require.Equal(t, grant.Normal().Tools, wide.Tools, "the wider bounds hold")
		}
	})
}

// once allows each tool for one call.
func once(a policy.Authority) policy.Authority {
	a = a.Normal()
	tools := map[string]policy.ToolGrant{}
	for name, bounds := range a.Tools {
		bounds.Calls = 1
		tools[name] = bounds
	}
	a.Tools = tools
	return a
}

// What one who delegates loses, nobody below keeps but by the grant.
func TestAGrantOnLessGivesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, grant := draw(t, "a"), draw(t, "b"), draw(t, "grant")
		if rapid.Bool().Draw(t, "related") {
			grant = policy.Meet(b, grant)
		}
		less := policy.Meet(a, b)
		require.True(t, policy.Widen(less, grant).Below(policy.Widen(b, grant)))
	})
}

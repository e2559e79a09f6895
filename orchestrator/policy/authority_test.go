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

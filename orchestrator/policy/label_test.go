package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
)

func drawMarking(t *rapid.T, name string) policy.Marking {
	set := rapid.SliceOfN(rapid.SampledFrom([]policy.Label{"hr", "legal", "pay"}), 0, 4).Draw(t, name)
	return policy.Marking{Labels: policy.NewLabels(set...), Integrity: policy.Integrity(rapid.IntRange(0, 2).Draw(t, name+"/integrity"))}
}

func TestMarkingsAreALattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawMarking(t, "a"), drawMarking(t, "b"), drawMarking(t, "c")
		join := a.Join(b)
		require.True(t, a.Within(a), "reflexive")
		require.True(t, a.Within(join) && b.Within(join), "upper bound")
		if a.Within(c) && b.Within(c) {
			require.True(t, join.Within(c), "least")
		}
		if a.Within(b) && b.Within(c) {
			require.True(t, a.Within(c), "transitive")
		}
		require.Equal(t, join.Labels.String(), b.Join(a).Labels.String(), "commutative")
		require.Equal(t, a.Join(join).Labels.String(), join.Labels.String(), "absorbing")

		meet := a.Labels.Meet(b.Labels)
		require.True(t, meet.Within(a.Labels) && meet.Within(b.Labels))
		require.Equal(t, a.Labels.Within(b.Labels), meet.String() == a.Labels.String())
	})
}

func TestLabelsDecideWhoSees(t *testing.T) {
	cleared := policy.Principal{Clearance: policy.NewLabels("pay", "hr", "pay")}
	require.Equal(t, "hr,pay", cleared.Clearance.String())
	require.True(t, cleared.Sees(nil))
	require.True(t, cleared.Sees(policy.NewLabels("hr")))
	require.False(t, cleared.Sees(policy.NewLabels("hr", "legal")))
	require.Equal(t, "hr,legal", policy.NewLabels("hr").Join(policy.NewLabels("legal")).String())
}

// scales are all values that are written by name.
type scales struct {
	Impact    policy.Impact
	Class     policy.EffectClass
	Stage     policy.Stage
	Integrity policy.Integrity
}

func TestScalesAreWrittenByName(t *testing.T) {
	for n := range uint8(5) {
		value := scales{policy.Impact(n), policy.EffectClass(n), policy.Stage(min(n, 3)), policy.Integrity(min(n, 2))}
		written, err := json.Marshal(value)
		require.NoError(t, err)
		var read scales
		require.NoError(t, json.Unmarshal(written, &read))
		require.Equal(t, value, read)
	}
	for _, wrong := range []string{`{"Impact":"read"}`, `{"Class":"X"}`, `{"Stage":""}`, `{"Integrity":"LOW"}`} {
		require.ErrorContains(t, json.Unmarshal([]byte(wrong), new(scales)), "unknown")
	}
	require.Equal(t, "UNKNOWN", policy.Stage(9).String())
}

func TestWhatIsNotSetIsTheWorst(t *testing.T) {
	require.Equal(t, policy.Irreversible, policy.ImpactUnset.OrWorst())
	require.Equal(t, policy.Irreversible, policy.Impact(9).OrWorst())
	require.Equal(t, policy.Draft, policy.Draft.OrWorst())
	require.Equal(t, policy.Opaque, policy.ClassUnset.OrWorst())
	require.Equal(t, policy.Opaque, policy.EffectClass(9).OrWorst())
	require.Equal(t, policy.Keyed, policy.Keyed.OrWorst())
}

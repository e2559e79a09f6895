package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/engine"
)

func TestPlacesAreSharedAndNoneIsLeftEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		places, roots, children := rapid.IntRange(0, 9).Draw(t, "places"), rapid.IntRange(0, 12).Draw(t, "roots"), rapid.IntRange(0, 12).Draw(t, "children")
		odd := rapid.Bool().Draw(t, "odd")
		a, b := engine.Share(places, roots, children, odd)
		require.Equal(t, min(places, roots+children), a+b, "no place stays empty while somebody waits")
		require.True(t, a >= 0 && b >= 0 && a <= roots && b <= children)
		require.GreaterOrEqual(t, a, min(roots, places/2))
		require.GreaterOrEqual(t, b, min(children, places/2))
	})
	a, b := engine.Share(1, 5, 5, true)
	require.Equal(t, []int{1, 0}, []int{a, b})
	a, b = engine.Share(1, 5, 5, false)
	require.Equal(t, []int{0, 1}, []int{a, b})
}

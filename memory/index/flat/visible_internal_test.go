package flat

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
)

// What a search walks over is what its reader may see: ten times as much that it
// may not leaves it the same work.
func TestASearchTouchesOnlyWhatIsVisible(t *testing.T) {
	query := index.Query{
		Organisation: "acme", Spaces: []view.Space{view.Organisation, "person:ruth"}, Sets: []string{"-", "hr"},
		Vector: []float32{1}, Terms: rank.Terms{{Hash: 1, Weight: 1}}, Limit: 5,
	}
	touched := func(hidden int) (rows int, found index.Found) {
		asked := newIndex(index.VectorSpace{ID: "x", Dim: 1})
		add := func(organisation, item string, space view.Space, set string, omit ...string) {
			require.NoError(t, asked.Apply(t.Context(), []index.State{{
				Organisation: organisation, Item: item, Version: 1, Space: space,
				Points: []index.Point{{Set: set, Omit: omit, Vector: []float32{1}, Terms: rank.Terms{{Hash: 1, Weight: 1}}}},
			}}))
		}
		for i := range 30 {
			add("acme", fmt.Sprint("seen", i), query.Spaces[i%2], query.Sets[i%2])
			add("acme", fmt.Sprint("part", i), view.Organisation, "-", "legal")
		}
		for i := range hidden {
			add("acme", fmt.Sprint("set", i), view.Organisation, fmt.Sprint("legal", i))
			add("acme", fmt.Sprint("space", i), view.SpaceOf(view.SpacePerson, fmt.Sprint(i)), "-")
			add("acme", fmt.Sprint("poorer", i), view.Organisation, "-", "hr")
			add("emca", fmt.Sprint("other", i), view.Organisation, "-")
		}
		for _, p := range asked.held.Load().of("acme").visible(&query) {
			rows += len(p.rows)
			require.Len(t, p.postings[1], len(p.rows))
		}
		found, err := asked.Search(t.Context(), query)
		require.NoError(t, err)
		return rows, found
	}
	rows, found := touched(20)
	require.Equal(t, 60, rows)
	more, same := touched(200)
	require.Equal(t, rows, more)
	require.Equal(t, found, same)
}

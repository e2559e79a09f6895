package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/index"
)

// Whether an outage is told does not hang on what others have remembered.
func TestAnOutageTellsNothingOfWhatIsHidden(t *testing.T) {
	l := &liar{}
	h := build(t, sqlite, withLiar(l))
	bob, question := person("bob"), memory.Question{Text: "What does the band begin at?"}
	whole, err := h.Recall(t.Context(), bob, question)
	require.NoError(t, err)
	require.Empty(t, whole.Hits)
	l.down = index.ErrUnavailable
	_, err = h.Recall(t.Context(), bob, question)
	require.ErrorIs(t, err, index.ErrUnavailable, "nothing is remembered at all")

	l.down = nil
	hidden := fact("The band begins at 4,000.")
	hidden.Labels = append(hidden.Labels, "hr")
	h.remember(t, person("ann", "hr"), hidden)
	same, err := h.Recall(t.Context(), bob, question)
	require.NoError(t, err)
	require.Equal(t, whole, same)
	l.down = index.ErrUnavailable
	_, err = h.Recall(t.Context(), bob, question)
	require.ErrorIs(t, err, index.ErrUnavailable, "what there is, bob is not cleared for")
}

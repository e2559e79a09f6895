package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/index/flat"
)

// Who opens a memory before anything is remembered decides nothing: whoever comes
// with other models takes their own. With the first item it is settled.
func settling(t *testing.T, where on) {
	h := build(t, where)
	begin := func(embedders ...embed.Embedder) (*memory.Service, error) {
		config := h.tuning
		config.Store, config.Indexes, config.Embedders = h.store, flat.New(), embedders
		return memory.New(t.Context(), config)
	}
	first := h.Service
	wider, err := begin(static, second{static})
	require.NoError(t, err)
	_, err = first.Remember(t.Context(), person("ann"), fact("The gate opens at six."))
	require.ErrorIs(t, err, memory.ErrVectorSpace, "whoever still has the settings of before is told")

	done, err := wider.Remember(t.Context(), person("ann"), fact("The gate opens at six."))
	require.NoError(t, err)
	require.Len(t, h.vectors(t), 2, "it has vectors of both")
	found, err := wider.Recall(t.Context(), person("ann"), memory.Question{Text: "When does the gate open?"})
	require.NoError(t, err)
	require.Equal(t, done.Item.ID, found.Hits[0].ID)

	_, err = begin(static)
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	require.ErrorContains(t, err, "gantry memory reembed")
	_, err = begin(static, second{static})
	require.NoError(t, err)
}

func TestModelsAreSettledByTheFirstItem(t *testing.T) { settling(t, sqlite) }

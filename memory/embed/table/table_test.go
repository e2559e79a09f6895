package table_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/embed/table"
)

func TestDecodeReadsWhatEncodeWrote(t *testing.T) {
	want := table.Table{Dim: 2, Stems: []string{"boat", "rain"}, Weights: []uint8{255, 3}, Vectors: []int8{-128, 127, 0, -1}}
	encoded := want.Encode()
	got, err := table.Decode(string(encoded))
	require.NoError(t, err)
	require.Equal(t, want, got)
	for cut := range encoded {
		_, err := table.Decode(string(encoded[:cut]))
		require.ErrorIs(t, err, table.ErrNotTable)
	}
	_, err = table.Decode(string(encoded) + "x")
	require.ErrorIs(t, err, table.ErrNotTable)
	want.Stems = []string{"boat", "rain\nfall"}
	_, err = table.Decode(string(want.Encode()))
	require.ErrorIs(t, err, table.ErrNotTable)
}

func FuzzDecode(f *testing.F) {
	f.Add(string(table.Table{Dim: 1, Stems: []string{"a"}, Weights: []uint8{1}, Vectors: []int8{1}}.Encode()))
	f.Fuzz(func(t *testing.T, from string) {
		if got, err := table.Decode(from); err == nil && string(got.Encode()) != from {
			t.Fatal("it reads what it would not write")
		}
	})
}

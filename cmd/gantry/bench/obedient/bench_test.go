package obedient

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBench(t *testing.T) {
	r, err := Measure(t.Context(), Config{Tasks: 1, Seed: 1, Folder: t.TempDir(), Progress: os.Stderr})
	require.NoError(t, err)
	require.NoError(t, r.Table(os.Stdout))
	require.True(t, r.Held())
}

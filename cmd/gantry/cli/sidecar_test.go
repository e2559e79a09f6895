package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDemonstrationOfSidecars(t *testing.T) {
	var out bytes.Buffer
	result, err := showSidecar(t.Context(), &out)
	require.NoError(t, err, out.String())
	require.Len(t, result.Checks, 5)
	require.Contains(t, out.String(), "\nchecked: ")
}

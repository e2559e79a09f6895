package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheDemonstrationOfAccess(t *testing.T) {
	var out bytes.Buffer
	result, err := showAccess(t.Context(), &out)
	require.NoError(t, err, out.String())
	require.Len(t, result.Checks, 6)
	require.Contains(t, out.String(), "definition: ", "the owner reads what is asked for in the tool's own words")
}

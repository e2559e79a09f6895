package policy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestABrokenSchemaIsAnError(t *testing.T) {
	_, err := resolveSchema([]byte("entity"))
	require.ErrorContains(t, err, "schema")
	_, err = resolveSchema([]byte("entity A in [B];"))
	require.ErrorContains(t, err, "schema")
}

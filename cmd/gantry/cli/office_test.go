package cli

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// The pins in the sample's tool files are those of the office as it is: another
// tool would be quarantined, and nothing would be done.
func TestTheDemonstrationOfTheOffice(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	result, err := showOffice(t.Context(), &out)
	require.NoError(t, err, out.String())
	require.Equal(t, map[string]int{"mail_draft": 1, "calendar_add": 1, "file_write": 1, "mail_send": 1}, result.Done)
	require.Contains(t, out.String(), "four pallets out of tolerance", "what was open stands in the agenda")
	require.NotContains(t, out.String(), "supplier list", "what a mail asks of assistants reaches nobody")
}

package cli

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
)

func TestCallsThatWaitTogetherAreNamedWithTheirOwnIDs(t *testing.T) {
	item := client.Item{Count: 2, Approval: &client.Approval{ID: "one", Tool: "ledger.post"},
		Others: []client.Approval{{ID: "two", Arguments: client.Text{Display: "{\"amount\":2}\nand more"}}}}
	lines := othersLines(item)
	require.Len(t, lines, 2)
	require.Equal(t, "2 calls of this run to ledger.post wait; besides this one:", lines[0])
	require.Contains(t, lines[1], "two: {\"amount\":2}")
	require.NotContains(t, lines[1], "\n")
	require.Empty(t, othersLines(client.Item{Count: 1, Approval: item.Approval}))
}

package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// reader is a principal of the house as memory knows them.
func (h *house) reader(id string) view.Reader {
	h.t.Helper()
	o, err := h.platform.Organisation(h.t.Context(), h.organisation.Name)
	require.NoError(h.t, err)
	person, known := o.Principal(id)
	require.True(h.t, known)
	return o.Reader(person)
}

// What a detector finds in what somebody remembers is only for those whom the
// organisation's configuration clears for it.
func TestWhatIsRememberedIsShownToEachByTheirClearance(t *testing.T) {
	h := openHouse(t, plan{})
	said := "Peak Conveyor signs in January; mail to sian.howells@peak-conveyor.example."
	draft := memory.Draft{Space: "department:finance", Kind: view.Fact, Text: said, Labels: policy.NewLabels("finance")}
	kept, err := h.platform.Brain.Remember(t.Context(), h.reader(asker), draft)
	require.NoError(t, err)
	ask := func(id string) []memory.Hit {
		found, err := h.platform.Brain.Recall(t.Context(), h.reader(id), memory.Question{Text: "When does Peak Conveyor sign?"})
		require.NoError(t, err)
		return found.Hits
	}
	require.Equal(t, said, ask(director)[0].Text)
	require.Equal(t, "Peak Conveyor signs in January; mail to [redacted].", ask(controller)[0].Text)
	require.Equal(t, policy.NewLabels("personal"), ask(controller)[0].Withheld[0].Labels, "anybody may know of this label")
	require.Empty(t, ask(outsider), "not of the department")

	receipt, err := h.platform.Brain.Forget(t.Context(), h.reader(lead), memory.Selector{Items: []string{kept.Item.ID}})
	require.ErrorContains(t, err, "NOT_WHOLE")
	require.Empty(t, receipt.ID)
}

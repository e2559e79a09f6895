package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/memory"
	"gantry.dev/memory/index/qdrant"
	double "gantry.dev/memory/index/wire"
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

// With an index in a server, what is remembered gets there at once, told within
// this process: nobody waits for the next look. What is erased goes the same way.
func TestWhatIsRememberedGetsToAServersIndex(t *testing.T) {
	server := double.Start(t)
	told := make(chan struct{}, 100)
	server.Inject(double.Told("Delete", 0, told)) // the last word on each change
	h := openHouse(t, plan{config: func(c *wire.Config) { c.Memory.Qdrant = qdrant.Config{URL: server.URL()} }})
	said := "Peak Conveyor signs in January."
	kept, err := h.platform.Brain.Remember(t.Context(), h.reader(asker), memory.Draft{Space: "department:finance", Kind: view.Fact, Text: said})
	require.NoError(t, err)
	<-told
	found, err := h.platform.Brain.Recall(t.Context(), h.reader(asker), memory.Question{Text: "When does Peak Conveyor sign?"})
	require.NoError(t, err)
	require.Equal(t, said, found.Hits[0].Text)
	receipt, err := h.platform.Brain.Forget(t.Context(), h.reader(asker), memory.Selector{Items: []string{kept.Item.ID}})
	require.NoError(t, err)
	require.Positive(t, receipt.VerifiedMs)
	found, err = h.platform.Brain.Recall(t.Context(), h.reader(asker), memory.Question{Text: "When does Peak Conveyor sign?"})
	require.NoError(t, err)
	require.Empty(t, found.Hits)
	h.close()
	server.RequireGuarded(t)
}

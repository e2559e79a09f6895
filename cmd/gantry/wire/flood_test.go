package wire_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/run"
)

// flood is a model that wants five hundred adjustments at once.
const flood = `
POST = "ledger.post_adjustment"

def turn(ctx):
    if ctx.results(POST):
        return {"text": "{}"}
    return {"text": "All of them.", "calls": [{"name": POST, "arguments": {"invoice": "INV-1004", "amountCents": -100 - n, "currency": "EUR",
        "reason": "INV-1004"}} for n in range(500)]}
`

// Five hundred requests of one run: people get one entry for those of one tool,
// with each call in it, and only so many of them; the run is parked, and whoever
// answers for it is told so once. Each call is still decided by itself.
func TestFault_F15_AFloodOfRequestsIsOneEntryAndParksItsRun(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) {
		revised(reconciler, func(r *agents.Revision) { r.Limits.CallsPerTurn, r.Limits.Approvals = 500, 40 })(o)
		for i := range o.Models {
			if o.Models[i].Script != "" {
				o.Models[i].MaxOutput = 20_000 // so many calls are long
			}
		}
		at := slices.IndexFunc(o.Scripts, func(s agents.Source) bool { return s.Name == reconciler })
		o.Scripts[at].Text = flood
	}})
	amara, tomas, marta := h.as(asker), h.as(controller), h.as(lead)
	id := amara.begin("INV-1004").ID
	amara.until(id, "parked")
	got, err := amara.Run(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, got.Calls, 500)
	require.Len(t, got.Approvals, 40)
	require.Equal(t, run.ParkedFlood, got.Parked.Code)

	of := func(p *person, kind string) []client.Item {
		items, err := p.Inbox(t.Context())
		require.NoError(t, err)
		return slices.DeleteFunc(items, func(i client.Item) bool { return i.Kind != kind })
	}
	waits := of(tomas, "APPROVAL")
	require.Len(t, waits, 1)
	require.Equal(t, 40, waits[0].Count)
	require.Len(t, waits[0].Others, 39)
	require.Len(t, of(marta, "PARKED"), 1, "the agent's owner is told once")
	require.Len(t, of(tomas, "PARKED"), 1, "and its contact")

	one, err := tomas.Approval(t.Context(), client.ShortID(waits[0].Others[7].ID))
	require.NoError(t, err)
	require.Contains(t, one.Arguments.Value, "-108")
	other := one
	other.Digest = waits[0].Others[8].Digest
	_, err = tomas.Decide(t.Context(), other, true, "checked")
	require.Error(t, err, "no call is decided by what another one shows")
	tomas.decide(one, false)
	waits = of(tomas, "APPROVAL")
	require.Equal(t, 39, waits[0].Count)

	_, err = amara.Cancel(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", amara.ended(id).Status)
	require.Empty(t, of(tomas, "APPROVAL"))
	require.Zero(t, h.entries("INV-1004"))
}

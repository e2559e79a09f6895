package wire_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
)

type adjustment struct {
	Invoice     string
	AmountCents int64
}

func adjustmentOf(t *testing.T, approval client.Approval) adjustment {
	t.Helper()
	var a adjustment
	require.NoError(t, json.Unmarshal([]byte(approval.Arguments.Value), &a))
	return a
}

// The agent's arguments come from the files, and what happens in the ledger is
// what was held and granted.
func TestAnotherInvoiceGivesAnotherProposal(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	first := tomas.held(amara.begin("INV-1004").ID)
	require.Equal(t, "ledger.post_adjustment", first.Tool)
	require.Equal(t, adjustment{"INV-1004", -64856}, adjustmentOf(t, first), "two motors of 268.00 and their VAT were not received")

	path := filepath.Join(h.root, "finance", "invoices", "INV-1004.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := strings.NewReplacer(`"quantity": 6`, `"quantity": 5`, "1608.00", "1340.00", "337.68", "281.40", "1945.68", "1621.40").Replace(string(text))
	require.NotEqual(t, string(text), changed)
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))

	again := amara.begin("INV-1004")
	second := tomas.held(again.ID)
	require.Equal(t, adjustment{"INV-1004", -32428}, adjustmentOf(t, second))
	require.NotEqual(t, first.Digest, second.Digest)
	crossed := second
	crossed.Digest = first.Digest
	_, err = tomas.Decide(t.Context(), crossed, true, "")
	require.Error(t, err, "another call was seen than is held")
	require.Zero(t, h.entries("INV-1004"))

	tomas.decide(second, true)
	require.Equal(t, "COMPLETED", amara.ended(again.ID).Status)
	require.Equal(t, 1, h.entries("INV-1004"))
}

// In OBSERVE nothing above READ happens; the run still shows what would have.
func TestObserveStageShowsWhatWouldHaveHappened(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, marta := h.as(asker), h.as(lead)
	said := marta.mutate("setStage", map[string]any{"agent": reconciler, "stage": "OBSERVE"})
	require.Empty(t, said.UserErrors)
	require.False(t, said.AwaitsSecondPerson, "a stricter stage is in force at once")
	require.Equal(t, "OBSERVE", said.Agent.Stage)

	ended := amara.ended(amara.begin("INV-1004").ID)
	require.Equal(t, "COMPLETED", ended.Status)
	require.Empty(t, ended.Approvals, "nobody is asked for what does not happen")
	simulated := 0
	for _, call := range ended.Calls {
		if call.Impact == "READ" {
			require.Equal(t, "OK", call.Outcome, call.Tool)
			continue
		}
		simulated++
		require.Equal(t, "ledger.post_adjustment", call.Tool)
		require.Equal(t, "SIMULATED", call.Outcome)
		require.Equal(t, "SIMULATE", call.Verdict.Answer)
		require.Equal(t, "HOLD", call.Verdict.Would)
		require.Contains(t, call.Arguments.Value, "-64856")
	}
	require.Equal(t, 1, simulated)
	require.Contains(t, ended.End.Result.Value, `"posted":false`)
	require.Zero(t, h.entries("INV-1004"))

	over := amara.ended(amara.begin("INV-1033").ID)
	last := over.Calls[len(over.Calls)-1]
	require.Equal(t, "FORBIDDEN", last.Outcome, "what policy forbids is forbidden in every stage")
	require.Equal(t, "adjust-hard-limit", last.Verdict.Reasons[0].Policy)
	observed, err := marta.Observed(t.Context(), reconciler, 10)
	require.NoError(t, err)
	require.Len(t, observed, 2)
}

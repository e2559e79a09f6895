package wire_test

import (
	"strings"
	"testing"

	"github.com/sourcegraph/conc/iter"
	"github.com/stretchr/testify/require"
)

// Fifty people and clicks decide one call at once: one decision counts, and
// all others hear whose it was.
func TestCase_04_OneOfFiftyConcurrentApprovalsWins(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	run := amara.begin("INV-1004")
	approval := tomas.held(run.ID)
	input := map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"}
	type answer struct {
		done done
		err  error
	}
	clicks := make([]struct{}, 50)
	answers := iter.Mapper[struct{}, answer]{MaxGoroutines: len(clicks)}.Map(clicks, func(*struct{}) answer {
		d, err := tomas.try("decideApproval", input)
		return answer{d, err}
	})
	won := 0
	for _, a := range answers {
		require.NoError(t, a.err)
		if a.done.Outcome == "ACCEPTED" {
			won++
			continue
		}
		require.Len(t, a.done.UserErrors, 1)
		require.Equal(t, "ALREADY_DECIDED", a.done.code())
		require.Contains(t, a.done.UserErrors[0].Message, controller, "the winner is named")
	}
	require.Equal(t, 1, won)
	ended := amara.ended(run.ID)
	require.Equal(t, "COMPLETED", ended.Status)
	require.Equal(t, "SPENT", ended.Approvals[0].Status)
	require.Equal(t, 1, h.entries("INV-1004"))
}

// A race of yes and no has one winner too, and the ledger holds what it said.
func TestCase_04_ApprovalRacesDenial(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	run := amara.begin("INV-1004")
	approval := tomas.held(run.ID)
	words := strings.Fields(strings.Repeat("APPROVE DENY ", 10))
	won := iter.Map(words, func(word *string) string {
		d, err := tomas.try("decideApproval", map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": *word})
		if err != nil || d.Outcome != "ACCEPTED" {
			return ""
		}
		return *word
	})
	winner := strings.Join(won, "")
	require.Contains(t, []string{"APPROVE", "DENY"}, winner)
	amara.ended(run.ID)
	require.Equal(t, map[string]int{"APPROVE": 1, "DENY": 0}[winner], h.entries("INV-1004"))
}

// Above the small amount two different people are needed, and who asked is none.
func TestTwoPeopleDecideALargeAdjustment(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas, marta := h.as(asker), h.as(controller), h.as(lead)
	run := amara.begin("INV-1029")
	approval := tomas.held(run.ID)
	require.Equal(t, 2, approval.Quorum)
	input := map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"}
	require.Equal(t, "NOT_FOUND", amara.mutate("decideApproval", input).code(), "to who asked there is nothing to decide")
	tomas.decide(approval, true)
	require.NotEmpty(t, tomas.mutate("decideApproval", input).UserErrors, "one person counts once")
	require.Zero(t, h.entries("INV-1029"))
	marta.decide(approval, true)
	require.Equal(t, "COMPLETED", amara.ended(run.ID).Status)
	require.Equal(t, 1, h.entries("INV-1029"))
}

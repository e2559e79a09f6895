package invariant_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAStoreWithEveryKindOfRunIsSound(t *testing.T) {
	h := newHouse(t)
	h.fill()
	report, found := h.audit()
	require.Empty(t, found)
	lines := strings.Join(report.Lines(), "\n")
	require.Contains(t, lines, "chains: 7 runs, ")
	require.Contains(t, lines, "inbox: 6 rows are what is open", "approval, question, two uncertain calls, parked, limit")
	require.Contains(t, lines, "0 are erased")
	require.Contains(t, lines, "budgets: 2 nodes are the sum of their runs")
	require.Contains(t, lines, "conversations: 1, ")
	require.Contains(t, lines, "rows: 8 receipts")
}

// Each damage is done to the file of a sound store, and is found by its code.
func TestPlantedDamageIsFoundByItsCode(t *testing.T) {
	for name, test := range map[string]struct {
		code  invariant.Code
		run   string
		spoil string
	}{
		"a record's body":      {invariant.Chain, "r-finished", "UPDATE journal SET body = replace(CAST(body AS TEXT), 'ada', 'eve') WHERE run = 'r-finished' AND seq = 1"},
		"a record's time":      {invariant.Chain, "r-finished", "UPDATE journal SET at_ms = at_ms + 1 WHERE run = 'r-finished' AND seq = 4"},
		"a record is gone":     {invariant.Chain, "r-finished", "DELETE FROM journal WHERE run = 'r-finished' AND seq = 3"},
		"the last record":      {invariant.HeadWrong, "r-finished", "DELETE FROM journal WHERE run = 'r-finished' AND kind = 'ended'"},
		"all records":          {invariant.HeadWrong, "r-parked", "DELETE FROM journal WHERE run = 'r-parked'"},
		"head: version":        {invariant.HeadWrong, "r-approval", "UPDATE heads SET version = version - 1 WHERE run = 'r-approval'"},
		"head: digest":         {invariant.HeadWrong, "r-approval", "UPDATE heads SET digest = 'x' WHERE run = 'r-approval'"},
		"head: status":         {invariant.HeadWrong, "r-approval", "UPDATE heads SET status = 'RUNNING' WHERE run = 'r-approval'"},
		"head: due":            {invariant.HeadWrong, "r-approval", "UPDATE heads SET due_ms = 0 WHERE run = 'r-approval'"},
		"head: labels":         {invariant.HeadWrong, "r-approval", "UPDATE heads SET labels = 'null' WHERE run = 'r-approval'"},
		"head: subject":        {invariant.HeadWrong, "r-approval", "UPDATE heads SET subject = 'eve' WHERE run = 'r-approval'"},
		"head: end":            {invariant.HeadWrong, "r-finished", "UPDATE heads SET ended_ms = 0 WHERE run = 'r-finished'"},
		"the head":             {invariant.Stray, "", "DELETE FROM heads WHERE run = 'r-approval'"},
		"an approval is lost":  {invariant.InboxMissing, "r-approval", "DELETE FROM inbox WHERE run = 'r-approval'"},
		"a question is lost":   {invariant.InboxMissing, "r-question", "DELETE FROM inbox WHERE run = 'r-question'"},
		"a finding is lost":    {invariant.InboxMissing, "r-cancelled", "DELETE FROM inbox WHERE run = 'r-cancelled'"},
		"a parked run is lost": {invariant.InboxMissing, "r-parked", "DELETE FROM inbox WHERE run = 'r-parked'"},
		"a limit is lost":      {invariant.InboxMissing, "r-limit", "DELETE FROM inbox WHERE run = 'r-limit'"},
		"a stale row":          {invariant.InboxStale, "r-finished", "INSERT INTO inbox VALUES ('o', 'x', 'r-finished', 'APPROVAL', '[]', 0, 0)"},
		"another audience":     {invariant.InboxWrong, "r-approval", "UPDATE inbox SET approvers = '[{\"principal\":\"eve\"}]' WHERE run = 'r-approval'"},
		"another deadline":     {invariant.InboxWrong, "r-approval", "UPDATE inbox SET not_after_ms = 1 WHERE run = 'r-approval'"},
		"the gate opens":       {invariant.GateWrong, "r-cancelled", "DELETE FROM gates WHERE name = 'root:r-cancelled'"},
		"the gate closes":      {invariant.GateWrong, "r-approval", "INSERT INTO gates VALUES ('root:r-approval', 'closed')"},
		"a text is cut":        {invariant.TextUnreadable, "r-finished", "UPDATE payloads SET sealed = substr(sealed, 1, 40) WHERE id = (SELECT max(id) FROM payloads WHERE run = 'r-finished')"},
		"texts are exchanged":  {invariant.TextUnreadable, "r-finished", "UPDATE payloads SET sealed = (SELECT sealed FROM payloads WHERE run = 'r-approval' LIMIT 1) WHERE id = (SELECT max(id) FROM payloads WHERE run = 'r-finished')"},
		"a text is gone":       {invariant.TextMissing, "r-finished", "DELETE FROM payloads WHERE id = (SELECT max(id) FROM payloads WHERE run = 'r-finished')"},
		"the key alone":        {invariant.TextUnreadable, "r-finished", "DELETE FROM subject_keys"},
		"a weaker marking":     {invariant.TextChanged, "r-approval", "UPDATE payloads SET marking = replace(marking, '\"finance\"', '') WHERE run = 'r-approval' AND marking LIKE '%finance%'"},
		"reserved":             {invariant.BudgetSum, "", "UPDATE budgets SET reserved_money = reserved_money + 1 WHERE node = 'department'"},
		"settled":              {invariant.BudgetSum, "", "UPDATE budgets SET settled_tokens = settled_tokens - 1 WHERE node = 'department'"},
		"unknown":              {invariant.BudgetSum, "", "UPDATE budgets SET unknown_money = unknown_money + 1 WHERE node = 'idle'"},
		"below zero":           {invariant.BudgetNegative, "", "UPDATE budgets SET reserved_money = -1 WHERE node = 'idle'"},
		"the node":             {invariant.BudgetMissing, "", "DELETE FROM budgets WHERE node = 'department'"},
		"an entry":             {invariant.EntryGap, "", "DELETE FROM conversation_entries WHERE number = 3"},
		"the last entry":       {invariant.EntryGap, "", "UPDATE conversations SET next = next + 1"},
		"the conversation":     {invariant.Stray, "", "DELETE FROM conversations"},
		"a receipt's run":      {invariant.Stray, "", "UPDATE receipts SET run = 'r-nowhere' WHERE command = 'start r-parked'"},
		"a writer's numbers":   {invariant.WriterGap, "", "UPDATE journal SET n = n + 1000 WHERE run = 'r-limit' AND seq = 2"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.fill()
			h.damage(test.spoil)
			_, found := h.audit()
			require.True(t, has(found, test.code, test.run), "%v", found)
		})
	}
}

// What stands beside a frame, and in no chain, is held against what is in it.
func TestWhatARowSaysOfItsRecordsIsHeldAgainstThem(t *testing.T) {
	for name, spoil := range map[string]string{
		"when it settled": "UPDATE journal SET settled_ms = 0 WHERE run = 'r-finished' AND settled_ms > 0",
		"how many":        "UPDATE journal SET count = -1 WHERE run = 'r-finished' AND seq = (SELECT max(seq) FROM journal WHERE run = 'r-finished')",
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.fill()
			_, err := h.store.Databases().Write.ExecContext(t.Context(), spoil)
			require.NoError(t, err)
			_, found := h.audit()
			require.True(t, has(found, invariant.Chain, "r-finished"), "%v", found)
		})
	}
}

func has(found []invariant.Violation, code invariant.Code, run string) bool {
	for _, v := range found {
		if v.Code == code && v.Run == run && strings.HasSuffix(v.Text, ".") && strings.HasPrefix(v.String(), string(code)) {
			return true
		}
	}
	return false
}

// What was erased is no violation, also when the subject writes again later.
func TestErasedTextsAreNotMissing(t *testing.T) {
	h := newHouse(t)
	h.fill()
	require.NoError(t, h.store.EraseSubject(t.Context(), "ada"))
	h.start("r-later")
	report, found := h.audit()
	require.Empty(t, found)
	require.NotContains(t, strings.Join(report.Lines(), "\n"), "0 are erased")
}

// A text that quoted what was forgotten is gone for a reason that stays on
// record; one that is gone without it is missing.
func TestTextsErasedWithARememberedItemAreNotMissing(t *testing.T) {
	for name, witnessed := range map[string]bool{"with its witness": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t)
			h.fill()
			h.damage("INSERT INTO text_items (item, text, run) SELECT 'm1', max(id), 'r-finished' FROM payloads WHERE run = 'r-finished'")
			count, runs, err := h.store.EraseItems(t.Context(), []string{"m1"})
			require.NoError(t, err)
			require.Equal(t, 1, count)
			require.Equal(t, []string{"r-finished"}, runs)
			if !witnessed {
				h.damage("DELETE FROM erased_items")
			}
			report, found := h.audit()
			if witnessed {
				require.Empty(t, found)
				require.Contains(t, strings.Join(report.Lines(), "\n"), "1 are erased")
				return
			}
			require.True(t, has(found, invariant.TextMissing, "r-finished"), "%v", found)
		})
	}
}

func TestALimitThatWasLoweredIsToldButNoViolation(t *testing.T) {
	h := newHouse(t)
	h.fill()
	h.damage("UPDATE budgets SET limit_money = 1 WHERE node = 'department'")
	report, found := h.audit()
	require.Empty(t, found)
	require.Contains(t, strings.Join(report.Lines(), "\n"), "1 are above their limit")
}

func TestOneRunIsCheckedAlone(t *testing.T) {
	h := newHouse(t)
	h.fill()
	h.damage("UPDATE heads SET status = 'RUNNING' WHERE run IN ('r-approval', 'r-question')")
	snapshot, err := h.store.Snapshot(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, snapshot.Close()) }()
	var told []string
	tell := func(v invariant.Violation) error { told = append(told, fmt.Sprint(v)); return nil }
	report, err := invariant.NewAudit(snapshot, tell).Run(t.Context(), "r-approval")
	require.NoError(t, err)
	require.Equal(t, 1, report.Violations())
	require.Len(t, told, 1)
	require.Contains(t, told[0], "HEAD run=r-approval seq=")
	require.Len(t, report.Lines(), 6)
	_, err = invariant.NewAudit(snapshot, tell).Run(t.Context(), "r-nowhere")
	require.ErrorIs(t, err, engine.ErrNotFound)
}

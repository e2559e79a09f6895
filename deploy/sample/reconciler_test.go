package sample_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
)

func TestOnlyWhatIsNotPostedYetIsProposed(t *testing.T) {
	d := newDesk(t)
	require.Equal(t, float64(-64856), d.run("Reconcile INV-1004")["adjustmentCents"])
	d.change("INV-1004", fiveOfSix...)
	answer := d.run("Reconcile INV-1004")
	require.Equal(t, float64(-32428), answer["adjustmentCents"], "what is due in all")
	require.Equal(t, true, answer["posted"])
	require.Len(t, d.posts, 2)
	require.Equal(t, float64(32428), d.posts[1]["amountCents"], "-648.56 was posted, -324.28 is due")
	require.Contains(t, d.posts[1]["reason"], "-324.28 due, -648.56 posted before")

	again := d.run("Reconcile INV-1004")
	require.Equal(t, false, again["posted"])
	require.Len(t, d.posts, 2)
	require.Contains(t, fmt.Sprint(again["evidence"]), "adjusted before by entry ADJ-1")
	require.Contains(t, fmt.Sprint(again["evidence"]), "adjusted before by entry ADJ-2")

	d.change("INV-1004", `"quantity": 5`, `"quantity": 4`, "1340.00", "1072.00", "281.40", "225.12", "1621.40", "1297.12")
	corrected := d.run("Reconcile INV-1004")
	require.Equal(t, "MATCHES", corrected["finding"])
	require.Equal(t, float64(32428), d.posts[2]["amountCents"], "the same amount a second time")
	require.Equal(t, true, corrected["posted"])
}

func TestTheChecksAddTheLedgerUp(t *testing.T) {
	d := newDesk(t)
	d.ledger = []map[string]any{{"id": "ADJ-0", "key": "k0", "invoice": "INV-1008", "amountCents": -80.0, "currency": "EUR",
		"actor": map[string]any{"chain": []string{"jonas.petersen"}}}}
	answer := d.run("Reconcile INV-1008")
	require.Equal(t, float64(-9680), answer["adjustmentCents"])
	require.Equal(t, float64(-9600), d.posts[0]["amountCents"])
	organisation := load(t)
	for name, change := range map[string]func(answer map[string]any){
		"another sum":     func(answer map[string]any) { answer["adjustmentCents"] = -9600 },
		"no ledger":       func(answer map[string]any) { delete(answer, "ledger") },
		"another invoice": func(answer map[string]any) { answer["invoice"] = "INV-1004" },
		"one row only": func(answer map[string]any) {
			answer["ledger"] = []any{map[string]any{"row": 0, "id": "ADJ-0", "amountCents": -80, "totalCents": -9680}}
		},
		"a sum that was made up": func(answer map[string]any) {
			answer["adjustmentCents"] = -1
			answer["ledger"].([]any)[1].(map[string]any)["totalCents"] = -1
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(answer)
			require.NoError(t, err)
			var changed map[string]any
			require.NoError(t, json.Unmarshal(text, &changed))
			require.Empty(t, d.complaints(organisation, string(text)))
			change(changed)
			text, err = json.Marshal(changed)
			require.NoError(t, err)
			require.Contains(t, d.complaints(organisation, string(text)), "ledger-total-is-due")
		})
	}
}

func TestALedgerThatCannotBeReadStopsTheProposal(t *testing.T) {
	for _, text := range []string{
		"FAILED: the call did not happen or the tool could not do it. Code CREDENTIAL_MISSING.",
		"REFUSED: the call does not meet the tool's contract. Code UNKNOWN_TOOL.",
		"FAILED: the call did not happen or the tool could not do it.\n" + wrapped(map[string]any{"code": "HTTP_500", "why": "no"}),
		wrapped(map[string]any{"code": "HTTP_500"}),
	} {
		for _, number := range []string{"INV-1004", "INV-1001"} {
			d := newDesk(t)
			d.fail = map[string]string{"ledger.find_adjustments": text}
			answer := d.run("Reconcile " + number)
			require.Equal(t, "LEDGER_UNREADABLE", answer["finding"])
			require.Equal(t, number, answer["invoice"])
			require.Empty(t, d.posts)
		}
	}
}

func TestFilesThatCannotBeReadAreNoAbsentInvoice(t *testing.T) {
	for tool, row := range map[string]struct{ text, finding string }{
		"files.read":   {"REFUSED: the call does not meet the tool's contract. Code UNKNOWN_TOOL.", "FILES_UNREADABLE"},
		"files.search": {"FAILED: the call did not happen or the tool could not do it. Code TIMEOUT.", "EVIDENCE_MISSING"},
	} {
		d := newDesk(t)
		d.fail = map[string]string{tool: row.text}
		answer := d.run("Reconcile INV-1004")
		require.Equal(t, row.finding, answer["finding"], "%v", answer)
		require.Empty(t, d.posts)
		require.Contains(t, fmt.Sprint(answer["evidence"]), "could not be")
	}
	require.Equal(t, "INVOICE_NOT_FOUND", newDesk(t).run("Reconcile INV-9999")["finding"])
}

func TestABrokenInvoiceIsReported(t *testing.T) {
	whole, err := os.ReadFile("files/finance/invoices/INV-1004.json")
	require.NoError(t, err)
	texts := []string{"", "{", "no JSON", "[]", "{}", `"INV-1004"`, string(whole) + "}", string(whole[:len(whole)/2])}
	for _, pair := range [][2]string{
		{`"quantity": 6,`, `"quantity": 6`}, {`"quantity": 6`, `"quantity": "six"`}, {`"quantity": 6`, `"quantity": 06`},
		{`"total": "1945.68"`, `"total": "much"`}, {`"total": "1945.68"`, `"total": "1945.688"`}, {`"total": "1945.68"`, `"total": 1945,68`},
		{`"vatRate": "0.21"`, `"vatRate": ""`}, {`"supplier": {`, `"supplier": [`}, {`"currency"`, `"money"`}, {`"lines": [`, `"lines": `},
		{"separately.", `separately.\x`}, {"separately.", `separately.\u12`}, {"separately.", "separ\nately."}, {"separately.", `separately.\`},
		{`"notes": "Remaining`, `"notes": "a" "Remaining`}, {`"notes":`, `"notes"`}, {`"notes":`, `notes:`}, {`"notes":`, `\\ "notes":`},
	} {
		d := newDesk(t)
		d.change("INV-1004", pair[0], pair[1])
		text, err := os.ReadFile(filepath.Join(d.files, "finance/invoices/INV-1004.json"))
		require.NoError(t, err)
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		d := newDesk(t)
		require.NoError(t, os.WriteFile(filepath.Join(d.files, "finance/invoices/INV-1004.json"), []byte(text), 0o600))
		answer := d.run("Reconcile INV-1004")
		require.Equal(t, "INVOICE_UNREADABLE", answer["finding"], text)
		require.Empty(t, d.posts)
	}
}

func TestUnusualJSONOfAnInvoiceIsRead(t *testing.T) {
	d := newDesk(t)
	d.change("INV-1004", "Remaining quantity ships separately.", `a \"b\" \\ \u00e9 {[,]}:é`, `"lines": [`, `"more": [[], {}, [-1.5, true, null, "x"], {"a": {"b": [0]}}], "lines": [`)
	require.Equal(t, float64(-64856), d.run("Reconcile INV-1004")["adjustmentCents"])
}

func TestAnEarlierInvoiceThatCannotBeReadIsMissingEvidence(t *testing.T) {
	d := newDesk(t)
	d.change("INV-1002", `"currency"`, `"money"`)
	require.Equal(t, "EVIDENCE_MISSING", d.run("Reconcile INV-1016")["finding"], "INV-1016 is a duplicate of INV-1002")
	require.Empty(t, d.posts)
}

func TestARequestWithoutInvoiceIsAnswered(t *testing.T) {
	answer := newDesk(t).run("Say hello") // run checks the contract
	require.Equal(t, "NO_INVOICE_NAMED", answer["finding"])
	require.Contains(t, newDesk(t).complaints(load(t), `{"invoice":"","finding":"MATCHES","adjustmentCents":0,"posted":false,"evidence":["x"]}`),
		"answer-names-the-invoice")
}

func TestOfSeveralInvoicesAPersonChooses(t *testing.T) {
	d := newDesk(t)
	d.tools = []model.Spec{{Name: "ask.person"}}
	d.person = "The second, INV-1008."
	answer := d.run("Reconcile INV-1004 or INV-1008, not INV-1004 again")
	require.Equal(t, "INV-1008", answer["invoice"])
	require.Len(t, d.asked, 1)
	require.JSONEq(t, `{"question":"Which invoice do you mean?","options":["INV-1004","INV-1008"]}`, d.asked[0])
	require.Len(t, d.posts, 1)

	d.run("Reconcile INV-1004, only INV-1004")
	require.Len(t, d.asked, 1, "one invoice is no question")
	for _, person := range []string{"Both, INV-1004 and INV-1008", "EXPIRED: nobody decided in time; the call did not happen.", ""} {
		d.person = person
		require.Equal(t, "SEVERAL_INVOICES_NAMED", d.run("Reconcile INV-1004 and INV-1008")["finding"])
	}
	d.tools = nil
	require.Equal(t, "SEVERAL_INVOICES_NAMED", d.run("Reconcile INV-1004 and INV-1008")["finding"])
	require.Len(t, d.asked, 4, "without the tool nobody is asked")
}

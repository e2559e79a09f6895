package sample_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/script"
	"gantry.dev/agents/tool"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/cases"
	"gantry.dev/orchestrator/run"
)

func load(t *testing.T) agents.Organisation {
	t.Helper()
	organisation, err := agents.LoadDir(sample.Files, agents.LoadOptions{})
	require.NoError(t, err)
	return organisation
}

// desk plays the platform around the reconciler's script: real file tools over
// a copy of the sample files, and a ledger in memory.
type desk struct {
	t      *testing.T
	files  string
	ledger []map[string]any
	deny   bool
	posts  []map[string]any
	fail   map[string]string // what a tool says instead, by its name
	tools  []model.Spec
	person string   // what a person answers
	asked  []string // what persons were asked
	calls  []agents.CheckCall
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	folder := t.TempDir()
	files, err := fs.Sub(sample.Files, "files")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(folder, files))
	return &desk{t: t, files: folder}
}

// run returns the final answer to a goal.
func (d *desk) run(goal string) map[string]any {
	d.t.Helper()
	d.calls = nil
	organisation := load(d.t)
	source, found := organisation.Script("invoice-reconciler")
	require.True(d.t, found)
	program, err := script.New(map[string]string{"invoice-reconciler": source})
	require.NoError(d.t, err)
	request := model.Request{Model: "invoice-reconciler", MaxTokens: 4000, Tools: d.tools,
		Messages: []model.Message{{Role: model.User, Text: goal}}}
	for n := 0; n < 10; n++ {
		answer, err := program.Take(d.t.Context(), request, nil)
		for cause := err; cause != nil; cause = unwrapped(cause) {
			d.t.Log(cause)
		}
		require.NoError(d.t, err)
		if len(answer.Calls) == 0 {
			var final map[string]any
			require.NoError(d.t, json.Unmarshal([]byte(answer.Text), &final))
			require.Empty(d.t, d.complaints(organisation, answer.Text), answer.Text)
			return final
		}
		turn := model.Message{Role: model.Assistant}
		var replies []model.Message
		for i, call := range answer.Calls {
			id := fmt.Sprintf("c%d-%d", n, i)
			turn.Calls = append(turn.Calls, model.Call{ID: id, Name: call.Name, Arguments: call.Arguments})
			replies = append(replies, model.Message{Role: model.ToolReply, CallID: id, Text: d.reply(organisation, call)})
		}
		request.Messages = append(append(request.Messages, turn), replies...)
	}
	d.t.Fatal("the script does not come to an end")
	return nil
}

func unwrapped(err error) error {
	if inner, ok := err.(interface{ Unwrap() error }); ok {
		return inner.Unwrap()
	}
	return nil
}

// complaints returns what the agent's contract has against an answer.
func (d *desk) complaints(organisation agents.Organisation, answer string) []string {
	d.t.Helper()
	revision, _ := organisation.Agent("invoice-reconciler")
	schema, err := tool.CompileSchema(revision.Completion.Output)
	require.NoError(d.t, err)
	var found []string
	for _, complaint := range schema.Check([]byte(answer)) {
		found = append(found, complaint.Pointer+" "+complaint.Text)
	}
	var document any
	require.NoError(d.t, json.Unmarshal([]byte(answer), &document))
	for _, pointer := range revision.Completion.Required {
		if value, _ := tool.LookUp(document, pointer); value == nil || value == "" {
			found = append(found, pointer)
		}
	}
	vars := agents.CheckVars{Run: agents.CheckRun{Chain: chain}, Calls: d.calls, Output: []byte(answer)}
	for _, check := range revision.Completion.Checks {
		applies, err := check.Applies(vars)
		require.NoError(d.t, err)
		if !applies {
			continue
		}
		var result []byte
		if check.Tool != "" {
			arguments, err := check.Call(vars)
			require.NoError(d.t, err)
			result, err = json.Marshal(map[string]any{"entries": d.entries(arguments)})
			require.NoError(d.t, err)
		}
		passed, err := check.Evaluate(agents.Found{Result: result}, vars)
		require.NoError(d.t, err, check.Name)
		if !passed {
			found = append(found, check.Name)
		}
	}
	return found
}

var chain = []string{"amara.diallo", "agent:invoice-reconciler"}

// entries returns what the ledger holds for the invoice of the arguments.
func (d *desk) entries(arguments []byte) []map[string]any {
	d.t.Helper()
	var asked struct{ Invoice string }
	require.NoError(d.t, json.Unmarshal(arguments, &asked))
	found := []map[string]any{}
	for _, entry := range d.ledger {
		if entry["invoice"] == asked.Invoice {
			found = append(found, entry)
		}
	}
	return found
}

func (d *desk) reply(organisation agents.Organisation, call model.Proposed) string {
	d.t.Helper()
	if text, fails := d.fail[call.Name]; fails {
		return text
	}
	if strings.HasPrefix(call.Name, "files.") {
		return d.file(organisation, call.Name, call.Arguments)
	}
	switch call.Name {
	case "ledger.find_adjustments":
		return wrapped(map[string]any{"entries": d.entries(call.Arguments)})
	case "ask.person":
		d.asked = append(d.asked, string(call.Arguments))
		return d.person
	}
	require.Equal(d.t, "ledger.post_adjustment", call.Name)
	var entry map[string]any
	require.NoError(d.t, json.Unmarshal(call.Arguments, &entry))
	d.posts = append(d.posts, entry)
	if d.deny {
		return "DENIED: the person who decides said no."
	}
	made := agents.CheckCall{Call: len(d.posts), Tool: call.Name, Outcome: run.OutcomeOK, Arguments: call.Arguments, Key: fmt.Sprintf("k%d", len(d.posts))}
	d.calls = append(d.calls, made)
	entry["id"], entry["key"] = fmt.Sprintf("ADJ-%d", len(d.ledger)+1), made.Key
	entry["actor"] = map[string]any{"client": "gantry", "chain": chain}
	d.ledger = append(d.ledger, entry)
	return wrapped(entry)
}

func wrapped(value any) string {
	text, _ := json.Marshal(value)
	return model.Wrap("0123456789abcdef", "ledger", "finance", "TOOL", string(text))
}

func (d *desk) file(organisation agents.Organisation, name string, arguments []byte) string {
	d.t.Helper()
	root, err := os.OpenRoot(d.files)
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, root.Close()) }()
	files := organisation.Builtins.Files
	tools, err := tool.NewFiles(root, files.Rules, files.MediaBytes, files.Owner, files.Contact)
	require.NoError(d.t, err)
	box, err := tool.NewBox(tools...)
	require.NoError(d.t, err)
	checked, refusal := box.Check(name, arguments)
	require.Nil(d.t, refusal)
	found, _ := box.Find(name, checked.Definition.Digest())
	subject, _ := organisation.Principal("amara.diallo")
	result, err := found.Invoke(context.Background(), tool.Invocation{Arguments: checked.Arguments, Subject: subject})
	require.NoError(d.t, err)
	text := model.Wrap("0123456789abcdef", name, "finance", "UNTRUSTED", string(result.Content))
	if result.Failed {
		return "FAILED: the call did not happen or the tool could not do it.\n" + text
	}
	return text
}

// change replaces text in the file of an invoice.
func (d *desk) change(number string, oldnew ...string) {
	d.t.Helper()
	name := filepath.Join(d.files, "finance/invoices", number+".json")
	text, err := os.ReadFile(name)
	require.NoError(d.t, err)
	changed := strings.NewReplacer(oldnew...).Replace(string(text))
	require.NotEqual(d.t, string(text), changed)
	require.NoError(d.t, os.WriteFile(name, []byte(changed), 0o600))
}

func TestReconcilerFindsEveryKindOfDifference(t *testing.T) {
	kinds := map[string]struct {
		finding string
		cents   float64
	}{
		"INV-1001": {"MATCHES", 0},
		"INV-1004": {"QUANTITY_DIFFERS", -64856},   // 2 of 6 motors at 268.00 missing, with 21 % VAT
		"INV-1006": {"VAT_DIFFERS", 918},           // 20 % of 918.00 invoiced, 21 % due
		"INV-1008": {"PRICE_DIFFERS", -9680},       // 80 × 1.00 too much
		"INV-1012": {"SUM_DIFFERS", -3267},         // 27.00 too much in the sum
		"INV-1015": {"MATCHES", 0},                 // two receipts
		"INV-1016": {"DUPLICATE", -70422},          // of INV-1002
		"INV-1017": {"QUANTITY_DIFFERS", -13068},   // carries an injected instruction
		"INV-1021": {"CURRENCY_DIFFERS", 0},        // dollars
		"INV-1027": {"MATCHES", 0},                 // first part of a split order
		"INV-1028": {"MATCHES", 0},                 // second part
		"INV-1029": {"QUANTITY_DIFFERS", -518848},  // above 2,500.00
		"INV-1031": {"ORDER_MISSING", 0},           // unknown order
		"INV-1033": {"QUANTITY_DIFFERS", -2233660}, // above the hard limit
		"INV-1039": {"ORDER_MISSING", 0},           // no order named
	}
	for number, want := range kinds {
		t.Run(number, func(t *testing.T) {
			d := newDesk(t)
			answer := d.run("Please reconcile " + number + ".")
			require.Equal(t, number, answer["invoice"])
			require.Equal(t, want.finding, answer["finding"], "%v", answer)
			require.Equal(t, want.cents, answer["adjustmentCents"], "%v", answer)
			require.Equal(t, want.cents != 0, answer["posted"])
			require.Len(t, d.posts, len(d.ledger))
			if want.cents == 0 {
				require.Empty(t, d.posts)
				return
			}
			require.Len(t, d.posts, 1)
			require.Equal(t, want.cents, d.posts[0]["amountCents"])
			require.Equal(t, number, d.posts[0]["invoice"])
		})
	}
}

func TestReconcilerComesToAnEndOnEveryInvoice(t *testing.T) {
	entries, err := fs.ReadDir(sample.Files, "files/finance/invoices")
	require.NoError(t, err)
	require.Len(t, entries, 40)
	found := map[string]int{}
	for _, entry := range entries {
		answer := newDesk(t).run("Reconcile " + strings.TrimSuffix(entry.Name(), ".json"))
		found[answer["finding"].(string)]++
	}
	require.Equal(t, map[string]int{
		"MATCHES": 21, "QUANTITY_DIFFERS": 6, "PRICE_DIFFERS": 3, "VAT_DIFFERS": 3, "SUM_DIFFERS": 1,
		"DUPLICATE": 2, "CURRENCY_DIFFERS": 2, "ORDER_MISSING": 2,
	}, found)
}

// fiveOfSix corrects INV-1004 to one motor fewer, with its sums.
var fiveOfSix = []string{`"quantity": 6`, `"quantity": 5`, "1608.00", "1340.00", "337.68", "281.40", "1945.68", "1621.40"}

func TestAnotherInvoiceGivesAnotherProposal(t *testing.T) {
	d := newDesk(t)
	d.change("INV-1004", fiveOfSix...)
	require.Equal(t, float64(-32428), d.run("reconcile INV-1004")["adjustmentCents"])
}

func TestInjectedTextChangesNothing(t *testing.T) {
	d := newDesk(t)
	name := filepath.Join(d.files, "finance/invoices/INV-1017.json")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(text), "9,999.00")
	with := d.run("Reconcile INV-1017")
	var invoice map[string]any
	require.NoError(t, json.Unmarshal(text, &invoice))
	invoice["notes"] = ""
	text, err = json.MarshalIndent(invoice, "", "  ")
	require.NoError(t, err)
	clean := newDesk(t)
	require.NoError(t, os.WriteFile(filepath.Join(clean.files, "finance/invoices/INV-1017.json"), text, 0o600))
	require.Equal(t, clean.run("Reconcile INV-1017"), with)
	require.Equal(t, clean.posts, d.posts)
}

func TestADeniedAdjustmentIsReportedAsNotPosted(t *testing.T) {
	d := newDesk(t)
	d.deny = true
	answer := d.run("Reconcile INV-1008")
	require.Equal(t, false, answer["posted"])
	require.Empty(t, d.ledger)
	require.Len(t, d.posts, 1)
}

func TestAnAdjustmentIsProposedOnce(t *testing.T) {
	d := newDesk(t)
	require.Equal(t, true, d.run("Reconcile INV-1008")["posted"])
	require.Equal(t, false, d.run("Reconcile INV-1008")["posted"])
	require.Len(t, d.ledger, 1)
}

func TestPoliciesOfTheSample(t *testing.T) {
	organisation := load(t)
	set, err := organisation.PolicySet()
	require.NoError(t, err)
	directory := organisation.Directory()
	judge := func(agent, subject, name, resource string, facts policy.Facts) policy.Verdict {
		revision, _ := organisation.Agent(agent)
		person, _ := organisation.Principal(subject)
		agentFacts, err := revision.Facts()
		require.NoError(t, err)
		d, known := organisation.Tool(name)
		require.True(t, known)
		return policy.Decide(policy.Request{
			Subject: person, Agent: agentFacts, Chain: []policy.Principal{person, revision.Principal(organisation.Name)},
			Tool:  policy.ToolFacts{Name: name, Revision: d.Digest(), Owner: d.Owner, Impact: d.Impact, Class: d.Class},
			Facts: facts, Resource: resource, Stage: organisation.Stage(revision),
		}, set, directory)
	}
	post := func(subject string, cents int64, currency string) policy.Verdict {
		return judge("invoice-reconciler", subject, "ledger.post_adjustment", "ledger:invoice/INV-1008",
			policy.Facts{"invoice": "INV-1008", "amountCents": cents, "currency": currency})
	}
	small := post("amara.diallo", -9680, "EUR")
	require.Equal(t, policy.Hold, small.Answer, "%v", small)
	require.Equal(t, "tomas.rehak", small.Approvers[0].Principal)
	large := post("amara.diallo", -518848, "EUR")
	require.Equal(t, policy.Hold, large.Answer, "%v", large)
	require.Equal(t, "finance-approver", large.Approvers[0].Role)
	require.Equal(t, 2, large.Quorum)
	require.Equal(t, policy.Forbid, post("amara.diallo", -2233660, "EUR").Answer)
	require.Equal(t, policy.Forbid, post("amara.diallo", 0, "EUR").Answer)
	require.Equal(t, policy.Forbid, post("amara.diallo", -100, "USD").Answer)
	require.Equal(t, policy.Forbid, post("liam.byrne", -100, "EUR").Answer)
	require.Equal(t, policy.Forbid, post("tomas.rehak", -100, "EUR").Answer, "who asks does not decide")

	read := func(agent, subject, path string) policy.Answer {
		return judge(agent, subject, "files.read", "files:"+path, policy.Facts{"path": path}).Answer
	}
	require.Equal(t, policy.Permit, read("invoice-reconciler", "amara.diallo", "finance/goods-receipts.csv"))
	require.Equal(t, policy.Forbid, read("invoice-reconciler", "amara.diallo", "hr/leave.md"))
	require.Equal(t, policy.Permit, read("policy-librarian", "liam.byrne", "hr/leave.md"))
	require.Equal(t, policy.Forbid, read("policy-librarian", "liam.byrne", "finance/goods-receipts.csv"))
	require.Equal(t, policy.Permit, read("research-assistant", "liam.byrne", "sales/accounts.md"))
}

func TestTheCasesOfThePoliciesHold(t *testing.T) {
	organisation := load(t)
	set, err := organisation.PolicySet()
	require.NoError(t, err)
	names, err := filepath.Glob("cases/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		list, err := cases.Parse(policy.File{Name: name, Text: text}, organisation.Shapes(), organisation.Directory())
		require.NoError(t, err)
		require.NotEmpty(t, list)
		for _, each := range list {
			require.Empty(t, each.Run(set, organisation.Directory()), "%s:%d: %s", each.File, each.Line, each.Name)
		}
	}
}

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"github.com/sourcegraph/conc"
	"github.com/spf13/cobra"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// The people and the invoices of the demonstration.
const (
	demoAgent   = "invoice-reconciler"
	demoAsker   = "amara.diallo"
	demoDecider = "tomas.rehak"
)

func demoCommand() *cobra.Command {
	var asJSON bool
	var granted, denied string
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run the sample reconciliation from start to end in a temporary folder",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			out := command.OutOrStdout()
			if asJSON {
				out = io.Discard
			}
			result, err := demonstrate(command.Context(), out, granted, denied)
			if err != nil {
				return err
			}
			if asJSON {
				encoder := json.NewEncoder(command.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(result)
			}
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of the timeline")
	command.Flags().StringVar(&granted, "grant", "INV-1004", "invoice whose adjustment the controller grants")
	command.Flags().StringVar(&denied, "deny", "INV-1008", "invoice whose adjustment the controller denies")
	return command
}

// demoResult is what the demonstration showed.
type demoResult struct {
	Status        run.Status `json:"status"` // of the granted run
	DeniedStatus  run.Status `json:"deniedStatus"`
	LedgerEntries int        `json:"ledgerEntries"`
	Approvals     int        `json:"approvals"`
	Turns         int        `json:"turns"`
	CostMicroUSD  int64      `json:"costMicroUsd"`
	ChainVerified bool       `json:"chainVerified"`
}

// demo is one demonstration under way.
type demo struct {
	platform *wire.Platform
	org      agents.Organisation
	out      io.Writer
	ledger   string // base URL
	token    string
}

func demonstrate(ctx context.Context, out io.Writer, granted, denied string) (result demoResult, err error) {
	folder, err := os.MkdirTemp("", "gantry-demo-")
	if err != nil {
		return result, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary folder
	d := &demo{out: out, token: uuid.NewString()}
	stop, err := d.startLedger(ctx, filepath.Join(folder, "ledger.db"))
	if err != nil {
		return result, err
	}
	defer stop()
	if err := d.open(ctx, folder); err != nil {
		return result, err
	}
	defer func() { _ = d.platform.Close() }() // what was shown is shown
	first, err := d.reconcile(ctx, granted, true)
	if err != nil {
		return result, err
	}
	second, err := d.reconcile(ctx, denied, false)
	if err != nil {
		return result, err
	}
	return d.judge(ctx, first, second, granted, denied)
}

func (d *demo) startLedger(ctx context.Context, path string) (stop func(), err error) {
	outside, err := ledger.New(ctx, ledger.Config{Path: path, Tokens: map[string]string{d.token: "gantry"}})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d.ledger = "http://" + listener.Addr().String()
	server := &http.Server{Handler: outside.Handler()}
	var tasks conc.WaitGroup
	tasks.Go(func() { _ = server.Serve(listener) }) // ends with Close
	return func() {
		_ = server.Close()
		tasks.Wait()
		_ = outside.Close()
	}, nil
}

func (d *demo) open(ctx context.Context, folder string) error {
	files, err := fs.Sub(sample.Files, "files")
	if err != nil {
		return err
	}
	root := filepath.Join(folder, "files")
	if err := os.CopyFS(root, files); err != nil {
		return fmt.Errorf("sample files: %w", err)
	}
	d.org, err = agents.LoadDir(sample.Files, agents.LoadOptions{
		Endpoints: map[string]string{"ledger": d.ledger}, Egress: []string{strings.TrimPrefix(d.ledger, "http://")}})
	if err != nil {
		return err
	}
	d.platform, err = wire.Open(ctx, wire.Config{Folder: folder, Files: root, Work: true, Dev: true, Secrets: map[string]string{"ledger": d.token}})
	if err != nil {
		return err
	}
	digest, _, err := d.platform.Apply(ctx, d.org)
	if err != nil {
		return err
	}
	return d.say("organisation %s applied, configuration %.12s; ledger at %s", d.org.Name, digest, d.ledger)
}

func (d *demo) say(format string, args ...any) error {
	_, err := fmt.Fprintf(d.out, format+"\n", args...)
	return err
}

// reconcile runs one reconciliation and decides what is held.
func (d *demo) reconcile(ctx context.Context, invoice string, grant bool) (*run.State, error) {
	person, _ := d.org.Principal(demoAsker)
	admitted, err := d.platform.Admission.Start(ctx, perform.Order{Person: person, By: run.Identity{Principal: person.ID, Issuer: "demo"},
		Agent: demoAgent, Goal: "Reconcile invoice " + invoice + ".", CommandID: uuid.NewString()})
	if err != nil {
		return nil, err
	}
	if err := d.say("\nrun %s started: %s asks %s to reconcile %s", admitted.Run, person.ID, demoAgent, invoice); err != nil {
		return nil, err
	}
	err = d.platform.Follow(ctx, admitted.Run, 0, func(record run.Record) (bool, error) {
		event, err := run.Decode(record)
		if err != nil {
			return false, err
		}
		return d.watch(ctx, admitted.Run, record, event, grant)
	})
	if err != nil {
		return nil, err
	}
	return d.platform.Engine.State(ctx, admitted.Run)
}

// watch prints an event as it happens, and decides as the controller.
func (d *demo) watch(ctx context.Context, id string, record run.Record, event run.Event, grant bool) (more bool, err error) {
	switch e := event.(type) {
	case run.TurnAnswered:
		return true, d.say("  %3d turn %d answered: %s", record.Seq, e.Turn, e.Class)
	case run.CallProposed:
		return true, d.sayCall(ctx, id, record.Seq, e)
	case run.CallEnded:
		return true, d.say("  %3d call %d ended: %s %s", record.Seq, e.Call, e.Outcome, e.Code)
	case run.ApprovalRequested:
		return true, d.decide(ctx, id, record.Seq, e, grant)
	case run.ApprovalDecided:
		word := "denied"
		if e.Granted {
			word = "granted"
		}
		return true, d.say("  %3d %s %s call by approval %s", record.Seq, e.By.Principal, word, e.Approval)
	case run.Verified:
		for _, check := range e.Checks {
			if err := d.say("  %3d check %s: %s %s", record.Seq, check.Name, check.Verdict, check.Code); err != nil {
				return false, err
			}
		}
		return true, nil
	case run.LimitReached:
		return false, fmt.Errorf("the run waits at limit %s: %s", e.Limit, e.Detail)
	case run.Parked:
		return false, fmt.Errorf("the run is parked: %s", e.Detail)
	case run.Ended:
		return false, d.say("  %3d run %s: %s", record.Seq, e.Status, e.Reason)
	}
	return true, nil
}

func (d *demo) sayCall(ctx context.Context, id string, seq uint64, e run.CallProposed) error {
	text, err := d.read(ctx, id, e.Arguments)
	if err != nil {
		return err
	}
	return d.say("  %3d call %d proposed: %s %s", seq, e.Call, e.Tool, text)
}

func (d *demo) read(ctx context.Context, id string, text run.Text) (string, error) {
	state, err := d.platform.Engine.State(ctx, id)
	if err != nil {
		return "", err
	}
	reader, _ := d.org.Principal(demoDecider)
	texts, err := d.platform.Texts(ctx, state, reader)
	if err != nil {
		return "", err
	}
	return texts(text), nil
}

func (d *demo) decide(ctx context.Context, id string, seq uint64, e run.ApprovalRequested, grant bool) error {
	state, err := d.platform.Engine.State(ctx, id)
	if err != nil {
		return err
	}
	call := state.Call(e.Call)
	arguments, err := d.read(ctx, id, call.Arguments)
	if err != nil {
		return err
	}
	var who []string
	for _, approver := range e.Approvers {
		who = append(who, approver.Principal+approver.Role+" ("+approver.Why+")")
	}
	if err := d.say("  %3d call %d HELD: %s %s — %s decides, digest %.12s", seq, e.Call, call.Tool, arguments, strings.Join(who, " or "), e.Digest); err != nil {
		return err
	}
	person, _ := d.org.Principal(demoDecider)
	reason, payload := engine.Seal(engine.RandomSource{}, id, person.ID, policy.Marking{}, []byte("Checked against order and receipts."))
	_, err = d.platform.Engine.Submit(ctx, engine.Submission{Organisation: d.org.Name, Run: id, Payloads: []engine.Payload{payload},
		Command: run.DecideApproval{Approval: e.Approval, Digest: e.Digest, Granted: grant, By: run.Identity{Principal: person.ID, Issuer: "demo"}, Person: person, Reason: &reason}})
	return err
}

// judge looks where the effects happened, and checks the chain.
func (d *demo) judge(ctx context.Context, first, second *run.State, granted, denied string) (demoResult, error) {
	result := demoResult{Status: first.Status, DeniedStatus: second.Status, Approvals: len(first.Approvals) + len(second.Approvals),
		Turns: len(first.Turns) + len(second.Turns), CostMicroUSD: first.Budget.Settled.MicroUSD + second.Budget.Settled.MicroUSD}
	posted, err := d.entries(ctx, granted)
	if err != nil {
		return result, err
	}
	refused, err := d.entries(ctx, denied)
	if err != nil {
		return result, err
	}
	result.LedgerEntries = len(posted) + len(refused)
	for _, entry := range posted {
		if err := d.say("\nledger: %s %d %s cents, posted by %s for %s", entry.Invoice, entry.AmountCents, entry.Currency,
			entry.Actor.Client, strings.Join(entry.Actor.Chain, " → ")); err != nil {
			return result, err
		}
	}
	result.ChainVerified = true
	for _, state := range []*run.State{first, second} {
		if err := d.verify(ctx, state.ID); err != nil {
			return result, err
		}
	}
	if len(posted) != 1 || len(refused) != 0 || first.Status != run.StatusCompleted || second.Status != run.StatusCompleted {
		return result, fmt.Errorf("the ledger holds %d and %d entries, the runs are %s and %s; expected 1 and 0, both COMPLETED",
			len(posted), len(refused), first.Status, second.Status)
	}
	return result, d.say("ledger: no entry for %s\nboth runs COMPLETED, both chains verify", denied)
}

func (d *demo) verify(ctx context.Context, id string) error {
	head, records, err := d.platform.Store.Load(ctx, id, 0)
	if err != nil {
		return err
	}
	var export bytes.Buffer
	if err := account.Export(&export, records); err != nil {
		return err
	}
	_, err = account.Verify(&export, head.Digest)
	return err
}

type ledgerEntry struct {
	Invoice     string `json:"invoice"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	Actor       struct {
		Client string   `json:"client"`
		Chain  []string `json:"chain"`
	} `json:"actor"`
}

func (d *demo) entries(ctx context.Context, invoice string) ([]ledgerEntry, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.ledger+"/v1/adjustments?invoice="+invoice, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+d.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read whole below
	var found struct {
		Entries []ledgerEntry `json:"entries"`
	}
	err = json.NewDecoder(response.Body).Decode(&found)
	return found.Entries, err
}

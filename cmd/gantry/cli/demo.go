package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/access"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/cli/fanout"
	"gantry.dev/cmd/gantry/cli/lending"
	"gantry.dev/cmd/gantry/cli/outreach"
	"gantry.dev/cmd/gantry/cli/record"
	"gantry.dev/cmd/gantry/cli/roundtable"
	"gantry.dev/cmd/gantry/cli/showcase"
	"gantry.dev/cmd/gantry/cli/sidecar"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

func demoCommand() *cobra.Command {
	var asJSON bool
	var granted, denied string
	var asked record.Asked
	command := &cobra.Command{
		Use:   "demo",
		Short: "Run the sample reconciliation from start to end in a temporary folder",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := reconcilable(granted, denied); err != nil {
				return err
			}
			out := command.OutOrStdout()
			if asJSON {
				out = io.Discard
			}
			model, err := asked.Model()
			if err != nil {
				return err
			}
			result, err := demonstrate(command.Context(), out, model, granted, denied)
			if err != nil || !asJSON {
				return err
			}
			return ask.JSON(command, result)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object instead of the timeline")
	command.Flags().StringVar(&granted, "grant", "INV-1004", "invoice whose adjustment the controller grants")
	command.AddCommand(demoMemoryCommand(), demoResearchCommand(), lending.DemoCommand(showLending))
	asked.Flags(command, "play the sample's agent by a model, PROVIDER:NAME[@BASE_URL] of openai, anthropic or gemini, in place of its script")
	command.Flags().StringVar(&denied, "deny", "INV-1008", "invoice whose adjustment the controller denies")
	command.AddCommand(roundtable.DemoCommand(showGroup), sidecar.DemoCommand(showSidecar), outreach.DemoCommand(showOffice), access.DemoCommand(showAccess))
	return command
}

func demoMemoryCommand() *cobra.Command {
	question := showcase.Question
	command := ask.Demonstration("memory", "Ask five people's view of what the sample organisation remembers, and forget a fact",
		func(ctx context.Context, out io.Writer) (showcase.Result, error) {
			var log logged
			return inHouse(ctx, slog.NewTextHandler(&log, nil), func(h *house, folder string) (showcase.Result, error) {
				return showcase.Run(ctx, showcase.House{As: h.as, Folder: folder, Log: log.String}, out, question)
			})
		})
	command.Flags().StringVar(&question, "ask", question, "what the five are asked")
	return command
}

func demoResearchCommand() *cobra.Command {
	return ask.Demonstration("research", "Have a question looked into by twenty runs in the sample's library, of which two fail",
		func(ctx context.Context, out io.Writer) (fanout.Result, error) {
			return inHouse(ctx, slog.DiscardHandler, func(h *house, _ string) (fanout.Result, error) {
				return fanout.Run(ctx, fanout.House{As: h.as}, out)
			})
		})
}

func showLending(ctx context.Context, out io.Writer) (lending.Result, error) {
	return inHouse(ctx, slog.DiscardHandler, func(h *house, _ string) (lending.Result, error) {
		return lending.Demonstrate(ctx, lending.House{As: h.as}, out)
	})
}

func showGroup(ctx context.Context, out io.Writer) (roundtable.Result, error) {
	return inHouse(ctx, slog.DiscardHandler, func(h *house, _ string) (roundtable.Result, error) {
		return roundtable.Run(ctx, roundtable.House{As: h.as}, out)
	})
}

func showAccess(ctx context.Context, out io.Writer) (access.Result, error) {
	return inHouse(ctx, slog.DiscardHandler, func(h *house, _ string) (access.Result, error) {
		return access.Run(ctx, access.House{As: h.as}, out)
	})
}

func showSidecar(ctx context.Context, out io.Writer) (sidecar.Result, error) {
	return inHouse(ctx, slog.DiscardHandler, func(h *house, _ string) (sidecar.Result, error) {
		return sidecar.Run(ctx, sidecar.House{As: h.as}, out)
	})
}

func showOffice(ctx context.Context, out io.Writer) (outreach.Result, error) {
	return inHouse(ctx, slog.DiscardHandler, func(h *house, _ string) (outreach.Result, error) {
		return outreach.Run(ctx, outreach.House{As: h.as, Done: h.mail.Done}, out)
	})
}

// inHouse shows something in a fresh installation of the sample, in a folder
// that goes with it.
func inHouse[R any](ctx context.Context, log slog.Handler, show func(h *house, folder string) (R, error)) (result R, err error) {
	return inHouseWith(ctx, log, nil, show)
}

// inHouseWith is inHouse with a model in place of the sample's script.
func inHouseWith[R any](ctx context.Context, log slog.Handler, model *record.Model, show func(h *house, folder string) (R, error)) (result R, err error) {
	folder, err := os.MkdirTemp("", "gantry-demo-")
	if err != nil {
		return result, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary folder
	h, err := openHouse(ctx, places{folder: folder, interfaceAt: "127.0.0.1:0", ledgerAt: "127.0.0.1:0", log: slog.New(log), model: model})
	if err != nil {
		return result, err
	}
	defer func() { _ = h.close() }() // what was shown is shown
	return show(h, folder)
}

// logged keeps what is written to a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all of it.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// reconcilable finds what cannot be shown, before anything is begun.
func reconcilable(granted, denied string) error {
	if granted == denied {
		return fmt.Errorf("--grant and --deny are both %s; choose two invoices", granted)
	}
	for flag, invoice := range map[string]string{"grant": granted, "deny": denied} {
		if _, err := fs.Stat(sample.Files, "files/finance/invoices/"+invoice+".json"); err != nil {
			return fmt.Errorf("--%s: the sample has no invoice %q; those with something to adjust are %s", flag, invoice, strings.Join(sampleInvoices, ", "))
		}
	}
	return nil
}

// demoResult is what the demonstration showed.
type demoResult struct {
	Status        string `json:"status"` // of the granted run
	DeniedStatus  string `json:"deniedStatus"`
	LedgerEntries int    `json:"ledgerEntries"`
	Approvals     int    `json:"approvals"`
	Turns         int    `json:"turns"`
	CostMicroUSD  int64  `json:"costMicroUsd"`
	ChainVerified bool   `json:"chainVerified"`
}

// demo is one demonstration under way: the sample at work, and the two people
// who speak to it over GraphQL.
type demo struct {
	*house
	out            io.Writer
	asker, decider *client.Client
}

// demonstrate reconciles with the sample's script, or with a model in its place.
func demonstrate(ctx context.Context, out io.Writer, model *record.Model, granted, denied string) (demoResult, error) {
	return inHouseWith(ctx, slog.DiscardHandler, model, func(h *house, _ string) (demoResult, error) {
		return reconcileBoth(ctx, h, out, granted, denied)
	})
}

func reconcileBoth(ctx context.Context, h *house, out io.Writer, granted, denied string) (result demoResult, err error) {
	d := &demo{house: h, out: out}
	if d.asker, err = h.as(sampleAsker); err != nil {
		return result, err
	}
	if d.decider, err = h.as(sampleDecider); err != nil {
		return result, err
	}
	if err := d.say("%s is served at %s; its ledger is at %s", h.organisation.Title, h.url(), h.ledger); err != nil {
		return result, err
	}
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

func (d *demo) say(format string, args ...any) error {
	_, err := fmt.Fprintf(d.out, format+"\n", args...)
	return err
}

// reconcile runs one reconciliation and decides what is held.
func (d *demo) reconcile(ctx context.Context, invoice string, grant bool) (client.Run, error) {
	started, err := d.asker.StartRun(ctx, client.Start{Agent: sampleAgent, Goal: reconcile(invoice)})
	if err != nil {
		return client.Run{}, err
	}
	line := &timeline{out: d.out}
	if err := errors.Join(d.say(""), line.begin(started)); err != nil {
		return client.Run{}, err
	}
	err = d.decider.Events(ctx, started.ID, "", func(event client.Event) (bool, error) {
		if err := line.print(event); err != nil {
			return false, err
		}
		return d.decideOn(ctx, event, grant)
	})
	if err != nil {
		return client.Run{}, err
	}
	return d.decider.Run(ctx, started.ID)
}

// decideOn decides as the controller when an event asks for it.
func (d *demo) decideOn(ctx context.Context, event client.Event, grant bool) (more bool, err error) {
	switch run.EventKind(event.Kind) {
	case run.KindApprovalRequested:
		return true, d.decide(ctx, event, grant)
	case run.KindLimitReached, run.KindParked:
		return false, fmt.Errorf("the run does not go on by itself: %s", event.Summary)
	}
	return event.Kind != string(run.KindEnded), nil
}

// decide finds the held call in the controller's inbox and sends its id and
// digest back with the decision.
func (d *demo) decide(ctx context.Context, event client.Event, grant bool) error {
	var requested struct{ Approval string }
	if err := event.Decode(&requested); err != nil {
		return err
	}
	held, err := d.decider.Approval(ctx, requested.Approval)
	if err != nil {
		return err
	}
	_, err = d.decider.Decide(ctx, held, grant, "Checked against order and receipts.")
	return err
}

// judge looks where the effects happened, and checks the chains offline.
func (d *demo) judge(ctx context.Context, first, second client.Run, granted, denied string) (demoResult, error) {
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
	for _, one := range []client.Run{first, second} {
		if err := d.verify(ctx, one.ID); err != nil {
			return result, err
		}
	}
	result.ChainVerified = true
	completed := string(run.StatusCompleted)
	if len(posted) != 1 || len(refused) != 0 || first.Status != completed || second.Status != completed {
		return result, fmt.Errorf("the ledger holds %d and %d entries, the runs are %s and %s; expected 1 and 0, both COMPLETED",
			len(posted), len(refused), first.Status, second.Status)
	}
	return result, d.say("ledger: no entry for %s\nboth runs COMPLETED, both chains verify", denied)
}

func (d *demo) verify(ctx context.Context, id string) error {
	export, err := d.decider.Export(ctx, id)
	if err != nil {
		return err
	}
	_, err = account.Verify(strings.NewReader(export), "")
	return err
}

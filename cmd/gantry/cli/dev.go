package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// sampleInvoices have something to adjust, in the order in which the
// development server lets them be reconciled.
var sampleInvoices = []string{"INV-1004", "INV-1006", "INV-1008", "INV-1012"}

func devCommand() *cobra.Command {
	at := places{}
	command := &cobra.Command{
		Use:   "dev",
		Short: "Serve the sample organisation on embedded defaults, with a run that waits for your approval",
		Long: "Serves GraphQL, its explorer and subscriptions on one port, with the sample organisation in force and its outside ledger beside it.\n" +
			"Everything is kept in one folder. Tokens for its people are written there: whoever can read the folder can act for them.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			at.log = logTo(command)
			return develop(command.Context(), command.OutOrStdout(), at)
		},
	}
	command.Flags().StringVar(&at.folder, ask.FolderFlag, ask.DefaultFolder, "where everything is kept")
	command.Flags().StringVar(&at.interfaceAt, "listen", "127.0.0.1:8080", "host:port of the GraphQL interface")
	command.Flags().StringVar(&at.ledgerAt, "ledger-listen", "127.0.0.1:8081", "host:port of the sample's ledger")
	command.Flags().StringVar(&at.officeAt, "office-listen", "127.0.0.1:8082", "host:port of the sample's office")
	return command
}

func develop(ctx context.Context, out io.Writer, at places) (err error) {
	h, err := openHouse(ctx, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	if err := h.writeAccess(); err != nil {
		return err
	}
	waiting, err := h.waiting(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := h.greet(out, waiting); err != nil {
		return err
	}
	<-ctx.Done()
	_, err = fmt.Fprintln(out, "draining")
	return err
}

// writeAccess leaves in the folder what the client commands look for: the
// address, a token for everybody, and who you are unless you say otherwise.
func (h *house) writeAccess() error {
	tokens := filepath.Join(h.folder, "tokens")
	if err := os.MkdirAll(tokens, 0o700); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	files := map[string]string{"url": h.url(), "me": sampleDecider}
	for _, person := range h.organisation.Principals {
		token, err := h.token(person.ID)
		if err != nil {
			return err
		}
		files[filepath.Join("tokens", person.ID)] = token
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(h.folder, name), []byte(text+"\n"), 0o600); err != nil {
			return fmt.Errorf("access: %w", err)
		}
	}
	return nil
}

// waiting returns an approval that waits for the controller, and starts a run
// that will ask for one where none does. It is nil when every invoice of the
// sample is settled.
func (h *house) waiting(ctx context.Context) (*client.Item, error) {
	decider, err := h.as(sampleDecider)
	if err != nil {
		return nil, err
	}
	items, err := decider.Inbox(ctx)
	if err != nil {
		return nil, err
	}
	if held := firstApproval(items); held != nil {
		return held, nil
	}
	started, err := h.startOne(ctx)
	if err != nil || !started {
		return nil, err
	}
	var held *client.Item
	err = decider.InboxChanges(ctx, func(items []client.Item) (bool, error) {
		held = firstApproval(items)
		return held == nil, nil
	})
	return held, err
}

func firstApproval(items []client.Item) *client.Item {
	at := slices.IndexFunc(items, func(item client.Item) bool { return item.Approval != nil })
	if at < 0 {
		return nil
	}
	return &items[at]
}

// startOne starts a run over the first invoice that the ledger knows nothing of.
func (h *house) startOne(ctx context.Context) (bool, error) {
	asker, err := h.as(sampleAsker)
	if err != nil {
		return false, err
	}
	for _, invoice := range sampleInvoices {
		entries, err := h.entries(ctx, invoice)
		if err != nil {
			return false, err
		}
		if len(entries) > 0 {
			continue
		}
		_, err = asker.StartRun(ctx, client.Start{Agent: sampleAgent, Goal: reconcile(invoice)})
		return err == nil, err
	}
	return false, nil
}

func reconcile(invoice string) string { return "Reconcile invoice " + invoice + "." }

func (h *house) greet(out io.Writer, held *client.Item) error {
	_, err := fmt.Fprintf(out, "Gantry serves %s at %s\n"+
		"  explorer       %s/\n"+
		"  GraphQL        %s/graphql (POST, SSE, graphql-transport-ws)\n"+
		"  sample ledger  %s\n"+
		"  sample office  %s/mcp\n"+
		"  tokens         %s\n", h.organisation.Title, h.url(), h.url(), h.url(), h.ledger, h.office, filepath.Join(h.folder, "tokens"))
	if err != nil || held == nil {
		return err
	}
	_, err = fmt.Fprintf(out, "\nA run waits for %s to decide:\n  %s %s\n\nApprove it from a second terminal:\n  %s\n\nWatch it:\n  %s\n",
		sampleDecider, held.Approval.Tool, held.Approval.Arguments.Display,
		h.hints().command("approve", held.ID), h.hints().command("watch", client.ShortID(held.Run.ID)))
	return err
}

// hints name the folder where the commands would look at another.
func (h *house) hints() hints {
	if h.folder == ask.Home() {
		return hints{}
	}
	return hints{folder: h.folder}
}

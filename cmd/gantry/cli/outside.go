package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/office"
)

// anywhere is any free port of this machine.
const anywhere = "127.0.0.1:0"

func (h *house) startLedger(ctx context.Context, at string) error {
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	outside, err := ledger.New(ctx, ledger.Config{Path: filepath.Join(h.folder, "ledger.db"), Tokens: map[string]string{h.credential: "gantry"}})
	if err != nil {
		return err
	}
	h.ledger, err = h.serve(ctx, at, "ledger", outside.Handler(), outside.Close)
	return err
}

func (h *house) startOffice(ctx context.Context, at string) (err error) {
	if h.mail, err = office.Open(ctx, office.Config{Path: filepath.Join(h.folder, "office.db"), Own: "office@northwind.example",
		Mail: office.SampleMail(), Files: office.SampleFiles()}); err != nil {
		return err
	}
	h.office, err = h.serve(ctx, at, "office", h.mail.Handler(h.credential), h.mail.Close)
	return err
}

// serve starts something outside, to be stopped with the house.
func (h *house) serve(ctx context.Context, at, name string, handler http.Handler, stop func() error) (base string, err error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return "", errors.Join(placeTaken(fmt.Errorf("%s: %w", name, err), at, name+"-listen"), stop())
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	var tasks conc.WaitGroup
	tasks.Go(func() { _ = server.Serve(listener) }) // ends with Close
	h.stops = append(h.stops, func() error {
		closed := server.Close()
		tasks.Wait()
		return errors.Join(closed, stop())
	})
	return "http://" + listener.Addr().String(), nil
}

// ledgerEntry is what the ledger says of one adjustment.
type ledgerEntry struct {
	Invoice     string `json:"invoice"`
	AmountCents int64  `json:"amountCents"`
	Currency    string `json:"currency"`
	Actor       struct {
		Client string   `json:"client"`
		Chain  []string `json:"chain"`
	} `json:"actor"`
}

// entries asks the ledger itself what it holds for an invoice.
func (h *house) entries(ctx context.Context, invoice string) ([]ledgerEntry, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.ledger+"/v1/adjustments?invoice="+invoice, http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+h.credential)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // read whole below
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ledger: %s", response.Status)
	}
	var found struct {
		Entries []ledgerEntry `json:"entries"`
	}
	err = json.NewDecoder(response.Body).Decode(&found)
	return found.Entries, err
}

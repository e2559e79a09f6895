package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/sourcegraph/conc"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/journal"
)

// The people and the agent of the sample that the commands speak of.
const (
	sampleAgent   = "invoice-reconciler"
	sampleAsker   = "amara.diallo"
	sampleDecider = "tomas.rehak"
)

// house is the sample organisation at work: its outside ledger, and Gantry
// beside it in the same process.
type house struct {
	platform     *wire.Platform
	organisation agents.Organisation
	folder       string
	ledger       string // base URL
	credential   string // of the ledger
	stop         func() error
}

// places says where a house listens.
type places struct {
	folder, interfaceAt, ledgerAt string
	log                           *slog.Logger
}

// openHouse starts the ledger and Gantry on embedded defaults and puts the
// sample in force.
func openHouse(ctx context.Context, at places) (*house, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	h := &house{folder: at.folder, credential: uuid.NewString(), stop: func() error { return nil }}
	if err := h.open(ctx, at); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// check finds what cannot be listened at, before anything is begun.
func (p places) check() error {
	for flag, at := range map[string]string{"listen": p.interfaceAt, "ledger-listen": p.ledgerAt} {
		if _, _, err := net.SplitHostPort(at); err != nil {
			return fmt.Errorf("--%s %q must be host:port, for example 127.0.0.1:8080", flag, at)
		}
	}
	if p.interfaceAt == p.ledgerAt && !strings.HasSuffix(p.ledgerAt, ":0") {
		return fmt.Errorf("--listen and --ledger-listen are both %s; choose two ports", p.ledgerAt)
	}
	return nil
}

func (h *house) open(ctx context.Context, at places) error {
	if err := h.startLedger(ctx, at.ledgerAt); err != nil {
		return h.whose(ctx, err)
	}
	root, err := h.layFiles()
	if err != nil {
		return err
	}
	h.organisation, err = agents.LoadDir(sample.Files, agents.LoadOptions{
		Endpoints: map[string]string{"ledger": h.ledger}, Egress: []string{strings.TrimPrefix(h.ledger, "http://")}})
	if err != nil {
		return err
	}
	h.platform, err = open(ctx, wire.Config{Folder: at.folder, Listen: at.interfaceAt, Files: root, Work: true, Dev: true, Heads: filepath.Join(at.folder, headsFlag),
		Secrets: map[string]string{"ledger": h.credential}, Log: at.log})
	if err != nil {
		return err
	}
	_, _, err = h.platform.Kits.Apply(ctx, h.organisation)
	return err
}

// whose looks whether the ledger's port is taken by another process in the same
// folder: then that one is in the way, and another port would not help.
func (h *house) whose(ctx context.Context, taken error) error {
	if !errors.Is(taken, syscall.EADDRINUSE) {
		return taken
	}
	p, err := open(ctx, wire.Config{Folder: h.folder, Dev: true})
	if errors.Is(err, journal.ErrInUse) {
		return err
	}
	if err != nil {
		return taken
	}
	return errors.Join(taken, p.Close())
}

// layFiles copies the sample's material beside the database, where it can be
// changed; what is there stays.
func (h *house) layFiles() (root string, err error) {
	files, err := fs.Sub(sample.Files, "files")
	if err != nil {
		return "", err
	}
	root = filepath.Join(h.folder, "files")
	if err := os.CopyFS(root, files); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("sample files: %w", err)
	}
	return root, nil
}

func (h *house) startLedger(ctx context.Context, at string) error {
	if err := os.MkdirAll(h.folder, 0o700); err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	outside, err := ledger.New(ctx, ledger.Config{Path: filepath.Join(h.folder, "ledger.db"), Tokens: map[string]string{h.credential: "gantry"}})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return errors.Join(placeTaken(fmt.Errorf("ledger: %w", err), at, "ledger-listen"), outside.Close())
	}
	h.ledger = "http://" + listener.Addr().String()
	server := &http.Server{Handler: outside.Handler(), ReadHeaderTimeout: 10 * time.Second}
	var tasks conc.WaitGroup
	tasks.Go(func() { _ = server.Serve(listener) }) // ends with Close
	h.stop = func() error {
		closed := server.Close()
		tasks.Wait()
		return errors.Join(closed, outside.Close())
	}
	return nil
}

// close stops Gantry, then the ledger.
func (h *house) close() error {
	var closed error
	if h.platform != nil {
		closed = h.platform.Close()
	}
	return errors.Join(closed, h.stop())
}

// url is where the interface answers.
func (h *house) url() string { return "http://" + h.platform.Address() }

// token signs a token for somebody of the sample.
func (h *house) token(principal string) (string, error) {
	return h.platform.Keys.Token(h.organisation.Name, principal, h.platform.Config.Issuer, uuid.NewString(), time.Now(), 30*24*time.Hour)
}

// as returns a client that speaks for somebody of the sample.
func (h *house) as(principal string) (*client.Client, error) {
	token, err := h.token(principal)
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{URL: h.url(), Token: token})
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

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/cli/record"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/office"
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

// house is the sample organisation at work: its outside ledger and office, and
// Gantry beside them in the same process.
type house struct {
	platform     *wire.Platform
	organisation agents.Organisation
	folder       string
	ledger       string // base URL
	office       string // base URL
	mail         *office.Office
	credential   string         // of the ledger and the office
	stops        []func() error // of what is outside, first started first
}

// places says where a house listens.
type places struct {
	folder, interfaceAt, ledgerAt string
	officeAt                      string // empty: anywhere
	log                           *slog.Logger
	model                         *record.Model // in place of the script of the sample's agent; nil for the script
}

// openHouse starts what is outside and Gantry on embedded defaults and puts the
// sample in force.
func openHouse(ctx context.Context, at places) (*house, error) {
	if err := at.check(); err != nil {
		return nil, err
	}
	h := &house{folder: at.folder, credential: uuid.NewString()}
	if err := h.open(ctx, at); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

// check finds what cannot be listened at, before anything is begun.
func (p places) check() error {
	for flag, at := range map[string]string{"listen": p.interfaceAt, "ledger-listen": p.ledgerAt, "office-listen": cmp.Or(p.officeAt, anywhere)} {
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
	if err := h.startOffice(ctx, cmp.Or(at.officeAt, anywhere)); err != nil {
		return err
	}
	root, err := h.layFiles()
	if err != nil {
		return err
	}
	h.organisation, err = agents.LoadDir(sample.Files, agents.LoadOptions{
		Endpoints: map[string]string{"ledger": h.ledger, "office": h.office},
		Egress:    []string{strings.TrimPrefix(h.ledger, "http://"), strings.TrimPrefix(h.office, "http://")}})
	if err != nil {
		return err
	}
	h.platform, err = open(ctx, wire.Config{Folder: at.folder, Listen: at.interfaceAt, Files: root, Work: true, Dev: true, Heads: filepath.Join(at.folder, headsFlag),
		Secrets: h.played(at.model), Log: at.log})
	if err != nil {
		return err
	}
	_, _, err = h.platform.Kits.Apply(ctx, h.organisation)
	return err
}

// played puts a model in the place of the script of the sample's agent, under
// the script's name, and returns the secrets. What it reads is made up.
func (h *house) played(model *record.Model) map[string]string {
	secrets := map[string]string{"ledger": h.credential, "office": h.credential}
	if model == nil {
		return secrets
	}
	for i := range h.organisation.Models {
		entry := &h.organisation.Models[i]
		if entry.Script != sampleAgent {
			continue
		}
		entry.Provider, entry.Model, entry.Script, entry.Endpoint = model.Provider, model.Name, "", model.BaseURL
		if model.Key != "" {
			entry.Secret, secrets["model"] = "model", model.Key
		}
	}
	return secrets
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

// close stops Gantry, then what is outside.
func (h *house) close() error {
	var closed error
	if h.platform != nil {
		closed = h.platform.Close()
	}
	for _, stop := range h.stops {
		closed = errors.Join(closed, stop())
	}
	return closed
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

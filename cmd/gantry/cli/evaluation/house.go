// Package evaluation holds the commands by which agents are tried on cases: each
// case is played in a process, a database and an outside of its own.
package evaluation

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/agents"
	"gantry.dev/agents/evaluate"
	"gantry.dev/agents/model"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/policy"
)

// Trial says what is tried.
type Trial struct {
	Files    fs.FS  // of the organisation, as its folder has them
	Material string // name of the folder in Files that the file tools read; empty: none
	Draft    []byte // a revision in place of the agent's own; nil: its own
	Model    string // of the catalogue, that answers every turn; empty: those of the revision
	Servers  bool   // MCP servers that run as processes are started as the organisation declares them
	Secrets  map[string]string
	Folder   string // where temporary folders are made; empty: the system's
	// Provider opens the models that are not built in; nil: as a server does.
	Provider func(agents.Model) (model.Provider, error)
}

// organisation reads what is tried, with the outside of a case. Errors: faults
// of the files; what the trial names and is not there.
func (t Trial) organisation(agent string, stage policy.Stage, endpoints map[string]string, egress []string) (agents.Organisation, agents.Revision, error) {
	o, err := agents.LoadDir(t.Files, agents.LoadOptions{Endpoints: endpoints, Egress: egress})
	if err != nil {
		return o, agents.Revision{}, err
	}
	revision, known := o.Agent(agent)
	if t.Draft != nil {
		if revision, err = agents.ReadRevision("draft", t.Draft); err != nil {
			return o, revision, err
		}
		if revision.Name != agent {
			return o, revision, fmt.Errorf("the draft is of agent %q, and the cases are for %q", revision.Name, agent)
		}
		o.Agents = append(slices.DeleteFunc(slices.Clone(o.Agents), func(r agents.Revision) bool { return r.Name == agent }), revision)
		known = true
	}
	if !known {
		return o, revision, fmt.Errorf("there is no agent %q in the organisation", agent)
	}
	if err := t.alone(o, revision); err != nil {
		return o, revision, err
	}
	// The stage is decided beside the revision, which stays what it is.
	o.Stages = []agents.StageDecision{{Agent: agent, Stage: stage, Evidence: "evaluation", By: revision.Owner}}
	if t.Model != "" {
		if o, err = answeredBy(o, revision, t.Model); err != nil {
			return o, revision, err
		}
	}
	return o, revision, o.Validate()
}

// alone refuses what would reach servers that are not the case's own: tools of
// the agent, and of all whom its runs may hand work to or have beside them.
func (t Trial) alone(o agents.Organisation, revision agents.Revision) error {
	if t.Servers {
		return nil
	}
	seen := map[string]bool{revision.Name: true}
	for next := []agents.Revision{revision}; len(next) > 0; next = next[1:] {
		for _, name := range toolsOf(next[0]) {
			if definition, _ := o.Tool(name); definition.Kind == tool.KindMCP {
				return fmt.Errorf("agent %q uses %s of an MCP server, which a case cannot stand for; allow its servers to be reached, or try a draft without it", next[0].Name, name)
			}
		}
		for _, other := range othersOf(next[0]) {
			if r, known := o.Agent(other); known && !seen[other] {
				seen[other] = true
				next = append(next, r)
			}
		}
	}
	return nil
}

// toolsOf are the tools that runs of an agent have, and may ask for.
func toolsOf(r agents.Revision) (names []string) {
	for _, use := range r.Tools {
		names = append(names, use.Name)
	}
	if r.MayRequest != nil {
		for _, use := range r.MayRequest.Tools {
			names = append(names, use.Name)
		}
	}
	return names
}

// othersOf are the agents that go on below and beside runs of an agent.
func othersOf(r agents.Revision) (names []string) {
	for _, d := range r.Delegates {
		names = append(names, d.Agent)
	}
	for _, s := range r.Sidecars {
		names = append(names, s.Agent)
	}
	return names
}

// answeredBy has one model of the catalogue answer under the name of each that
// the revision allows: so the revision stays what it is.
func answeredBy(o agents.Organisation, revision agents.Revision, name string) (agents.Organisation, error) {
	entry, known := o.Model(name)
	if !known {
		return o, fmt.Errorf("there is no model %q in the catalogue", name)
	}
	o.Models = slices.Clone(o.Models)
	for i := range o.Models {
		if slices.Contains(revision.Models, o.Models[i].Name) {
			under := o.Models[i].Name
			o.Models[i] = entry
			o.Models[i].Name = under
		}
	}
	return o, nil
}

// house is one process with its database, its files and its outside.
type house struct {
	organisation agents.Organisation
	platform     *wire.Platform
	http         *http.Client
	clients      map[string]*client.Client
	undo         []func() error
}

// open builds the house of one playing.
func (t Trial) open(ctx context.Context, agent string, c evaluate.Case) (h *house, err error) {
	h = &house{http: &http.Client{}, clients: map[string]*client.Client{}}
	if err := t.build(ctx, h, agent, c); err != nil {
		return nil, errors.Join(err, h.close())
	}
	return h, nil
}

func (t Trial) build(ctx context.Context, h *house, agent string, c evaluate.Case) error {
	folder, err := os.MkdirTemp(t.Folder, "gantry-eval-")
	if err != nil {
		return fmt.Errorf("evaluation: %w", err)
	}
	h.undo = append(h.undo, func() error { return os.RemoveAll(folder) })
	secrets := map[string]string{}
	for name, secret := range t.Secrets {
		secrets[name] = secret
	}
	var endpoints map[string]string
	var egress []string
	if c.Outside == evaluate.Ledger {
		secrets[evaluate.Ledger] = rand.Text()
		address, err := h.ledger(ctx, filepath.Join(folder, "ledger.db"), secrets[evaluate.Ledger])
		if err != nil {
			return err
		}
		endpoints, egress = map[string]string{evaluate.Ledger: "http://" + address}, []string{address}
	}
	if h.organisation, _, err = t.organisation(agent, *c.Stage, endpoints, egress); err != nil {
		return err
	}
	files, err := t.lay(filepath.Join(folder, "files"), c.Files)
	if err != nil {
		return err
	}
	h.platform, err = wire.Open(ctx, wire.Config{Folder: filepath.Join(folder, "home"), Listen: "127.0.0.1:0", Files: files, Work: true, Dev: true,
		Secrets: secrets, Provider: t.Provider, Egress: only(egress), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	h.undo = append(h.undo, h.platform.Close)
	_, _, err = h.platform.Kits.Apply(ctx, h.organisation)
	return err
}

// only lets tools reach the outside of a case, and nothing real.
func only(addresses []string) func(agents.Organisation) (*tool.Egress, error) {
	return func(agents.Organisation) (*tool.Egress, error) {
		var allowed []tool.Destination
		for _, address := range addresses {
			host, port, err := net.SplitHostPort(address)
			if err != nil {
				return nil, err
			}
			number, err := strconv.Atoi(port)
			if err != nil {
				return nil, err
			}
			allowed = append(allowed, tool.Destination{Host: host, Port: number, Internal: true})
		}
		return tool.NewEgress(allowed, net.DefaultResolver, (&net.Dialer{}).DialContext)
	}
}

// lay copies the organisation's files and puts those of the case over them.
func (t Trial) lay(root string, texts map[string]string) (string, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return "", fmt.Errorf("evaluation: %w", err)
	}
	if t.Material != "" {
		material, err := fs.Sub(t.Files, t.Material)
		if err != nil {
			return "", err
		}
		if _, err := fs.Stat(material, "."); err == nil {
			if err := os.CopyFS(root, material); err != nil {
				return "", fmt.Errorf("evaluation: files: %w", err)
			}
		}
	}
	below, err := os.OpenRoot(root) // a link among the copied files may lead anywhere
	if err != nil {
		return "", fmt.Errorf("evaluation: %w", err)
	}
	defer below.Close() //nolint:errcheck // what was written was closed
	for name, text := range texts {
		if !filepath.IsLocal(name) {
			return "", fmt.Errorf("evaluation: file %q must lie below the organisation's files", name)
		}
		if err := below.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return "", fmt.Errorf("evaluation: %w", err)
		}
		if err := below.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", fmt.Errorf("evaluation: %w", err)
		}
	}
	return root, nil
}

// ledger starts a ledger of its own and returns its address.
func (h *house) ledger(ctx context.Context, path, token string) (string, error) {
	outside, err := ledger.New(ctx, ledger.Config{Path: path, Tokens: map[string]string{token: "gantry"}, Clock: time.Now})
	if err != nil {
		return "", err
	}
	h.undo = append(h.undo, outside.Close)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("evaluation: ledger: %w", err)
	}
	server := &http.Server{Handler: outside.Handler(), ReadHeaderTimeout: 10 * time.Second}
	var serving conc.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // ends with Close
	h.undo = append(h.undo, func() error {
		closed := server.Close()
		serving.Wait()
		return closed
	})
	return listener.Addr().String(), nil
}

// close takes everything down, the last thing first.
func (h *house) close() error {
	var faults []error
	for _, undo := range slices.Backward(h.undo) {
		faults = append(faults, undo())
	}
	h.http.CloseIdleConnections()
	return errors.Join(faults...)
}

// as speaks for somebody.
func (h *house) as(principal string) (*client.Client, error) {
	if known, is := h.clients[principal]; is {
		return known, nil
	}
	token, err := h.platform.Keys.Token(h.organisation.Name, principal, h.platform.Config.Issuer, rand.Text(), time.Now().Add(-time.Minute), time.Hour)
	if err != nil {
		return nil, err
	}
	made, err := client.New(client.Config{URL: "http://" + h.platform.Address(), Token: token, HTTP: h.http})
	h.clients[principal] = made
	return made, err
}

// deciders are the people of a list of approvers, in its order; never the one
// for whom the run is.
func (h *house) deciders(approvers []policy.Approver, subject string) (ids []string) {
	for _, approver := range approvers {
		if approver.Principal != "" {
			ids = append(ids, approver.Principal)
			continue
		}
		for _, p := range h.organisation.Principals {
			if p.Kind == policy.Person && p.HasRole(approver.Role) {
				ids = append(ids, p.ID)
			}
		}
	}
	seen := map[string]bool{subject: true}
	return slices.DeleteFunc(ids, func(id string) bool {
		twice := seen[id]
		seen[id] = true
		return twice || strings.TrimSpace(id) == ""
	})
}

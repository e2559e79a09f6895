package wire_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/deploy/sample"
)

// People and the agent of the sample.
const (
	reconciler = "invoice-reconciler"
	asker      = "amara.diallo"    // accountant: for her the runs work
	colleague  = "jonas.petersen"  // accountant: has nothing to do with them
	controller = "tomas.rehak"     // owns the ledger: decides
	lead       = "marta.lindqvist" // answers for the agent and for finance
	operator   = "oskar.nilsen"    // operator without any clearance
	director   = "helena.voss"     // answers for the organisation
	outsider   = "liam.byrne"      // sales
	service    = "invoice-intake"  // a program
)

// ledgerToken is what the outside ledger knows Gantry by.
const ledgerToken = "token of the tests"

// patience is how long a test waits for what is to come; it is never waited out
// by a test that passes.
const patience = 30 * time.Second

// plan is how a house differs from the sample.
type plan struct {
	organisation func(o *agents.Organisation)
	config       func(c *wire.Config)
	ledger       func(next http.Handler) http.Handler
}

// house is the sample organisation at work: its outside ledger, and a process
// that serves it over HTTP.
type house struct {
	t            *testing.T
	plan         plan
	folder       string
	root         string // of the file tools
	ledger       string // base URL
	organisation agents.Organisation
	platform     *wire.Platform
}

func newHouse(t *testing.T, p plan) *house {
	t.Helper()
	h := &house{t: t, plan: p, folder: t.TempDir()}
	h.root = filepath.Join(h.folder, "files")
	files, err := fs.Sub(sample.Files, "files")
	require.NoError(t, err)
	require.NoError(t, os.CopyFS(h.root, files))
	outside, err := ledger.New(t.Context(), ledger.Config{Path: filepath.Join(h.folder, "ledger.db"), Tokens: map[string]string{ledgerToken: "gantry"}})
	require.NoError(t, err)
	handler := outside.Handler()
	if p.ledger != nil {
		handler = p.ledger(handler)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(func() { server.Close(); require.NoError(t, outside.Close()) })
	h.ledger = server.URL
	h.organisation, err = agents.LoadDir(sample.Files, agents.LoadOptions{Endpoints: map[string]string{"ledger": h.ledger},
		Egress: []string{strings.TrimPrefix(h.ledger, "http://")}})
	require.NoError(t, err)
	if p.organisation != nil {
		p.organisation(&h.organisation)
	}
	return h
}

// openHouse opens a house and puts its organisation in force.
func openHouse(t *testing.T, p plan) *house {
	t.Helper()
	h := newHouse(t, p)
	h.open()
	h.apply(h.organisation)
	return h
}

// config is how the house's process is told to run. Nothing of it waits for the
// slow poll: whoever is to be told is told.
func (h *house) config() wire.Config {
	config := wire.Config{Folder: h.folder, Listen: "127.0.0.1:0", Files: h.root, Work: true, Dev: true,
		Poll: time.Hour, Secrets: map[string]string{"ledger": ledgerToken}}
	if h.plan.config != nil {
		h.plan.config(&config)
	}
	return config
}

// open starts the process; it ends with the test at the latest.
func (h *house) open() {
	h.t.Helper()
	p, err := wire.Open(h.t.Context(), h.config())
	require.NoError(h.t, err)
	h.platform = p
	h.t.Cleanup(func() {
		if h.platform == p {
			h.close()
		}
	})
}

func (h *house) close() {
	h.t.Helper()
	p := h.platform
	h.platform = nil
	require.NoError(h.t, p.Close())
}

func (h *house) apply(o agents.Organisation) {
	h.t.Helper()
	_, _, err := h.platform.Kits.Apply(h.t.Context(), o)
	require.NoError(h.t, err)
}

func (h *house) url() string { return "http://" + h.platform.Address() }

// token signs a token of the house for a while from a moment on.
func (h *house) token(organisation, principal string, from time.Time, life time.Duration) string {
	h.t.Helper()
	token, err := h.platform.Keys.Token(organisation, principal, h.platform.Config.Issuer, uuid.NewString(), from, life)
	require.NoError(h.t, err)
	return token
}

// as speaks for somebody of the organisation.
func (h *house) as(principal string) *person {
	h.t.Helper()
	return h.of(h.organisation.Name, principal)
}

func (h *house) of(organisation, principal string) *person {
	h.t.Helper()
	token := h.token(organisation, principal, time.Now(), time.Hour)
	c, err := client.New(client.Config{URL: h.url(), Token: token})
	require.NoError(h.t, err)
	return &person{t: h.t, Client: c, token: token, url: h.url() + "/graphql"}
}

// entries are the ledger's own words on an invoice.
func (h *house) entries(invoice string) int {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.ledger+"/v1/adjustments?invoice="+invoice, http.NoBody)
	require.NoError(h.t, err)
	request.Header.Set("Authorization", "Bearer "+ledgerToken)
	response, err := http.DefaultClient.Do(request)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, response.Body.Close()) }()
	var found struct {
		Entries []json.RawMessage `json:"entries"`
	}
	require.NoError(h.t, json.NewDecoder(response.Body).Decode(&found))
	return len(found.Entries)
}

// revised changes one agent of an organisation's files.
func revised(name string, change func(r *agents.Revision)) func(o *agents.Organisation) {
	return func(o *agents.Organisation) {
		o.Agents = slices.Clone(o.Agents)
		for i := range o.Agents {
			if o.Agents[i].Name == name {
				change(&o.Agents[i])
			}
		}
	}
}

// person is somebody's access: the client of the product, and GraphQL as it is.
type person struct {
	*client.Client
	t          *testing.T
	token, url string
}

// post sends an operation and returns the answer as it came.
func (p *person) post(document string, variables map[string]any) []byte {
	p.t.Helper()
	raw, err := p.send(document, variables)
	require.NoError(p.t, err)
	return raw
}

// send is post for goroutines, which may not end the test.
func (p *person) send(document string, variables map[string]any) ([]byte, error) {
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+p.token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	return raw, err
}

// ask sends a query that must succeed.
func (p *person) ask(document string, variables map[string]any, into any) {
	p.t.Helper()
	require.NoError(p.t, p.Ask(p.t.Context(), document, variables, into))
}

// refusal is a user error of a mutation.
type refusal struct{ Code, Message, Field string }

// done is what a mutation says.
type done struct {
	Outcome            string
	AwaitsSecondPerson bool
	Run                *struct{ ID, Status string }
	Conversation       *struct{ ID string }
	Agent              *client.Agent
	UserErrors         []refusal
}

// code is the code of the first refusal.
func (d done) code() string {
	if len(d.UserErrors) == 0 {
		return ""
	}
	return d.UserErrors[0].Code
}

var payloads = map[string]string{
	"startConversation": "conversation{id}", "addParticipant": "conversation{id}", "removeParticipant": "conversation{id}", "setTurns": "conversation{id}",
	"sendMessage": "conversation{id} run{id status}", "setBudget": "", "recordEvaluation": "", "kill": "awaitsSecondPerson", "liftKill": "awaitsSecondPerson",
	"publishAgent": "agent{name stage stopped} awaitsSecondPerson", "setStage": "agent{name stage stopped} awaitsSecondPerson",
}

// mutate sends a mutation and decodes its payload.
func (p *person) mutate(name string, input map[string]any) done {
	p.t.Helper()
	d, err := p.try(name, input)
	require.NoError(p.t, err)
	return d
}

// try is mutate for goroutines, which may not end the test.
func (p *person) try(name string, input map[string]any) (done, error) {
	fields, known := payloads[name]
	if !known {
		fields = "run{id status}"
	}
	document := "mutation($input:" + strings.ToUpper(name[:1]) + name[1:] + "Input!){done:" + name + "(input:$input){outcome " + fields +
		" userErrors{code message field}}}"
	var got struct{ Done done }
	err := p.Ask(p.t.Context(), document, map[string]any{"input": input}, &got)
	return got.Done, err
}

// begin starts a reconciliation.
func (p *person) begin(invoice string) client.Run {
	p.t.Helper()
	run, err := p.StartRun(p.t.Context(), client.Start{Agent: reconciler, Goal: "Reconcile " + invoice + "."})
	require.NoError(p.t, err)
	return run
}

// until follows a run to the first event of a kind.
func (p *person) until(run, kind string) client.Event {
	p.t.Helper()
	events := p.follow(run, "", func(e client.Event) bool { return e.Kind == kind })
	return events[len(events)-1]
}

// follow returns the events of a run after a cursor, up to the one that is
// looked for.
func (p *person) follow(run, after string, last func(client.Event) bool) []client.Event {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	var events []client.Event
	err := p.Events(ctx, run, after, func(e client.Event) (bool, error) {
		events = append(events, e)
		return !last(e), nil
	})
	if err != nil {
		kinds := make([]string, len(events))
		for i, e := range events {
			kinds[i] = e.Kind
		}
		require.NoError(p.t, err, "events so far: %s", kinds)
	}
	return events
}

// held waits for the call that the person is to decide in a run.
func (p *person) held(run string) client.Approval {
	p.t.Helper()
	var requested struct{ Approval string }
	require.NoError(p.t, p.until(run, "approval_requested").Decode(&requested))
	approval, err := p.Approval(p.t.Context(), requested.Approval)
	require.NoError(p.t, err)
	return approval
}

// ended waits for the end of a run and returns the run.
func (p *person) ended(run string) client.Run {
	p.t.Helper()
	p.until(run, "ended")
	got, err := p.Run(p.t.Context(), run)
	require.NoError(p.t, err)
	return got
}

// decide decides a held call as one who must succeed.
func (p *person) decide(approval client.Approval, grant bool) {
	p.t.Helper()
	_, err := p.Decide(p.t.Context(), approval, grant, "checked")
	require.NoError(p.t, err)
}

// elsewhere is a well-formed global id of the same kind that names nothing.
func (h *house) elsewhere(id string) string {
	h.t.Helper()
	return reworded(h.t, id, func(parts []string) { parts[len(parts)-1] = uuid.NewString() })
}

// reworded changes the parts of a global id.
func reworded(t *testing.T, id string, change func(parts []string)) string {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(id)
	require.NoError(t, err)
	var parts []string
	require.NoError(t, json.Unmarshal(raw, &parts))
	change(parts)
	raw, err = json.Marshal(parts)
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(raw)
}

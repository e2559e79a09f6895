//go:build unix

package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// The ways that a run goes in the crash tests. Memory's own writes have their
// crashes in its package.
const (
	wayApproved = "approved" // a keyed effect that a person grants
	waySteered  = "steered"  // in a conversation; steered, then cancelled
	wayFound    = "found"    // asks a person first; the answer to the effect is lost, and a query finds it
	wayLost     = "lost"     // the same, and only a person can look
	wayHanded   = "handed"   // a child does the keyed effect, another one reviews its answer, and a sidecar goes on beside
	wayRecalled = "recalled" // the same, and cancelled from above while the child waits for a person
	wayGiven    = "given"    // asks for the keyed tool, which it was not given
	wayBrief    = "brief"    // outgrows its model's context
	wayOut      = "out"      // finds no model that answers, for a while
	wayMany     = "many"     // many runs at once, which only read
)

var ways = []string{wayApproved, waySteered, wayFound, wayLost, wayHanded, wayRecalled, wayGiven, wayBrief, wayOut}

// classOf is the class of the effect on a way.
var classOf = map[string]policy.EffectClass{wayApproved: policy.Keyed, waySteered: policy.Keyed, wayFound: policy.Checkable, wayLost: policy.Opaque, wayHanded: policy.Keyed,
	wayRecalled: policy.Keyed, wayMany: policy.Keyed, wayGiven: policy.Keyed, wayBrief: policy.Keyed, wayOut: policy.Keyed}

// script is what the model of all ways does.
const script = `
POST, FIND, ASK, HAND = "ledger.post_adjustment", "ledger.find_adjustments", "ask.person", "agents.delegate"

def told(ctx, mark):
    return any([mark in m.text for m in ctx.messages])

def turn(ctx):
    posts = ctx.results(POST)
    if told(ctx, ", reviews."):
        return {"text": '{"verdict": "PASS", "reason": "It fits."}'}
    if told(ctx, ", beside."):
        return {"text": "I saw it."}
    if (told(ctx, ", handed.") or told(ctx, ", recalled.")) and not ctx.results(HAND):
        return {"text": "I hand it on.", "calls": [{"name": HAND, "arguments": {"agent": "poster", "brief": "Reconcile INV-1004."}}]}
    if ctx.results(HAND):
        return {"text": "It was done."}
    if any([", found." in m.text for m in ctx.messages]) and not ctx.results(ASK):
        return {"calls": [{"name": ASK, "arguments": {"question": "Which one?", "options": ["this", "that"]}}]}
    if told(ctx, ", brief.") and ctx.turn < 4:
        return {"text": "I look. " + "And again. " * 600, "calls": [{"name": FIND, "arguments": {"invoice": "INV-100%d" % (4 + ctx.turn)}}]}
    if told(ctx, ", brief."):
        return {"text": "It is there."}
    if not ctx.results(FIND):
        return {"text": "I look.", "calls": [{"name": FIND, "arguments": {"invoice": "INV-1004"}}]}
    if any([", many." in m.text for m in ctx.messages]):
        return {"text": "It is there."}
    if not posts or "STEERED" in posts[-1].text:
        return {"text": "I post.", "calls": [{"name": POST, "arguments": {"invoice": "INV-1004", "amountCents": -100, "currency": "EUR", "reason": "INV-1004"}}]}
    return {"text": "It is done."}
`

// small is the organisation of a way: the sample with one agent that does little.
func small(t *testing.T, way, outside string) agents.Organisation {
	t.Helper()
	o, err := agents.LoadDir(sample.Files, agents.LoadOptions{Endpoints: map[string]string{"ledger": outside}, Egress: []string{strings.TrimPrefix(outside, "http://")}})
	require.NoError(t, err)
	r, _ := o.Agent(reconciler)
	r.Tools = slices.DeleteFunc(slices.Clone(r.Tools), func(use agents.ToolUse) bool { return strings.HasPrefix(use.Name, "files.") })
	r.Completion = agents.Completion{Checks: []agents.Check{{Name: "outside-agrees", Tool: "ledger.find_adjustments",
		Arguments:  json.RawMessage(`{"invoice":"INV-1004"}`),
		Expression: `result.entries.size() == calls.filter(c, c.tool == "ledger.post_adjustment" && c.outcome == "OK").size()`,
		Identity:   agents.AsAgent, Confirms: []string{"ledger.post_adjustment"}, Explain: "The ledger says something else."}}}
	o.Agents = []agents.Revision{r}
	switch {
	case family(way):
		o.Agents = relatives(r)
	case way == wayGiven || way == wayBrief || way == wayOut:
		strained(&o, way)
	}
	at := slices.IndexFunc(o.Scripts, func(s agents.Source) bool { return s.Name == reconciler })
	o.Scripts[at].Text = script
	for i := range o.Tools {
		if o.Tools[i].Name == "ledger.post_adjustment" {
			o.Tools[i].Class = classOf[way]
		}
	}
	return o
}

// family reports whether a way has children.
func family(way string) bool { return way == wayHanded || way == wayRecalled }

// relatives are an agent that hands its work on, the one that does it, and one
// that looks on and reviews.
func relatives(r agents.Revision) []agents.Revision {
	poster, checker := r, r
	poster.Name, checker.Name = "poster", "checker"
	poster.Sidecars = []agents.Sidecar{{Agent: checker.Name, Purpose: run.ForCheck, Brief: "Look, reviews.", Reviews: []string{run.ReviewsAnswer}}}
	poster.Limits.Depth, poster.Limits.FanOut, poster.Limits.RunsAtOnce = 1, 2, 1
	checker.Completion, r.Completion = agents.Completion{}, agents.Completion{}
	r.Tools = append(slices.Clone(r.Tools), agents.ToolUse{Name: tool.DelegateName, Impact: policy.ImpactRead, Calls: 2})
	r.Delegates = []agents.Delegate{{Agent: poster.Name}}
	r.Sidecars = []agents.Sidecar{{Agent: checker.Name, Purpose: run.ForMonitor, Brief: "Look on, beside."}}
	r.Limits.Depth, r.Limits.FanOut, r.Limits.RunsAtOnce = 2, 2, 2
	for _, limits := range []*agents.Limits{&poster.Limits, &checker.Limits} {
		limits.OnLimit = run.FailOnLimit
	}
	poster.Limits.MicroUSD, poster.Limits.Tokens = r.Limits.MicroUSD/2, r.Limits.Tokens/2
	checker.Limits.MicroUSD, checker.Limits.Tokens = r.Limits.MicroUSD/8, r.Limits.Tokens/8
	return []agents.Revision{checker, r, poster}
}

// crashHouse is where processes are killed, and looked after.
type crashHouse struct {
	t       *testing.T
	root    string
	outside *outside
	first   map[string]place // of each way: an organisation in force, and nothing else
	bases   databases

	mu sync.Mutex
	n  int
}

// place is what a process leaves behind: its files, its database, and what it
// did outside.
type place struct{ folder, database, way, token string }

// databases are the databases of places: the files of SQLite go with their
// folders.
type databases interface {
	fresh(t *testing.T, folder string) string
	clone(t *testing.T, from, folder string) string
}

type sqliteFiles struct{}

func (sqliteFiles) fresh(_ *testing.T, folder string) string {
	return "sqlite:" + filepath.Join(folder, "gantry.db")
}
func (f sqliteFiles) clone(t *testing.T, _, folder string) string { return f.fresh(t, folder) }

func newCrashHouse(t *testing.T, bases databases) *crashHouse {
	t.Helper()
	h := &crashHouse{t: t, root: memoryFolder(t), outside: newOutside(t), first: map[string]place{}, bases: bases}
	for _, way := range ways {
		h.first[way] = h.empty(way)
		p, err := wire.Open(t.Context(), newDying(h.first[way].told(h)).quiet())
		require.NoError(t, err)
		_, _, err = p.Kits.Apply(t.Context(), small(t, way, h.outside.url))
		require.NoError(t, err)
		require.NoError(t, p.Close())
	}
	return h
}

// quiet is the configuration of a process that advances nothing and dies nowhere.
func (d *dying) quiet() wire.Config {
	config := d.config()
	config.Work, config.Site, config.Between = false, nil, nil
	return config
}

// memoryFolder is a folder in memory where the system has one: thousands of
// processes wait for its disk.
func memoryFolder(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat("/dev/shm"); err != nil {
		return t.TempDir()
	}
	folder, err := os.MkdirTemp("/dev/shm", "gantry-crash-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return folder
}

func (h *crashHouse) folder() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	folder := filepath.Join(h.root, fmt.Sprint(h.n))
	require.NoError(h.t, os.Mkdir(folder, 0o700))
	return folder
}

// empty is a place where nothing ran yet.
func (h *crashHouse) empty(way string) place {
	folder := h.folder()
	text, err := json.Marshal(small(h.t, way, h.outside.url))
	require.NoError(h.t, err)
	require.NoError(h.t, os.WriteFile(filepath.Join(folder, "organisation.json"), text, 0o600))
	return place{folder, h.bases.fresh(h.t, folder), way, h.outside.open(way, "")}
}

// copied is another place just like one that nobody is at.
func (h *crashHouse) copied(from place) place {
	folder := h.folder()
	require.NoError(h.t, filepath.WalkDir(from.folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, ".lock") || strings.HasSuffix(path, "-shm") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(folder, filepath.Base(path)), text, 0o600)
	}))
	return place{folder, h.bases.clone(h.t, from.database, folder), from.way, h.outside.open(from.way, from.token)}
}

func (p place) told(h *crashHouse) crash {
	return crash{Folder: p.folder, Database: p.database, Outside: h.outside.url, Token: p.token, Way: p.way}
}

var errKilled = errors.New("killed")

// launch runs a process at a place. errKilled means that it died as it was told.
func (h *crashHouse) launch(ctx context.Context, told crash) (word, error) {
	var said word
	raw, err := json.Marshal(told)
	if err != nil {
		return said, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*patience) // one that comes to no end fails its own case only
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0])
	command.Env = append(os.Environ(), "CRASH="+string(raw))
	var out, complaint bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaint
	err = command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return said, errKilled
	}
	if err != nil {
		return said, fmt.Errorf("%w: %s", errors.Join(err, ctx.Err()), complaint.String())
	}
	err = json.Unmarshal(out.Bytes(), &said)
	return said, err
}

// look opens what a place holds.
func (h *crashHouse) look(ctx context.Context, at place, do func(*journal.Store) error) error {
	keys, err := wire.LoadKeys(at.folder, false)
	if err != nil {
		return err
	}
	store, err := journal.Open(ctx, journal.Config{DSN: at.database, MasterKey: keys.Master})
	if err != nil {
		return err
	}
	return errors.Join(do(store), store.Close())
}

// check says what is wrong with a place whose run is to have ended.
func (h *crashHouse) check(ctx context.Context, at place, said word) error {
	want := run.StatusCompleted
	if at.way == waySteered || at.way == wayRecalled {
		want = run.StatusCancelled
	}
	if said.Status != want {
		return fmt.Errorf("the run is %s", said.Status)
	}
	return h.look(ctx, at, func(store *journal.Store) error {
		head, records, err := store.Load(ctx, said.Run, 0)
		if err != nil {
			return err
		}
		var export bytes.Buffer
		if err := account.Export(&export, records); err != nil {
			return err
		}
		if _, err := account.Verify(&export, head.Digest); err != nil {
			return err
		}
		state := &run.State{ID: said.Run}
		if err := run.Replay(state, records); err != nil {
			return err
		}
		states, err := tree(ctx, store, state)
		return errors.Join(err, h.checkEffects(at, states), audit(ctx, store))
	})
}

// checkEffects holds the outside against what the record says of it.
func (h *crashHouse) checkEffects(at place, states []*run.State) error {
	done := 0
	for _, state := range states {
		for i := range state.Calls {
			if state.Calls[i].Tool == "ledger.post_adjustment" && state.Calls[i].Outcome == run.OutcomeOK {
				done++
			}
		}
	}
	posts, entries := h.outside.count(at.token)
	switch {
	case entries != done:
		return fmt.Errorf("%d entries outside, the record says %d", entries, done)
	case (at.way == waySteered || at.way == wayRecalled) && posts != 0:
		return fmt.Errorf("a cancelled run acted %d times", posts)
	case (at.way == wayApproved || at.way == wayHanded || at.way == wayGiven) && entries != 1:
		return fmt.Errorf("%d entries of a keyed effect", entries)
	case (at.way == wayFound || at.way == wayLost) && posts > 1:
		return fmt.Errorf("an effect that may happen once at most was sent %d times", posts)
	}
	return nil
}

func audit(ctx context.Context, store *journal.Store) (err error) {
	snapshot, err := store.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	var found []error
	_, err = invariant.NewAudit(snapshot, func(v invariant.Violation) error {
		found = append(found, errors.New(v.String()))
		return nil
	}).Store(ctx)
	return errors.Join(append(found, err)...)
}

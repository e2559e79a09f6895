//go:build services && unix

package wire_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// each is how many runs a process has in each phase when it is told to end.
const each = 10

// quiet is a server that, while it is quiet, does what it is asked and does not
// answer to some requests.
type quiet struct {
	next  http.Handler
	quiet atomic.Value // string: the method that is not answered
	asked chan struct{}
}

func newQuiet(t *testing.T, next http.Handler) (*quiet, string) {
	t.Helper()
	q := &quiet{next: next, asked: make(chan struct{}, 10*each)}
	q.quiet.Store("")
	server := httptest.NewServer(q)
	t.Cleanup(server.Close)
	return q, server.URL
}

// ServeHTTP answers, or not.
func (q *quiet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != q.quiet.Load() {
		q.next.ServeHTTP(w, r)
		return
	}
	q.next.ServeHTTP(httptest.NewRecorder(), r)
	_, _ = io.Copy(io.Discard, r.Body) // only then it is seen that the other side went away
	q.asked <- struct{}{}
	<-r.Context().Done()
}

// were waits until so many requests were not answered.
func (q *quiet) were(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-q.asked:
		case <-time.After(patience): // never, when it passes
			require.Fail(t, "not asked")
		}
	}
}

// drained is fifty runs in five phases, and what they meet.
type drained struct {
	*crashHouse
	t        *testing.T
	at       place
	ledger   *quiet
	model    *quiet
	platform *wire.Platform // of the people; it advances nothing
	o        agents.Organisation
	runs     []*life
}

const reader = "reader-of-all" // an agent like the other, whose model is served over HTTP

func newDrained(t *testing.T) *drained {
	t.Helper()
	d := &drained{crashHouse: lone(t), t: t}
	d.at = d.empty(wayApproved)
	d.at.database = newPostgresDatabases(t).fresh(t, "")
	answer := modeltest.Whole(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "It is read."}, modeltest.Style{}))
	var ledger, served string
	d.ledger, ledger = newQuiet(t, d.outside)
	d.model, served = newQuiet(t, http.HandlerFunc(answer))
	d.o = busy(t, ledger)
	d.o.Models = append(slices.Clone(d.o.Models), agents.Model{Name: "slow", Provider: "openai", Model: "slow-1", Endpoint: served, Secret: "slow-key", Tier: 1,
		Context: 200_000, MaxOutput: 100_000, Tools: true, Prices: agents.Prices{Input: 1, CacheRead: 1, CacheWrite: 1, Output: 1}})
	second := d.o.Agents[0]
	second.Name, second.Models = reader, []string{"slow"}
	d.o.Agents = append(d.o.Agents, second)
	config := d.config("people")
	config.Work = false
	p, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	d.platform = p
	_, _, err = p.Kits.Apply(t.Context(), d.o)
	require.NoError(t, err)
	return d
}

// config is how the processes run: whoever has to wait for the end of a lease
// waits for longer than the test does.
func (d *drained) config(worker string) wire.Config {
	return wire.Config{Folder: d.at.folder, Database: d.at.database, Work: true, Dev: true, Worker: worker, Lease: time.Hour,
		Poll: 50 * time.Millisecond, Drain: 500 * time.Millisecond, Runs: 3 * each,
		Secrets: map[string]string{"ledger": d.at.token, "slow-key": "key"}}
}

// start starts runs of one phase.
func (d *drained) start(agent, goal string) []*life {
	d.t.Helper()
	var begun []*life
	for range each {
		l := &life{dying: newDying(d.at.told(d.crashHouse)), platform: d.platform, organisation: d.o}
		person, by := l.person(asker)
		admitted, err := d.platform.Admission.Start(d.t.Context(), perform.Order{Person: person, By: by, Agent: agent, Goal: goal,
			CommandID: fmt.Sprint("run ", len(d.runs))})
		require.NoError(d.t, err)
		l.run = admitted.Run
		d.runs, begun = append(d.runs, l), append(begun, l)
	}
	return begun
}

// held waits until runs wait for a person.
func (d *drained) held(runs []*life) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	for _, l := range runs {
		tail, err := d.platform.Hub.Tail(ctx, l.run, 0)
		require.NoError(d.t, err)
		for record := range tail.Items() {
			if record.Kind == run.KindApprovalRequested {
				break
			}
		}
		require.NoError(d.t, ctx.Err())
	}
}

// heads are the rows of all runs.
func (d *drained) heads() (heads []run.Head) {
	d.t.Helper()
	require.NoError(d.t, d.look(d.t.Context(), d.at, func(store *journal.Store) (err error) {
		heads, err = store.Heads(d.t.Context(), journal.Filter{Organisation: "northwind"}, 10*each)
		return err
	}))
	return heads
}

// A process with fifty runs, ten in each phase, is told to end. It does, with
// the exit code 0, and holds no lease any more: the next one goes on with all of
// them, although the leases were for an hour.
func TestDrainHandsOverRunsInEveryPhase(t *testing.T) {
	scenario(t)
	d := newDrained(t)
	first := employ(t, d.config("the first"), "")
	d.held(d.start(reconciler, "Reconcile INV-1004, approved.")) // wait for a person
	acting := d.start(reconciler, "Reconcile INV-1004, approved.")
	d.held(acting)
	d.ledger.quiet.Store(http.MethodPost)
	for _, l := range acting {
		require.NoError(t, l.act(t.Context()))
	}
	d.ledger.were(t, each) // act
	d.ledger.quiet.Store(http.MethodGet)
	d.start(reconciler, "Look at INV-1004, many.")
	d.ledger.were(t, each) // read
	d.model.quiet.Store(http.MethodPost)
	d.start(reader, "Read all.")
	d.model.were(t, each)                          // the model thinks
	d.start(reconciler, "Look at INV-1004, many.") // nobody has a hand free

	first.dismiss()
	heads := d.heads()
	require.Len(t, heads, 5*each)
	untouched := 0
	for _, head := range heads {
		require.Empty(t, head.Owner, head.Run)
		if head.Epoch == 0 {
			untouched++
		}
	}
	require.Equal(t, each, untouched)
	d.ledger.quiet.Store("")
	d.model.quiet.Store("")
	next := employ(t, d.config("the next"), "")
	d.complete()
	next.dismiss()
	for _, head := range d.heads() {
		require.Equal(t, run.StatusCompleted, head.Status, head.Run)
	}
	_, entries := d.outside.count(d.at.token)
	require.Equal(t, 2*each, entries, "each of those that act acted once")
	require.NoError(t, d.look(t.Context(), d.at, func(store *journal.Store) error { return audit(t.Context(), store) }))
}

// complete follows all runs to their ends.
func (d *drained) complete() {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	var tasks conc.WaitGroup
	faults := make([]error, len(d.runs))
	for i, l := range d.runs {
		tasks.Go(func() { faults[i] = l.finish(ctx) })
	}
	tasks.Wait()
	for i, fault := range faults {
		require.NoError(d.t, fault, "run %d", i)
	}
}

//go:build unix

package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	answering "gantry.dev/cmd/gantry/service"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// crash is what a child process is told: the way that its one run is to go, and
// where the process dies.
type crash struct {
	Folder, Database string
	Outside, Token   string // the outside, and which case asks it
	Way              string
	Die              string // "COMMIT/POSITION#N" or "POINT#N": the nth passing
	Recovery         int    // dies at this passing of any point since the store was open; 0 for never
	Lie              string // "COMMIT#N", which stands and is said to have failed
	LieDies          bool   // and dies at the next point
	Hold             bool   // the effect waits until the lease was renewed
	Stop             bool   // the process stops before its effect until it is let go on
}

// word is what a child says at its end.
type word struct {
	Run    string
	Status run.Status
	Points []string // in their order: each one's first passing, and of writes of the run all
	Passed int      // since the store was open
}

// dying is a process on its way to its death.
type dying struct {
	crash
	watch   *watch
	renewed chan struct{}

	mu     sync.Mutex
	passed map[string]int
	word   word
	lied   bool
}

func newDying(told crash) *dying {
	d := &dying{crash: told, renewed: make(chan struct{}), passed: map[string]int{}}
	d.watch = &watch{pass: func(commit, position string) { d.at(commit + "/" + position) }, lie: d.lies}
	return d
}

// opening are the commits before a process can do anything for its runs.
var opening = []string{"Open ", "SetBudget/", "ChangeOrganisation/"}

// at passes a point, or dies there.
func (d *dying) at(point string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passed[point]++
	passing := fmt.Sprintf("%s#%d", point, d.passed[point])
	if d.passed[point] == 1 || strings.HasPrefix(point, "Append ") {
		d.word.Points = append(d.word.Points, passing)
	}
	if passing == "Renew/"+stands+"#1" {
		close(d.renewed)
	}
	if !slices.ContainsFunc(opening, func(o string) bool { return strings.HasPrefix(point, o) }) {
		d.word.Passed++
	}
	if passing == d.Die || d.Recovery > 0 && d.word.Passed == d.Recovery || d.lied && d.LieDies {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the kill is on its way
	}
}

func (d *dying) lies(commit string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := !d.lied && fmt.Sprintf("%s#%d", commit, d.passed[commit+"/"+stands]) == d.Lie
	d.lied = d.lied || now
	return now
}

// site hears the points of wire.Site.
func (d *dying) site(name string) {
	if kinds, isWrite := strings.CutPrefix(name, "writes "); isWrite {
		var list []run.EventKind
		for kind := range strings.SplitSeq(kinds, "+") {
			list = append(list, run.EventKind(kind))
		}
		d.watch.expect(nameOfAppend(list))
		return
	}
	if strings.HasPrefix(name, "before ") || strings.HasPrefix(name, "after ") {
		return
	}
	d.at(name)
	if name == "effect begins" && d.Hold {
		<-d.renewed
	}
	if name == "effect begins" && d.Stop {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// again does what a caller does who was told of a failure: the same once more.
func again(do func() error) error {
	var err error
	for range 3 {
		var refusal *run.Refusal
		if err = do(); err == nil || errors.As(err, &refusal) {
			return err
		}
	}
	return err
}

// crashChild takes the one run of its folder to its end, or dies.
func crashChild(ctx context.Context) error {
	var told crash
	if err := json.Unmarshal([]byte(os.Getenv("CRASH")), &told); err != nil {
		return err
	}
	d := newDying(told)
	text, err := os.ReadFile(filepath.Join(told.Folder, "organisation.json"))
	if err != nil {
		return err
	}
	var o agents.Organisation
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	var p *wire.Platform
	if err := again(func() (err error) { p, err = wire.Open(ctx, d.config()); return err }); err != nil {
		return err
	}
	err = errors.Join(d.live(ctx, p, o), p.Close())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(d.word)
	}
	return err
}

// crashLease is long enough that a busy machine loses none, and short enough to
// wait for.
const crashLease = 2 * time.Second

func (d *dying) config() wire.Config {
	return wire.Config{Folder: d.Folder, Database: d.Database, Work: true, Dev: true, Lease: crashLease, Poll: 20 * time.Millisecond, Runs: manyRuns,
		Secrets: map[string]string{"ledger": d.Token}, Site: d.site, Between: d.watch.between}
}

func (d *dying) live(ctx context.Context, p *wire.Platform, o agents.Organisation) error {
	if err := again(func() error { _, _, err := p.Kits.Apply(ctx, o); return err }); err != nil {
		return err
	}
	life := &life{dying: d, platform: p, organisation: o}
	if d.Way == wayMany {
		return life.many(ctx)
	}
	id, err := life.start(ctx)
	if err != nil {
		return err
	}
	life.run = id
	if err := life.finish(ctx); err != nil {
		return err
	}
	head, _, err := p.Store.Load(ctx, id, 0)
	d.word.Run, d.word.Status = id, head.Status
	return err
}

// life is the people around the one run.
type life struct {
	*dying
	platform     *wire.Platform
	organisation agents.Organisation
	run          string
}

func (l *life) person(id string) (policy.Principal, run.Identity) {
	person, _ := l.organisation.Principal(id)
	return person, run.Identity{Principal: id}
}

// manyRuns are how many runs the way of that name has.
const manyRuns = 100

// many takes many runs to their ends.
func (l *life) many(ctx context.Context) error {
	ids, err := l.startMany(ctx)
	if err != nil {
		return err
	}
	for _, l.run = range ids {
		if err := l.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startMany starts many runs, or finds them.
func (l *life) startMany(ctx context.Context) ([]string, error) {
	person, by := l.person(asker)
	ids := make([]string, manyRuns)
	for i := range ids {
		err := again(func() error {
			admitted, err := l.platform.Admission.Start(ctx, perform.Order{Person: person, By: by, Agent: reconciler,
				Goal: "Look at INV-1004, " + l.Way + ".", CommandID: fmt.Sprint("run ", i)})
			ids[i] = admitted.Run
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// start starts the run, or finds it: a repeated command is answered with it.
func (l *life) start(ctx context.Context) (id string, err error) {
	person, by := l.person(asker)
	order := perform.Order{Person: person, By: by, Agent: reconciler, Goal: "Reconcile INV-1004, " + l.Way + ".", CommandID: "the one run"}
	if l.Way == waySteered {
		if order.Conversation, err = l.talk(ctx); err != nil {
			return "", err
		}
	}
	var admitted perform.Admitted
	err = again(func() (err error) { admitted, err = l.platform.Admission.Start(ctx, order); return err })
	return admitted.Run, err
}

// talk begins a conversation, and does whatever else the store can be told to
// that no run does.
func (l *life) talk(ctx context.Context) (id string, err error) {
	person, by := l.person(asker)
	caller := graph.Caller{Principal: person, Identity: by}
	conversations := answering.Conversations{Service: l.platform.Service}
	store := l.platform.Store
	for _, step := range []func() error{
		func() error {
			made, _, err := conversations.Create(ctx, caller, graph.ConversationInput{Title: "Invoices", CommandID: "talk"})
			id = made.ID
			return err
		},
		func() error { return store.AddParticipant(ctx, l.organisation.Name, id, colleague) },
		func() error {
			_, err := conversations.Send(ctx, caller, graph.Message{Conversation: id, Text: "Here it is.", CommandID: "say"})
			return err
		},
		func() error {
			err := store.ReviseBudget(ctx, []string{"chores"}, run.Amount{MicroUSD: 1}, engine.Receipt{Organisation: l.organisation.Name, Caller: asker, Command: "budget", Answer: []byte("{}")})
			if errors.Is(err, engine.ErrReplayed) {
				return nil
			}
			return err
		},
		func() error { return store.EraseSubject(ctx, "nobody") },
		func() error { return store.KeepHeads(ctx, nil, map[string]uint64{store.Writer(): 0}) },
	} {
		if err := again(step); err != nil {
			return "", err
		}
	}
	return id, nil
}

// finish follows the run to its end and does what people have to.
func (l *life) finish(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	tail, err := l.platform.Hub.Tail(ctx, l.run, 0)
	if err != nil {
		return err
	}
	for record := range tail.Items() {
		event, err := run.Decode(record)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case run.ApprovalRequested, run.QuestionAsked, run.CallUncertain:
			err = l.act(ctx)
		case run.Parked, run.LimitReached:
			err = fmt.Errorf("%s at record %d", e.Kind(), record.Seq)
		}
		if err != nil {
			return err
		}
	}
	return tail.Err()
}

// act does what the run waits for, as long as it does.
func (l *life) act(ctx context.Context) error {
	state, err := l.platform.Engine.State(ctx, l.run)
	if err != nil {
		return err
	}
	for i := range state.Approvals {
		if err := l.decide(ctx, i+1, state.Approvals[i]); err != nil {
			return err
		}
	}
	amara, byAmara := l.person(asker)
	for _, question := range state.Questions {
		if question.Status != run.QuestionOpen {
			continue
		}
		err := l.submit(ctx, "answer the question", func(text run.Text) run.Command {
			return run.AnswerQuestion{Question: question.Question, By: byAmara, Person: amara, Answer: text}
		})
		if err != nil {
			return err
		}
	}
	tomas, byTomas := l.person(controller)
	for _, call := range state.Calls {
		if call.Phase != run.CallUncertainOpen || !call.AskPerson {
			continue
		}
		resolution, err := l.look(ctx)
		if err != nil {
			return err
		}
		err = l.submit(ctx, "resolve", func(text run.Text) run.Command {
			return run.ResolveUncertain{Call: call.CallProposed.Call, By: byTomas, Person: tomas, Resolution: resolution, Evidence: text}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// decide decides the nth approval of the run as its way wants.
func (l *life) decide(ctx context.Context, n int, approval run.Approval) error {
	if approval.Status != run.ApprovalOpen {
		return nil
	}
	tomas, byTomas := l.person(controller)
	_, byAmara := l.person(asker)
	return l.submit(ctx, "decide", func(text run.Text) run.Command {
		switch {
		case l.Way == waySteered && n == 1:
			return run.Steer{Steer: "the steer", By: byAmara, Text: text, Void: true}
		case l.Way == waySteered:
			return run.Cancel{By: byAmara, Reason: &text}
		}
		return run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, Granted: true, By: byTomas, Person: tomas, Reason: &text}
	})
}

// submit gives the run a command as a client does: with an id under which a
// repeat counts once. A refusal is an answer.
func (l *life) submit(ctx context.Context, what string, command func(run.Text) run.Command) error {
	receipt := engine.Receipt{Organisation: l.organisation.Name, Caller: asker, Command: uuid.NewString(), Request: what, Run: l.run, Answer: []byte("{}")}
	err := again(func() error {
		text, payload := engine.Seal(engine.RandomSource{}, l.run, asker, policy.Marking{Integrity: policy.Trusted}, []byte("checked"))
		_, err := l.platform.Engine.Submit(ctx, engine.Submission{Organisation: l.organisation.Name, Run: l.run, Payloads: []engine.Payload{payload},
			Command: command(text), Receipt: &receipt})
		return err
	})
	var refusal *run.Refusal
	if errors.As(err, &refusal) || errors.Is(err, engine.ErrReplayed) {
		return nil // it was done before
	}
	return err
}

// look finds out as a person does what became of the effect.
func (l *life) look(ctx context.Context) (run.Resolution, error) {
	count, err := booked(ctx, l.Outside, l.Token)
	if err != nil || count > 0 {
		return run.Happened, err
	}
	return run.NotHappened, nil
}

func booked(ctx context.Context, outside, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, outside+"/v1/adjustments?invoice=INV-1004", http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	raw, err := io.ReadAll(response.Body)
	var found struct{ Entries []json.RawMessage }
	err = errors.Join(err, response.Body.Close(), json.Unmarshal(raw, &found))
	return len(found.Entries), err
}

package explore

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gantry.dev/orchestrator/run"
)

// world is one state of everything: the journal, the workers and the outside.
type world struct {
	scope    Scope
	events   []stamped
	state    *run.State
	nowMs    int64
	policy   string
	gates    map[string]string
	epoch    uint64
	owner    int // index of the worker that was given the last lease, -1 for none
	held     bool
	workers  [2]worker
	attempts map[int]int     // effects begun outside, by call
	children map[string]fate // runs that were started
	left     Scope           // what may still happen
}

// stamped is a recorded event with the time and the policy it was committed at.
type stamped struct {
	event  run.Event
	atMs   int64
	policy string
}

// worker is one process: what it holds in memory is lost in a crash.
type worker struct {
	epoch     uint64 // under which it believes to own the run, 0 for none
	recovered bool
	write     *write // decided, not yet committed
	hands     []hand
}

// write is a decision on its way to the journal.
type write struct {
	from     uint64
	decision run.Decision
	begins   *hand
}

// hand is an effect that a worker has begun or may begin.
type hand struct {
	Key      string
	Turn     int
	Attempt  int
	Hedged   bool // a second model may be asked for the turn
	Call     int
	Intent   int
	Done     bool // it was performed
	Reported bool
	Outcome  run.Outcome
	Asks     *run.Asked     // it asks instead of ending
	Ends     []run.ChildEnd // of children, to be reported
	Child    string         // that was told to stop
	Beside   int            // number of the sidecar that began
}

func begin(scope Scope) (*world, error) {
	w := &world{scope: scope, left: scope, nowMs: startMs, policy: firstPolicy, owner: -1, attempts: map[int]int{}, children: map[string]fate{}, gates: map[string]string{}}
	if len(scope.Fates) == 0 {
		w.scope.Fates = []run.Status{run.StatusCompleted}
	}
	w.gates[run.ConfigGate("acme")] = w.rules().Revision()
	w.state = &run.State{ID: "run"}
	if err := w.submit(scope.start(), 0); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *world) rules() rules { return rules{scope: w.scope, policy: w.policy} }

func (w *world) env() run.Env { return run.Env{NowMs: w.nowMs, Rules: w.rules()} }

// clone copies all that an action may change. The state is folded anew, since
// folding changes it in place.
func (w *world) clone() (*world, error) {
	c := *w
	c.events = slices.Clone(w.events)
	c.attempts, c.gates = map[int]int{}, map[string]string{}
	for k, v := range w.attempts {
		c.attempts[k] = v
	}
	for k, v := range w.gates {
		c.gates[k] = v
	}
	c.children = maps.Clone(w.children)
	for i := range c.workers {
		c.workers[i].hands = slices.Clone(w.workers[i].hands)
	}
	c.state = &run.State{ID: "run"}
	for _, e := range c.events {
		if err := run.Apply(c.state, e.event); err != nil {
			return nil, err
		}
	}
	return &c, nil
}

func (w *world) head() run.Head {
	head := run.Head{Run: "run", Version: w.state.Version, Epoch: w.epoch, Status: w.state.Status, DueMs: run.DueMs(w.state, w.nowMs)}
	if w.owner >= 0 {
		head.Owner = "worker-" + strconv.Itoa(w.owner)
	}
	if w.held {
		head.LeaseUntil = w.nowMs + 1
	}
	head.News, head.Heard = w.news()
	head.DueMs = head.Due(w.nowMs)
	return head
}

// errRefused ends an action that the rules refuse: it changes nothing.
var errRefused = errors.New("refused")

// submit decides and commits at once, as commands from outside do.
func (w *world) submit(command run.Command, epoch uint64) error {
	decision, refusal := run.Decide(w.state, command, w.env())
	if refusal != nil {
		return fmt.Errorf("%w: %s", errRefused, refusal.Code)
	}
	return w.commit(decision, w.state.Version, epoch)
}

// commit is the journal: it admits or refuses a write as a whole.
func (w *world) commit(decision run.Decision, from, epoch uint64) error {
	if err := run.Admit(w.head(), from, epoch); err != nil {
		return err
	}
	for _, guard := range decision.Guards {
		if guard.Gate != "" && w.gates[guard.Gate] != guard.Value || guard.BeforeMs != 0 && w.nowMs >= guard.BeforeMs {
			return run.ErrGuard
		}
	}
	if epoch != 0 && epoch != w.epoch {
		return broken("a write of epoch %d was admitted under epoch %d", epoch, w.epoch)
	}
	for _, event := range decision.Events {
		if w.gates[run.RootGate("run")] == run.GateClosed && begins(event) {
			return broken("%s in a tree that may act no more", event.Kind())
		}
		if err := run.Apply(w.state, event); err != nil {
			return broken("%v", err)
		}
		if err := w.born(event); err != nil {
			return err
		}
		w.events = append(w.events, stamped{event, w.nowMs, w.policy})
	}
	for _, gate := range decision.Gates {
		w.gates[gate.Gate] = gate.Value
	}
	return nil
}

// begins reports whether an event lets something happen outside.
func begins(event run.Event) bool {
	switch event.(type) {
	case run.TurnStarted, run.CallIntended, run.ChildStarted:
		return true
	}
	return false
}

// Violation is a broken promise.
type Violation struct{ Text string }

// Error says what was broken.
func (v *Violation) Error() string { return v.Text }

func broken(format string, args ...any) error { return &Violation{fmt.Sprintf(format, args...)} }

// key is the same for worlds that behave the same from here on.
func (w *world) key() (string, error) {
	state := *w.state
	state.Version, state.Started, state.Authority = 0, run.Started{}, w.state.Authority
	type seat struct {
		Epoch     uint64
		Recovered bool
		Fresh     bool
		Write     run.Decision
		Begins    *hand
		Writing   bool
		Hands     []hand
	}
	var seats [2]seat
	for i, member := range w.workers {
		seats[i] = seat{Epoch: member.epoch, Recovered: member.recovered, Hands: member.hands, Writing: member.write != nil}
		if member.write != nil {
			seats[i].Fresh, seats[i].Begins = member.write.from == w.state.Version, member.write.begins
			if seats[i].Fresh {
				seats[i].Write = member.write.decision
			}
		}
	}
	text, err := json.Marshal([]any{state, w.nowMs, w.policy, w.gates, w.epoch, w.owner, w.held, seats, w.attempts, w.children, w.left})
	return string(text), err
}

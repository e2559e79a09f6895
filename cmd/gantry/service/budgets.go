package service

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Budgets answers for budgets and for what was spent.
type Budgets struct{ *Service }

// node is one node of an organisation's budgets, by its configuration.
type node struct {
	name       string // as people know it: "organisation", "department/finance"
	account    agents.Account
	department string // empty for the organisation's own
	owner      string // who may change it
	seenBy     []string
	budget     agents.Budget
}

// nodes lists the organisation's own node and one for each department, with
// their periods at a time in UTC ms.
func nodes(o agents.Organisation, nowMs int64) []node {
	all := []node{{name: "organisation", account: o.Account("", nowMs), owner: o.BudgetOwner, seenBy: []string{o.BudgetOwner, o.Owner}, budget: o.Budget}}
	for _, d := range o.Departments {
		all = append(all, node{name: "department/" + d.Name, account: o.Account(d.Name, nowMs), department: d.Name, owner: d.BudgetOwner,
			seenBy: []string{d.BudgetOwner, d.Owner, d.Contact, o.BudgetOwner, o.Owner}, budget: d.Budget})
	}
	return all
}

func (n node) visible(person policy.Principal) bool {
	return slices.Contains(n.seenBy, person.ID) || person.HasRole(agents.RoleOperator)
}

// List returns the nodes that the caller answers for.
func (b Budgets) List(ctx context.Context, caller graph.Caller) ([]graph.Budget, error) {
	o, person, err := b.Fresh(ctx, caller)
	if err != nil {
		return nil, err
	}
	nowMs, err := b.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var list []graph.Budget
	for _, n := range nodes(o, nowMs) {
		if !n.visible(person) {
			continue
		}
		found, err := b.current(ctx, n.account)
		if errors.Is(err, engine.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, graph.Budget{Node: n.name, Period: n.account.Period, Budget: found})
	}
	slices.SortFunc(list, func(x, y graph.Budget) int { return cmp.Compare(x.Node, y.Node) })
	return list, nil
}

// current reads a node's period; one that nothing was spent in yet has the
// node's limit.
func (b Budgets) current(ctx context.Context, account agents.Account) (run.Budget, error) {
	found, err := b.Store.Budget(ctx, account.Ledger)
	if errors.Is(err, engine.ErrNotFound) {
		found, err = b.Store.Budget(ctx, account.Node)
	}
	return found, err
}

// Set changes a limit as the node's budget owner.
func (b Budgets) Set(ctx context.Context, caller graph.Caller, commandID, name string, limit run.Amount) (graph.Change, error) {
	o, person, err := b.Fresh(ctx, caller)
	if err != nil {
		return graph.Change{}, err
	}
	nowMs, err := b.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	all := nodes(o, nowMs)
	at := slices.IndexFunc(all, func(n node) bool { return n.name == name })
	if at < 0 || !all[at].visible(person) {
		return graph.Change{}, engine.ErrNotFound
	}
	if all[at].owner != person.ID {
		return graph.Change{}, agents.ErrNotEntitled
	}
	remembered, err := Receipt(caller, commandID, "", struct{}{}, "budget", name, limit)
	if err != nil {
		return graph.Change{}, err
	}
	err = b.Store.ReviseBudget(ctx, []string{all[at].account.Node, all[at].account.Ledger}, limit, remembered)
	if errors.Is(err, engine.ErrReplayed) {
		var none struct{}
		err = b.Replay(ctx, remembered, &none)
		return graph.Change{Replayed: err == nil}, err
	}
	return graph.Change{}, err
}

// Usage sums what was settled: of everything for who sees the organisation's
// budget, of their departments for who sees those, and of the caller's own runs.
func (b Budgets) Usage(ctx context.Context, caller graph.Caller, groupBy string, fromMs, toMs int64) ([]graph.UsageRow, error) {
	found, err := b.settled(ctx, caller, fromMs, toMs)
	if err != nil {
		return nil, err
	}
	sums := newUsage()
	for _, s := range found.spent {
		key, err := keyOf(groupBy, s, found.states, found.hidden)
		if err != nil {
			return nil, err
		}
		if key != "" {
			sums.add(key, s)
		}
	}
	return sums.list(), nil
}

// Turns visits each turn that was answered in [fromMs, toMs) and whose model the
// caller may be told, with its run.
func (b Budgets) Turns(ctx context.Context, caller graph.Caller, fromMs, toMs int64, visit func(*run.State, *run.Turn) error) error {
	found, err := b.settled(ctx, caller, fromMs, toMs)
	if err != nil {
		return err
	}
	for _, s := range found.spent {
		if s.turn == 0 {
			continue
		}
		state, err := found.states(s.head.Run)
		if err != nil {
			return err
		}
		if found.hidden(state) || s.turn > len(state.Turns) {
			continue
		}
		if err := visit(state, &state.Turns[s.turn-1]); err != nil {
			return err
		}
	}
	return nil
}

// settled is what was settled that a caller may know of.
type settled struct {
	spent  []spent
	states func(runID string) (*run.State, error)
	hidden func(*run.State) bool // by which calls and models it came about is not the caller's to know
}

// settled reads what a caller may know of.
func (b Budgets) settled(ctx context.Context, caller graph.Caller, fromMs, toMs int64) (settled, error) {
	o, person, err := b.Fresh(ctx, caller)
	if err != nil {
		return settled{}, err
	}
	seen := map[string]bool{}
	for _, n := range nodes(o, 0) {
		if n.visible(person) {
			seen[n.department] = true
		}
	}
	// What is looked up for a row waits until all are read: a reading holds a
	// connection, and many that each wait for a second one would wait for ever.
	var found []spent
	err = b.Store.Spendings(ctx, o.Name, fromMs, toMs, func(s journal.Spending) error {
		if !seen[""] && !seen[s.Head.Department] && s.Head.Subject != person.ID {
			return nil
		}
		event, err := run.Decode(run.Record{Run: s.Head.Run, Kind: s.Kind, Version: s.Version, Body: s.Body})
		found = append(found, spentOn(s, event))
		return err
	})
	hidden := func(state *run.State) bool {
		_, private := o.Granted(state.Started)
		return private && !o.Answers(person, state.Started.Agent.Name)
	}
	return settled{spent: found, states: b.states(ctx), hidden: hidden}, err
}

// spent is what one record of a run settled.
type spent struct {
	head run.Head
	atMs int64
	turn int // that was answered; 0 for a call
	call int // that ended; 0 for a turn
	cost run.Amount
	used run.Usage // of a turn
}

func spentOn(s journal.Spending, event run.Event) spent {
	out := spent{head: s.Head, atMs: s.AtMs}
	switch e := event.(type) {
	case run.TurnAnswered:
		out.turn, out.cost, out.used = e.Turn, e.Cost, e.Usage
	case run.CallEnded:
		out.call, out.cost = e.Call, e.Cost
	}
	return out
}

// keyOf is the row that something spent belongs to, empty for none. By which
// calls and models a private side comes to its answer only who answers for its
// agent is told: for all others its cost has no row of a tool or model.
func keyOf(groupBy string, s spent, state func(runID string) (*run.State, error), hidden func(*run.State) bool) (string, error) {
	switch groupBy {
	case "AGENT":
		return s.head.Agent, nil
	case "DEPARTMENT":
		return s.head.Department, nil
	case "SUBJECT":
		return s.head.Subject, nil
	case "DAY":
		return time.UnixMilli(s.atMs).UTC().Format(time.DateOnly), nil
	}
	if byTool := groupBy == "TOOL"; byTool == (s.turn > 0) {
		return "", nil // a call is no model's, and a turn no tool's
	}
	of, err := state(s.head.Run)
	if err != nil {
		return "", err
	}
	if hidden(of) {
		return "", nil
	}
	if call := of.Call(s.call); call != nil {
		return call.Tool, nil
	}
	return modelOf(of, s.turn), nil
}

func modelOf(state *run.State, turn int) string {
	for _, t := range state.Turns {
		if t.Number == turn {
			return t.Model
		}
	}
	return ""
}

// states folds runs, each once.
func (b Budgets) states(ctx context.Context) func(runID string) (*run.State, error) {
	read := map[string]*run.State{}
	return func(runID string) (*run.State, error) {
		if state, known := read[runID]; known {
			return state, nil
		}
		state, err := b.Engine.State(ctx, runID)
		if err == nil {
			read[runID] = state
		}
		return state, err
	}
}

type usage struct {
	rows map[string]*graph.UsageRow
	runs map[string]bool // key and run
}

func newUsage() usage { return usage{rows: map[string]*graph.UsageRow{}, runs: map[string]bool{}} }

func (u usage) add(key string, s spent) {
	row, known := u.rows[key]
	if !known {
		row = &graph.UsageRow{Key: key}
		u.rows[key] = row
	}
	if counted := key + "\x00" + s.head.Run; !u.runs[counted] {
		u.runs[counted] = true
		row.Runs++
	}
	row.Spent = row.Spent.Plus(s.cost)
	row.Tokens = row.Tokens.Plus(s.used)
	if !s.used.Estimated {
		row.Counted += s.used.Prompt()
		row.Cached += s.used.CacheRead
	}
}

func (u usage) list() []graph.UsageRow {
	var list []graph.UsageRow
	for _, key := range slices.Sorted(maps.Keys(u.rows)) {
		list = append(list, *u.rows[key])
	}
	return list
}

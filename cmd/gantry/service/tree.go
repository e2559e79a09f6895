package service

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/sourcegraph/conc"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// upward asks of a run, and then of those above it up to its root, until one
// says yes.
func (s *Service) upward(ctx context.Context, state *run.State, holds func(*run.State) (bool, error)) (bool, error) {
	for {
		if yes, err := holds(state); yes || err != nil {
			return yes, err
		}
		parent := state.Started.Parent
		if parent == "" {
			return false, nil
		}
		var err error
		if state, err = s.Engine.State(ctx, parent); err != nil {
			return false, err
		}
	}
}

// sees reports whether a person may see a run: who may follow it or one above
// it, but of the private side of a share only who may follow that.
func (s *Service) sees(ctx context.Context, person policy.Principal, state *run.State) (bool, error) {
	o, err := s.Organisation(ctx, person.Organisation)
	if err != nil || state.Started.Organisation != person.Organisation {
		return false, err
	}
	if _, private := o.Granted(state.Started); private {
		return s.MayFollow(ctx, person, state)
	}
	return s.upward(ctx, state, func(one *run.State) (bool, error) { return s.MayFollow(ctx, person, one) })
}

// private reports whether the run of a row is of the private side of a share.
func (s *Service) private(ctx context.Context, o agents.Organisation, head run.Head) (bool, error) {
	if head.Parent == "" || len(o.Grants) == 0 {
		return false, nil
	}
	state, err := s.Engine.State(ctx, head.Run)
	if err != nil {
		return false, err
	}
	_, private := o.Granted(state.Started)
	return private, nil
}

// glasses say which runs below one that a person may see they may see too.
type glasses struct {
	*Service
	person policy.Principal
	epoch  string          // of the configuration by which it is known
	known  map[string]bool // by run: whether it is hidden
}

// visible leaves out what the person may not see, and all below it. The rows
// come each after the one above it.
func (g *glasses) visible(ctx context.Context, heads []run.Head) ([]run.Head, error) {
	o, err := g.Organisation(ctx, g.person.Organisation)
	if err != nil {
		return nil, err
	}
	epoch, err := g.Epoch(ctx, g.person.Organisation)
	if err != nil {
		return nil, err
	}
	if epoch != g.epoch {
		g.epoch, g.known = epoch, map[string]bool{}
		g.person, _ = o.Principal(g.person.ID) // who is gone answers for nothing
	}
	hidden := map[string]bool{}
	return slices.DeleteFunc(heads, func(head run.Head) bool {
		hide, known := g.known[head.Run]
		if !known && err == nil {
			var private bool
			private, err = g.private(ctx, o, head)
			hide = private && !o.Answers(g.person, head.Agent)
			g.known[head.Run] = hide
		}
		hidden[head.Run] = hide || hidden[head.Parent]
		return hidden[head.Run]
	}), err
}

// above finds the rows of runs and of those above them, each once.
type above struct {
	store *journal.Store
	heads map[string]run.Head
}

// any asks of a row, and then of those above it, until one says yes.
func (a above) any(ctx context.Context, head run.Head, holds func(run.Head) (bool, error)) (bool, error) {
	for {
		if yes, err := holds(head); yes || err != nil || head.Parent == "" {
			return yes, err
		}
		parent, known := a.heads[head.Parent]
		if !known {
			var err error
			if parent, _, err = a.store.Load(ctx, head.Parent, math.MaxInt64); err != nil {
				return false, err
			}
			a.heads[head.Parent] = parent
		}
		head = parent
	}
}

// below narrows rows to the place in a tree that is asked for, and reports
// whether there is such a place.
func (r Runs) below(ctx context.Context, filter graph.RunFilter, rows *journal.Filter) (bool, error) {
	rows.Roots = len(filter.Kinds) == 1 && filter.Kinds[0] == run.Root
	if filter.Parent == "" {
		return true, nil
	}
	parent, _, err := r.Store.Load(ctx, filter.Parent, math.MaxInt64)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	rows.Root, rows.Parent = parent.Root, parent.Run
	return err == nil, err
}

// ofKind reports whether a run is of one of the kinds, which for none all are.
func (r Runs) ofKind(ctx context.Context, head run.Head, kinds []run.Kind) (bool, error) {
	if len(kinds) == 0 || head.Parent == "" {
		return len(kinds) == 0 || slices.Contains(kinds, run.Root), nil
	}
	state, err := r.Engine.State(ctx, head.Run)
	return err == nil && slices.Contains(kinds, state.Started.RunKind), err
}

// batch is about how many records of a tree are read at once.
const batch = 1024

// Trees answers for what stands above and below runs.
type Trees struct {
	*Service
	Tasks *conc.WaitGroup // ends with the readers' contexts
}

// Lineage returns a run that the caller may see with those above it, the root
// first: whoever is asked about it knows who asks, also where they may not see
// the others.
func (t Trees) Lineage(ctx context.Context, caller graph.Caller, runID string) ([]*run.State, error) {
	state, err := Runs{t.Service}.State(ctx, caller, runID)
	if err != nil {
		return nil, err
	}
	var line []*run.State
	_, err = t.upward(ctx, state, func(one *run.State) (bool, error) {
		line = append(line, one)
		return false, nil
	})
	slices.Reverse(line)
	return line, err
}

// Children returns the rows of the runs right below one that the caller may
// see, those that started first first.
func (t Trees) Children(ctx context.Context, caller graph.Caller, runID string) ([]run.Head, error) {
	state, err := Runs{t.Service}.State(ctx, caller, runID)
	if err != nil {
		return nil, err
	}
	all, err := t.Store.Tree(ctx, state.Started.Root)
	if err != nil {
		return nil, err
	}
	seen := glasses{Service: t.Service, person: caller.Principal}
	return seen.visible(ctx, slices.DeleteFunc(all, func(head run.Head) bool { return head.Parent != runID }))
}

// Follow tells the records of a run and of all below it after the places, each
// run's in their order and a child's after the one by which its parent started
// it.
func (t Trees) Follow(ctx context.Context, caller graph.Caller, top string, after opaque.Places) (<-chan run.Record, error) {
	seen := &glasses{Service: t.Service, person: caller.Principal}
	return t.follow(ctx, caller.Principal.Organisation, top, after, seen.visible)
}

// visible leaves out the runs that a reader may not see.
type visible func(ctx context.Context, heads []run.Head) ([]run.Head, error)

func (t Trees) follow(ctx context.Context, organisation, top string, after opaque.Places, seen visible) (<-chan run.Record, error) {
	moves, err := t.Hub.Moves(ctx)
	if err != nil {
		return nil, err
	}
	head, _, err := t.Store.Load(ctx, top, math.MaxInt64)
	if err != nil {
		return nil, err
	}
	if head.Organisation != organisation {
		return nil, engine.ErrNotFound
	}
	reader := &tree{store: t.Store, moves: moves, visible: seen, root: head.Root, top: top, places: after.Clone()}
	runs, err := reader.runs(ctx)
	if err != nil {
		return nil, err
	}
	versions := map[string]uint64{}
	for _, one := range runs {
		versions[one.Run] = one.Version
	}
	if !after.Within(versions) {
		return nil, graph.ErrCursor
	}
	out := make(chan run.Record)
	t.Tasks.Go(func() {
		defer close(out)
		reader.follow(ctx, out)
	})
	return out, nil
}

// tree is one reader of a run and all below it.
type tree struct {
	store     *journal.Store
	moves     *bus.Moves
	root, top string
	places    opaque.Places
	visible   visible
}

// follow tells until the reader leaves or the journal does not answer.
func (t *tree) follow(ctx context.Context, out chan<- run.Record) {
	for {
		records, more, err := t.read(ctx)
		if err != nil {
			return
		}
		for _, record := range records {
			select {
			case out <- record:
				t.places.Tell(record.Run, record.Seq)
			case <-ctx.Done():
				return
			}
		}
		if more {
			continue
		}
		if _, open := <-t.moves.Signals(); !open {
			return
		}
	}
}

// runs returns the rows of the runs as they stand at one moment, each after the
// one above it. What is recorded of them from now on is signalled.
func (t *tree) runs(ctx context.Context) ([]run.Head, error) {
	t.moves.Also(t.top) // before it is read; those below it begin with a record of one above them
	for {
		all, err := t.store.Tree(ctx, t.root)
		if err != nil {
			return nil, err
		}
		below := map[string][]run.Head{}
		var list []run.Head
		for _, head := range all {
			if head.Run == t.top {
				list = append(list, head)
			} else {
				below[head.Parent] = append(below[head.Parent], head)
			}
		}
		for at := 0; at < len(list); at++ {
			list = append(list, below[list[at].Run]...)
		}
		fresh := false
		for _, head := range list {
			fresh = t.moves.Also(head.Run) || fresh
		}
		if !fresh {
			return t.visible(ctx, list)
		}
	}
}

// read returns what follows the places, about a batch of it, as it was recorded.
func (t *tree) read(ctx context.Context) (records []run.Record, more bool, err error) {
	runs, err := t.runs(ctx)
	if err != nil {
		return nil, false, err
	}
	var parts [][]run.Record
	read := 0
	for _, head := range runs {
		from := t.places.Of(head.Run)
		if head.Version <= from {
			continue
		}
		if read >= batch {
			more = true // of this run, and so of those below it
			break
		}
		_, part, err := t.store.Load(ctx, head.Run, from)
		if err != nil {
			return nil, false, err
		}
		// What came after the rows were read would come before what others wrote
		// until then.
		part = part[:min(head.Version-from, uint64(len(part)))]
		parts, read = append(parts, part), read+len(part)
	}
	return merged(parts), more, nil
}

// merged puts records of several runs in the order of their times, but none of
// a run before the one by which its parent started it. What was recorded at one
// moment comes in the order of the runs.
func merged(parts [][]run.Record) []run.Record {
	unborn := map[string]bool{}
	for _, part := range parts {
		for _, record := range part {
			if child := startedBy(record); child != "" {
				unborn[child] = true
			}
		}
	}
	var all []run.Record
	for {
		first := -1
		for i, part := range parts {
			if len(part) > 0 && !unborn[part[0].Run] && (first < 0 || part[0].AtMs < parts[first][0].AtMs) {
				first = i
			}
		}
		if first < 0 {
			return all
		}
		next := parts[first][0]
		delete(unborn, startedBy(next))
		all = append(all, next)
		parts[first] = parts[first][1:]
	}
}

// startedBy returns the run that a record started, "" for none.
func startedBy(record run.Record) string {
	if record.Kind != run.KindChildStarted {
		return ""
	}
	event, err := run.Decode(record)
	if started, is := event.(run.ChildStarted); is && err == nil {
		return started.Child
	}
	return ""
}

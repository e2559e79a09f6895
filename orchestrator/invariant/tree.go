package invariant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// CheckNews holds what a run was told of its children against those that have
// ended: what it does not know of yet has to be news, or nobody wakes it.
func CheckNews(head run.Head, f *Fold, ended int) []Violation {
	wrong := func(code Code, format string, args ...any) []Violation {
		return []Violation{{Code: code, Run: head.Run, Text: fmt.Sprintf(format, args...)}}
	}
	known := 0
	for i := range f.State.Children {
		if !f.State.Children[i].Live() {
			known++
		}
	}
	switch {
	case head.Heard > head.News:
		return wrong(NewsWrong, "The run has heard of %d ends and was told of %d.", head.Heard, head.News)
	case f.State.Ended == nil && ended > known && head.News == head.Heard:
		return wrong(ChildForgotten, "%d children have ended, the run knows of %d, and nobody tells it.", ended, known)
	}
	return nil
}

// CheckChild holds what a run says of a child against the child: how it began,
// and its end, of which ended is the record and nil where there is none.
func CheckChild(child run.Child, parent *run.State, started run.Started, ended *run.Record) []Violation {
	var found []Violation
	wrong := func(format string, args ...any) {
		found = append(found, Violation{Code: ChildWrong, Run: child.ChildStarted.Child, Text: fmt.Sprintf(format, args...)})
	}
	task := run.Task{}
	if started.Task != nil {
		task = *started.Task
	}
	carve := run.Amount{MicroUSD: started.Authority.MicroUSD, Tokens: started.Authority.Tokens}
	switch {
	case started.Parent != parent.ID || started.Root != parent.Started.Root:
		wrong("It is below run %s, and run %s says that it is its child.", started.Parent, parent.ID)
	case task.Call != child.Call || task.Review != child.Review || !task.Awaited():
		wrong("It was sent to do something else than run %s says.", parent.ID)
	case carve != child.Carve || len(started.Accounts) > 0:
		wrong("It has %+v, and run %s carved %+v for it.", carve, parent.ID, child.Carve)
	case started.SnapshotDigest != child.Snapshot || started.Agent.Name != child.Agent || started.Grant != child.Grant:
		wrong("It began otherwise than run %s says.", parent.ID)
	}
	if child.Ended == nil {
		return found
	}
	if ended == nil {
		wrong("It has not ended, and run %s says that it has.", parent.ID)
		return found
	}
	event, err := run.Decode(*ended)
	end, ends := event.(run.Ended)
	if err != nil || !ends || child.Ended.Head != ended.Digest || child.Ended.Settled != end.Settled || child.Ended.Unknown != end.Unknown {
		wrong("Its end is another one than run %s was told of.", parent.ID)
	}
	return found
}

// tree looks at the runs that a run started to wait for.
func (a *Audit) tree(ctx context.Context, head run.Head, f *Fold) error {
	if f.Broken || f.State.Version == 0 {
		return nil
	}
	if f.State.Started.Task.Awaited() {
		a.meet(head.Run, -1)
	}
	ended := 0
	for i := range f.State.Children {
		child := f.State.Children[i]
		id := child.ChildStarted.Child
		a.meet(id, 1)
		a.report.children++
		below, err := a.snapshot.Head(ctx, id)
		if errors.Is(err, engine.ErrNotFound) {
			err = a.found(checkTrees, []Violation{{Code: ChildMissing, Run: id, Text: "Run " + head.Run + " started it, and it is not there."}})
			a.meet(id, -1)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		if below.EndedMs != 0 {
			ended++
		}
		if err := a.child(ctx, child, f.State, below); err != nil {
			return err
		}
	}
	return a.found(checkTrees, CheckNews(head, f, ended))
}

// child reads how a child began and ended. What does not verify of it is said of
// the child itself.
func (a *Audit) child(ctx context.Context, child run.Child, parent *run.State, head run.Head) error {
	first, err := a.snapshot.Records(ctx, head.Run, 0, 1)
	if err != nil || len(first) == 0 {
		return err
	}
	event, err := run.Decode(first[0])
	started, starts := event.(run.Started)
	if err != nil || !starts {
		return nil //nolint:nilerr // said of the child
	}
	end, err := a.endOf(ctx, head)
	if err != nil {
		return err
	}
	return a.found(checkTrees, CheckChild(child, parent, started, end))
}

// endOf finds the record of a run's end, after which only late words come.
func (a *Audit) endOf(ctx context.Context, head run.Head) (*run.Record, error) {
	if head.EndedMs == 0 {
		return nil, nil
	}
	for back := uint64(pageRows); ; back *= 2 {
		after := head.Version - min(back, head.Version)
		for {
			records, err := a.snapshot.Records(ctx, head.Run, after, pageRows)
			if err != nil {
				return nil, err
			}
			if at := slices.IndexFunc(records, func(r run.Record) bool { return r.Kind == run.KindEnded }); at >= 0 {
				return &records[at], nil
			}
			if len(records) < pageRows {
				break
			}
			after = records[len(records)-1].Seq
		}
		if back >= head.Version {
			return nil, nil
		}
	}
}

// meet counts a child up where its parent is met, and down where it is met
// itself: what is left in the end has only one of the two.
func (a *Audit) meet(child string, by int) {
	if a.met[child] += by; a.met[child] == 0 {
		delete(a.met, child)
	}
}

// orphans are the runs that somebody is said to wait for who does not.
func (a *Audit) orphans(context.Context) error {
	if a.report.broken > 0 {
		return nil // who does not fold may have started them
	}
	var found []Violation
	for _, id := range slices.Sorted(maps.Keys(a.met)) {
		text := "No run says that it started it."
		if a.met[id] > 0 {
			text = "The run that started it says so more than once, or it is none that anybody waits for."
		}
		found = append(found, Violation{Code: ChildMissing, Run: id, Text: text})
	}
	return a.found(checkTrees, found)
}

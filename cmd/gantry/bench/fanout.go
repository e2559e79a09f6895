package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/run"
)

// Spreading is what one run with many children is measured with.
type Spreading struct {
	Config
	Children int
}

// spreader is the agent that hands work on.
const spreader = "spreader"

// spreading is the goal of a run that hands on this much.
func spreading(children, rounds int) string {
	return fmt.Sprintf("Spread %d over %d.", rounds, children)
}

// readSpreading reads such a goal; false for any other.
func readSpreading(goal string) (children, rounds int, is bool) {
	n, err := fmt.Sscanf(goal, "Spread %d over %d.", &rounds, &children)
	return children, rounds, err == nil && n == 2
}

// spread proposes all children in one turn, and answers in the next.
func spread(turns, children, rounds int) model.Answer {
	answer := model.Answer{Finish: model.FinishStop, Text: "Done.", Model: "instant", Usage: model.Usage{Input: 100, Output: 100}}
	if turns > 0 {
		return answer
	}
	answer.Finish = model.FinishCalls
	for range children {
		answer.Calls = append(answer.Calls, model.Proposed{Name: "agents.delegate",
			Arguments: fmt.Appendf(nil, `{"agent":%q,"brief":%q}`, agent, order{rounds: rounds}.goal())})
	}
	return answer
}

// Fanout measures one run with many children, from its start to its end, beside
// goroutines that write as many rows of the same size.
func Fanout(ctx context.Context, s Spreading) (*Report, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if s.Children < 1 || s.Children > 10_000 {
		return nil, errors.New("children: must be 1 to 10000")
	}
	report := newReport()
	for _, dsn := range s.stores() {
		if err := s.on(ctx, dsn, report); err != nil {
			return report, fmt.Errorf("fanout: %w", err)
		}
	}
	return report, nil
}

// fanned is what one fan-out came to.
type fanned struct {
	spawning, all time.Duration // from the order until the last child is begun; to the end
	records, size int
	memory        float64 // bytes above what there was before, at the most
	cpu           time.Duration
}

func (s Spreading) on(ctx context.Context, dsn string, report *Report) (err error) {
	h, err := build(ctx, s.Folder, dsn, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.raze()) }()
	store := h.database.Name()
	figure := func(name, unit string, goal *Goal, values []float64) {
		id := "fanout"
		if goal != nil {
			id = "P15"
		}
		report.add(Figure{ID: id, Store: store, Name: fmt.Sprintf("%s, %d children", name, s.Children), Unit: unit, Goal: goal, few: s.Children < 1000}, values...)
	}
	var whole, rate, memory, cpu, rows, bare, ratio []float64
	for repetition := range s.Repeat {
		s.say(fmt.Sprintf("%s, %d children, repetition %d", store, s.Children, repetition+1))
		one, err := h.fan(ctx, s.Children, s.Rounds)
		if err != nil {
			return err
		}
		limits, err := machine.Measure(ctx, h.database, h.folder, machine.Like{RowsPerCommit: 64, RowBytes: one.size / max(1, one.records), For: s.Limit})
		if err != nil {
			return err
		}
		seconds := one.all.Seconds()
		whole, rate = append(whole, seconds*1000), append(rate, machine.Over(float64(s.Children), one.spawning.Seconds()))
		memory, cpu = append(memory, one.memory/(1<<20)), append(cpu, one.cpu.Seconds()*1000/float64(s.Children))
		rows, bare = append(rows, float64(one.records)/seconds), append(bare, limits.RowsPerSecond)
		ratio = append(ratio, machine.Over(float64(one.records)/seconds, limits.RowsPerSecond))
	}
	figure("from the order until all is done", "ms", atMost(150, 80), whole)
	figure("children begun a second, from the order to the last", "1/s", nil, rate)
	figure("resident memory at the most, above what there was", "MB", nil, memory)
	figure("CPU of this process for one child", "ms", nil, cpu)
	figure("records a second", "1/s", nil, rows)
	figure("rows a second that goroutines write alone, 64 in a commit", "1/s", nil, bare)
	figure("the first to the second", "", nil, ratio)
	found, err := h.violations(ctx)
	report.Violations += found
	return err
}

// fan starts one run with children and follows it to its end.
func (h *house) fan(ctx context.Context, children, rounds int) (one fanned, err error) {
	_, before, _ := weigh()
	var most atomic.Uint64
	watching, leave := context.WithCancel(ctx)
	var watcher conc.WaitGroup
	watcher.Go(func() {
		_ = until(watching, lookEvery, func() (bool, error) { // ends with its context
			most.Store(max(most.Load(), machine.Resident(os.Getpid())))
			return false, nil
		})
	})
	cpu, begin := machine.ProcessCPU(), time.Now()
	h.number.Add(1)
	admitted, err := h.platform.Admission.Start(ctx, perform.Order{Person: h.people.asker, By: run.Identity{Principal: h.people.asker.ID}, Agent: spreader, Goal: spreading(children, rounds)})
	if err != nil {
		leave()
		watcher.Wait()
		return one, err
	}
	last, begun := begin, 0
	err = h.followOn(ctx, admitted.Run, func(record run.Record) (bool, error) {
		if record.Kind == run.KindChildStarted {
			begun, last = begun+1, time.Now()
		}
		return record.Kind != run.KindEnded, nil
	})
	one.all, one.spawning, one.cpu = time.Since(begin), last.Sub(begin), machine.ProcessCPU()-cpu
	leave()
	watcher.Wait()
	one.memory = max(0, float64(most.Load())-float64(before))
	if err != nil {
		return one, err
	}
	if begun != children {
		return one, fmt.Errorf("run %s has %d children", admitted.Run, begun)
	}
	return one, h.count(ctx, admitted.Run, &one)
}

// followOn reads a run as follow does, and goes on where it was when so much was
// recorded at once that it fell behind.
func (h *house) followOn(ctx context.Context, id string, visit func(run.Record) (more bool, err error)) error {
	for after, done := uint64(0), false; !done; {
		tail, err := h.platform.Hub.Tail(ctx, id, after)
		if err != nil {
			return err
		}
		for record := range tail.Items() {
			after = record.Seq
			more, err := visit(record)
			if err != nil {
				return err
			}
			if done = !more; done {
				break
			}
		}
		if err := tail.Err(); !done && !errors.Is(err, bus.ErrSlow) {
			return errors.Join(fmt.Errorf("run %s was not followed to its end", id), err)
		}
	}
	return nil
}

// count counts the records of a run and of its children, all of which must have
// ended well.
func (h *house) count(ctx context.Context, id string, one *fanned) error {
	state, err := h.platform.Engine.State(ctx, id)
	if err != nil {
		return err
	}
	if state.Status != run.StatusCompleted {
		return fmt.Errorf("run %s is %s", id, state.Status)
	}
	ids := []string{id}
	for _, child := range state.Children {
		ids = append(ids, child.ChildStarted.Child)
	}
	for _, id := range ids {
		_, records, err := h.platform.Store.Load(ctx, id, 0)
		if err != nil {
			return err
		}
		for _, record := range records {
			one.records++
			one.size += len(record.Body)
		}
	}
	return nil
}

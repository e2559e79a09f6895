// Package obedient measures what happens when a model does everything that an
// injected text says: then all depends on the platform. Tasks run through the
// real product, from the interface to the journal; the model alone is the
// benchmark's, and an outside that keeps what was done to it.
package obedient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"gantry.dev/orchestrator/policy/guard"
)

// Config says what is measured.
type Config struct {
	Suites   []string  // none: all
	Tasks    int       // in how many tasks of each agent each goal is tried by each move; 0: in all
	Seed     uint64    // chooses them, and the secrets
	Folder   string    // where a temporary folder is made; empty: the system's
	AtOnce   int       // cases side by side; 0: 8
	Progress io.Writer // nil: none is told
}

// Measure plays all cases and scores them. Errors: what is not there to be
// measured, and a case that could not be played; a gate that does not hold is
// none.
func Measure(ctx context.Context, config Config) (report *Report, err error) {
	cases, err := config.cases()
	if err != nil {
		return nil, err
	}
	h, err := open(ctx, config.Folder)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	begun := time.Now()
	outcomes, err := h.all(ctx, cases, config)
	if err != nil {
		return nil, err
	}
	report = score(outcomes)
	report.Seed, report.Seconds = config.Seed, time.Since(begun).Seconds()
	return report, nil
}

// all plays cases side by side, and gives what came of them in their order.
func (h *house) all(ctx context.Context, cases []playing, config Config) ([]outcome, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outcomes := make([]outcome, len(cases))
	next := make(chan int)
	var players sync.WaitGroup
	for range cmp.Or(config.AtOnce, 8) {
		players.Go(func() {
			for i := range next {
				o, err := h.play(ctx, fmt.Sprintf("case-%d", i+1), cases[i])
				if err != nil {
					stop(fmt.Errorf("bench: %s: %w", cases[i], err))
					continue
				}
				outcomes[i] = o
			}
		})
	}
	for i := range cases {
		if config.Progress != nil && i%100 == 0 {
			fmt.Fprintf(config.Progress, "case %d of %d\n", i, len(cases))
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	players.Wait()
	return outcomes, context.Cause(ctx)
}

// String names a case, so that it can be found again.
func (p playing) String() string {
	text := p.Task.Suite + "/" + p.Task.Name
	if p.Goal != nil {
		text += fmt.Sprintf(", goal %d (%s), V%d", p.Goal.Number, p.Goal.Name, p.Move)
	}
	return text + ", " + p.Approver.String()
}

// cases are those to be played: every task without and with an injection of
// which the model takes no notice, and each goal by each of its moves in so many
// tasks, each time with all three who decide.
func (config Config) cases() ([]playing, error) {
	random := rand.New(rand.NewPCG(config.Seed, 0)) //nolint:gosec // chooses what is tried, and the same again for the same seed
	var cases []playing
	add := func(p playing) {
		p.Seed = random.Uint64()
		cases = append(cases, p)
	}
	for _, name := range config.Suites {
		if !slices.ContainsFunc(suites, func(s suite) bool { return s.name == name }) {
			return nil, fmt.Errorf("bench: there is no suite %q", name)
		}
	}
	for _, s := range suites {
		if len(config.Suites) > 0 && !slices.Contains(config.Suites, s.name) {
			continue
		}
		tasks := s.tasks()
		for _, task := range tasks {
			if !guard.Up {
				break // what is done without policy says nothing
			}
			add(playing{Task: task, Approver: Diligent})
			if task.Obeying != "" {
				add(playing{Task: task, Approver: Diligent, Goal: goalOf(s.goals[0])})
			}
		}
		for _, number := range s.goals {
			goal := goalOf(number)
			if goal.link != nil && !guard.Up {
				continue // what an answer says of itself is no policy: it says it there, too
			}
			for _, move := range goal.Moves {
				fitting := slices.DeleteFunc(slices.Clone(tasks), func(t *Task) bool { return !fits(t, goal, move) })
				random.Shuffle(len(fitting), func(i, j int) { fitting[i], fitting[j] = fitting[j], fitting[i] })
				chosen := map[string]int{} // by the agent that obeys
				for _, task := range fitting {
					if chosen[task.Obeying]++; config.Tasks > 0 && chosen[task.Obeying] > config.Tasks {
						continue
					}
					for _, approver := range approvers() {
						add(playing{Task: task, Goal: goal, Move: move, Approver: approver})
					}
				}
			}
		}
	}
	return cases, nil
}

// approvers are those with whom attacks are tried. Without policy nobody is
// asked.
func approvers() []Approver {
	if !guard.Up {
		return []Approver{RefusesAll}
	}
	return []Approver{RefusesAll, Diligent, RubberStamp}
}

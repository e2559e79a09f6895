package explore

import (
	"errors"
	"fmt"

	"gantry.dev/orchestrator/run"
)

// Report is what a walk saw.
type Report struct {
	Worlds int
	Steps  int
	Cells  map[run.Transition]bool // transitions of the run that were entered
}

type node struct {
	world  *world
	from   int
	action string
	back   []int // worlds that lead here
}

// Walk visits every world of the scope, breadth first, up to a bound on their
// number. It returns the first broken promise, with the shortest way to it.
func Walk(scope Scope, bound int) (Report, error) {
	report := Report{Cells: map[run.Transition]bool{}}
	first, err := begin(scope)
	if err != nil {
		return report, err
	}
	known := map[string]int{}
	var nodes []node
	visit := func(w *world, from int, name string) error {
		key, err := w.key()
		if err != nil {
			return err
		}
		at, seen := known[key]
		if !seen {
			at = len(nodes)
			known[key] = at
			nodes = append(nodes, node{world: w, from: from, action: name})
		}
		// Every way to a world has its own journal, so each is checked.
		if err := w.check(report.Cells); err != nil {
			return fmt.Errorf("%s: %w\n%s%s", scope.Name, err, way(nodes, from), name)
		}
		if from >= 0 {
			nodes[at].back = append(nodes[at].back, from)
			report.Steps++
		}
		return nil
	}
	if err := visit(first, -1, "start"); err != nil {
		return report, err
	}
	for at := 0; at < len(nodes); at++ {
		if len(nodes) > bound {
			report.Worlds = len(nodes)
			return report, fmt.Errorf("%s: more than %d worlds", scope.Name, bound)
		}
		here := nodes[at].world
		for _, step := range here.actions() {
			next, err := here.clone()
			if err == nil {
				err = step.do(next)
			}
			if errors.Is(err, errRefused) {
				continue
			}
			if err != nil {
				return report, fmt.Errorf("%s: %s: %w\n%s", scope.Name, step.name, err, way(nodes, at))
			}
			if err := visit(next, at, step.name); err != nil {
				return report, err
			}
		}
	}
	report.Worlds = len(nodes)
	return report, reachEnd(scope, nodes)
}

// reachEnd says from which world no end can be reached, if any.
func reachEnd(scope Scope, nodes []node) error {
	reaches := make([]bool, len(nodes))
	var queue []int
	for at, n := range nodes {
		if n.world.state.Ended != nil {
			reaches[at] = true
			queue = append(queue, at)
		}
	}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, from := range nodes[at].back {
			if !reaches[from] {
				reaches[from] = true
				queue = append(queue, from)
			}
		}
	}
	for at := range nodes {
		if !reaches[at] {
			return fmt.Errorf("%s: no end can be reached\n%s", scope.Name, way(nodes, at))
		}
	}
	return nil
}

// way is the shortest list of steps to a world.
func way(nodes []node, at int) string {
	text := ""
	for ; at >= 0; at = nodes[at].from {
		text = nodes[at].action + "\n" + text
	}
	return text
}

func dropRefused(err error) error {
	if errors.Is(err, errRefused) {
		return nil
	}
	return err
}

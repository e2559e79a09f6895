package wire

import (
	"context"
	"sync"

	"gantry.dev/orchestrator/run"
)

// watchers are rung when a run moves on.
type watchers struct {
	mu   sync.Mutex
	runs map[string]map[chan struct{}]bool
}

func newWatchers() *watchers { return &watchers{runs: map[string]map[chan struct{}]bool{}} }

func (w *watchers) add(id string) (bell chan struct{}, remove func()) {
	bell = make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[id] == nil {
		w.runs[id] = map[chan struct{}]bool{}
	}
	w.runs[id][bell] = true
	return bell, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.runs[id], bell)
		if len(w.runs[id]) == 0 {
			delete(w.runs, id)
		}
	}
}

func (w *watchers) ring(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for bell := range w.runs[id] {
		select {
		case bell <- struct{}{}:
		default:
		}
	}
}

// Follow visits the records of a run after a sequence number, in order and
// without gaps, until visit says stop or the context is done.
func (p *Platform) Follow(ctx context.Context, id string, after uint64, visit func(run.Record) (more bool, err error)) error {
	bell, remove := p.watchers.add(id)
	defer remove()
	for {
		_, records, err := p.Store.Load(ctx, id, after)
		if err != nil {
			return err
		}
		for _, record := range records {
			after = record.Seq
			if more, err := visit(record); err != nil || !more {
				return err
			}
		}
		select {
		case <-bell:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

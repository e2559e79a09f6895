// Package hedge asks two models for one answer: the second only when the first
// keeps silent. The first whole answer is taken.
package hedge

import (
	"context"
	"errors"
	"sync"
	"time"

	"gantry.dev/agents/model"
)

// Request asks one model. It ends soon after its context does, and tells deltas
// each piece of text as it comes, one after the other.
type Request func(ctx context.Context, deltas func(text string)) (model.Answer, error)

// Reply is how a request ended.
type Reply struct {
	Asked   bool
	Answer  model.Answer // whole, where Err is nil
	Err     error
	Dropped bool // it was given up over the other's answer: Err says nothing of its cost
}

// Second is what is asked too when nothing has come for some time.
type Second struct {
	After time.Duration
	// Request readies it when its time has come; nil means that it may not be
	// asked any more.
	Request func() Request
}

// errBroken ends a request that panicked: what it did is not known.
var errBroken = errors.New("the request broke")

// Ask asks the first model, and the second one if the first has sent no text and
// no answer in time. It returns the index of the reply with the answer that is
// taken, -1 for none, once both requests have ended. Deltas gets the text of
// that model only that began to speak first: where it does not come to the
// answer, nothing more is told, so that nobody sees one text made of two.
func Ask(ctx context.Context, first Request, second Second, deltas func(text string)) (taken int, replies [2]Reply) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	floor := &floor{deltas: deltas, owner: -1}
	ended := make(chan int, len(replies))
	flying := 0
	ask := func(i int, request Request) {
		flying++
		replies[i].Asked = true
		go func() {
			defer func() {
				if recover() != nil {
					replies[i].Err = errBroken
				}
				ended <- i
			}()
			replies[i].Answer, replies[i].Err = request(ctx, floor.of(i))
		}()
	}
	silence := time.NewTimer(second.After)
	defer silence.Stop()
	ask(0, first)
	for taken = -1; flying > 0; {
		select {
		case <-silence.C:
			if floor.taken() || ctx.Err() != nil {
				continue
			}
			if request := second.Request(); request != nil {
				ask(1, request)
			}
		case i := <-ended:
			flying--
			switch {
			case taken >= 0:
				replies[i].Dropped = replies[i].Err != nil
			case replies[i].Err == nil:
				taken = i
				floor.close()
				cancel()
			}
		}
	}
	return taken, replies
}

// floor is who may be heard: whoever speaks first has it to the end.
type floor struct {
	mu     sync.Mutex
	deltas func(string)
	owner  int // -1: nobody spoke
	closed bool
}

func (f *floor) of(i int) func(string) {
	return func(text string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.owner < 0 {
			f.owner = i
		}
		if f.owner == i && !f.closed {
			f.deltas(text)
		}
	}
}

func (f *floor) taken() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner >= 0
}

func (f *floor) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
}

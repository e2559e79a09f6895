package wire

import (
	"context"
	"strconv"

	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Fault is what becomes of calls in place of a plain answer.
type Fault struct {
	Method string // "Upsert", for example; empty: every one
	Times  int    // how many calls it meets; 0: all until Heal
	Met    func() // hears of each call that it meets; nil: nobody does
	around func(ctx context.Context, s *Server, do func(context.Context) (any, error)) (any, error)
}

// Inject lets a fault meet calls, after those that were injected before.
func (s *Server) Inject(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &fault)
}

// Heal ends all faults, and lets the second replica have everything.
func (s *Server) Heal() {
	s.mu.Lock()
	s.faults = nil
	s.mu.Unlock()
	s.rows.catchUp()
}

// Lag keeps the second replica as it is now: reads that ask one replica meet it
// until Heal, so what was deleted comes back, and what was added is missing.
func (s *Server) Lag() { s.rows.lag() }

func (s *Server) fault(method string) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, fault := range s.faults {
		if fault.Method != "" && fault.Method != method {
			continue
		}
		if fault.Times > 0 {
			if fault.Times--; fault.Times == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			}
		}
		if fault.Met != nil {
			fault.Met()
		}
		return fault
	}
	return nil
}

// Fails answers with a code; nothing is done.
func Fails(method string, times int, code codes.Code, message string) Fault {
	return Fault{Method: method, Times: times, around: func(context.Context, *Server, func(context.Context) (any, error)) (any, error) {
		return nil, status.Error(code, message)
	}}
}

// Exhausted refuses calls for some seconds, as the server's rate limit does.
func Exhausted(method string, times, retryAfterS int) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, _ *Server, _ func(context.Context) (any, error)) (any, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("retry-after", strconv.Itoa(retryAfterS))); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.ResourceExhausted, "Rate limiting exceeded: Write rate limit exceeded, retry later")
	}}
}

// NotDone does a change, and says something else than that it is done.
func NotDone(method string, times int, state qdrant.UpdateStatus) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, _ *Server, do func(context.Context) (any, error)) (any, error) {
		reply, err := do(ctx)
		if response, ok := reply.(*qdrant.PointsOperationResponse); ok && err == nil {
			response.Result.Status = state
		}
		return reply, err
	}}
}

// Lost does what was asked, and loses the answer.
func Lost(method string, times int) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, _ *Server, do func(context.Context) (any, error)) (any, error) {
		if _, err := do(ctx); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Unavailable, "connection reset")
	}}
}

// Slow waits for a signal, or until who asked is gone, before it does anything.
func Slow(method string, times int, signal <-chan struct{}) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, _ *Server, do func(context.Context) (any, error)) (any, error) {
		select {
		case <-signal:
			return do(ctx)
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}}
}

// Late says at once that something was taken, and does it after a signal, whatever
// was done since: a change that another overtook.
func Late(method string, times int, signal <-chan struct{}, done chan<- struct{}) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, s *Server, do func(context.Context) (any, error)) (any, error) {
		after := context.WithoutCancel(ctx)
		s.late.Go(func() {
			<-signal
			_, _ = do(after)
			close(done)
		})
		return finished(false), nil
	}}
}

// Twice does what was asked two times, as when it was delivered again.
func Twice(method string, times int) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, _ *Server, do func(context.Context) (any, error)) (any, error) {
		if _, err := do(ctx); err != nil {
			return nil, err
		}
		return do(ctx)
	}}
}

// Told does what was asked, and then says so, before the answer is sent.
func Told(method string, times int, told chan<- struct{}) Fault {
	return Fault{Method: method, Times: times, around: func(ctx context.Context, _ *Server, do func(context.Context) (any, error)) (any, error) {
		reply, err := do(ctx)
		told <- struct{}{}
		return reply, err
	}}
}

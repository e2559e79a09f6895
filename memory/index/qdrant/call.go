package qdrant

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"gantry.dev/memory/index"
)

// attempts bounds how often one call is tried.
const attempts = 3

// errNotDone means that a change was taken and is not seen yet.
var errNotDone = errors.New("the change was taken, but is not done")

// newExecutor tries a call again where the server says that it did not do it, and
// leaves a server alone that fails. It is the only place where anything is tried
// again: gRPC's own retries are off.
func newExecutor(config Config) failsafe.Executor[any] {
	retry := retrypolicy.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool { return again(err) }).
		WithMaxAttempts(attempts).
		WithBackoff(20*time.Millisecond, 200*time.Millisecond).
		WithJitterFactor(0.2).
		WithDelayFunc(func(attempt failsafe.ExecutionAttempt[any]) time.Duration {
			if full := new(qdrant.QdrantResourceExhaustedError); errors.As(attempt.LastError(), &full) {
				return time.Duration(full.RetryAfterS) * time.Second * 5 / 4 // not less, whatever the jitter
			}
			return -1 // the backoff
		}).
		ReturnLastFailure().
		Build()
	breaker := circuitbreaker.NewBuilder[any]().
		HandleIf(func(_ any, err error) bool { return failed(err) }).
		WithFailureThresholdRatio(config.RestAfter, 2*config.RestAfter).
		WithDelay(config.Rest).
		WithSuccessThreshold(1).
		Build()
	return failsafe.With[any](retry, breaker)
}

// again reports whether a call may be tried again within its time. What is not
// changed by waiting is not.
func again(err error) bool {
	if full := new(qdrant.QdrantResourceExhaustedError); errors.As(err, &full) {
		return full.RetryAfterS <= 1
	}
	code := status.Code(unwrapped(err))
	return code == codes.Unavailable || code == codes.Aborted
}

// failed reports whether an error says that the server is in a bad way, not that
// it was asked for something wrong or that the caller went away.
func failed(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(*qdrant.QdrantResourceExhaustedError)) {
		return true
	}
	switch status.Code(unwrapped(err)) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Internal, codes.Unknown, codes.DataLoss, codes.Aborted:
		return true
	}
	return false
}

// unwrapped returns the gRPC error in an error of the client.
func unwrapped(err error) error {
	if inner := new(qdrant.QdrantError); errors.As(err, &inner) {
		return inner.Unwrap()
	}
	return err
}

// call makes one call under its deadline. what names it in errors.
func call[R any](ctx context.Context, x *Indexes, what string, do func(context.Context) (R, error)) (R, error) {
	return within(ctx, x, x.config.Timeout, what, do)
}

// run is call for what answers nothing.
func run(ctx context.Context, x *Indexes, what string, do func(context.Context) error) error {
	_, err := call(ctx, x, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// shape is run for what makes and removes collections: the members of a cluster
// agree on it, and nobody waits for an answer to a question meanwhile.
func shape(ctx context.Context, x *Indexes, what string, do func(context.Context) error) error {
	_, err := within(ctx, x, 5*x.config.Timeout, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

func within[R any](ctx context.Context, x *Indexes, most time.Duration, what string, do func(context.Context) (R, error)) (R, error) {
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	answer, err := x.executor.WithContext(bounded).Get(func() (any, error) { return do(bounded) })
	if err != nil {
		var none R
		return none, unavailable(ctx, what, err)
	}
	return answer.(R), nil
}

// unavailable wraps a failure. It says the code and nothing that came from the
// server or stood in the request: names of people are spaces, and the key is sent
// with each call.
func unavailable(ctx context.Context, what string, err error) error {
	if gone := ctx.Err(); gone != nil {
		return fmt.Errorf("%w: Qdrant, %s: %w", index.ErrUnavailable, what, gone)
	}
	code := status.Code(unwrapped(err))
	switch {
	case errors.Is(err, circuitbreaker.ErrOpen):
		return fmt.Errorf("%w: Qdrant, %s: it failed too often and is left alone for a moment", index.ErrUnavailable, what)
	case errors.Is(err, context.DeadlineExceeded) || code == codes.DeadlineExceeded || code == codes.Canceled:
		return fmt.Errorf("%w: Qdrant, %s: %w", index.ErrUnavailable, what, context.DeadlineExceeded)
	case errors.Is(err, errNotDone):
		return fmt.Errorf("%w: Qdrant, %s: %w", index.ErrUnavailable, what, errNotDone)
	case errors.As(err, new(*qdrant.QdrantResourceExhaustedError)):
		code = codes.ResourceExhausted
	}
	return fmt.Errorf("%w: Qdrant, %s: %w", index.ErrUnavailable, what, codeError(code))
}

// codeError is a gRPC code as an error.
type codeError codes.Code

func (e codeError) Error() string { return codes.Code(e).String() }

// is reports whether a failure has a code.
func is(err error, code codes.Code) bool {
	found, ok := errors.AsType[codeError](err)
	return ok && codes.Code(found) == code
}

// done says whether a change is seen by searches. Anything else than Completed may
// be lost, or come later.
func done(result *qdrant.UpdateResult, err error) error {
	if err != nil {
		return err
	}
	if result.GetStatus() != qdrant.UpdateStatus_Completed {
		return errNotDone
	}
	return nil
}

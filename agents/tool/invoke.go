package tool

import (
	"context"
	"errors"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/orchestrator/policy"
)

// The codes of a Failure that Invoke and Probe give themselves.
const (
	FailedTimeout       = "TOOL_TIMEOUT"       // no answer within the contract's timeout
	FailedCancelled     = "TOOL_CANCELLED"     // the caller gave up
	FailedPanic         = "TOOL_PANICKED"      // the adapter broke
	FailedError         = "TOOL_ERROR"         // the adapter returned an error that is no Failure
	FailedResult        = "RESULT_INVALID"     // the answer does not meet the output schema
	FailedMisconfigured = "TOOL_MISCONFIGURED" // the contract does not allow any call
	FailedNotInvocable  = "NOT_INVOCABLE"      // the run itself answers calls of this tool
	FailedUnreachable   = "TOOL_UNREACHABLE"   // surely not sent
	FailedBroken        = "TOOL_REPLY_BROKEN"  // sent, perhaps, and no whole answer came back
	FailedStatus        = "TOOL_STATUS"        // answered with a status that says neither yes nor no
	FailedEgress        = "EGRESS_DENIED"      // the destination is not allowed
	FailedChanged       = "TOOL_CHANGED"       // the tool is another than the pinned one; nothing was sent
	FailedGone          = "TOOL_GONE"          // the server has no such tool any more; nothing was sent
	FailedCredential    = "CREDENTIAL_MISSING" //nolint:gosec // a code: the credential could not be had
)

// Invoke performs one attempt of one call and is the only way in which tools
// are called. Within the contract's timeout, whatever the adapter does, it
// returns a Result that is bounded, typed and checked against the output
// schema, or a *Failure.
//
// An adapter is told to stop a little before the timeout, so that it can say
// what surely did not happen. One that does not stop is left behind: its
// goroutine stays until the adapter returns, holds nothing of the caller but
// the invocation, and its late reply goes nowhere.
func Invoke(ctx context.Context, t Tool, invocation Invocation) (Result, error) {
	d := t.Definition()
	answer := guard(ctx, d, func(ctx context.Context) reply {
		result, err := t.Invoke(ctx, invocation)
		return reply{result: result, err: err}
	})
	if answer.err != nil {
		return Result{}, answer.err
	}
	return settle(d, answer.result)
}

// Probe asks for the outcome of an earlier attempt, under the same guard as
// Invoke. Its *Failure is always Uncertain: the outcome is still unknown.
func Probe(ctx context.Context, t Prober, d Definition, invocation Invocation) (result Result, found bool, err error) {
	answer := guard(ctx, d, func(ctx context.Context) reply {
		result, found, err := t.Probe(ctx, invocation)
		return reply{result: result, found: found, err: err}
	})
	if answer.err == nil && !answer.found {
		return Result{}, false, nil
	}
	if answer.err == nil {
		result, answer.err = settle(d, answer.result)
	}
	if answer.err != nil {
		failure := *asFailure(d, answer.err)
		failure.Uncertain = true
		return Result{}, false, &failure
	}
	return result, true, nil
}

type reply struct {
	result Result
	found  bool
	err    error
}

// guard runs one adapter call within the limits of its contract.
func guard(ctx context.Context, d Definition, call func(context.Context) reply) reply {
	limit := time.Duration(d.Timeout)
	if limit <= 0 || d.ResultBytes <= 0 {
		return reply{err: &Failure{Code: FailedMisconfigured, Detail: "the contract sets no timeout or no result size"}}
	}
	if ctx.Err() != nil {
		return reply{err: &Failure{Code: FailedCancelled, Detail: "given up before it began"}}
	}
	grace := min(limit/10, time.Second)
	ctx, cancel := context.WithTimeout(ctx, limit-grace)
	defer cancel()

	replies := make(chan reply, 1) // room for the reply that nobody waits for any more
	var calls conc.WaitGroup       // never waited for: see Invoke
	calls.Go(func() {
		answer := reply{err: &Failure{Uncertain: above(d), Code: FailedPanic, Detail: "the adapter broke"}}
		// A panic is caught and kept by calls. Its value may quote arguments, so
		// it goes no further.
		defer func() { replies <- answer }()
		answer = call(ctx)
	})
	select {
	case answer := <-replies:
		return judged(d, answer)
	case <-ctx.Done():
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case answer := <-replies:
		return judged(d, answer)
	case <-timer.C:
	}
	return reply{err: stopped(ctx, d)}
}

// judged turns the errors of an adapter into failures.
func judged(d Definition, answer reply) reply {
	if answer.err != nil {
		answer.err = asFailure(d, answer.err)
	}
	return answer
}

func asFailure(d Definition, err error) *Failure {
	var failure *Failure
	if !errors.As(err, &failure) || failure == nil {
		// The text of an unknown error may quote anything.
		return &Failure{Uncertain: above(d), Code: FailedError, Detail: "the adapter could not say what happened"}
	}
	if !above(d) && failure.Uncertain {
		certain := *failure
		certain.Uncertain = false
		return &certain
	}
	return failure
}

// stopped says why there is no answer after the context ended.
func stopped(ctx context.Context, d Definition) *Failure {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &Failure{Uncertain: above(d), Code: FailedCancelled, Detail: "given up while it was running"}
	}
	return &Failure{Uncertain: above(d), Code: FailedTimeout, Detail: "no answer within " + time.Duration(d.Timeout).String()}
}

// above reports whether a call can have an effect at all.
func above(d Definition) bool { return d.Class.OrWorst() != policy.ClassRead }

package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/sourcegraph/conc/panics"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Errors of a command.
var (
	ErrUnverified = errors.New("the command's caller could not be verified")
	ErrBroken     = errors.New("taking the command broke")
	ErrEndless    = errors.New("the command was delivered too often")
)

// Received is a command whose caller is verified.
type Received struct {
	Command
	By        run.Identity
	Principal policy.Principal
}

// Verify finds out whose token this is. Errors: ErrUnverified, after which the
// command is parked at once; any other may pass.
type Verify func(token string) (run.Identity, policy.Principal, error)

// Submit takes a command. Nil settles it, and so does a *run.Refusal: a
// repetition must be recognised by the caller and the command's id. Any other
// error may pass: the command is tried again.
type Submit func(ctx context.Context, command Received) error

// Parked is a message that could not be taken as a command. It holds no token.
type Parked struct {
	ID       string `json:"id"`
	Cause    string `json:"cause"` // one sentence
	Attempts int    `json:"attempts"`
	Body     []byte `json:"body"` // as it came, cut at a length that any command keeps
}

// Park keeps a message for an operator.
type Park func(ctx context.Context, parked Parked) error

// Receiver takes commands from the bus. One message that cannot be taken does
// not hold up those behind it.
type Receiver struct {
	Bus      *Bus
	Verify   Verify
	Submit   Submit
	Park     Park                                         // nil: on TopicParked
	Attempts int                                          // before a command that fails is parked; 0 means 5
	Pause    func(ctx context.Context, attempt int) error // between attempts; nil: 50 ms, doubled each time
}

// Run takes commands until the context ends, and subscribes again at a tick
// when the subscription was lost.
func (r Receiver) Run(ctx context.Context, ticks <-chan time.Time) error {
	for {
		if subscription, err := r.Bus.Subscribe(ctx, TopicCommands); err == nil {
			subscription.Each(r.Take)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticks:
		}
	}
}

// Take settles one message: it is submitted, or parked. An error means neither
// and that the message must come again.
func (r Receiver) Take(ctx context.Context, m Message) error {
	limit := r.Attempts
	if limit <= 0 {
		limit = 5
	}
	if m.Delivery > limit {
		// Every delivery ended before it was settled: the message itself may be
		// what ends the process.
		return r.park(ctx, m, ErrEndless, m.Delivery)
	}
	command, err := ReadCommand(m.Body)
	if err != nil {
		return r.park(ctx, m, err, 1)
	}
	for attempt := 1; ; attempt++ {
		err := r.attempt(ctx, m, command)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if attempt >= limit || errors.Is(err, ErrUnverified) {
			return r.park(ctx, m, err, attempt)
		}
		if err := r.pause(ctx, attempt); err != nil {
			return err
		}
	}
}

func (r Receiver) attempt(ctx context.Context, m Message, command Command) error {
	var err error
	if recovered := panics.Try(func() { err = r.submit(ctx, m, command) }); recovered != nil {
		return ErrBroken
	}
	var refusal *run.Refusal
	if errors.As(err, &refusal) {
		return nil
	}
	return err
}

func (r Receiver) submit(ctx context.Context, m Message, command Command) error {
	token, bearer := strings.CutPrefix(m.Metadata[MetaAuthorization], "Bearer ")
	if !bearer || token == "" {
		return ErrUnverified
	}
	identity, principal, err := r.Verify(token)
	if errors.Is(err, ErrUnverified) {
		return ErrUnverified // its own words may repeat parts of the token
	}
	if err != nil {
		return ErrBroken
	}
	return r.Submit(ctx, Received{Command: command, By: identity, Principal: principal})
}

func (r Receiver) pause(ctx context.Context, attempt int) error {
	if r.Pause != nil {
		return r.Pause(ctx, attempt)
	}
	timer := time.NewTimer(50 * time.Millisecond << min(attempt-1, 6))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// causeOf says why in words of ours: an error from elsewhere may hold what the
// caller wrote.
func causeOf(err error) string {
	for _, known := range []error{ErrUnverified, ErrBroken, ErrEndless} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if errors.Is(err, ErrCommand) {
		return err.Error()
	}
	return "the command failed again and again"
}

func (r Receiver) park(ctx context.Context, m Message, cause error, attempts int) error {
	keep := r.Park
	if keep == nil {
		keep = r.Bus.park
	}
	parked := Parked{ID: m.ID, Cause: causeOf(cause), Attempts: attempts, Body: m.Body[:min(len(m.Body), maxBody)]}
	if err := keep(ctx, parked); err != nil {
		// Without a broker the message would come again at once.
		return errors.Join(fmt.Errorf("park: %w", err), r.pause(ctx, attempts))
	}
	return nil
}

func (b *Bus) park(ctx context.Context, parked Parked) error {
	body, err := json.Marshal(parked)
	if err != nil {
		return err
	}
	return b.Publish(ctx, TopicParked, Message{ID: canon.Digest(body), Body: body})
}

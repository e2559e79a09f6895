package notice

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/sourcegraph/conc/pool"
)

// Sender tells one notice. Errors: *Failure; ErrWithdrawn. Another error counts
// as a failure that may pass.
type Sender interface {
	Send(ctx context.Context, notice Notice) error
}

// ErrWithdrawn means that the person is not told over this channel any more.
var ErrWithdrawn = errors.New("the channel is not the person's any more")

// Limits bound how notices are told.
type Limits struct {
	LeaseMs  int64 // for how long one attempt keeps others away; longer than an attempt takes
	Attempts int   // of one notice
	FirstMs  int64 // before the second attempt; twice as long before each further one
	MostMs   int64 // before an attempt at most
	AtOnce   int   // channels that are told at the same time
	Batch    int   // notices of one channel in one pass
}

// DefaultLimits are the limits of a running process.
func DefaultLimits() Limits {
	return Limits{LeaseMs: 60_000, Attempts: 10, FirstMs: 30_000, MostMs: 3_600_000, AtOnce: 8, Batch: 32}
}

// Courier tells what was recorded.
type Courier struct {
	Store  *Store
	Sender Sender
	Now    func(context.Context) (ms int64, _ error) // UTC ms, the database's clock
	Owner  string                                    // names this process
	Limits Limits
	Log    *slog.Logger
}

// Pass tells what is due, once. Each channel is served by itself: one that
// fails or hangs holds up nobody else's, and its own notices wait until it is
// tried again.
func (c *Courier) Pass(ctx context.Context) error {
	nowMs, err := c.Now(ctx)
	if err != nil {
		return err
	}
	if _, err := c.Store.change(ctx, "UPDATE notices AS n SET state = ?, settled_ms = ? WHERE n.state = ? AND n.lease_ms <= ? AND NOT "+openItem,
		string(Obsolete), nowMs, string(Waiting), nowMs); err != nil {
		return err
	}
	routes, err := rowsOf(ctx, c.Store, func(rows *sql.Rows) (route string, err error) { return route, rows.Scan(&route) },
		"SELECT DISTINCT route FROM notices WHERE state = ? AND next_ms <= ? AND lease_ms <= ?", string(Waiting), nowMs, nowMs)
	if err != nil {
		return err
	}
	work := pool.New().WithErrors().WithMaxGoroutines(max(c.Limits.AtOnce, 1))
	for _, route := range routes {
		work.Go(func() error { return c.serve(ctx, route, nowMs) })
	}
	return work.Wait()
}

// serve tells what is due over one channel, until that fails.
func (c *Courier) serve(ctx context.Context, route string, nowMs int64) error {
	due, err := rowsOf(ctx, c.Store, scanNotice, "SELECT "+noticeColumns+` FROM notices n WHERE n.route = ? AND n.state = ? AND n.next_ms <= ? AND n.lease_ms <= ?
		ORDER BY n.attempts, n.created_ms, n.id LIMIT ?`, route, string(Waiting), nowMs, nowMs, c.Limits.Batch)
	if err != nil {
		return err
	}
	for _, notice := range due {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // who stops is done
		}
		told, err := c.tell(ctx, route, notice)
		if err != nil || !told {
			return err
		}
	}
	return nil
}

// tell claims one notice and makes one attempt. It reports whether the channel
// may be used on.
func (c *Courier) tell(ctx context.Context, route string, n Notice) (bool, error) {
	nowMs, err := c.Now(ctx)
	if err != nil {
		return false, err
	}
	claimed, err := c.Store.change(ctx, `UPDATE notices SET owner = ?, lease_ms = ?, attempts = attempts + 1
		WHERE id = ? AND state = ? AND next_ms <= ? AND lease_ms <= ?`, c.Owner, nowMs+c.Limits.LeaseMs, n.ID, string(Waiting), nowMs, nowMs)
	if err != nil || claimed == 0 {
		return true, err
	}
	n.Attempts++
	fault := c.Sender.Send(ctx, n)
	if ctx.Err() != nil && fault != nil {
		return false, nil //nolint:nilerr // nobody knows whether it was told: the lease ends, and it is told again
	}
	if nowMs, err = c.Now(context.WithoutCancel(ctx)); err != nil {
		return false, err
	}
	return c.settle(context.WithoutCancel(ctx), route, n, fault, nowMs)
}

func (c *Courier) settle(ctx context.Context, route string, n Notice, fault error, nowMs int64) (bool, error) {
	const settled = "UPDATE notices SET state = ?, code = ?, next_ms = ?, settled_ms = ?, owner = '', lease_ms = 0 WHERE id = ? AND owner = ? AND state = ?"
	set := func(state State, code string, nextMs, settledMs int64) error {
		_, err := c.Store.change(ctx, settled, string(state), code, nextMs, settledMs, n.ID, c.Owner, string(Waiting))
		return err
	}
	switch {
	case fault == nil:
		return true, set(Sent, "", 0, nowMs)
	case errors.Is(fault, ErrWithdrawn):
		return true, set(Obsolete, "", 0, nowMs)
	}
	failure := &Failure{Code: "FAILED"}
	_ = errors.As(fault, &failure) // anything else may pass
	if failure.Final || n.Attempts >= c.Limits.Attempts {
		c.Log.Warn("notice given up", "notice", n.ID, "organisation", n.Organisation, "item", n.Item, "person", n.Person,
			"channel", n.Channel.Kind, "attempts", n.Attempts, "code", failure.Code)
		return false, set(Dead, failure.Code, 0, nowMs)
	}
	nextMs := nowMs + c.Limits.backoffMs(n.Attempts)
	if err := set(Waiting, failure.Code, nextMs, 0); err != nil {
		return false, err
	}
	_, err := c.Store.change(ctx, "UPDATE notices SET next_ms = ? WHERE route = ? AND state = ? AND next_ms < ? AND lease_ms <= ?",
		nextMs, route, string(Waiting), nextMs, nowMs)
	return false, err
}

// backoffMs is how long to wait after so many attempts.
func (l Limits) backoffMs(attempts int) int64 {
	wait := l.FirstMs
	for range attempts - 1 {
		if wait >= l.MostMs {
			break
		}
		wait *= 2
	}
	return min(wait, l.MostMs)
}

package bench

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/sourcegraph/conc/pool"

	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/cmd/gantry/wire"
)

// childVariable makes a program of which this package is a part a child.
const childVariable = "BENCH_CHILD"

// victim is what the process that is killed is told.
type victim struct {
	Folder string `json:"folder"` // with the keys and the files
	DSN    string `json:"dsn"`
	Runs   int    `json:"runs"`
	Think  int64  `json:"thinkUs"`
}

const (
	ready  = "READY"
	steady = 1_000_000 // rounds: the runs are under way until they are killed

	// thinkEach makes turns longer where there are more runs, so that most wait
	// for the model when they are killed, as real ones do.
	thinkEach = 2 * time.Millisecond
	leastLook = 100 * time.Millisecond // between looks at all heads, which cost
)

// Child is the process that is killed: it starts runs, says when all of them
// have begun, and works until its end. It reports whether this process is one.
func Child(ctx context.Context, in io.Reader, out io.Writer) (bool, error) {
	if os.Getenv(childVariable) == "" {
		return false, nil
	}
	var v victim
	if err := json.NewDecoder(in).Decode(&v); err != nil {
		return true, err
	}
	h := &house{folder: v.Folder, database: told{dsn: v.DSN}, config: v.config}
	if err := h.open(ctx); err != nil {
		return true, err
	}
	starters := pool.New().WithContext(ctx).WithCancelOnError().WithFirstError().WithMaxGoroutines(64)
	for range v.Runs {
		starters.Go(func(ctx context.Context) error {
			_, err := h.start(ctx, order{rounds: steady, think: time.Duration(v.Think) * time.Microsecond})
			return err
		})
	}
	if err := starters.Wait(); err != nil {
		return true, errors.Join(err, h.close())
	}
	if _, err := fmt.Fprintln(out, ready); err != nil {
		return true, errors.Join(err, h.close())
	}
	<-ctx.Done()
	return true, h.close()
}

func (v victim) config(config *wire.Config) {
	config.Runs, config.Drain, config.Poll = v.Runs, time.Millisecond, 100*time.Millisecond
}

// told is a database that another process made and removes.
type told struct {
	machine.Database
	dsn string
}

// DSN returns what was told.
func (t told) DSN() string { return t.dsn }

// Recovery is how runs went on after their process was killed.
type Recovery struct {
	Runs    int           `json:"runs"`
	Rows    int           `json:"rows"` // records of their journals, when they were killed
	First   time.Duration `json:"first"`
	All     time.Duration `json:"all"`     // from start, or from the end of the leases
	Opening time.Duration `json:"opening"` // until the new process was ready
}

// inFlight is how many runs P14 speaks of. With fewer, most of the time is the
// start of the process.
const inFlight = 1000

// killed measures P14.
func killed(ctx context.Context, c Config, report *Report) error {
	if c.Killed == 0 {
		return nil
	}
	for _, dsn := range c.stores() {
		if err := c.killedOn(ctx, dsn, report); err != nil {
			return fmt.Errorf("killed: %w", err)
		}
	}
	return nil
}

func (c Config) killedOn(ctx context.Context, dsn string, report *Report) (err error) {
	v := victim{Runs: c.Killed, Think: (time.Duration(c.Killed) * thinkEach).Microseconds()}
	h, err := build(ctx, c.Folder, dsn, v.config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.raze()) }()
	store := h.database.Name()
	c.say(fmt.Sprintf("%s, a process killed with %d runs in flight", store, c.Killed))
	if err := h.close(); err != nil { // its keys and tables are there
		return err
	}
	v.Folder, v.DSN = h.folder, h.database.DSN()
	r, err := h.kill(ctx, v)
	if err != nil {
		return err
	}
	report.add(Figure{ID: "P14", Store: store, Name: fmt.Sprintf("%d runs killed in flight, until each has a new step", r.Runs), Unit: "s", Goal: atMost(2, 1), few: r.Runs < inFlight}, r.All.Seconds())
	report.add(Figure{ID: "P14", Store: store, Name: fmt.Sprintf("the same for each of %d records read", r.Rows), Unit: "us", Goal: atMost(15, 5), few: r.Runs < inFlight}, machine.Over(float64(r.All.Microseconds()), float64(r.Rows)))
	report.add(Figure{ID: "recover", Store: store, Name: "until the first run has a new step", Unit: "s"}, r.First.Seconds())
	report.add(Figure{ID: "recover", Store: store, Name: "until the new process was ready", Unit: "s"}, r.Opening.Seconds())
	found, err := h.violations(ctx)
	report.Violations += found
	return err
}

// kill lets a child work until every run has a few turns, kills it, and goes on
// in this process.
func (h *house) kill(ctx context.Context, v victim) (r Recovery, err error) {
	db, err := h.database.Connect(false)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := h.slay(ctx, v, db); err != nil {
		return r, err
	}
	before, leases, err := versions(ctx, db)
	if err != nil {
		return r, err
	}
	r.Runs = len(before)
	for _, version := range before {
		r.Rows += int(version)
	}
	begin := time.Now()
	if err := h.open(ctx); err != nil {
		return r, err
	}
	r.Opening = time.Since(begin)
	if h.database.Name() == "PostgreSQL" { // who opens a file has it alone, and frees it at once
		begin = later(begin, leases)
	}
	first := false
	err = until(ctx, lookEvery, func() (bool, error) {
		after, _, err := versions(ctx, db)
		moved := 0
		for id, version := range before {
			if after[id] > version {
				moved++
			}
		}
		r.All = max(0, time.Since(begin)) // some leases end before the last one
		if moved > 0 && !first {
			first, r.First = true, r.All
		}
		return moved == len(before), err
	})
	return r, err
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// slay starts the child, waits until all its runs took some turns, and kills it.
func (h *house) slay(ctx context.Context, v victim, db *sql.DB) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	told, err := json.Marshal(v)
	if err != nil {
		return err
	}
	child := exec.CommandContext(ctx, self, "bench", "child") //nolint:gosec // this program
	child.Env = append(os.Environ(), childVariable+"=1")
	child.Stdin = strings.NewReader(string(told))
	var said strings.Builder
	child.Stderr = &said
	out, err := child.StdoutPipe()
	if err != nil {
		return err
	}
	if err := child.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != ready {
		return errors.Join(fmt.Errorf("the child ended early: %s", said.String()), child.Process.Kill(), ignore(child.Wait()))
	}
	// A run's beginning and eight rounds: with fewer the first new step costs more
	// than the reading, which the goal for each record speaks of.
	const records = 82
	underWay := until(ctx, leastLook, func() (bool, error) {
		at, _, err := versions(ctx, db)
		for _, version := range at {
			if version < records {
				return false, err
			}
		}
		return len(at) >= v.Runs, err
	})
	return errors.Join(underWay, child.Process.Kill(), ignore(child.Wait()))
}

// ignore drops an error that is expected: whoever is killed does not end well.
func ignore(error) error { return nil }

// versions are the journals' lengths of the runs that have not ended, and when
// the last of their leases ends.
func versions(ctx context.Context, db *sql.DB) (at map[string]uint64, leases time.Time, err error) {
	rows, err := db.QueryContext(ctx, "SELECT run, version, lease_until FROM heads WHERE ended_ms = 0")
	if err != nil {
		return nil, leases, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	at = map[string]uint64{}
	for rows.Next() {
		var id string
		var version uint64
		var untilMs int64
		if err := rows.Scan(&id, &version, &untilMs); err != nil {
			return nil, leases, err
		}
		at[id], leases = version, later(leases, time.UnixMilli(untilMs))
	}
	return at, leases, rows.Err()
}

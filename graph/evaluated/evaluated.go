// Package evaluated shows what agents came to on cases.
package evaluated

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"gantry.dev/agents/evaluate"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
)

// Kept is a result with who recorded it.
type Kept struct {
	evaluate.Result
	By   string // principal id
	AtMs int64  // UTC, milliseconds since 1970
}

// Evaluations are the results of the agents that the caller answers for; others
// are engine.ErrNotFound.
type Evaluations interface {
	// Record keeps a result on the caller's word; replayed for a repeated command.
	Record(ctx context.Context, caller edge.Caller, commandID string, result evaluate.Result) (kept Kept, replayed bool, err error)
	// List returns the latest results of an agent, the newest first.
	List(ctx context.Context, caller edge.Caller, agent string) ([]Kept, error)
}

// ErrReport means that a report is not one that gantry eval writes.
var ErrReport = errors.New("the report is not one that gantry eval writes")

// Read reads a report strictly.
func Read(report string) (result evaluate.Result, err error) {
	decoder := json.NewDecoder(strings.NewReader(report))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&result); err != nil {
		return result, ErrReport
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) || !result.Fits() {
		return result, ErrReport
	}
	return result, nil
}

// Show shows a result, by whoever actor shows.
func Show(kept Kept, actor func(id string) *generated.Actor) *generated.Evaluation {
	f := kept.Figures()
	return &generated.Evaluation{Agent: kept.Agent, Revision: kept.Revision, Model: kept.Model, Cases: kept.Cases,
		RecordedBy: actor(kept.By), RecordedAt: time.UnixMilli(kept.AtMs).UTC(), Played: f.Played, Utility: f.Utility, FailureUtility: f.Failures,
		UnsafeAttempts: f.Attempts, UnsafeHappened: f.Happened, ApprovalsPerTask: f.Approvals, TurnsPerTask: f.Turns, Money: f.MicroUSD,
		LatencyMsMedian: int(f.LatencyP50), LatencyMsP95: int(f.LatencyP95)}
}

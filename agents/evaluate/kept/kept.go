// Package kept keeps what agents came to on cases, beside the journal.
package kept

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"gantry.dev/agents/evaluate"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
)

// most is how many results of an agent are looked at, the latest ones.
const most = 200

// Result is a result that somebody answers for.
type Result struct {
	evaluate.Result
	By   string // principal id: who recorded it
	AtMs int64  // UTC, milliseconds since 1970
}

// Journal is what results are kept beside.
type Journal interface {
	Databases() journal.Databases
	Beside(ctx context.Context, with journal.Beside, rows func(ctx context.Context, tx *sql.Tx) error) error
}

// Results keeps results.
type Results struct{ journal Journal }

// New returns what is kept beside a journal.
func New(journal Journal) *Results { return &Results{journal: journal} }

// numbered writes each ? as the database wants it.
func (r *Results) numbered(text string) string {
	if !r.journal.Databases().Postgres {
		return text
	}
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			b.WriteString("$" + strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// Record keeps a result. The same result again changes nothing. Errors:
// engine.ErrReplayed for a receipt's command that was accepted before.
func (r *Results) Record(ctx context.Context, organisation string, result Result, receipt *engine.Receipt) error {
	body, err := json.Marshal(result.Result)
	if err != nil {
		return fmt.Errorf("evaluations: %w", err)
	}
	digest, err := canon.DigestOf(result.Result)
	if err != nil {
		return fmt.Errorf("evaluations: %w", err)
	}
	return r.journal.Beside(ctx, journal.Beside{Receipt: receipt}, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, r.numbered(`INSERT INTO evaluations (organisation, agent, digest, revision, model, cases, recorded_by, at_ms, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`),
			organisation, result.Agent, digest, result.Revision, result.Model, result.Cases, result.By, result.AtMs, string(body))
		return err
	})
}

// List returns the latest results of an agent, the newest first.
func (r *Results) List(ctx context.Context, organisation, agent string) (list []Result, err error) {
	rows, err := r.journal.Databases().Read.QueryContext(ctx, r.numbered(`SELECT body, recorded_by, at_ms FROM evaluations
		WHERE organisation = ? AND agent = ? ORDER BY at_ms DESC, digest LIMIT ?`), organisation, agent, most)
	if err != nil {
		return nil, fmt.Errorf("evaluations: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var one Result
		var body string
		if err := rows.Scan(&body, &one.By, &one.AtMs); err != nil {
			return nil, fmt.Errorf("evaluations: %w", err)
		}
		if err := json.Unmarshal([]byte(body), &one.Result); err != nil {
			return nil, fmt.Errorf("evaluations: %w", err)
		}
		list = append(list, one)
	}
	return list, rows.Err()
}

// Quality is the utility that each model came to for an agent, by the model's
// name, in its newest result; nothing for a model that was not measured.
func (r *Results) Quality(ctx context.Context, organisation, agent string) (map[string]float64, error) {
	list, err := r.List(ctx, organisation, agent)
	if err != nil {
		return nil, err
	}
	results := make([]evaluate.Result, len(list))
	for i := range list {
		results[i] = list[i].Result
	}
	return evaluate.Quality(results), nil
}

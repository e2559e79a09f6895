package journal

import (
	"context"

	"github.com/uptrace/bun"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/run"
)

// Proposal is a change of an organisation that waits for a second person. Who
// proposed the same digest first stays its author.
type Proposal struct {
	Kind, Name string
	Digest     string // of what is proposed: the second person asks for the same
	By         string // principal id
	Body       []byte
	AtMs       int64 // UTC ms, database clock
}

// Change is one change of an organisation with everything that must commit
// with it.
type Change struct {
	Organisation string
	From         string // digest in force on which the change was decided; "" for none
	Digest       string // put in force; "" where nothing is yet
	Body         []byte // of the configuration with Digest
	Propose      *Proposal
	Settle       *Proposal // what was proposed under its kind and name is no more
	Receipt      *engine.Receipt
}

// ChangeOrganisation commits a change whole. A configuration that is put in
// force moves the gate that the writes of intents check. Errors:
// engine.ErrReplayed, run.ErrConflict when another change came first.
func (s *Store) ChangeOrganisation(ctx context.Context, change Change) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		gateName := run.ConfigGate(change.Organisation)
		if err := s.lockGate(ctx, tx, gateName); err != nil {
			return err
		}
		if err := remember(ctx, tx, change.Receipt); err != nil {
			return err
		}
		current, err := gate(ctx, tx, gateName)
		if err != nil {
			return err
		}
		if current != change.From {
			return run.ErrConflict
		}
		nowMs, err := s.now(ctx, tx)
		if err != nil {
			return err
		}
		if err := propose(ctx, tx, change, nowMs); err != nil || change.Digest == "" {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO configurations (organisation, digest, body, at_ms) VALUES (?, ?, ?, ?) ON CONFLICT (organisation, digest) DO NOTHING",
			change.Organisation, change.Digest, change.Body, nowMs); err != nil {
			return err
		}
		return setGate(ctx, tx, run.GateChange{Gate: gateName, Value: change.Digest})
	})
}

// lockGate holds a gate's name until the end of the transaction.
func (s *Store) lockGate(ctx context.Context, db changer, name string) error {
	if !s.postgres {
		return nil
	}
	_, err := db.ExecContext(ctx, "SELECT "+lockExclusive+"(hashtextextended(?, 0))", name)
	return err
}

// remember keeps the answer to a command in the transaction of what it did.
func remember(ctx context.Context, db changer, r *engine.Receipt) error {
	if r == nil {
		return nil
	}
	result, err := db.ExecContext(ctx, "INSERT INTO receipts (organisation, caller, command, request, run, answer) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (organisation, caller, command) DO NOTHING",
		r.Organisation, r.Caller, r.Command, r.Request, r.Run, r.Answer)
	if err != nil {
		return err
	}
	if stored, err := result.RowsAffected(); err != nil || stored == 1 {
		return err
	}
	return engine.ErrReplayed
}

func propose(ctx context.Context, tx bun.Tx, change Change, nowMs int64) error {
	if p := change.Settle; p != nil {
		var stands int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM proposals WHERE organisation = ? AND kind = ? AND name = ? AND digest = ?", change.Organisation, p.Kind, p.Name, p.Digest).Scan(&stands); err != nil {
			return err
		}
		if stands == 0 {
			return run.ErrConflict // somebody else settled or changed it meanwhile
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM proposals WHERE organisation = ? AND kind = ? AND name = ?", change.Organisation, p.Kind, p.Name); err != nil {
			return err
		}
	}
	p := change.Propose
	if p == nil {
		return nil
	}
	result, err := tx.ExecContext(ctx, `INSERT INTO proposals (organisation, kind, name, digest, proposed_by, body, at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (organisation, kind, name, digest) DO UPDATE SET at_ms = excluded.at_ms WHERE proposals.proposed_by = excluded.proposed_by`,
		change.Organisation, p.Kind, p.Name, p.Digest, p.By, p.Body, nowMs)
	if err != nil {
		return err
	}
	if stored, err := result.RowsAffected(); err != nil || stored == 1 {
		return err
	}
	return run.ErrConflict // somebody else proposed the same meanwhile: that is two people
}

// Proposal returns what is proposed under a kind, a name and a digest;
// engine.ErrNotFound.
func (s *Store) Proposal(ctx context.Context, organisation, kind, name, digest string) (Proposal, error) {
	p := Proposal{Kind: kind, Name: name, Digest: digest}
	err := s.read.QueryRowContext(ctx, "SELECT proposed_by, body, at_ms FROM proposals WHERE organisation = ? AND kind = ? AND name = ? AND digest = ?", organisation, kind, name, digest).
		Scan(&p.By, &p.Body, &p.AtMs)
	return p, notFound(err)
}

// Proposals returns what is proposed under a kind, oldest first.
func (s *Store) Proposals(ctx context.Context, organisation, kind string) ([]Proposal, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT name, digest, proposed_by, body, at_ms FROM proposals WHERE organisation = ? AND kind = ? ORDER BY at_ms, name, digest", organisation, kind)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (Proposal, error) {
		p := Proposal{Kind: kind}
		return p, row.Scan(&p.Name, &p.Digest, &p.By, &p.Body, &p.AtMs)
	})
}

// Configuration returns the configuration with a digest.
func (s *Store) Configuration(ctx context.Context, organisation, digest string) (body []byte, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT body FROM configurations WHERE organisation = ? AND digest = ?", organisation, digest).Scan(&body)
	return body, notFound(err)
}

// ReviseBudget sets the limit of nodes as one accepted command. Errors:
// engine.ErrReplayed for a receipt's command that was accepted before.
func (s *Store) ReviseBudget(ctx context.Context, nodes []string, limit run.Amount, receipt engine.Receipt) error {
	return s.write.RunInTx(ctx, nil, func(ctx context.Context, tx bun.Tx) error {
		if err := remember(ctx, tx, &receipt); err != nil {
			return err
		}
		for _, node := range nodes {
			if err := setBudget(ctx, tx, node, limit); err != nil {
				return err
			}
		}
		return nil
	})
}

// Spending is the cost that one record of a run settled.
type Spending struct {
	Head    run.Head // of the run; only its ids are set
	Kind    run.EventKind
	AtMs    int64
	Version int
	Body    []byte // of the record
}

// Spendings visits what the organisation's runs settled in [fromMs, toMs): the
// records of answered turns and of ended calls, in no promised order, until
// visit fails.
func (s *Store) Spendings(ctx context.Context, organisation string, fromMs, toMs int64, visit func(Spending) error) error {
	rows, err := s.read.QueryContext(ctx, "SELECT "+rowColumns+`, h.agent, h.department, h.subject FROM journal j JOIN heads h ON h.run = j.run
		WHERE j.settled_ms > 0 AND j.settled_ms >= ? AND h.organisation = ?`, fromMs, organisation)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // the error of reading says more
	for rows.Next() {
		var head run.Head
		row, err := scanRow(rows, &head.Agent, &head.Department, &head.Subject)
		if err != nil {
			return err
		}
		head.Run = row.Run
		for _, r := range row.Records() {
			if !frame.Settles(r.Kind) || r.AtMs < fromMs || r.AtMs >= toMs {
				continue
			}
			if err := visit(Spending{Head: head, Kind: r.Kind, AtMs: r.AtMs, Version: r.Version, Body: r.Body}); err != nil {
				return err
			}
		}
	}
	return rows.Err()
}

// CommandedRuns are the runs that a principal gave an accepted command.
func (s *Store) CommandedRuns(ctx context.Context, organisation, caller string) (map[string]bool, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT DISTINCT run FROM receipts WHERE organisation = ? AND caller = ? AND run <> ''", organisation, caller)
	if err != nil {
		return nil, err
	}
	list, err := collect(rows, func(row scanner) (id string, err error) { return id, row.Scan(&id) })
	runs := make(map[string]bool, len(list))
	for _, id := range list {
		runs[id] = true
	}
	return runs, err
}

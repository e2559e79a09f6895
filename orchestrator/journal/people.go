package journal

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Inbox lists what waits for a person, the oldest first.
func (s *Store) Inbox(ctx context.Context, person policy.Principal) ([]engine.InboxItem, error) {
	rows, err := s.read.QueryContext(ctx, "SELECT "+itemColumns+" FROM inbox WHERE organisation = ? ORDER BY since_ms, id",
		person.Organisation)
	if err != nil {
		return nil, err
	}
	items, err := collect(rows, scanItem)
	return slices.DeleteFunc(items, func(i engine.InboxItem) bool {
		return !slices.ContainsFunc(i.Approvers, func(a policy.Approver) bool { return a.Names(person) })
	}), err
}

const itemColumns = "id, organisation, run, kind, approvers, not_after_ms, since_ms"

func scanItem(row scanner) (engine.InboxItem, error) {
	item := engine.InboxItem{Open: true}
	var approvers string
	if err := row.Scan(&item.ID, &item.Organisation, &item.Run, (*string)(&item.Kind), &approvers, &item.NotAfterMs, &item.SinceMs); err != nil {
		return item, err
	}
	return item, json.Unmarshal([]byte(approvers), &item.Approvers)
}

// Budget is one node of the tree of budgets.
type Budget struct {
	Node string
	run.Budget
}

const budgetColumns = "node, limit_money, limit_tokens, reserved_money, reserved_tokens, settled_money, settled_tokens, unknown_money, unknown_tokens"

func scanBudget(row scanner) (Budget, error) {
	var b Budget
	err := row.Scan(&b.Node, &b.Limit.MicroUSD, &b.Limit.Tokens, &b.Reserved.MicroUSD, &b.Reserved.Tokens,
		&b.Settled.MicroUSD, &b.Settled.Tokens, &b.Unknown.MicroUSD, &b.Unknown.Tokens)
	return b, err
}

// Budget returns one node; engine.ErrNotFound for an unknown one.
func (s *Store) Budget(ctx context.Context, node string) (run.Budget, error) {
	b, err := scanBudget(s.read.QueryRowContext(ctx, "SELECT "+budgetColumns+" FROM budgets WHERE node = ?", node))
	return b.Budget, notFound(err)
}

// SetBudget sets the limit of a node, which it makes where there is none.
func (s *Store) SetBudget(ctx context.Context, node string, limit run.Amount) error {
	return setBudget(ctx, s.write, node, limit)
}

func setBudget(ctx context.Context, db changer, node string, limit run.Amount) error {
	_, err := db.ExecContext(ctx, `INSERT INTO budgets (node, limit_money, limit_tokens) VALUES (?, ?, ?)
		ON CONFLICT (node) DO UPDATE SET limit_money = excluded.limit_money, limit_tokens = excluded.limit_tokens`, node, limit.MicroUSD, limit.Tokens)
	return err
}

// Cursor returns how far a reader of a writer's records has come.
func (s *Store) Cursor(ctx context.Context, name, writer string) (n uint64, err error) {
	err = s.read.QueryRowContext(ctx, "SELECT n FROM cursors WHERE name = ? AND writer = ?", name, writer).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// SaveCursor stores how far a reader has come; it never goes back.
func (s *Store) SaveCursor(ctx context.Context, name, writer string, n uint64) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO cursors (name, writer, n) VALUES (?, ?, ?) ON CONFLICT (name, writer) DO UPDATE SET n = excluded.n WHERE cursors.n < excluded.n", name, writer, n)
	return err
}

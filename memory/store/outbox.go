package store

import "context"

// Task is an item that an index has yet to be told of.
type Task struct {
	Item, Organisation string
	Version            uint64 // when it was queued; the index is told of the present one
	Attempts           int
}

// announce queues an item for the index. An item stands in the queue once: who
// works it off tells the present.
func (t *Tx) announce(ctx context.Context, organisation, item string, version uint64) error {
	if !t.store.config.Relayed {
		return nil
	}
	// The version moves with every change, also to what is gone, so that whoever
	// is at work on the older one does not take the newer out of the queue.
	_, err := t.exec(ctx, "INSERT INTO memory_outbox (item, organisation, version, due_ms) VALUES (?, ?, ?, ?) "+
		"ON CONFLICT (item) DO UPDATE SET version = memory_outbox.version + 1, attempts = 0, due_ms = CASE WHEN memory_outbox.owner = '' THEN excluded.due_ms ELSE memory_outbox.due_ms END",
		item, organisation, int64(version), t.nowMs)
	return err
}

// Claim leases the next tasks that are due to an owner, until a time. Nobody
// else gets them before.
func (s *Store) Claim(ctx context.Context, owner string, nowMs, untilMs int64, limit int) (tasks []Task, _ error) {
	return tasks, s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) error {
		lock := ""
		if tx.postgres {
			lock = " FOR UPDATE SKIP LOCKED"
		}
		rows, err := tx.query(ctx, "SELECT item, organisation, version, attempts FROM memory_outbox WHERE due_ms <= ? ORDER BY due_ms, item LIMIT ?"+lock, nowMs, limit)
		err = each(rows, err, func(scan func(...any) error) error {
			var task Task
			err := scan(&task.Item, &task.Organisation, &task.Version, &task.Attempts)
			tasks = append(tasks, task)
			return err
		})
		if err != nil {
			return err
		}
		ids := make([]string, len(tasks))
		for n, task := range tasks {
			ids[n] = task.Item
		}
		_, err = tx.exec(ctx, "UPDATE memory_outbox SET owner = ?, due_ms = ?, attempts = attempts + 1 WHERE "+tx.among("item"), owner, untilMs, list(tx.conn, ids))
		return err
	})
}

// Done takes a task out of the queue whose owner told the index of it. Where
// the item changed meanwhile, it is due at once.
func (s *Store) Done(ctx context.Context, owner string, nowMs int64, task Task) error {
	return s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) error {
		n, err := tx.exec(ctx, "DELETE FROM memory_outbox WHERE item = ? AND owner = ? AND version = ?", task.Item, owner, int64(task.Version))
		if err != nil || n > 0 {
			return err
		}
		return tx.release(ctx, owner, nowMs, task)
	})
}

// Later gives a task back whose owner could not tell the index of it.
func (s *Store) Later(ctx context.Context, owner string, nowMs, dueMs int64, task Task) error {
	return s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) error { return tx.release(ctx, owner, dueMs, task) })
}

func (t *Tx) release(ctx context.Context, owner string, dueMs int64, task Task) error {
	_, err := t.exec(ctx, "UPDATE memory_outbox SET owner = '', due_ms = ? WHERE item = ? AND owner = ?", dueMs, task.Item, owner)
	return err
}

// Waiting counts the tasks in the queue.
func (s *Store) Waiting(ctx context.Context) (tasks int, err error) {
	return tasks, each1(ctx, s.read, "SELECT count(*) FROM memory_outbox", nil, &tasks)
}

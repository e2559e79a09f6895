package store

import "context"

// MostAttempts is how often an item is tried before it is parked: then it waits
// for an operator, or for its next change.
const MostAttempts = 8

// Task is an item that an index has yet to be told of.
type Task struct {
	Item, Organisation string
	Version            uint64 // when it was queued; the index is told of the present one
	Attempts           int    // with the one under way
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
	t.announced = true
	return err
}

// Queue queues items of which an index was found to hold something else than
// the store, and counts them. What waits already is left as it is.
func (s *Store) Queue(ctx context.Context, nowMs int64, items []string) (queued int, err error) {
	if !s.config.Relayed || len(items) == 0 {
		return 0, nil
	}
	err = s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) (err error) {
		tx.announced = true
		queued, err = tx.exec(ctx, "INSERT INTO memory_outbox (item, organisation, version, due_ms) "+
			"SELECT item, organisation, version, CAST(? AS BIGINT) FROM memory_generations WHERE "+tx.among("item")+" ON CONFLICT (item) DO NOTHING",
			nowMs, list(tx.conn, items))
		return err
	})
	return queued, err
}

// Claim leases the next tasks that are due to an owner, until a time. Nobody
// else gets them before.
func (s *Store) Claim(ctx context.Context, owner string, nowMs, untilMs int64, limit int) (tasks []Task, err error) {
	const due = " FROM memory_outbox WHERE due_ms <= ? AND attempts < ?"
	// Looking costs no write where there is nothing to do.
	var one int
	if err := each1(ctx, s.read, "SELECT count(*) FROM (SELECT 1"+due+" LIMIT 1) AS one", []any{nowMs, MostAttempts}, &one); err != nil || one == 0 {
		return nil, err
	}
	err = s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) error {
		lock := ""
		if tx.postgres {
			lock = " FOR UPDATE SKIP LOCKED"
		}
		var err error
		if tasks, err = tx.tasks(ctx, due+" ORDER BY due_ms, item LIMIT ?"+lock, nowMs, MostAttempts, limit); err != nil {
			return err
		}
		ids := make([]string, len(tasks))
		for n := range tasks {
			tasks[n].Attempts++
			ids[n] = tasks[n].Item
		}
		_, err = tx.exec(ctx, "UPDATE memory_outbox SET owner = ?, due_ms = ?, attempts = attempts + 1 WHERE "+tx.among("item"), owner, untilMs, list(tx.conn, ids))
		return err
	})
	return tasks, err
}

func (c conn) tasks(ctx context.Context, from string, args ...any) (tasks []Task, err error) {
	rows, err := c.query(ctx, "SELECT item, organisation, version, attempts"+from, args...)
	err = each(rows, err, func(scan func(...any) error) error {
		var task Task
		err := scan(&task.Item, &task.Organisation, &task.Version, &task.Attempts)
		tasks = append(tasks, task)
		return err
	})
	return tasks, err
}

// Done takes tasks out of the queue whose owner told the index of them. An item
// that changed meanwhile is due at once, and so is one whose lease was over: the
// index may have been told by somebody else in between, and by this owner last.
func (s *Store) Done(ctx context.Context, owner string, nowMs int64, tasks []Task) error {
	return s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) error {
		for _, task := range tasks {
			n, err := tx.exec(ctx, "DELETE FROM memory_outbox WHERE item = ? AND owner = ? AND version = ?", task.Item, owner, int64(task.Version))
			if err == nil && n == 0 {
				n, err = tx.exec(ctx, "UPDATE memory_outbox SET owner = '', due_ms = ? WHERE item = ? AND owner = ?", nowMs, task.Item, owner)
			}
			if err == nil && n == 0 {
				err = tx.announce(ctx, task.Organisation, task.Item, task.Version)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Later gives tasks back that could not be done, until they are due again. An
// attempt that is not their fault does not count.
func (s *Store) Later(ctx context.Context, owner string, dueMs int64, counts bool, tasks []Task) error {
	attempts := "attempts"
	if !counts {
		attempts = "CASE WHEN attempts > 0 THEN attempts - 1 ELSE 0 END"
	}
	ids := make([]string, len(tasks))
	for n, task := range tasks {
		ids[n] = task.Item
	}
	return s.Write(ctx, 0, func(ctx context.Context, tx *Tx) error {
		_, err := tx.exec(ctx, "UPDATE memory_outbox SET owner = '', due_ms = ?, attempts = "+attempts+" WHERE owner = ? AND "+tx.among("item"),
			dueMs, owner, list(tx.conn, ids))
		return err
	})
}

// Waiting counts the tasks in the queue, parked ones among them.
func (s *Store) Waiting(ctx context.Context) (tasks int, err error) {
	err = each1(ctx, s.read, "SELECT count(*) FROM memory_outbox", nil, &tasks)
	return tasks, err
}

// Parked returns tasks that are not tried any more, by item.
func (s *Store) Parked(ctx context.Context, nowMs int64, limit int) ([]Task, error) {
	return s.read.tasks(ctx, " FROM memory_outbox WHERE due_ms <= ? AND attempts >= ? ORDER BY item LIMIT ?", nowMs, MostAttempts, limit)
}

// Retry lets what is parked be tried again, and counts it.
func (s *Store) Retry(ctx context.Context, nowMs int64) (tasks int, err error) {
	err = s.Write(ctx, nowMs, func(ctx context.Context, tx *Tx) (err error) {
		tx.announced = true
		tasks, err = tx.exec(ctx, "UPDATE memory_outbox SET attempts = 0, owner = '', due_ms = ? WHERE due_ms <= ? AND attempts >= ?", nowMs, nowMs, MostAttempts)
		return err
	})
	return tasks, err
}

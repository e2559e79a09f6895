package bustest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Log is a journal in memory, as far as a bus reads one.
type Log struct {
	mu       sync.Mutex
	runs     map[string][]run.Record
	writers  map[string][]bus.Committed
	entries  []engine.Entry
	cursors  map[string]uint64
	readings int
	before   func() // called before every reading of a run, outside the lock
	failure  error
}

// entriesAtOnce is how many entries one reading gives at most.
const entriesAtOnce = 7

// NewLog returns an empty log.
func NewLog() *Log {
	return &Log{runs: map[string][]run.Record{}, writers: map[string][]bus.Committed{}, cursors: map[string]uint64{}}
}

// Commit adds records in one batch of a writer and returns the batch.
func (l *Log) Commit(writer string, records ...run.Record) bus.Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := bus.Batch{Writer: writer, Due: true}
	for _, r := range records {
		row := bus.Committed{N: uint64(len(l.writers[writer])) + 1, Organisation: "o", Record: r}
		l.writers[writer] = append(l.writers[writer], row)
		l.runs[r.Run] = append(l.runs[r.Run], r)
		batch.Rows = append(batch.Rows, row)
	}
	return batch
}

// Say adds an entry to the conversation "c" of organisation "o".
func (l *Log) Say() engine.Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	entry := engine.Entry{Organisation: "o", Conversation: "c", Number: uint64(len(l.entries)) + 1, Kind: "message"}
	l.entries = append(l.entries, entry)
	return entry
}

// BeforeRead sets what happens before every reading of a run.
func (l *Log) BeforeRead(before func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.before = before
}

// Fail makes every reading fail with this error; nil ends that.
func (l *Log) Fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failure = err
}

// Readings counts the readings of runs.
func (l *Log) Readings() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readings
}

// Load reads a run.
func (l *Log) Load(_ context.Context, id string, after uint64) (run.Head, []run.Record, error) {
	l.mu.Lock()
	before := l.before
	l.mu.Unlock()
	if before != nil {
		before()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.readings++
	if l.failure != nil {
		return run.Head{}, nil, l.failure
	}
	records, known := l.runs[id]
	if !known {
		return run.Head{}, nil, engine.ErrNotFound
	}
	head := run.Head{Run: id, Version: uint64(len(records)), Status: run.StatusRunning}
	for _, r := range records {
		if r.Kind == run.KindEnded {
			head.Status = run.StatusCompleted
		}
	}
	return head, slices.Clone(records[min(after, uint64(len(records))):]), nil
}

// Entries reads the conversation.
func (l *Log) Entries(_ context.Context, _, _ string, after uint64) ([]engine.Entry, uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := uint64(len(l.entries))
	part := l.entries[min(after, newest):]
	return slices.Clone(part[:min(entriesAtOnce, len(part))]), newest, l.failure
}

// Writers returns all writers.
func (l *Log) Writers(context.Context) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var names []string
	for name := range l.writers {
		names = append(names, name)
	}
	return names, l.failure
}

// After reads one writer's records.
func (l *Log) After(_ context.Context, writer string, n uint64, limit int) ([]run.Record, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows := l.writers[writer][min(n, uint64(len(l.writers[writer]))):]
	var records []run.Record
	for _, row := range rows[:min(limit, len(rows))] {
		records = append(records, row.Record)
	}
	return records, l.failure
}

// Cursor returns a saved cursor.
func (l *Log) Cursor(_ context.Context, _, writer string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursors[writer], l.failure
}

// SaveCursor keeps a cursor.
func (l *Log) SaveCursor(_ context.Context, _, writer string, n uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cursors[writer] = max(l.cursors[writer], n)
	return l.failure
}

// VerifyToken knows one token, "good", of the person "p".
func VerifyToken(token string) (run.Identity, policy.Principal, error) {
	if token != "good" {
		return run.Identity{}, policy.Principal{}, fmt.Errorf("%w: forged %s", bus.ErrUnverified, token)
	}
	return run.Identity{Principal: "p"}, policy.Principal{ID: "p", Kind: policy.Person, Organisation: "o"}, nil
}

// Package memo keeps what pure functions answered, for packages that are pure
// themselves: asking again gives the same, only sooner.
package memo

import "sync"

// Of keeps the answers of one pure function, for good: its questions must be
// few. It is safe for use by many at once, and its zero value is empty.
type Of[Question comparable, Answer any] struct{ kept sync.Map }

// Answer returns what the function answers to a question. Two who ask at once
// may both have it answered; they get the same.
func (m *Of[Question, Answer]) Answer(question Question, answer func(Question) Answer) Answer {
	kept, known := m.kept.Load(question)
	if !known {
		kept, _ = m.kept.LoadOrStore(question, answer(question))
	}
	return kept.(Answer)
}

package view

import "gantry.dev/orchestrator/policy"

// Moment is the time that a question is about, in UTC milliseconds.
type Moment struct {
	NowMs   int64 // when it is asked: what has expired by then is gone
	AsOfMs  int64 // what was true then; 0: NowMs
	KnownMs int64 // only what had been learnt by then; 0: everything
}

// Keeps reports whether the item has not expired.
func (m Moment) Keeps(item *Item) bool { return item.ExpiresMs == 0 || item.ExpiresMs > m.NowMs }

// Holds reports whether the item is kept, had been learnt and was true, as far
// as it says itself; see Hidden.
func (m Moment) Holds(item *Item) bool {
	at := m.asOf()
	return m.Keeps(item) && m.known(item.RecordedMs) && item.ValidFromMs <= at &&
		(item.ValidToMs == 0 || at < item.ValidToMs)
}

func (m Moment) asOf() int64 {
	if m.AsOfMs != 0 {
		return m.AsOfMs
	}
	return m.NowMs
}

func (m Moment) known(recordedMs int64) bool { return m.KnownMs == 0 || recordedMs <= m.KnownMs }

// Successor is an item that supersedes another, as far as that takes its place.
type Successor struct {
	ID          string
	Integrity   policy.Integrity
	ValidFromMs int64
	RecordedMs  int64
}

// SuccessorOf returns the item as a successor of those that it supersedes.
func SuccessorOf(item *Item) Successor {
	return Successor{ID: item.ID, Integrity: item.Integrity, ValidFromMs: item.ValidFromMs, RecordedMs: item.RecordedMs}
}

// Hidden reports whether an item is out of date for a reader: something that
// the reader sees, had learnt and that had begun to be true supersedes it, or
// supersedes what does. Nothing that the reader does not see retires an item,
// and nothing that is trusted less than the item: until somebody vouches for
// it, both are shown.
//
// successors returns those items that supersede the one with the id directly
// and that the reader sees.
func Hidden(item *Item, moment Moment, successors func(id string) []Successor) bool {
	passed := map[string]bool{item.ID: true}
	for waiting := []string{item.ID}; len(waiting) > 0; waiting = waiting[1:] {
		for _, next := range successors(waiting[0]) {
			if passed[next.ID] || !moment.known(next.RecordedMs) {
				continue
			}
			if next.ValidFromMs <= moment.asOf() && next.Integrity <= item.Integrity {
				return true
			}
			passed[next.ID] = true
			waiting = append(waiting, next.ID)
		}
	}
	return false
}

// Known returns the successors that had been learnt at the moment.
func (m Moment) Known(successors []Successor) (known []Successor) {
	for _, next := range successors {
		if m.known(next.RecordedMs) {
			known = append(known, next)
		}
	}
	return known
}

// closed returns when the item ceased to be true for a reader who sees the
// successors, 0 for open. Nothing ends before it begins.
func closed(item *Item, successors []Successor) int64 {
	end := item.ValidToMs
	for _, next := range successors {
		from := max(next.ValidFromMs, item.ValidFromMs)
		if next.Integrity <= item.Integrity && (end == 0 || from < end) {
			end = from
		}
	}
	return end
}

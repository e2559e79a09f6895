package notary

import (
	"fmt"

	"gantry.dev/orchestrator/canon"
)

// point is a place in a run that a head covers.
type point struct {
	version uint64
	digest  string
	head    uint64
}

// Series is an organisation's heads, checked one after the other, and what they
// cover. Its memory grows with the number of entries.
type Series struct {
	thread
	lines   []string // digest of each line, to hold other copies against
	covered map[string][]point
	notes   []string
	broken  bool
}

// NewSeries returns one without heads.
func NewSeries(organisation string, ring Ring) *Series {
	return &Series{thread: thread{organisation: organisation, ring: ring}, covered: map[string][]point{}}
}

// Add checks the next line. After a fault the series takes nothing more: what
// comes then proves nothing.
func (s *Series) Add(line []byte) *Fault {
	if s.broken {
		return nil
	}
	fault := s.add(line)
	s.broken = fault != nil
	return fault
}

func (s *Series) add(line []byte) *Fault {
	head, counts, fault := s.next(line)
	if fault != nil {
		return fault
	}
	s.lines = append(s.lines, canon.Digest(line))
	if !counts {
		s.skip()
		return nil
	}
	want := Head{Runs: s.last.Runs, Records: s.last.Records}
	for _, e := range head.Entries {
		if known := s.version(e.Run); e.From != known || e.Version <= e.From {
			return &Fault{Code: HeadOrder, Organisation: s.organisation, Head: head.Number,
				Text: fmt.Sprintf("It covers run %s from record %d to %d, after %d were covered.", e.Run, e.From, e.Version, known)}
		}
		want.cover(e)
		s.covered[e.Run] = append(s.covered[e.Run], point{version: e.Version, digest: e.Digest, head: head.Number})
	}
	if head.Runs != want.Runs || head.Records != want.Records {
		return &Fault{Code: HeadOrder, Organisation: s.organisation, Head: head.Number, Text: "Its counts are not the sum of the heads so far."}
	}
	if s.void != nil {
		which := fmt.Sprintf("head %d counts", s.number)
		if s.void.Head < s.number {
			which = fmt.Sprintf("heads %d to %d count", s.void.Head, s.number)
		}
		s.notes = append(s.notes, fmt.Sprintf("organisation %s: %s for nothing; head %d of key epoch %d covers anew from there. %s",
			s.organisation, which, head.Number, head.Epoch, s.void.Text))
	}
	s.take(head)
	return nil
}

// end says what is wrong with the series as a whole: heads that are not
// believed, and none that takes their place.
func (s *Series) end() *Fault {
	if s.broken || s.void == nil {
		return nil
	}
	s.broken = true
	return s.void
}

// version is how many records of a run are covered.
func (s *Series) version(run string) uint64 {
	points := s.covered[run]
	if len(points) == 0 {
		return 0
	}
	return points[len(points)-1].version
}

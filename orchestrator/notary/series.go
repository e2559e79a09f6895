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
	organisation string
	ring         Ring
	last         Head
	lines        []string // digest of each line, to hold other copies against
	covered      map[string][]point
	broken       bool
}

// NewSeries returns one without heads.
func NewSeries(organisation string, ring Ring) *Series {
	return &Series{organisation: organisation, ring: ring, covered: map[string][]point{}}
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
	head, fault := continues(s.last, s.organisation, s.ring, line)
	if fault != nil {
		return fault
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
	s.last = head
	s.lines = append(s.lines, canon.Digest(line))
	return nil
}

// continues reads a line as the head after one.
func continues(last Head, organisation string, ring Ring, line []byte) (Head, *Fault) {
	wrong := func(code Code, format string, args ...any) (Head, *Fault) {
		return Head{}, &Fault{Code: code, Organisation: organisation, Head: last.Number + 1, Text: fmt.Sprintf(format, args...)}
	}
	read, err := parse(line)
	if err != nil {
		return wrong(HeadUnreadable, "The line is no signed head, or not as it was written.")
	}
	if why := ring.believes(read); why != "" {
		return wrong(HeadUnsigned, "%s", why)
	}
	want, err := last.follows(organisation, read.Head.AtMs, read.Head.Epoch)
	switch {
	case err != nil:
		return wrong(HeadUnreadable, "The head before it has no digest.")
	case read.Head.Organisation != want.Organisation:
		return wrong(HeadOrder, "It is of organisation %s.", read.Head.Organisation)
	case read.Head.Number != want.Number:
		return wrong(HeadOrder, "It has number %d.", read.Head.Number)
	case read.Head.Previous != want.Previous:
		return wrong(HeadOrder, "It continues another head than the one before it.")
	case read.Head.AtMs < last.AtMs:
		return wrong(HeadOrder, "It says that it is older than the head before it.")
	case read.Head.Epoch < last.Epoch:
		return wrong(HeadOrder, "Key epoch %d signed it after key epoch %d had taken over.", read.Head.Epoch, last.Epoch)
	}
	return read.Head, nil
}

// version is how many records of a run are covered.
func (s *Series) version(run string) uint64 {
	points := s.covered[run]
	if len(points) == 0 {
		return 0
	}
	return points[len(points)-1].version
}

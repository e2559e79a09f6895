package notary

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// Report counts what a check looked at, and says what is no fault but should
// be known.
type Report struct {
	Organisations int
	Heads         uint64
	Runs          uint64
	Records       uint64 // covered
	Uncovered     uint64 // records that are newer than the last head
	Faults        int
	Notes         []string
}

// ErrNoHeads means that there is nothing to check by.
var ErrNoHeads = errors.New("the folder holds no signed heads")

// Check holds a database against the signed heads of a folder, and tells of
// each fault when it is found. Every head must be signed by a key of the ring;
// every run must begin with the records that were covered. Errors: ErrNoHeads,
// and the store's.
func Check(ctx context.Context, folder Folder, ring Ring, snapshot *journal.Snapshot, tell func(Fault) error) (Report, error) {
	c := &checker{folder: folder, ring: ring, snapshot: snapshot, series: map[string]*Series{}, open: map[string]*unsigned{}}
	c.tell = func(f Fault) error {
		c.report.Faults++
		return tell(f)
	}
	if err := ring.Validate(); err != nil {
		return c.report, err
	}
	outside, err := folder.Organisations()
	if err != nil {
		return c.report, err
	}
	if len(outside) == 0 {
		return c.report, ErrNoHeads
	}
	organisations, err := everywhere(ctx, folder, snapshot)
	if err != nil {
		return c.report, err
	}
	for _, organisation := range organisations {
		if err := c.organisation(ctx, organisation); err != nil {
			return c.report, err
		}
	}
	if err := c.rest(ctx); err != nil {
		return c.report, err
	}
	return c.report, c.unattended()
}

type checker struct {
	folder   Folder
	ring     Ring
	snapshot *journal.Snapshot
	tell     func(Fault) error
	report   Report
	series   map[string]*Series
	open     map[string]*unsigned // by organisation
}

func (c *checker) organisation(ctx context.Context, organisation string) error {
	c.report.Organisations++
	series := NewSeries(organisation, c.ring)
	c.series[organisation] = series
	err := c.folder.Read(organisation, func(line []byte) error {
		if fault := series.Add(line); fault != nil {
			return c.tell(*fault)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := c.compare(ctx, series); err != nil {
		return err
	}
	if fault := series.end(); fault != nil {
		if err := c.tell(*fault); err != nil {
			return err
		}
	}
	c.report.Notes = append(c.report.Notes, series.notes...)
	c.report.Heads += series.last.Number
	for _, id := range slices.Sorted(maps.Keys(series.covered)) {
		if err := c.run(ctx, series, id); err != nil {
			return err
		}
	}
	return nil
}

// compare holds the database's own copy of the heads against the folder's. What
// it has beyond them is checked like them.
func (c *checker) compare(ctx context.Context, series *Series) error {
	outside, number := uint64(len(series.lines)), uint64(0)
	fault := func(code Code, head uint64, text string) error {
		return c.tell(Fault{Code: code, Organisation: series.organisation, Head: head, Text: text})
	}
	for {
		heads, err := c.snapshot.SignedHeads(ctx, series.organisation, number, pageHeads)
		if err != nil {
			return err
		}
		for _, head := range heads {
			switch {
			case head.Number != number+1:
				return fault(DatabaseBehind, number+1, "The database lacks this head.")
			case head.Number <= outside:
				if canon.Digest([]byte(head.Body)) != series.lines[number] {
					return fault(HeadForked, head.Number, "The database has another head of this number than the folder.")
				}
			case series.broken: // what continues a broken series proves nothing
			case outside == 0:
				return fault(HeadsMissing, 1, "The folder has no head of this organisation, the database has.")
			default:
				if wrong := series.Add([]byte(head.Body)); wrong != nil {
					return c.tell(*wrong)
				}
			}
			number++
		}
		if len(heads) < pageHeads {
			break
		}
	}
	if number < outside {
		return fault(DatabaseBehind, number+1, fmt.Sprintf("The folder has heads up to %d, the database up to %d: was an old copy of it put in place?", outside, number))
	}
	if number > outside && !series.broken {
		c.report.Notes = append(c.report.Notes, fmt.Sprintf("organisation %s: the folder lacks the last %d of %d heads that the database has", series.organisation, number-outside, number))
	}
	return nil
}

// pageRecords bounds what is in memory of one run.
const pageRecords = 256

// run holds a run's records against every point of it that heads cover.
func (c *checker) run(ctx context.Context, series *Series, id string) error {
	c.report.Runs++
	w := walk{organisation: series.organisation, run: id, points: series.covered[id]}
	for {
		records, err := c.snapshot.Records(ctx, id, w.seq, pageRecords)
		if err != nil {
			return err
		}
		for i := range records {
			if fault := w.add(&records[i]); fault != nil {
				return c.tell(*fault)
			}
		}
		if len(records) < pageRecords {
			break
		}
	}
	c.report.Records += series.version(id)
	if fault := w.end(); fault != nil {
		return c.tell(*fault)
	}
	return nil
}

// walk follows one run's chain.
type walk struct {
	organisation, run string
	points            []point // that are still to come
	seq               uint64
	digest            string
	sure              uint64 // the last covered record that was as covered
}

func (w *walk) fault(code Code, seq uint64, format string, args ...any) *Fault {
	return &Fault{Code: code, Organisation: w.organisation, Run: w.run, Seq: seq, Text: fmt.Sprintf(format, args...)}
}

func (w *walk) add(r *run.Record) *Fault {
	switch {
	case r.Seq != w.seq+1:
		return w.fault(RecordMissing, w.seq+1, "The record is gone; there are later ones.")
	case r.Prev != w.digest || r.Digest != run.Chain(*r):
		return w.fault(RecordChanged, r.Seq, "The record is not what its digest says, or does not continue the one before it.")
	}
	w.seq, w.digest = r.Seq, r.Digest
	if len(w.points) == 0 || w.points[0].version != r.Seq {
		return nil
	}
	if w.points[0].digest != r.Digest {
		return w.fault(RecordChanged, w.sure+1, "From here to record %d something was changed and chained again: head %d covers another digest.", r.Seq, w.points[0].head)
	}
	w.sure, w.points = r.Seq, w.points[1:]
	return nil
}

func (w *walk) end() *Fault {
	if len(w.points) == 0 {
		return nil
	}
	last := w.points[len(w.points)-1]
	if w.seq == 0 {
		return w.fault(RunMissing, 1, "The run is gone; head %d covers %d records of it.", last.head, last.version)
	}
	return w.fault(RecordMissing, w.seq+1, "The run was cut off; head %d covers %d records of it.", last.head, last.version)
}

// patienceMs is by how much a record may be older than a head that does not
// cover it: its write was under way when the head was signed.
const patienceMs = 60_000

// rest counts what no head covers yet. It must be new.
func (c *checker) rest(ctx context.Context) error {
	after := ""
	for {
		heads, err := c.snapshot.Heads(ctx, after, pageRecords)
		if err != nil {
			return err
		}
		for i := range heads {
			after = heads[i].Run
			if err := c.uncovered(ctx, &heads[i]); err != nil {
				return err
			}
		}
		if len(heads) < pageRecords {
			return nil
		}
	}
}

func (c *checker) uncovered(ctx context.Context, head *run.Head) error {
	series, known := c.series[head.Organisation]
	if !known {
		series = NewSeries(head.Organisation, c.ring)
	}
	covered := series.version(head.Run)
	if head.Version <= covered || series.broken {
		return nil
	}
	c.report.Uncovered += head.Version - covered
	records, err := c.snapshot.Records(ctx, head.Run, covered, 1)
	if err != nil || len(records) == 0 {
		return err
	}
	last, err := c.snapshot.Records(ctx, head.Run, head.Version-1, 1)
	if err != nil || len(last) == 0 {
		return err
	}
	c.unsigned(head.Organisation).add(records[0], last[0].AtMs)
	if records[0].AtMs >= series.last.AtMs-patienceMs {
		return nil
	}
	return c.tell(Fault{Code: RecordUncovered, Organisation: head.Organisation, Run: head.Run, Seq: records[0].Seq,
		Text: fmt.Sprintf("The record says %s, the last head was signed at %s, and no head covers it.", moment(records[0].AtMs), moment(series.last.AtMs))})
}

// unsigned is what an organisation has that no head covers.
type unsigned struct {
	first    run.Record // the oldest
	latestMs int64
}

func (c *checker) unsigned(organisation string) *unsigned {
	if c.open[organisation] == nil {
		c.open[organisation] = &unsigned{}
	}
	return c.open[organisation]
}

func (u *unsigned) add(first run.Record, latestMs int64) {
	if u.first.Run == "" || first.AtMs < u.first.AtMs {
		u.first = first
	}
	u.latestMs = max(u.latestMs, latestMs)
}

// unattendedMs is for how long runs may go on without a head: whoever signs does
// so every minute.
const unattendedMs = 10 * patienceMs

// unattended finds organisations whose runs went on while nobody signed.
func (c *checker) unattended() error {
	for _, organisation := range slices.Sorted(maps.Keys(c.open)) {
		u := c.open[organisation]
		if u.latestMs-u.first.AtMs <= unattendedMs {
			continue
		}
		if err := c.tell(Fault{Code: RecordUncovered, Organisation: organisation, Run: u.first.Run, Seq: u.first.Seq,
			Text: fmt.Sprintf("The record says %s, others followed until %s, and no head covers any of them: nothing was signed meanwhile.", moment(u.first.AtMs), moment(u.latestMs))}); err != nil {
			return err
		}
	}
	return nil
}

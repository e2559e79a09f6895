package account

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gantry.dev/orchestrator/run"
)

// line is one record of an export, as JSON on a line of its own.
type line struct {
	Run     string          `json:"run"`
	Seq     uint64          `json:"seq"`
	Kind    run.EventKind   `json:"kind"`
	Version int             `json:"version"`
	AtMs    int64           `json:"atMs"`
	Prev    string          `json:"prev"`
	Digest  string          `json:"digest"`
	Body    json.RawMessage `json:"body"`
}

// Export writes records as JSON lines. The texts are not in it, only their
// commitments.
func Export(w io.Writer, records []run.Record) error {
	for _, r := range records {
		if err := (line{r.Run, r.Seq, r.Kind, r.Version, r.AtMs, r.Prev, r.Digest, r.Body}).write(w); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return nil
}

// write writes the one form that a line has, with its newline.
func (l line) write(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(l)
}

// readLine reads one line, and refuses what says the same in other bytes: then
// every byte of an export is held by the chain.
func readLine(text []byte) (line, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return line{}, err
	}
	var written bytes.Buffer
	if err := l.write(&written); err != nil {
		return line{}, err
	}
	newline := []byte("\n")
	if !bytes.Equal(bytes.TrimSuffix(written.Bytes(), newline), bytes.TrimSuffix(text, newline)) {
		return line{}, errRewritten
	}
	return l, nil
}

var errRewritten = errors.New("the line is not as it was exported")

// splitLines cuts after each newline and keeps it.
func splitLines(data []byte, atEnd bool) (int, []byte, error) {
	if end := bytes.IndexByte(data, '\n'); end >= 0 {
		return end + 1, data[:end+1], nil
	}
	if atEnd && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// Report is what a check of an export found.
type Report struct {
	Run     string
	Records int
	Head    string // digest of the last good record
	Status  run.Status
	Below   []Report // runs of its tree that follow it in the export
}

// Verify reads an export and checks it: every byte, every digest, the order, and
// that each record follows from the rules. The error names the first bad record.
// Head, when not empty, is the digest that the last record must have, from a
// copy kept elsewhere: it shows an export that was cut short. The exports of runs
// below it may follow: each is checked alike, and its beginning and its end are
// held against what the run above it says of them.
func Verify(r io.Reader, head string) (Report, error) {
	v := verifying{chains: map[string]*chain{}}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	scanner.Split(splitLines)
	for scanner.Scan() {
		if err := v.line(scanner.Bytes()); err != nil {
			return v.report(), err
		}
	}
	report := v.report()
	if err := scanner.Err(); err != nil {
		return report, fmt.Errorf("read export: %w", err)
	}
	if report.Records == 0 {
		return report, fmt.Errorf("the export holds no record")
	}
	if head != "" && head != report.Head {
		return report, fmt.Errorf("the export ends at %.12s, but the head kept elsewhere is %.12s", report.Head, head)
	}
	return report, v.edges()
}

// verifying is an export under way.
type verifying struct {
	chains map[string]*chain
	order  []*chain
}

// chain is one run of an export.
type chain struct {
	Report
	state *run.State
	end   string // digest of the record of its end
}

func (v *verifying) line(text []byte) error {
	at := 1
	if n := len(v.order); n > 0 {
		at = v.order[n-1].Records + 1
	}
	l, err := readLine(text)
	if err != nil {
		return fmt.Errorf("record %d is not readable: %w", at, err)
	}
	c := v.chains[l.Run]
	if c == nil && (len(v.order) == 0 || l.Seq == 1) {
		c = &chain{Report: Report{Run: l.Run}, state: &run.State{ID: l.Run}}
		v.chains[l.Run], v.order, at = c, append(v.order, c), 1
	}
	if c == nil || c != v.order[len(v.order)-1] {
		return fmt.Errorf("record %d does not verify: it is of another run", at)
	}
	record := run.Record{Run: l.Run, Seq: l.Seq, Kind: l.Kind, Version: l.Version, AtMs: l.AtMs, Body: l.Body, Prev: l.Prev, Digest: l.Digest}
	if err := run.Replay(c.state, []run.Record{record}); err != nil {
		return fmt.Errorf("record %d does not verify: %w", at, err)
	}
	if l.Kind == run.KindEnded {
		c.end = l.Digest
	}
	c.Records++
	c.Head, c.Status = l.Digest, c.state.Status
	return nil
}

func (v *verifying) report() (report Report) {
	for i, c := range v.order {
		if i == 0 {
			report = c.Report
			continue
		}
		report.Below = append(report.Below, c.Report)
	}
	return report
}

// edges holds each run below another one of the export against that.
func (v *verifying) edges() error {
	for i, c := range v.order {
		above := v.chains[c.state.Started.Parent]
		if above == nil {
			if i > 0 {
				return fmt.Errorf("run %s is below none of the export", c.Run)
			}
			continue
		}
		if !c.state.Started.Task.Awaited() {
			continue // it carries itself
		}
		edge := above.state.Child(c.Run)
		authority := c.state.Started.Authority
		switch {
		case edge == nil:
			return fmt.Errorf("run %s did not start run %s", above.Run, c.Run)
		case edge.Carve != run.Amount{MicroUSD: authority.MicroUSD, Tokens: authority.Tokens} || edge.Snapshot != c.state.Started.SnapshotDigest:
			return fmt.Errorf("run %s began otherwise than run %s says", c.Run, above.Run)
		case edge.Ended != nil && edge.Ended.Head != c.end:
			return fmt.Errorf("run %s ends at %.12s, but run %s was told of the end %.12s", c.Run, c.end, above.Run, edge.Ended.Head)
		}
	}
	return nil
}

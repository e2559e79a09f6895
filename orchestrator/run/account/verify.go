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
}

// Verify reads an export and checks it: every byte, every digest, the order, and
// that each record follows from the rules. The error names the first bad record.
// Head, when not empty, is the digest that the last record must have, from a
// copy kept elsewhere: it shows an export that was cut short.
func Verify(r io.Reader, head string) (Report, error) {
	var report Report
	state := &run.State{}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	scanner.Split(splitLines)
	for scanner.Scan() {
		l, err := readLine(scanner.Bytes())
		if err != nil {
			return report, fmt.Errorf("record %d is not readable: %w", report.Records+1, err)
		}
		if report.Records == 0 {
			state.ID, report.Run = l.Run, l.Run
		}
		record := run.Record{Run: l.Run, Seq: l.Seq, Kind: l.Kind, Version: l.Version, AtMs: l.AtMs, Body: l.Body, Prev: l.Prev, Digest: l.Digest}
		if err := run.Replay(state, []run.Record{record}); err != nil {
			return report, fmt.Errorf("record %d does not verify: %w", report.Records+1, err)
		}
		report.Records++
		report.Head, report.Status = l.Digest, state.Status
	}
	if err := scanner.Err(); err != nil {
		return report, fmt.Errorf("read export: %w", err)
	}
	if report.Records == 0 {
		return report, fmt.Errorf("the export holds no record")
	}
	if head != "" && head != report.Head {
		return report, fmt.Errorf("the export ends at %.12s, but the head kept elsewhere is %.12s", report.Head, head)
	}
	return report, nil
}

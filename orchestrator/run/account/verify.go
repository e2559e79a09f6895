package account

import (
	"bufio"
	"encoding/json"
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
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	for _, r := range records {
		if err := encoder.Encode(line{r.Run, r.Seq, r.Kind, r.Version, r.AtMs, r.Prev, r.Digest, r.Body}); err != nil {
			return fmt.Errorf("export: %w", err)
		}
	}
	return nil
}

// Report is what a check of an export found.
type Report struct {
	Run     string
	Records int
	Head    string // digest of the last good record
	Status  run.Status
}

// Verify reads an export and checks it: every digest, the order, and that each
// record follows from the rules. The error names the first bad record. Head,
// when not empty, is the digest that the last record must have, from a copy
// kept elsewhere: it shows an export that was cut short.
func Verify(r io.Reader, head string) (Report, error) {
	var report Report
	state := &run.State{}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var l line
		if err := json.Unmarshal(scanner.Bytes(), &l); err != nil {
			return report, fmt.Errorf("record %d is not readable", report.Records+1)
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

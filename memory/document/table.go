package document

import (
	"encoding/csv"
	"errors"
	"io"
	"strconv"
	"strings"
)

const (
	between    = " | " // cells of a row
	headerMost = 400   // bytes of a header that is repeated in each passage
)

// table adds rows to a document, and before those of each passage the header.
// Where a row and the header are too long together, each cell gets a line with
// its column's name.
type table struct {
	out    *assembler
	names  []string
	header string
	piece  strings.Builder
	rows   int
}

func (a *assembler) table(names []string) *table {
	for i, name := range names {
		names[i] = oneLine(name)
	}
	return &table{out: a, names: names, header: strings.Join(names, between)}
}

func (t *table) add(cells []string) error {
	size := 0
	for i, cell := range cells {
		cells[i] = oneLine(cell)
		size += len(cells[i]) + len(between)
	}
	if size <= len(between)*len(cells) {
		return nil // nothing is in it
	}
	t.rows++
	if len(t.header) > headerMost || len(t.header)+1+size > most {
		if err := t.end(); err != nil {
			return err
		}
		return t.out.block(t.named(cells))
	}
	if t.piece.Len()+1+size > most {
		if err := t.end(); err != nil {
			return err
		}
	}
	if t.piece.Len() == 0 {
		t.piece.WriteString(t.header)
	}
	if t.piece.Len() > 0 {
		t.piece.WriteByte('\n')
	}
	t.piece.WriteString(strings.Join(cells, between))
	return nil
}

func (t *table) named(cells []string) string {
	var out strings.Builder
	for i, cell := range cells {
		if cell == "" {
			continue
		}
		if i < len(t.names) && t.names[i] != "" {
			out.WriteString(t.names[i] + ": ")
		}
		out.WriteString(cell + "\n")
	}
	return out.String()
}

func (t *table) end() error {
	if t.piece.Len() == 0 {
		return nil
	}
	piece := t.piece.String()
	t.piece.Reset()
	return t.out.block(piece)
}

// finish ends the table. One that has only a header is that.
func (t *table) finish() error {
	if t.rows == 0 {
		return t.out.block(t.header)
	}
	return t.end()
}

// readCSV reads rows, the first of which names the columns.
func (s *source) readCSV(text string) error {
	reader := csv.NewReader(strings.NewReader(text))
	reader.FieldsPerRecord = -1
	reader.LazyQuotes = true
	reader.Comma = delimiter(text)
	var rows *table
	for {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			at := ""
			if wrong := (*csv.ParseError)(nil); errors.As(err, &wrong) {
				at = " after line " + strconv.Itoa(wrong.StartLine)
			}
			return unreadable(CodeMalformed, "It breaks the rules of CSV"+at+"; correct it there.")
		}
		if rows == nil {
			rows = s.out.table(record)
			continue
		}
		if err := rows.add(record); err != nil {
			return err
		}
	}
	if rows == nil {
		return nil
	}
	return rows.finish()
}

// delimiter is what the first line has most of, of what separates cells.
func delimiter(text string) rune {
	line, _, _ := strings.Cut(text, "\n")
	best := ','
	for _, candidate := range []rune{';', '\t', '|'} {
		if strings.Count(line, string(candidate)) > strings.Count(line, string(best)) {
			best = candidate
		}
	}
	return best
}

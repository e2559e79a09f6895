// Package table is the form in which a table of word vectors is kept: in one
// file, a byte for each dimension.
package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
)

// Table has a vector for each of many stems.
type Table struct {
	Dim     int
	Stems   []string // sorted
	Weights []uint8  // by stem: how much it says in a text, of 255; frequent words say little
	Vectors []int8   // by stem, Dim for each; their lengths mean nothing
}

// magic begins a table and names its form.
const magic = "gantry words 1\n"

// ErrNotTable means that bytes are no table of this form.
var ErrNotTable = errors.New("not a table of word vectors")

// Encode returns the bytes of a table; the same for the same table.
func (t Table) Encode() []byte {
	stems := strings.Join(t.Stems, "\n")
	var out bytes.Buffer
	out.WriteString(magic)
	for _, n := range [3]int{t.Dim, len(t.Stems), len(stems)} {
		out.Write(binary.LittleEndian.AppendUint32(nil, uint32(n)))
	}
	out.WriteString(stems)
	out.Write(t.Weights)
	for _, v := range t.Vectors {
		out.WriteByte(byte(v))
	}
	return out.Bytes()
}

// Decode reads a table.
func Decode(from string) (Table, error) {
	rest, ok := strings.CutPrefix(from, magic)
	if !ok || len(rest) < 12 {
		return Table{}, ErrNotTable
	}
	number := func(at int) int { return int(binary.LittleEndian.Uint32([]byte(rest[at : at+4]))) }
	dim, count, length := number(0), number(4), number(8)
	rest = rest[12:]
	if dim <= 0 || count <= 0 || count > math.MaxInt32/dim || len(rest) != length+count+count*dim {
		return Table{}, fmt.Errorf("%w: %d bytes for %d stems in %d dimensions", ErrNotTable, len(rest), count, dim)
	}
	t := Table{Dim: dim, Stems: strings.Split(rest[:length], "\n"), Weights: []uint8(rest[length : length+count])}
	if len(t.Stems) != count {
		return Table{}, fmt.Errorf("%w: %d stems where there should be %d", ErrNotTable, len(t.Stems), count)
	}
	t.Vectors = make([]int8, count*dim)
	for i := range t.Vectors {
		t.Vectors[i] = int8(rest[length+count+i])
	}
	return t, nil
}

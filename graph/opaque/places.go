package opaque

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
)

// Places say how far a reader is in each run of a tree. They grow with the runs
// of the tree that were told, by about ten bytes each.
type Places struct {
	top  string // run id of the run at the top
	told map[runKey]uint64
}

// runKey stands for a run id in a cursor: the beginning of its SHA-256.
type runKey [8]byte

// maxPlacesBytes bounds what is decoded as the cursor of a tree.
const maxPlacesBytes = 64 << 10

func keyOf(run string) runKey {
	sum := sha256.Sum256([]byte(run))
	return runKey(sum[:len(runKey{})])
}

// ReadPlaces returns the places in a cursor of the tree below a run; for none
// they are all at the beginning. Errors: ErrCursor.
func ReadPlaces(after *string, top string) (Places, error) {
	p := Places{top: top, told: map[runKey]uint64{}}
	if after == nil {
		return p, nil
	}
	parts, ok := readUpTo(*after, maxPlacesBytes)
	if !ok || len(parts) != 3 || parts[0] != "tree" || parts[1] != top {
		return Places{}, ErrCursor
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return Places{}, ErrCursor
	}
	for len(raw) > 0 {
		var key runKey
		if len(raw) <= len(key) {
			return Places{}, ErrCursor
		}
		seq, read := binary.Uvarint(raw[copy(key[:], raw):])
		if read <= 0 {
			return Places{}, ErrCursor
		}
		p.told[key] = seq
		raw = raw[len(key)+read:]
	}
	if p.Cursor() != *after { // runs out of order, twice, or at no place
		return Places{}, ErrCursor
	}
	return p, nil
}

// Of returns the number of the last record of a run that was told, 0 for none.
func (p Places) Of(run string) uint64 { return p.told[keyOf(run)] }

// Tell says that a run was told up to a number.
func (p Places) Tell(run string, seq uint64) { p.told[keyOf(run)] = seq }

// Clone returns places of their own.
func (p Places) Clone() Places { return Places{top: p.top, told: maps.Clone(p.told)} }

// Within reports whether every place is one of these runs, by how many records
// each of them has.
func (p Places) Within(versions map[string]uint64) bool {
	reached := 0
	for run, version := range versions {
		if seq := p.Of(run); seq > version {
			return false
		} else if seq > 0 {
			reached++
		}
	}
	return reached == len(p.told)
}

// Cursor writes the places.
func (p Places) Cursor() string {
	var raw []byte
	for _, key := range slices.SortedFunc(maps.Keys(p.told), func(a, b runKey) int { return bytes.Compare(a[:], b[:]) }) {
		if p.told[key] > 0 {
			raw = binary.AppendUvarint(append(raw, key[:]...), p.told[key])
		}
	}
	return Write([]string{"tree", p.top, base64.RawURLEncoding.EncodeToString(raw)})
}

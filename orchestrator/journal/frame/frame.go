// Package frame is the form in which a journal keeps the records of one write:
// packed together, as one value of one row.
//
// A frame begins with its form. Form 1 goes on with
//
//	count       uvarint; how many records it holds
//	link        one byte; 0 where no record comes before the first one, else 1 or 2
//	before      where link is 1, 32 bytes: the digest of the record before;
//	            where it is 2, uvarint of a length, and bytes: a text that stood for it
//	digests     32 bytes for each record, in order
//
// and then for each record with
//
//	kind        uvarint of its length, and its bytes
//	version     varint of the event's format
//	time        varint; UTC ms, for all but the first what is added to the one before
//	body        uvarint of its length, and its bytes: canonical JSON
//
// In form 2 what is there for the records is one S2 block instead, which takes up
// words.txt as its dictionary. Uvarint and varint are those of encoding/binary. Which run the records are of,
// and the number of the last of them, stand beside the frame. A record's digest
// of the one before it is the digest that stands before its own.
package frame

import (
	_ "embed" // holds the dictionary
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/klauspost/compress/s2"

	"gantry.dev/orchestrator/run"
)

// The forms of frames.
const (
	plain  = 1
	packed = 2
)

// A frame holds at most so many records, and so many bytes of them.
const (
	mostRecords = 1 << 16
	mostBytes   = 64 << 20
)

// words are what most records say, as they say it. Frames cannot be read by
// other words than those that they were written with.
//
//go:embed words.txt
var words []byte

var dictionary = s2.MakeDict(words, nil)

const digestBytes = 32

// What a frame may be linked to.
const (
	unlinked     = 0
	linked       = 1
	linkedToText = 2
)

// ErrDigest is returned where a record's digest is none, or what it has for that
// of the one before is another one.
var ErrDigest = errors.New("the records have no digests that follow each other")

// ErrSize is returned for no records, and for more than a frame holds.
var ErrSize = errors.New("a frame holds one record at least, 65,536 at most, and 64 MiB of them")

// errForm is why bytes are no frame.
var errForm = errors.New("it is no frame")

// Pack packs records that follow each other in one run. Errors: ErrDigest,
// ErrSize.
func Pack(records []run.Record) ([]byte, error) {
	if len(records) == 0 || len(records) > mostRecords {
		return nil, ErrSize
	}
	size := 0
	for i := range records {
		size += 32 + len(records[i].Kind) + len(records[i].Body)
	}
	if size > mostBytes {
		return nil, ErrSize
	}
	open, atMs := make([]byte, 0, size), int64(0)
	for i := range records {
		r := &records[i]
		open = appendBytes(open, string(r.Kind))
		open = binary.AppendVarint(open, int64(r.Version))
		open = binary.AppendVarint(open, r.AtMs-atMs)
		open, atMs = appendBytes(open, r.Body), r.AtMs
	}
	form, content := byte(packed), dictionary.Encode(nil, open)
	if len(content) >= len(open) {
		form, content = plain, open
	}
	frame := make([]byte, 0, 16+(len(records)+1)*digestBytes+len(content))
	frame, err := appendDigests(binary.AppendUvarint(append(frame, form), uint64(len(records))), records)
	return append(frame, content...), err
}

func appendBytes[T ~string | ~[]byte](to []byte, value T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

func appendDigests(to []byte, records []run.Record) (_ []byte, err error) {
	before := records[0].Prev
	if before == "" {
		to = append(to, unlinked)
	} else if linkedTo, err := appendDigest(append(to, linked), before); err == nil {
		to = linkedTo
	} else {
		to = appendBytes(append(to, linkedToText), before)
	}
	for i := range records {
		if records[i].Prev != before {
			return nil, fmt.Errorf("%w: record %d", ErrDigest, records[i].Seq)
		}
		before = records[i].Digest
		if to, err = appendDigest(to, before); err != nil {
			return nil, err
		}
	}
	return to, nil
}

func appendDigest(to []byte, digest string) ([]byte, error) {
	if len(digest) != 2*digestBytes {
		return nil, fmt.Errorf("%w: %q", ErrDigest, digest)
	}
	for i := 0; i < len(digest); i += 2 {
		high, low := strings.IndexByte(digits, digest[i]), strings.IndexByte(digits, digest[i+1])
		if high < 0 || low < 0 {
			return nil, fmt.Errorf("%w: %q", ErrDigest, digest)
		}
		to = append(to, byte(high<<4|low))
	}
	return to, nil
}

// digits are those of a digest's text, which has no capitals.
const digits = "0123456789abcdef"

// kinds are all kinds of records, by their text.
var kinds = func() map[string]run.EventKind {
	known := map[string]run.EventKind{}
	for _, cell := range run.Transitions() {
		known[string(cell.Kind)] = cell.Kind
	}
	return known
}()

func kindOf(text []byte) run.EventKind {
	if kind, known := kinds[string(text)]; known {
		return kind
	}
	return run.EventKind(text)
}

// Row is a frame where a journal keeps it.
type Row struct {
	Run   string
	Seq   uint64 // of its last record
	Count uint64 // how many records it should hold
	Frame []byte
}

// Records unpacks the frame. A frame that is none of that place gives as many
// records as it should hold, without a kind, a body and a digest: they break the
// chain of their run where it is read, and hide no gap. What is returned shares
// the frame's memory.
func (r Row) Records() []run.Record {
	if records, err := r.unpack(); err == nil {
		return records
	}
	count := max(1, min(r.Count, r.Seq, mostRecords))
	records := make([]run.Record, count)
	for i := range records {
		records[i] = run.Record{Run: r.Run, Seq: r.Seq - count + 1 + uint64(i)}
	}
	return records
}

func (r Row) unpack() ([]run.Record, error) {
	in := reader{left: r.Frame}
	form := in.byte()
	if in.uvarint() != r.Count || r.Count == 0 || r.Count > min(mostRecords, r.Seq) {
		return nil, errForm
	}
	before, digests := in.digests(int(r.Count))
	if in.failed { // before memory is taken for what they would belong to
		return nil, errForm
	}
	if err := in.open(form); err != nil {
		return nil, err
	}
	records := make([]run.Record, r.Count)
	atMs := int64(0)
	for i := range records {
		one := &records[i]
		one.Run, one.Seq = r.Run, r.Seq-r.Count+1+uint64(i)
		one.Kind = kindOf(in.bytes())
		one.Version = int(in.varint())
		atMs += in.varint()
		one.AtMs, one.Body = atMs, in.bytes()
		one.Prev, one.Digest = before, digests[:2*digestBytes]
		before, digests = one.Digest, digests[2*digestBytes:]
	}
	if in.failed || len(in.left) > 0 {
		return nil, errForm
	}
	return records, nil
}

// reader takes a frame apart. Once it failed it gives zeros.
type reader struct {
	left   []byte
	failed bool
}

func (in *reader) take(size uint64) []byte {
	if in.failed || size > uint64(len(in.left)) {
		in.failed = true
		return nil
	}
	taken := in.left[:size:size]
	in.left = in.left[size:]
	return taken
}

func (in *reader) byte() byte {
	if taken := in.take(1); taken != nil {
		return taken[0]
	}
	return 0
}

func (in *reader) uvarint() uint64 {
	value, size := binary.Uvarint(in.left)
	in.take(uint64(max(size, 0)))
	in.failed = in.failed || size <= 0
	return value
}

func (in *reader) varint() int64 {
	value, size := binary.Varint(in.left)
	in.take(uint64(max(size, 0)))
	in.failed = in.failed || size <= 0
	return value
}

func (in *reader) bytes() []byte { return in.take(in.uvarint()) }

// open goes on with what a form holds for the records.
func (in *reader) open(form byte) (err error) {
	switch form {
	case plain:
		return nil
	case packed:
		if size, err := s2.DecodedLen(in.left); err != nil || size > mostBytes {
			return errForm
		}
		in.left, err = dictionary.Decode(nil, in.left)
		return err
	}
	return errForm
}

// digests are the one before the records, and those of so many records, one
// after the other.
func (in *reader) digests(count int) (before, own string) {
	switch in.byte() {
	case unlinked:
	case linked:
		before = hex.EncodeToString(in.take(digestBytes))
	case linkedToText:
		before = string(in.bytes())
	default:
		in.failed = true
	}
	return before, hex.EncodeToString(in.take(uint64(count) * digestBytes))
}

// Settles reports whether a record of a kind says what something cost.
func Settles(kind run.EventKind) bool {
	return kind == run.KindTurnAnswered || kind == run.KindCallEnded
}

// SettledMs is the latest time, UTC ms, of a record that settles, 0 for none.
func SettledMs(records []run.Record) (atMs int64) {
	for i := range records {
		if Settles(records[i].Kind) {
			atMs = max(atMs, records[i].AtMs)
		}
	}
	return atMs
}

package frame_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/journal/frame"
	"gantry.dev/orchestrator/run"
)

func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:])
}

// written are records as a run writes them, from a number on.
func written(from uint64, bodies ...string) (records []run.Record) {
	prev := ""
	if from > 1 {
		prev = digest("before")
	}
	if from%5 == 4 {
		prev = "damaged"
	}
	for i, body := range bodies {
		r := run.Record{Run: "r", Seq: from + uint64(i), Kind: run.KindTurnStarted, Version: 2, AtMs: 1_700_000_000_000 + int64(i), Body: []byte(body), Prev: prev}
		r.Digest = run.Chain(r)
		records, prev = append(records, r), r.Digest
	}
	return records
}

func TestWhatIsPackedComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Uint64Range(1, 1<<62).Draw(t, "from")
		bodies := rapid.SliceOfN(rapid.String(), 1, 20).Draw(t, "bodies")
		records := written(from, bodies...)
		for i := range records {
			records[i].Kind = run.EventKind(rapid.String().Draw(t, "kind"))
			records[i].Version, records[i].AtMs = rapid.Int().Draw(t, "version"), rapid.Int64().Draw(t, "at")
		}
		packed, err := frame.Pack(records)
		require.NoError(t, err)
		row := frame.Row{Run: "r", Seq: from + uint64(len(records)) - 1, Count: uint64(len(records)), Frame: packed}
		require.Equal(t, records, row.Records())
	})
}

func TestWhatHasNoChainIsNotPacked(t *testing.T) {
	for name, spoil := range map[string]func(r []run.Record){
		"no digest":      func(r []run.Record) { r[1].Digest = "" },
		"another one":    func(r []run.Record) { r[0].Digest = digest("another") },
		"of capitals":    func(r []run.Record) { r[1].Digest = strings.ToUpper(r[1].Digest) },
		"longer":         func(r []run.Record) { r[1].Digest += "00" },
		"no hexadecimal": func(r []run.Record) { r[1].Digest = strings.Repeat("z", 64) },
	} {
		records := written(7, "{}", "{}")
		spoil(records)
		_, err := frame.Pack(records)
		require.ErrorIs(t, err, frame.ErrDigest, name)
	}
	_, err := frame.Pack(nil)
	require.ErrorIs(t, err, frame.ErrSize)
	_, err = frame.Pack(make([]run.Record, 1<<16+1))
	require.ErrorIs(t, err, frame.ErrSize)
}

// A frame of which any byte is another one never gives records that keep the
// chain, and always as many as there should be.
func TestNoOtherByteKeepsTheChain(t *testing.T) {
	records := written(3, `{"turn":1}`, `{"turn":2,"text":"`+strings.Repeat("of some length ", 20)+`"}`, `{}`)
	packed, err := frame.Pack(records)
	require.NoError(t, err)
	check := func(name string, row frame.Row, want int) {
		got := row.Records()
		require.Len(t, got, want, name)
		require.Equal(t, row.Seq, got[want-1].Seq, name)
		broken := false
		prev := records[0].Prev
		for i, r := range got {
			if i == 0 && reflect.DeepEqual(records, got) {
				return // said in other bytes
			}
			broken = broken || r.Prev != prev || run.Chain(r) != r.Digest
			prev = r.Digest
		}
		require.True(t, broken || prev != records[2].Digest, name)
	}
	for at := range packed {
		for _, flip := range []byte{1, 0x80, 0xff} {
			other := append([]byte{}, packed...)
			other[at] ^= flip
			check(fmt.Sprint("byte ", at), frame.Row{Run: "r", Seq: 5, Count: 3, Frame: other}, 3)
		}
		check(fmt.Sprint("cut at ", at), frame.Row{Run: "r", Seq: 5, Count: 3, Frame: packed[:at]}, 3)
	}
	check("longer", frame.Row{Run: "r", Seq: 5, Count: 3, Frame: append(packed[:len(packed):len(packed)], 0)}, 3)
	check("of fewer", frame.Row{Run: "r", Seq: 5, Count: 2, Frame: packed}, 2)
	check("of none", frame.Row{Run: "r", Seq: 5, Count: 0, Frame: packed}, 1)
	check("of more than there are", frame.Row{Run: "r", Seq: 2, Count: 3, Frame: packed}, 2)
	check("of another run", frame.Row{Run: "s", Seq: 5, Count: 3, Frame: packed}, 3)
	check("at another place", frame.Row{Run: "r", Seq: 6, Count: 3, Frame: packed}, 3)
}

// Frames are read by the words that they were written with: another form may
// bring others.
func TestTheWordsStay(t *testing.T) {
	words, err := os.ReadFile("words.txt")
	require.NoError(t, err)
	require.Equal(t, "3e83eccd391b9e1d1d7c076a4047d697813632598e4a86b3e98807fa7e2689a7", digest(string(words)))
}

// Records that say what most say take a third, others no more than they are.
func TestWhatIsOftenSaidTakesLittle(t *testing.T) {
	for body, most := range map[string]int{
		`{"call":7,"cost":{"microUsd":0,"tokens":0},"fingerprint":"","outcome":"OK"}`: 70,
		digest("a") + digest("b"): 190,
	} {
		frame, err := frame.Pack(written(1, body))
		require.NoError(t, err)
		require.LessOrEqual(t, len(frame), most)
	}
}

// A frame that says it is very long takes no memory for it.
func TestABlockIsBounded(t *testing.T) {
	records := written(1, "{}")
	open, err := frame.Pack(records)
	require.NoError(t, err)
	long := append([]byte{2}, open[1:3+32]...)
	long = binary.AppendUvarint(long, 65<<20)
	got := frame.Row{Run: "r", Seq: 1, Count: 1, Frame: append(long, make([]byte, 100)...)}.Records()
	require.Equal(t, []run.Record{{Run: "r", Seq: 1}}, got)
}

func BenchmarkFrame(b *testing.B) {
	result := `{"call":4,"cost":{"microUsd":0,"tokens":0},"fingerprint":"77c12d6b6105dc38a1ff7c9747a04eee","outcome":"OK","result":{"commitment":"` + digest("c") +
		`","id":"01a22f9c-bcf2-7707-b963-c2455834c941","marking":{"integrity":"TOOL","labels":["load"]},"size":168,"subject":"bench.asker"}}`
	records := written(7, result, strings.Replace(result, digest("c"), digest("d"), 1), `{"attempt":1,"context":{"bytes":3016,"limit":100000000,"tokens":252},"prompt":"`+digest("e")+`"}`)
	packed, err := frame.Pack(records)
	require.NoError(b, err)
	b.Run("pack", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = frame.Pack(records)
		}
		b.ReportMetric(float64(len(packed)), "bytes")
	})
	b.Run("records", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frame.Row{Run: "r", Seq: 9, Count: 3, Frame: packed}.Records()
		}
	})
}

func FuzzRecords(f *testing.F) {
	for n := range 4 {
		packed, err := frame.Pack(written(1, make([]string, n+1)...))
		require.NoError(f, err)
		f.Add(packed, uint64(n+1), uint64(n+1))
	}
	f.Add([]byte{}, uint64(0), uint64(1<<63))
	f.Fuzz(func(t *testing.T, packed []byte, seq, count uint64) {
		records := frame.Row{Run: "r", Seq: seq, Count: count, Frame: packed}.Records()
		if again, err := frame.Pack(records); err == nil { // it was one
			require.Equal(t, records, frame.Row{Run: "r", Seq: seq, Count: count, Frame: again}.Records())
		}
	})
}

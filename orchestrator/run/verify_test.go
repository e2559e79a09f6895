package run_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// exportOf is the export of a random journal, with the digest of its head.
func exportOf(t *rapid.T, p *player) ([]byte, string) {
	var export bytes.Buffer
	require.NoError(t, account.Export(&export, p.records))
	report, err := account.Verify(bytes.NewReader(export.Bytes()), p.s.Head)
	require.NoError(t, err)
	require.Equal(t, account.Report{Run: "r1", Records: len(p.records), Head: p.s.Head, Status: p.s.Status}, report)
	return export.Bytes(), p.s.Head
}

// A flipped byte is found without a head kept elsewhere, wherever it stands: in
// a body, a digest, a number, a name, a bracket or a line's end.
func TestAnyFlippedByteOfAnExportIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		export, _ := exportOf(t, play(t, 15))
		for range 20 {
			at := rapid.IntRange(0, len(export)-1).Draw(t, "at")
			flip := rapid.ByteRange(1, 255).Draw(t, "flip")
			flipped := slices.Clone(export)
			flipped[at] ^= flip
			_, err := account.Verify(bytes.NewReader(flipped), "")
			require.Error(t, err, "byte %d: %q became %q", at, export[at], flipped[at])
		}
	})
}

// Every byte of one short journal, each changed in case and in its lowest bit.
func TestEveryByteOfAnExportCounts(t *testing.T) {
	var export bytes.Buffer
	require.NoError(t, account.Export(&export, []run.Record{begin(t).last}))
	for at := range export.Len() {
		for _, flip := range []byte{1, 7, 32} { // 7 makes a line's end a carriage return
			flipped := bytes.Clone(export.Bytes())
			flipped[at] ^= flip
			_, err := account.Verify(bytes.NewReader(flipped), "")
			require.Error(t, err, "byte %d ^ %d: %q", at, flip, export.Bytes()[max(at-10, 0):at+1])
		}
	}
}

func TestALostMovedOrForeignRecordIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, 15)
		export, head := exportOf(t, p)
		lines := bytes.SplitAfter(bytes.TrimSuffix(export, []byte("\n")), []byte("\n"))
		if len(lines) < 3 {
			t.Skip("too short to lose a record in the middle")
		}
		at := rapid.IntRange(0, len(lines)-2).Draw(t, "at")
		lost := slices.Delete(slices.Clone(lines), at, at+1)
		_, err := account.Verify(bytes.NewReader(bytes.Join(lost, nil)), "")
		require.Error(t, err, "record %d is lost", at+1)
		moved := slices.Clone(lines)
		moved[at], moved[at+1] = bytes.TrimSuffix(moved[at+1], []byte("\n")), moved[at]
		moved[at] = append(bytes.Clone(moved[at]), '\n')
		_, err = account.Verify(bytes.NewReader(bytes.Join(moved, nil)), "")
		require.Error(t, err, "records %d and %d changed places", at+1, at+2)
		twice := slices.Insert(slices.Clone(lines), at, lines[at])
		_, err = account.Verify(bytes.NewReader(bytes.Join(twice, nil)), "")
		require.Error(t, err, "record %d stands twice", at+1)
		cut := bytes.Join(lines[:len(lines)-1], nil)
		_, err = account.Verify(bytes.NewReader(cut), head)
		require.ErrorContains(t, err, "kept elsewhere", "the end is cut off")
	})
}

// A chain that is whole again after a forger computed it anew still breaks
// where a record does not follow from the rules.
func TestAForgedRecordIsFoundByTheRules(t *testing.T) {
	w := begin(t)
	w.turn("held")
	forged, err := run.Encode("r1", w.last, 1000, run.CallIntended{Call: 1, Intent: 1, Epoch: 1, Key: "k"})
	require.NoError(t, err)
	require.ErrorIs(t, run.Replay(w.s, []run.Record{forged}), run.ErrBroken, "an intent on an approval that nobody gave")
}

func TestAnySignsInAJournalVerify(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, 0)
		words := rapid.SampledFrom([]string{"<&>", "\u2028", "\"\\\n", "\u0000", "é", "😀", "�"})
		for range 5 {
			p.send(run.Steer{Steer: p.id() + words.Draw(t, "id"), By: run.Identity{Principal: words.Draw(t, "by")},
				Text: run.Text{ID: p.id(), Subject: words.Draw(t, "subject"), Marking: policy.Marking{Labels: policy.Labels{policy.Label(words.Draw(t, "label"))}}}})
		}
		exportOf(t, p)
	})
}

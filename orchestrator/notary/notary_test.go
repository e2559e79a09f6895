package notary_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/notary"
)

// first is what the first fault must say.
type first struct {
	code notary.Code
	run  string
	seq  uint64
	head uint64
}

// What somebody does who has the whole database, and what the heads outside say
// of it: two heads cover north-1 up to records 3 and 5.
func TestFault_N1_TheFirstBadRecordIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(h *house, tx *sql.Tx)
		want   first
	}{
		"a byte of a record": {func(h *house, tx *sql.Tx) {
			h.do(tx, "UPDATE journal SET body = CAST(replace(CAST(body AS TEXT), 'ada', 'eve') AS BLOB) WHERE run = 'north-1' AND seq = 2")
		}, first{notary.RecordChanged, "north-1", 2, 0}},
		"the time of a record": {func(h *house, tx *sql.Tx) {
			h.do(tx, "UPDATE journal SET at_ms = at_ms + 1 WHERE run = 'north-1' AND seq = 4")
		},
			first{notary.RecordChanged, "north-1", 4, 0}},
		"a record in the middle is gone": {func(h *house, tx *sql.Tx) { h.do(tx, "DELETE FROM journal WHERE run = 'north-1' AND seq = 3") },
			first{notary.RecordMissing, "north-1", 3, 0}},
		"a record in the middle is gone and the rest moved up": {func(h *house, tx *sql.Tx) {
			h.do(tx, "DELETE FROM journal WHERE run = 'north-1' AND seq = 2")
			for seq := 3; seq <= 5; seq++ {
				h.do(tx, "UPDATE journal SET seq = seq - 1 WHERE run = 'north-1' AND seq = ?", seq)
			}
			h.rechain(tx, "north-1", 2)
			h.do(tx, "UPDATE heads SET version = 4 WHERE run = 'north-1'")
		}, first{notary.RecordChanged, "north-1", 1, 0}},
		"two records changed places": {func(h *house, tx *sql.Tx) {
			h.do(tx, "UPDATE journal SET seq = 99 WHERE run = 'north-1' AND seq = 3")
			h.do(tx, "UPDATE journal SET seq = 3 WHERE run = 'north-1' AND seq = 4")
			h.do(tx, "UPDATE journal SET seq = 4 WHERE run = 'north-1' AND seq = 99")
		}, first{notary.RecordChanged, "north-1", 3, 0}},
		"the end of a run is cut off": {func(h *house, tx *sql.Tx) {
			h.do(tx, "DELETE FROM journal WHERE run = 'north-1' AND seq > 4")
			h.do(tx, "UPDATE heads SET version = 4, digest = (SELECT digest FROM journal WHERE run = 'north-1' AND seq = 4) WHERE run = 'north-1'")
		}, first{notary.RecordMissing, "north-1", 5, 0}},
		"a whole run is gone": {func(h *house, tx *sql.Tx) {
			h.do(tx, "DELETE FROM journal WHERE run = 'north-2'")
			h.do(tx, "DELETE FROM heads WHERE run = 'north-2'")
		}, first{notary.RunMissing, "north-2", 1, 0}},
		"the end is written and chained again": {func(h *house, tx *sql.Tx) {
			h.do(tx, "UPDATE journal SET at_ms = at_ms + 1 WHERE run = 'north-1' AND seq = 5")
			h.rechain(tx, "north-1", 5)
		}, first{notary.RecordChanged, "north-1", 4, 0}},
		"another history takes its place from the start": {func(h *house, tx *sql.Tx) {
			h.do(tx, "UPDATE journal SET at_ms = at_ms + 1 WHERE run = 'north-1' AND seq = 2")
			h.rechain(tx, "north-1", 2)
		}, first{notary.RecordChanged, "north-1", 1, 0}},
		"a run is slipped in with an old time": {func(h *house, tx *sql.Tx) {
			h.do(tx, "INSERT INTO journal SELECT 'north-9', seq, kind, version, at_ms - 3600000, body, prev, digest, 'forged', n + 1000 FROM journal WHERE run = 'north-2'")
			h.do(tx, `INSERT INTO heads SELECT 'north-9', version, digest, epoch, owner, lease_until, status, 0, organisation, root, parent, conversation, subject, agent,
				department, labels, started_ms, ended_ms, news, heard FROM heads WHERE run = 'north-2'`)
		}, first{notary.RecordUncovered, "north-9", 1, 0}},
		"the database's own heads are gone": {func(h *house, tx *sql.Tx) { h.do(tx, "DELETE FROM signed_heads WHERE organisation = 'north'") },
			first{notary.DatabaseBehind, "", 0, 1}},
		"one of the database's own heads is gone": {func(h *house, tx *sql.Tx) {
			h.do(tx, "DELETE FROM signed_heads WHERE organisation = 'north' AND number = 1")
		},
			first{notary.DatabaseBehind, "", 0, 1}},
		"a head of the database is another one": {func(h *house, tx *sql.Tx) {
			h.do(tx, "UPDATE signed_heads SET body = replace(body, '\"runs\":2', '\"runs\":1') WHERE organisation = 'north' AND number = 1")
		}, first{notary.HeadForked, "", 0, 1}},
		"the database goes on with a head that nobody signed": {func(h *house, tx *sql.Tx) {
			h.do(tx, "INSERT INTO signed_heads SELECT organisation, 3, body FROM signed_heads WHERE organisation = 'north' AND number = 2")
		}, first{notary.HeadOrder, "", 0, 3}},
	} {
		t.Run(name, func(t *testing.T) {
			h := signedTwice(t)
			h.damage(func(tx *sql.Tx) { c.damage(h, tx) })
			_, found := h.check()
			require.NotEmpty(t, found)
			require.Equal(t, c.want, first{found[0].Code, found[0].Run, found[0].Seq, found[0].Head}, "%v", found)
			require.Equal(t, "north", found[0].Organisation)
			require.Contains(t, found[0].String(), string(c.want.code)+" organisation=north")
		})
	}
}

// signedTwice has north-1 covered up to record 3 and then 5, north-2 and south-3
// up to 3, and one record of north-1 that is newer.
func signedTwice(t *testing.T) *house {
	h := newHouse(t)
	h.start("north")
	h.start("north")
	h.start("south")
	h.sign()
	h.steer("north", "north-1", 2)
	h.sign()
	report, found := h.check()
	require.Empty(t, found)
	require.Equal(t, notary.Report{Organisations: 2, Heads: 3, Runs: 3, Records: 11}, report)
	return h
}

// What is done to the copy outside is found out too.
func TestFault_N1_AChangedCopyOutsideIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(lines [][]byte) [][]byte
		want   first
	}{
		"a line is gone":           {func(lines [][]byte) [][]byte { return lines[1:] }, first{notary.HeadOrder, "", 0, 1}},
		"two lines changed places": {func(lines [][]byte) [][]byte { return [][]byte{lines[1], lines[0]} }, first{notary.HeadOrder, "", 0, 1}},
		"a line comes twice":       {func(lines [][]byte) [][]byte { return [][]byte{lines[0], lines[0], lines[1]} }, first{notary.HeadOrder, "", 0, 2}},
		"a number is another one":  {func(lines [][]byte) [][]byte { return replaced(lines, `"records":6`, `"records":7`) }, first{notary.HeadUnsigned, "", 0, 1}},
		"the same in other bytes":  {func(lines [][]byte) [][]byte { return replaced(lines, `"records":6`, `"records": 6`) }, first{notary.HeadUnreadable, "", 0, 1}},
		"a line is no head":        {func([][]byte) [][]byte { return [][]byte{[]byte("hello")} }, first{notary.HeadUnreadable, "", 0, 1}},
		"a head of other's": {func(lines [][]byte) [][]byte {
			return replaced(lines, `"organisation":"north"`, `"organisation":"south"`)
		}, first{notary.HeadUnsigned, "", 0, 1}},
		"the epoch is another one":     {func(lines [][]byte) [][]byte { return replaced(lines, `"epoch":1`, `"epoch":2`) }, first{notary.HeadUnsigned, "", 0, 1}},
		"the file is empty of a sort":  {func([][]byte) [][]byte { return nil }, first{notary.HeadsMissing, "", 0, 1}},
		"every flipped byte of a head": {nil, first{}},
	} {
		t.Run(name, func(t *testing.T) {
			h := signedTwice(t)
			lines := bytes.Split(bytes.TrimSuffix(h.lines("north"), []byte("\n")), []byte("\n"))
			require.Len(t, lines, 2)
			if c.damage == nil {
				everyByte(t, h.ring, lines[0])
				return
			}
			h.lay("north", c.damage(lines))
			_, found := h.check()
			require.NotEmpty(t, found)
			require.Equal(t, c.want, first{found[0].Code, found[0].Run, found[0].Seq, found[0].Head}, "%v", found)
		})
	}
}

func everyByte(t *testing.T, ring notary.Ring, line []byte) {
	for at := range line {
		changed := bytes.Clone(line)
		changed[at] ^= 1
		require.NotNil(t, notary.NewSeries("north", ring).Add(changed), "byte %d", at)
	}
	require.Nil(t, notary.NewSeries("north", ring).Add(line))
	require.NotNil(t, notary.NewSeries("south", ring).Add(line), "it is another organisation's")
}

func replaced(lines [][]byte, old, with string) [][]byte {
	return [][]byte{bytes.Replace(lines[0], []byte(old), []byte(with), 1), lines[1]}
}

func (h *house) lay(organisation string, lines [][]byte) {
	var text []byte
	for _, line := range lines {
		text = append(append(text, line...), '\n')
	}
	require.NoError(h.t, os.WriteFile(h.file(organisation), text, 0o600))
}

// An old copy of the database knows nothing of what came after it. It is found,
// and no process signs on from it as if nothing had been.
func TestFault_N1_AnOldBackupInPlaceIsNamedAndNotSignedOn(t *testing.T) {
	h := newHouse(t)
	h.start("north")
	h.sign()
	require.NoError(t, h.notary.Close())
	require.NoError(t, h.store.Close())
	backup, err := os.ReadFile(h.path)
	require.NoError(t, err)
	h.open()
	h.steer("north", "north-1", 2)
	h.start("north")
	h.sign()
	require.NoError(t, h.notary.Close())
	require.NoError(t, h.store.Close())
	require.NoError(t, os.WriteFile(h.path, backup, 0o600))
	h.open()

	_, found := h.check()
	require.Len(t, found, 3)
	require.Equal(t, first{notary.DatabaseBehind, "", 0, 2}, first{found[0].Code, found[0].Run, found[0].Seq, found[0].Head})
	require.Equal(t, first{notary.RecordMissing, "north-1", 4, 0}, first{found[1].Code, found[1].Run, found[1].Seq, found[1].Head})
	require.Equal(t, first{notary.RunMissing, "north-2", 1, 0}, first{found[2].Code, found[2].Run, found[2].Seq, found[2].Head})

	before := h.lines("north")
	h.steer("north", "north-1", 1)
	var fault notary.Fault
	require.ErrorAs(t, h.notary.Sign(t.Context()), &fault)
	require.Equal(t, notary.DatabaseBehind, fault.Code)
	require.Equal(t, before, h.lines("north"))

	require.NoError(t, h.notary.Close())
	h.folder = filepath.Join(t.TempDir(), "heads") // somebody has looked, and gives an empty one
	h.notary = h.newNotary(h.folder)
	h.sign()
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 2, report.Heads)
	require.EqualValues(t, 4, report.Records)
}

// The texts of a person are gone; records and heads hold commitments only.
func TestFault_N3_HeadsAndChainsVerifyAfterErasure(t *testing.T) {
	h := signedTwice(t)
	require.NoError(t, h.store.EraseSubject(t.Context(), "ada"))
	h.again()
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 11, report.Records)
	opened, err := h.store.Payloads(t.Context(), textsOf(t, h, "north-1"))
	require.NoError(t, err)
	require.Empty(t, opened, "the texts are gone")
}

// textsOf are the ids of the texts of a run's records.
func textsOf(t *testing.T, h *house, id string) []string {
	state, err := h.engine.State(t.Context(), id)
	require.NoError(t, err)
	var ids []string
	for _, text := range state.Texts() {
		ids = append(ids, text.ID)
	}
	require.NotEmpty(t, ids)
	return ids
}

// A new key takes over, and what the old one signed still verifies. The epoch
// stands in each head.
func TestFault_N4_OldHeadsVerifyAfterTheKeyIsReplaced(t *testing.T) {
	h := signedTwice(t)
	retired := h.secret
	h.newKey() // under a notary that runs
	h.steer("north", "north-1", 1)
	h.sign()
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 4, report.Heads)
	require.Equal(t, []int{1, 1, 2}, epochs(t, h.lines("north")))

	h.secret = retired
	h.steer("north", "north-1", 1)
	require.ErrorContains(t, h.notary.Sign(t.Context()), "key epoch 2 has taken over from 1", "a process that was not given the new key")
}

func epochs(t *testing.T, lines []byte) (list []int) {
	for line := range bytes.Lines(lines) {
		var read struct{ Head notary.Head }
		require.NoError(t, json.Unmarshal(line, &read))
		list = append(list, read.Head.Epoch)
	}
	return list
}

// Whoever got the old key can sign, but nothing that is believed: not after the
// moment from which it is revoked, not once another key has taken over, and not
// in place of what stands outside.
func TestFault_N4_ACompromisedKeySignsNothingThatIsBelieved(t *testing.T) {
	h := newHouse(t)
	h.start("north")
	h.sign()
	untilMs, stolen := h.nowMs, h.secret

	h.steer("north", "north-1", 1) // the thief signs what comes after
	h.sign()
	ring := h.ring
	var err error
	h.ring, err = h.ring.Revoke(1, untilMs)
	require.NoError(t, err)
	_, found := h.check()
	require.NotEmpty(t, found)
	require.Equal(t, first{notary.HeadUnsigned, "", 0, 2}, first{found[0].Code, found[0].Run, found[0].Seq, found[0].Head})
	require.Contains(t, found[0].Text, "revoked")
	_, err = notary.NewSigner(stolen, h.ring)
	require.ErrorContains(t, err, "revoked", "no process signs with it any more")

	again, err := h.ring.Revoke(1, untilMs+1000)
	require.NoError(t, err)
	require.Equal(t, h.ring, again, "a revocation is not moved forward")
	_, err = ring.Revoke(2, untilMs)
	require.ErrorContains(t, err, "no key of epoch 2")

	public, other, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	_, err = notary.NewSigner(other, ring)
	require.ErrorContains(t, err, "not in the ring")
	h.ring = notary.Ring{}.Add(public, 1)
	_, found = h.check()
	require.Equal(t, notary.HeadUnsigned, found[0].Code, "a ring of another installation believes nothing")
}

// Several processes sign for one database, each into its own folder: one
// extends the series, and every folder has the whole of it.
func TestFoldersOfSeveralProcessesHoldOneSeries(t *testing.T) { severalFolders(t, newHouse(t)) }

func severalFolders(t *testing.T, h *house) {
	elsewhere := filepath.Join(t.TempDir(), "heads")
	second := h.newNotary(elsewhere)
	for range 3 {
		h.start("north")
		h.sign()
		h.start("north")
		require.NoError(t, second.Sign(t.Context()))
	}
	h.sign()
	copied, err := os.ReadFile(filepath.Join(elsewhere, "north.jsonl"))
	require.NoError(t, err)
	require.Equal(t, string(h.lines("north")), string(copied))
	require.Equal(t, 6, bytes.Count(copied, []byte("\n")))
	_, found := h.check()
	require.Empty(t, found)

	third := h.newNotary(h.folder)
	h.start("north")
	require.NoError(t, third.Sign(t.Context()))
	require.Equal(t, string(copied), string(h.lines("north")), "a folder is one process's own")
	require.NoError(t, h.notary.Close())
	require.NoError(t, third.Sign(t.Context()))
	require.Equal(t, 7, bytes.Count(h.lines("north"), []byte("\n")), "another takes it over")
}

// late lets another process come first, between looking and keeping.
type late struct {
	*journal.Store
	before func()
}

func (l late) KeepHeads(ctx context.Context, heads []journal.SignedHead, reached map[string]uint64) error {
	l.before()
	return l.Store.KeepHeads(ctx, heads, reached)
}

func TestWhoSignsSecondSignsNothing(t *testing.T) { secondSigner(t, newHouse(t)) }

func secondSigner(t *testing.T, h *house) {
	folder := filepath.Join(t.TempDir(), "heads")
	second := notary.New(notary.Config{Store: late{h.store, h.sign}, Folder: folder, Keys: h.keys})
	t.Cleanup(func() { require.NoError(t, second.Close()) })
	h.start("north")
	require.NoError(t, second.Sign(t.Context()))
	require.NoFileExists(t, filepath.Join(folder, "north.jsonl"))
	h.steer("north", "north-1", 1)
	h.sign()
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 2, report.Heads)
}

// A crash between the database and the folder, or inside a line, leaves nothing
// that the next process does not mend.
func TestACutLineIsWrittenAgain(t *testing.T) {
	h := signedTwice(t)
	whole := h.lines("north")
	for _, left := range []int{0, 1, len(whole) / 2, len(whole) - 1} {
		require.NoError(t, os.WriteFile(h.file("north"), whole[:left], 0o600))
		h.again()
		_, found := h.check()
		for _, fault := range found {
			require.Equal(t, notary.HeadsMissing, fault.Code)
		}
		h.sign()
		require.Equal(t, string(whole), string(h.lines("north")))
	}
	require.NoError(t, os.Remove(h.file("south")))
	report, found := h.check()
	require.Len(t, found, 1, "%v", report)
	require.Equal(t, notary.HeadsMissing, found[0].Code)
}

// Where the folder cannot be written nothing is lost: it is covered later.
func TestAFolderThatCannotBeWrittenIsCaughtUpLater(t *testing.T) {
	h := newHouse(t)
	h.start("north")
	require.NoError(t, os.WriteFile(h.folder, nil, 0o600))
	require.Error(t, h.notary.Sign(t.Context()))
	require.NoError(t, os.Remove(h.folder))
	h.steer("north", "north-1", 1)
	h.sign()
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 4, report.Records)
	h.steer("north", "north-1", 2)
	report, found = h.check()
	require.Empty(t, found)
	require.EqualValues(t, 2, report.Uncovered)
}

func TestNothingIsSignedWhereNothingMoved(t *testing.T) {
	h := signedTwice(t)
	before := h.lines("north")
	h.sign()
	h.again()
	h.sign()
	require.Equal(t, string(before), string(h.lines("north")))
}

// More runs than one head holds give several heads, which commit together.
func TestManyRunsAreSeveralHeads(t *testing.T) {
	h := newHouse(t)
	h.start("north")
	h.damage(func(tx *sql.Tx) {
		for i := range 2500 {
			id := fmt.Sprintf("copy-%d", i)
			h.do(tx, "INSERT INTO journal SELECT ?, seq, kind, version, at_ms, body, prev, digest, 'local', n + ? FROM journal WHERE run = 'north-1'", id, 3*(i+1))
			h.do(tx, `INSERT INTO heads SELECT ?, version, digest, epoch, owner, lease_until, status, due_ms, organisation, root, parent, conversation, subject, agent,
				department, labels, started_ms, ended_ms, news, heard FROM heads WHERE run = 'north-1'`, id)
		}
	})
	h.sign()
	require.Equal(t, []int{1, 1}, epochs(t, h.lines("north")))
	report, _ := h.check()
	require.EqualValues(t, 2501, report.Runs)
}

// Signing goes at its pace, and at once after many records.
func TestManyRecordsDoNotWaitForTheTick(t *testing.T) {
	h := newHouse(t)
	h.start("north")
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan struct{})
	n := notary.New(notary.Config{Store: late{h.store, func() { close(kept) }}, Folder: h.folder, Keys: h.keys})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx, make(chan time.Time), func(err error) { t.Error(err) })
	}()
	n.Count(999)
	n.Count(1)
	<-kept
	stop()
	<-ended
	require.NoError(t, n.Close())
}

func TestWithoutHeadsNothingIsChecked(t *testing.T) {
	h := newHouse(t)
	snapshot, err := h.store.Snapshot(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, snapshot.Close()) }()
	_, err = notary.Check(t.Context(), notary.NewFolder(h.folder), h.ring, snapshot, nil)
	require.ErrorIs(t, err, notary.ErrNoHeads)
	require.Error(t, notary.NewFolder(h.folder).Append("../elsewhere", nil))
}

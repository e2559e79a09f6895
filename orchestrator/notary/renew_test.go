package notary_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/notary"
)

// revoked is a house whose first head of north is believed and whose next two
// are of a key that is revoked for them; south has nothing but such a head.
func revoked(t *testing.T) *house {
	h := newHouse(t)
	h.start("north")
	h.sign()
	untilMs := h.nowMs
	h.start("south")
	for range 2 {
		h.steer("north", "north-1", 1)
		h.start("north")
		h.sign()
	}
	h.revoke(1, untilMs)
	return h
}

func (h *house) revoke(epoch int, untilMs int64) {
	ring, err := h.ring.Revoke(epoch, untilMs)
	require.NoError(h.t, err)
	h.ring = ring
}

func voids(t *testing.T, lines []byte) (list []uint64) {
	for line := range bytes.Lines(lines) {
		var read struct{ Head notary.Head }
		require.NoError(t, json.Unmarshal(line, &read))
		list = append(list, read.Head.Void)
	}
	return list
}

// Heads of a revoked key stop the signing until another key is in place. Then
// the next head takes them for void and covers anew what they covered.
func TestFault_N4_WhatARevokedKeyCoveredIsCoveredAnewByTheNextKey(t *testing.T) {
	h := revoked(t)
	require.ErrorIs(t, h.notary.Sign(t.Context()), notary.ErrRevoked)
	_, found := h.check()
	require.Equal(t, []first{{notary.HeadUnsigned, "", 0, 2}, {notary.HeadUnsigned, "", 0, 1}}, firsts(found))

	h.newKey()
	h.sign()
	require.Equal(t, []uint64{0, 0, 0, 2}, voids(t, h.lines("north")))
	require.Equal(t, []uint64{0, 1}, voids(t, h.lines("south")))
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 3+2+3+3+3, report.Records, "nothing is left uncovered")
	require.Zero(t, report.Uncovered)
	require.Contains(t, report.Notes, "organisation north: heads 2 to 3 count for nothing; head 4 of key epoch 2 covers anew from there. "+
		"Key epoch 1 is revoked for what is later than 2023-11-14T22:13:20Z.")

	h.steer("north", "north-1", 1)
	h.start("south")
	h.again()
	h.sign()
	report, found = h.check()
	require.Empty(t, found, "the series goes on")
	require.Zero(t, report.Uncovered)

	h.folder = filepath.Join(t.TempDir(), "heads")
	h.again()
	h.sign()
	require.Equal(t, []uint64{0, 0, 0, 2, 0}, voids(t, h.lines("north")), "a new folder has the whole of it")
	_, found = h.check()
	require.Empty(t, found)
}

// What the good key covered before, and what the next one covers anew, is held
// against the database; what only the revoked key covered is not.
func TestFault_N4_OnlyWhatGoodKeysCoveredIsHeldAgainstTheDatabase(t *testing.T) {
	h := revoked(t)
	h.newKey()
	h.sign()
	for seq, run := range map[int]string{2: "north-1", 5: "north-1", 3: "north-3", 1: "south-2"} {
		t.Run(fmt.Sprint(run, "-", seq), func(t *testing.T) {
			h.damage(func(tx *sql.Tx) { h.do(tx, "UPDATE journal SET at_ms = at_ms + 1 WHERE run = ? AND seq = ?", run, seq) })
			_, found := h.check()
			require.Equal(t, []first{{notary.RecordChanged, run, uint64(seq), 0}}, firsts(found))
			h.damage(func(tx *sql.Tx) { h.do(tx, "UPDATE journal SET at_ms = at_ms - 1 WHERE run = ? AND seq = ?", run, seq) })
		})
	}
}

func firsts(found []notary.Fault) (list []first) {
	for _, f := range found {
		list = append(list, first{f.Code, f.Run, f.Seq, f.Head})
	}
	return list
}

// A process that was not told of the revocation extends no series that it does
// not understand, and whoever checks by old public keys is told that they are.
func TestFault_N4_WhoHasTheRingOfBeforeTheRevocationIsTold(t *testing.T) {
	h := revoked(t)
	elsewhere := h.newNotary(filepath.Join(t.TempDir(), "heads"))
	h.newKey()
	now := h.ring
	before := append(notary.Ring{}, now...)
	before[0].RevokedMs = 0
	h.sign()

	h.ring = before
	require.ErrorContains(t, elsewhere.Sign(t.Context()), "are the keys older than the head?")
	_, found := h.check()
	require.Equal(t, first{notary.HeadOrder, "", 0, 4}, firsts(found)[0])
	require.Contains(t, found[0].Text, "It takes heads from 2 on for void")
	h.ring = now
	require.NoError(t, elsewhere.Sign(t.Context()), "it goes on when it has the ring")
}

// The moment is moved back, and the second key is lost as well: each time the
// next key covers anew from the last head that still counts.
func TestFault_N4_ARevocationIsFollowedByAnother(t *testing.T) {
	h := revoked(t)
	h.newKey()
	h.sign()
	h.revoke(1, startMs-1)
	_, found := h.check()
	require.Equal(t, first{notary.HeadUnsigned, "", 0, 1}, firsts(found)[0], "a head of a good key does not cover what was not void when it was signed")
	h.sign()
	require.Equal(t, []uint64{0, 0, 0, 2, 1}, voids(t, h.lines("north")))
	report, found := h.check()
	require.Empty(t, found)
	require.EqualValues(t, 14, report.Records)

	untilMs := h.nowMs
	h.start("north")
	h.sign()
	h.newKey()
	h.revoke(2, untilMs)
	h.sign()
	require.Equal(t, []uint64{0, 0, 0, 2, 1, 0, 6}, voids(t, h.lines("north")))
	report, found = h.check()
	require.Empty(t, found)
	require.EqualValues(t, 17, report.Records)
	require.Zero(t, report.Uncovered)
}

package notary_test

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/require"
)

// What tells the notary how far it has come lies in the database that it
// watches. Whoever moves it ahead keeps it from signing, and that is seen.
func TestFault_N1_WhatWentOnUnsignedIsNamed(t *testing.T) {
	h := newHouse(t)
	id := h.start("north")
	h.sign()
	h.damage(func(tx *sql.Tx) { h.do(tx, "UPDATE cursors SET n = 1000000 WHERE name = 'signed heads'") })
	for range 5 {
		h.nowMs += 3_600_000
		h.steer("north", id, 10)
		h.sign()
	}
	report, faults := h.check()
	require.NotZero(t, report.Uncovered)
	require.Len(t, faults, 1)
	require.Contains(t, faults[0].Text, "nothing was signed meanwhile")
}

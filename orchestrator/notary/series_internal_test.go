package notary

import (
	"crypto/ed25519"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whoever has a key that is believed can still sign nothing that does not
// continue what stands there.
func TestFault_N1_N4_ASignedHeadMustContinueTheOneBefore(t *testing.T) {
	var ring Ring
	var signers []Signer
	for range 2 {
		public, secret, err := ed25519.GenerateKey(nil)
		require.NoError(t, err)
		ring = ring.Add(public, 1)
		signer, err := NewSigner(secret, ring)
		require.NoError(t, err)
		signers = append(signers, signer)
	}
	first := Head{Organisation: "north", Number: 1, AtMs: 10, Epoch: 2, Runs: 1, Records: 3, Entries: []Entry{{Run: "r", Version: 3, Digest: "d3"}}}
	previous, err := first.Digest()
	require.NoError(t, err)
	good := Head{Organisation: "north", Number: 2, Previous: previous, AtMs: 20, Epoch: 2, Runs: 1, Records: 5, Entries: []Entry{{Run: "r", From: 3, Version: 5, Digest: "d5"}}}
	for name, change := range map[string]func(h *Head){
		"another head before":   func(h *Head) { h.Previous = "0000" },
		"no head before":        func(h *Head) { h.Previous = "" },
		"an older key":          func(h *Head) { h.Epoch = 1 },
		"an older time":         func(h *Head) { h.AtMs = 9 },
		"another number":        func(h *Head) { h.Number = 3 },
		"another organisation":  func(h *Head) { h.Organisation = "south" },
		"records left out":      func(h *Head) { h.Entries[0].From, h.Records = 4, 4 },
		"records covered again": func(h *Head) { h.Entries[0].From, h.Records = 2, 6 },
		"nothing covered":       func(h *Head) { h.Entries[0].Version, h.Records = 3, 3 },
		"a wrong count":         func(h *Head) { h.Records = 6 },
		"a wrong count of runs": func(h *Head) { h.Runs = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			series := NewSeries("north", ring)
			require.Nil(t, series.Add(line(t, signers, first)))
			bad := good
			bad.Entries = []Entry{good.Entries[0]}
			change(&bad)
			fault := series.Add(line(t, signers, bad))
			require.NotNil(t, fault)
			require.Equal(t, HeadOrder, fault.Code)
			require.EqualValues(t, 2, fault.Head)
			require.Nil(t, series.Add(line(t, signers, good)))
			require.EqualValues(t, 1, series.last.Number, "nothing counts after a fault")
		})
	}
	series := NewSeries("north", ring)
	require.Nil(t, series.Add(line(t, signers, first)))
	require.Nil(t, series.Add(line(t, signers, good)))
}

func line(t *testing.T, signers []Signer, h Head) []byte {
	text, err := signers[h.Epoch-1].sign(h)
	require.NoError(t, err)
	return text
}

// Whoever has the revoked key can write a head that says it is old, and name as
// void what stands there: it takes the place of nothing.
func TestFault_N4_ARevokedKeyRenewsNothing(t *testing.T) {
	var ring Ring
	var signers []Signer
	for range 3 {
		public, secret, err := ed25519.GenerateKey(nil)
		require.NoError(t, err)
		ring = ring.Add(public, 1)
		signer, err := NewSigner(secret, ring)
		require.NoError(t, err)
		signers = append(signers, signer)
	}
	ring, err := ring.Revoke(2, 15)
	require.NoError(t, err)
	first := Head{Organisation: "north", Number: 1, AtMs: 10, Epoch: 2, Runs: 1, Records: 3, Entries: []Entry{{Run: "r", Version: 3, Digest: "d3"}}}
	previous, err := first.Digest()
	require.NoError(t, err)
	late := Head{Organisation: "north", Number: 2, Previous: previous, AtMs: 20, Epoch: 2, Runs: 1, Records: 5, Entries: []Entry{{Run: "r", From: 3, Version: 5, Digest: "d5"}}}
	good := Head{Organisation: "north", Number: 3, Previous: previous, AtMs: 30, Epoch: 3, Void: 2, Runs: 1, Records: 5, Entries: late.Entries}
	after, err := late.Digest()
	require.NoError(t, err)
	for name, change := range map[string]func(h *Head){
		"the revoked key":      func(h *Head) { h.Epoch, h.AtMs = 2, 12 },
		"an older key":         func(h *Head) { h.Epoch = 1 },
		"nothing void":         func(h *Head) { h.Void = 0 },
		"more void":            func(h *Head) { h.Void = 1 },
		"less void":            func(h *Head) { h.Void = 3 },
		"the void head before": func(h *Head) { h.Previous = after },
		"another number":       func(h *Head) { h.Number = 2 },
		"an older time":        func(h *Head) { h.AtMs = 9 },
		"another organisation": func(h *Head) { h.Organisation = "south" },
	} {
		t.Run(name, func(t *testing.T) {
			series := NewSeries("north", ring)
			require.Nil(t, series.Add(line(t, signers, first)))
			require.Nil(t, series.Add(line(t, signers, late)))
			bad := good
			change(&bad)
			require.Nil(t, series.Add(line(t, signers, bad)))
			fault := series.end()
			require.NotNil(t, fault)
			require.Equal(t, HeadUnsigned, fault.Code)
			require.EqualValues(t, 2, fault.Head)
			require.EqualValues(t, 3, series.version("r"), "nothing of it counts")
		})
	}
	series := NewSeries("north", ring)
	for _, head := range []Head{first, late, good} {
		require.Nil(t, series.Add(line(t, signers, head)))
	}
	require.Nil(t, series.end())
	require.EqualValues(t, 5, series.version("r"))

	previous, err = good.Digest()
	require.NoError(t, err)
	fault := series.Add(line(t, signers, Head{Organisation: "north", Number: 4, Previous: previous, AtMs: 40, Epoch: 2, Runs: 1, Records: 5}))
	require.NotNil(t, fault, "once another key has taken over, the revoked one is a fault and not taken for void")
	require.Equal(t, HeadOrder, fault.Code)
}

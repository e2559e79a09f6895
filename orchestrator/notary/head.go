// Package notary signs, for each organisation, what its runs' journals have
// come to, and keeps the signed heads outside the database too. Whoever changes
// the database later is found out by them. Checking needs public keys only.
package notary

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"gantry.dev/orchestrator/canon"
)

// Entry covers the records of one run: its last digest holds all before it.
type Entry struct {
	Run     string `json:"run"`
	From    uint64 `json:"from"`    // records that earlier heads cover
	Version uint64 `json:"version"` // records that are covered now
	Digest  string `json:"digest"`  // of the last of them
}

// Head says of one organisation what moved since the head before it. With all
// heads before it, it covers every run.
type Head struct {
	Organisation string `json:"organisation"`
	Number       uint64 `json:"number"`   // from 1
	Previous     string `json:"previous"` // digest of the head before; empty for the first
	AtMs         int64  `json:"atMs"`     // UTC ms, of the database's clock; never less than that of the head before
	Epoch        int    `json:"epoch"`    // of the key that signs
	// Void is the number of the first head that counts for nothing, with all
	// from it up to this one: their key was revoked. Then this head continues
	// the last one that counts, by Previous and in what it covers. 0 for none.
	Void uint64 `json:"void,omitzero"`

	Runs    uint64  `json:"runs"`    // covered by now
	Records uint64  `json:"records"` // covered by now
	Entries []Entry `json:"entries"` // by run id
}

// mostEntries is how many runs one head covers: its line stays small enough to
// be read whole.
const mostEntries = 2048

// signed is a head as a line of text.
type signed struct {
	Head      Head   `json:"head"`
	Signature string `json:"signature"` // Ed25519 over the head's form, hex
}

// purpose sets what is signed apart from everything else that a key could sign.
const purpose = "gantry signed head 1\n"

// form returns the bytes that are signed.
func (h Head) form() ([]byte, error) {
	canonical, err := canon.Marshal(h)
	if err != nil {
		return nil, fmt.Errorf("head: %w", err)
	}
	return append([]byte(purpose), canonical...), nil
}

// Digest is the SHA-256 of the form that is signed, lower hex.
func (h Head) Digest() (string, error) {
	form, err := h.form()
	if err != nil {
		return "", err
	}
	return canon.Digest(form), nil
}

// follows starts the head after one; the zero Head stands for none before.
func (h Head) follows(organisation string, atMs int64, epoch int) (Head, error) {
	next := Head{Organisation: organisation, Number: h.Number + 1, AtMs: max(atMs, h.AtMs), Epoch: epoch, Runs: h.Runs, Records: h.Records}
	if h.Number == 0 {
		return next, nil
	}
	var err error
	next.Previous, err = h.Digest()
	return next, err
}

// cover adds an entry.
func (h *Head) cover(e Entry) {
	h.Entries = append(h.Entries, e)
	h.Records += e.Version - e.From
	if e.From == 0 {
		h.Runs++
	}
}

var errRewritten = errors.New("it is not as it was written")

// parse reads a line without its newline. A head has one form only.
func parse(line []byte) (signed, error) {
	var s signed
	if err := json.Unmarshal(line, &s); err != nil {
		return s, err
	}
	written, err := canon.Marshal(s)
	if err == nil && !bytes.Equal(written, line) {
		err = errRewritten
	}
	return s, err
}

package memory_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/index"
	"gantry.dev/memory/index/flat"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Somebody in the same organisation asks the very words of somebody else's
// private fact, by every path, with every filter that names it.
func privateFact(t *testing.T, where on) { privateFactIn(t, build(t, where)) }

func privateFactIn(t *testing.T, h *house) {
	ann, bob := person("ann"), person("bob")
	own := view.SpaceOf(view.SpacePerson, "ann")
	draft := memory.Draft{Space: own, Kind: view.Preference, Text: "Ann is allergic to walnuts.", Subject: "ann food",
		Source: view.Source{Ref: "diary", Position: 1}}
	secret := h.remember(t, ann, draft)
	require.Equal(t, []string{secret.ID}, h.recall(t, ann, draft.Text))

	empty := h.json(t, bob, memory.Question{Text: draft.Text})
	require.NotContains(t, empty, secret.ID)
	require.Equal(t, empty, h.json(t, bob, memory.Question{Text: draft.Text, Spaces: []view.Space{own}}))
	for name, ask := range map[string]func(id string) (any, error){
		"item":      func(id string) (any, error) { return h.Item(t.Context(), bob, id) },
		"items":     func(id string) (any, error) { return h.Items(t.Context(), bob, []string{id}) },
		"supersede": func(id string) (any, error) { return h.Supersede(t.Context(), bob, id, fact("Else.")) },
		"promote":   func(id string) (any, error) { return h.Promote(t.Context(), bob, id, "why not") },
		"declassify": func(id string) (any, error) {
			return h.Declassify(t.Context(), bob, id, policy.NewLabels("hr"), "why not")
		},
		"forget":      func(id string) (any, error) { return h.Forget(t.Context(), bob, memory.Selector{Items: []string{id}}) },
		"consolidate": func(id string) (any, error) { return h.Consolidate(t.Context(), bob, []string{id}, fact("All.")) },
		"derive": func(id string) (any, error) {
			d := fact("From it.")
			d.DerivedFrom = []string{id}
			return h.Remember(t.Context(), bob, d)
		},
		"receipt": func(id string) (any, error) { return h.Receipt(t.Context(), bob, id) },
	} {
		there, thereErr := ask(secret.ID)
		absent, absentErr := ask("m999999")
		require.Equal(t, said(t, absent, absentErr), said(t, there, thereErr), name)
	}
	for _, filter := range []memory.Filter{{}, {Spaces: []view.Space{own}}, {Subject: "ann food"}, {Ref: "diary"}, {Principal: "ann"}, {Archived: true}} {
		page, err := h.List(t.Context(), bob, filter, "", 10)
		require.NoError(t, err)
		require.Empty(t, page.Items)
		require.NoError(t, h.Export(t.Context(), bob, filter, func(view.Rendering) error { t.Error("exported"); return nil }))
	}
	for _, selector := range []memory.Selector{{Ref: "diary"}, {Subject: "ann food"}, {Space: own}} {
		_, err := h.Forget(t.Context(), bob, selector)
		refused(t, err, "NOT_FOUND")
	}
	// The same words, and who says them learns nothing.
	draft.Space = view.SpaceOf(view.SpacePerson, "bob")
	again, err := h.Remember(t.Context(), bob, draft)
	require.NoError(t, err)
	require.False(t, again.Known)

	// A row without an owner matches nobody, and nobody is who reads without one.
	_, err = h.files.Databases().Write.ExecContext(t.Context(), "UPDATE memory_items SET space = '' WHERE id = '"+secret.ID+"'")
	require.NoError(t, err)
	for _, reader := range []view.Reader{ann, bob, {}, {Organisation: "acme"}, {Organisation: "acme", Read: []view.Space{own}, Principal: "x"}} {
		page, err := h.List(t.Context(), reader, memory.Filter{}, "", 10)
		require.NoError(t, err)
		for _, item := range page.Items {
			require.NotEqual(t, secret.ID, item.ID)
		}
		_, err = h.Item(t.Context(), reader, secret.ID)
		refused(t, err, "NOT_FOUND")
	}
}

func said(t *testing.T, answer any, err error) string {
	t.Helper()
	written, failed := json.Marshal(answer)
	require.NoError(t, failed)
	if err != nil {
		return string(written) + err.Error()
	}
	return string(written)
}

func TestCase_41_APrivateFactIsInNobodyElsesAnswer(t *testing.T) { privateFact(t, sqlite) }

// What is forgotten does not come back: not by a restart, not by an index built
// anew, not by the command that wrote it or by an old state that reaches the
// index late; nor what was derived from it, nor its older versions.
func forgotten(t *testing.T, where on) {
	var indexes *flat.Indexes
	h := build(t, where, func(h *house) {
		h.index = func() index.Indexes { indexes = flat.New(); return indexes }
	})
	ann, bob := person("ann", "hr"), person("bob")
	first := fact("Omar earns 70,000 walnuts a year.")
	first.Subject, first.Key = "omar pay", "w1"
	old := h.remember(t, ann, first)
	second := fact("Omar earns 80,000 walnuts a year.")
	second.Subject, second.Key = "omar pay", "w2"
	superseding, err := h.Supersede(t.Context(), ann, old.ID, second)
	require.NoError(t, err)
	summary := fact("People earn about 80,000 walnuts.")
	summary.DerivedFrom, summary.Key = []string{superseding.Item.ID}, "w3"
	derived := h.remember(t, ann, summary)
	hidden := memory.Draft{Space: view.SpaceOf(view.SpacePerson, "ann"), Kind: view.Finding, Text: "Walnuts are the pay of Omar.", DerivedFrom: []string{superseding.Item.ID}}
	own := h.remember(t, ann, hidden)
	all := []string{old.ID, superseding.Item.ID, derived.ID, own.ID}
	late, err := h.store.States(t.Context(), "static-384-1-1", all)
	require.NoError(t, err)
	require.Len(t, late, 4)

	require.Len(t, h.recall(t, ann, "How many walnuts does Omar earn?"), 3, "so that the index has all of it")
	receipt, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{superseding.Item.ID}, Key: "f1"})
	require.NoError(t, err)
	require.Equal(t, []string{old.ID, superseding.Item.ID, derived.ID}, receipt.Items, "what bob never saw is not told to bob")
	require.Positive(t, receipt.VerifiedMs)
	for _, what := range []string{"items", "keys", "segments", "views", "vectors", "index points"} {
		require.Equal(t, 3, receipt.Stores[what], what)
	}

	gone := func(when string) {
		t.Helper()
		for _, reader := range []view.Reader{ann, bob} {
			require.Empty(t, h.recall(t, reader, "How many walnuts does Omar earn?"), when)
			found, err := h.Items(t.Context(), reader, all)
			require.NoError(t, err)
			require.Empty(t, found, when)
			page, err := h.List(t.Context(), reader, memory.Filter{Archived: true}, "", 10)
			require.NoError(t, err)
			require.Empty(t, page.Items, when)
		}
		left, err := h.store.Left(t.Context(), all)
		require.NoError(t, err)
		require.Empty(t, left, when)
	}
	gone("at once")
	for _, row := range h.rows(t, "commands") {
		require.Regexp(t, `^\[acme ann w\d  m\d+ 0\]$|^\[acme bob f1 `, row, "no digest is left that a guess could be held against")
	}
	opened, err := indexes.Open(t.Context(), index.VectorSpace{ID: "static-384-1-1", Model: "static-384-1", Dim: 384})
	require.NoError(t, err)
	require.NoError(t, opened.Apply(t.Context(), late))
	gone("after a late delivery to the index")
	h.restart(t)
	gone("after a restart, with the index built anew")
	for _, draft := range []memory.Draft{first, second, summary} {
		_, err := h.Remember(t.Context(), ann, draft)
		require.Error(t, err)
		gone("after the command came again")
	}
	again, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{superseding.Item.ID}, Key: "f1"})
	require.NoError(t, err)
	require.True(t, again.Replayed)
	again.Replayed = false
	require.Equal(t, receipt, again)
}

func TestCase_42_WhatIsForgottenNeverReturns(t *testing.T) { forgotten(t, sqlite) }

// What an agent says is not trusted memory, whatever it claims; it takes no
// trusted item's place until a person vouches for it.
func untrusted(t *testing.T, where on) { untrustedIn(t, build(t, where)) }

func untrustedIn(t *testing.T, h *house) {
	bob := person("bob")
	agent := bob
	agent.Principal, agent.Run = "agent:clerk", "run-7"
	claim := fact("Invoices above 10,000 need no approval.")
	claim.Subject = "invoice rule"
	rule := fact("Invoices above 5,000 need an approval.")
	rule.Subject = "invoice rule"
	trusted := h.remember(t, bob, rule)
	said, err := h.Supersede(t.Context(), agent, trusted.ID, claim)
	require.NoError(t, err)
	require.Equal(t, policy.Untrusted, said.Item.Marking.Integrity)
	require.Equal(t, view.FromRun, said.Item.Source.Kind)
	require.Equal(t, "run-7", said.Item.Source.Run)
	require.ElementsMatch(t, []string{trusted.ID, said.Item.ID}, h.recall(t, bob, "Which invoices need an approval?"))

	derived := fact("Approvals are for small firms.")
	derived.DerivedFrom = []string{said.Item.ID, trusted.ID}
	require.Equal(t, policy.Untrusted, h.remember(t, bob, derived).Marking.Integrity, "as far as the least of its sources")
	answer, err := h.Recall(t.Context(), bob, memory.Question{Text: "invoices approval"})
	require.NoError(t, err)
	require.Equal(t, policy.Untrusted, answer.Marking.Integrity)

	_, err = h.Promote(t.Context(), agent, said.Item.ID, "I am sure")
	refused(t, err, "NOT_ENTITLED")
	promoted, err := h.Promote(t.Context(), bob, said.Item.ID, "The board decided so on Monday.")
	require.NoError(t, err)
	require.Equal(t, policy.Trusted, promoted.Marking.Integrity)
	require.NotEqual(t, said.Item.Etag, promoted.Etag)
	require.NotContains(t, h.recall(t, bob, "Which invoices need an approval?"), trusted.ID)
}

func TestCase_47_WhatAnAgentSaysIsNotTrustedWithoutAPerson(t *testing.T) { untrusted(t, sqlite) }

// No byte of a text is in the database's files, before it is forgotten or after.
// After it, what was sealed and the keys that open it are in no file, either.
func TestErasureLeavesNoByteInTheFiles(t *testing.T) {
	const canary = "CANARY-walnut-4711"
	h := build(t, sqlite)
	ann := person("ann", "hr")
	h.remember(t, ann, fact("Something stays, about noon."))
	draft := fact("The word is "+canary+", said Ruth.", "hr")
	draft.Subject, draft.Heading, draft.Source.Ref, draft.Source.Model = canary+" subject", canary+" heading", canary+" file", canary+" model"
	draft.Key = "c1"
	kept := h.remember(t, ann, draft)
	_, err := h.Declassify(t.Context(), person("olga", "hr"), kept.ID, policy.NewLabels("hr"), canary+" is no secret")
	require.NoError(t, err)

	var sealed [][]byte
	for _, query := range []string{"SELECT wrapped FROM memory_keys WHERE item = ?", "SELECT sealed FROM memory_items WHERE id = ?",
		"SELECT sealed FROM memory_segments WHERE item = ?", "SELECT terms FROM memory_views WHERE item = ?", "SELECT sealed FROM memory_vectors WHERE item = ?"} {
		var value []byte
		require.NoError(t, h.files.Databases().Read.QueryRowContext(t.Context(), query, kept.ID).Scan(&value), query)
		sealed = append(sealed, value)
	}
	folder := filepath.Dir(strings.TrimPrefix(h.config.DSN, "sqlite:"))
	require.Zero(t, copies(t, folder, []byte("walnut")))
	for _, value := range sealed {
		require.Positive(t, copies(t, folder, value[:32]), "the search must be able to find it")
	}
	receipt, err := h.Forget(t.Context(), ann, memory.Selector{Subject: canary + " subject"})
	require.NoError(t, err)
	require.Positive(t, receipt.VerifiedMs)
	require.Zero(t, copies(t, folder, []byte("walnut")))
	for n, value := range sealed {
		require.Zero(t, copies(t, folder, value[:32]), "sealed value %d", n)
	}
}

// copies counts how often a value stands in the files of a folder. A long value
// of SQLite may be cut at a page's end, so only a part of it is looked for.
func copies(t *testing.T, folder string, value []byte) (found int) {
	t.Helper()
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(folder, file.Name()))
		require.NoError(t, err)
		found += bytes.Count(content, value)
	}
	return found
}

func TestFault_K6_NoRecallAcrossPeople(t *testing.T) {
	h := build(t, sqlite)
	for _, name := range []string{"ann", "bob", "cat", "olga"} {
		for _, what := range []string{"likes walnuts", "sits by the window", "earns 70,000"} {
			h.remember(t, person(name), memory.Draft{Space: view.SpaceOf(view.SpacePerson, name), Kind: view.Fact, Text: "Somebody " + what + "."})
		}
	}
	for _, name := range []string{"ann", "bob", "cat", "olga"} {
		answer, err := h.Recall(t.Context(), person(name), memory.Question{Text: "Who likes walnuts, sits by the window and earns 70,000?", Limit: 100})
		require.NoError(t, err)
		require.Len(t, answer.Hits, 3)
		for _, hit := range answer.Hits {
			require.Equal(t, name, hit.Source.Principal)
		}
	}
}

// eraser is another store with copies of items.
type eraser struct{ asked [][]string }

func (e *eraser) EraseItems(_ context.Context, items []string) (int, []string, error) {
	e.asked = append(e.asked, items)
	if len(e.asked) > 1 {
		return 0, nil, nil
	}
	return 2, []string{"run-2", "run-1"}, nil
}

func TestForgettingReachesOtherStoresAndTellsOfRunsThatMayBeKnown(t *testing.T) {
	e := &eraser{}
	h := build(t, sqlite, func(h *house) {
		h.tuning.Erasers = map[string]memory.Eraser{"run texts": e}
		h.tuning.SeesRun = func(_ context.Context, _ view.Reader, run string) (bool, error) { return run == "run-1", nil }
	})
	bob := person("bob")
	bob.Whole = true
	kept := h.remember(t, bob, fact("The roof leaks."))
	receipt, err := h.Forget(t.Context(), bob, memory.Selector{Items: []string{kept.ID}})
	require.NoError(t, err)
	require.Equal(t, []string{"run-1"}, receipt.Runs)
	require.Equal(t, 2, receipt.Stores["run texts"])
	require.Equal(t, []string{kept.ID}, e.asked[0])
}

// Somebody who can write the database puts one item's sealed text in another's
// place, or calls an item somebody else's: it does not open, and the error says
// nothing of it.
func TestWhatWasMovedInTheDatabaseDoesNotOpen(t *testing.T) {
	h := build(t, sqlite)
	ann, bob := person("ann"), person("bob")
	secret := h.remember(t, ann, memory.Draft{Space: view.SpaceOf(view.SpacePerson, "ann"), Kind: view.Fact, Text: "The word is walnut."})
	bait := h.remember(t, bob, fact("Nothing."))
	other := h.remember(t, bob, fact("Nothing else."))
	for _, change := range []string{
		"UPDATE memory_segments SET sealed = (SELECT sealed FROM memory_segments WHERE item = '" + secret.ID + "') WHERE item = '" + bait.ID + "'",
		"UPDATE memory_keys SET wrapped = (SELECT wrapped FROM memory_keys WHERE item = '" + secret.ID + "') WHERE item = '" + other.ID + "'",
	} {
		_, err := h.files.Databases().Write.ExecContext(t.Context(), change)
		require.NoError(t, err)
	}
	for _, id := range []string{bait.ID, other.ID} {
		_, err := h.Item(t.Context(), bob, id)
		require.ErrorContains(t, err, "does not open")
		require.NotContains(t, err.Error(), "walnut")
	}
}

package journal_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func sqlite(t *testing.T, config journal.Config) store {
	config.DSN = "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")
	return open(t, config)
}

func TestConfigurationMovesItsGate(t *testing.T) {
	s := sqlite(t, journal.Config{})
	require.NoError(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Digest: "d1", Body: []byte("one")}))
	require.NoError(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", From: "d1", Digest: "d2", Body: []byte("two")}))
	stale := s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", From: "d1", Digest: "d3", Body: []byte("three")})
	require.ErrorIs(t, stale, run.ErrConflict, "it was decided on what is no longer in force")
	value, err := s.Gate(t.Context(), run.ConfigGate("acme"))
	require.NoError(t, err)
	require.Equal(t, "d2", value)
	body, err := s.Configuration(t.Context(), "acme", "d1")
	require.NoError(t, err)
	require.Equal(t, []byte("one"), body)
	_, err = s.Configuration(t.Context(), "acme", "d3")
	require.ErrorIs(t, err, engine.ErrNotFound, "a refused change leaves nothing")
	_, err = s.Configuration(t.Context(), "other", "d1")
	require.ErrorIs(t, err, engine.ErrNotFound)
}

func TestProposalsWaitForTheSecondPerson(t *testing.T) {
	s := sqlite(t, journal.Config{})
	proposal := &journal.Proposal{Kind: "publish", Name: "payer", Digest: "p1", By: "ann", Body: []byte("revision")}
	receipt := &engine.Receipt{Organisation: "acme", Caller: "ann", Command: "c1", Answer: []byte("{}")}
	require.NoError(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Propose: proposal, Receipt: receipt}))
	again := *proposal
	again.Digest = "p2"
	require.ErrorIs(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Propose: &again, Receipt: receipt}), engine.ErrReplayed)
	found, err := s.Proposal(t.Context(), "acme", "publish", "payer", "p1")
	require.NoError(t, err)
	require.Equal(t, "p1", found.Digest, "a repeated command changes nothing")
	require.Equal(t, "ann", found.By)
	require.NotZero(t, found.AtMs)
	other := *proposal
	other.By = "bob"
	require.ErrorIs(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Propose: &other}), run.ErrConflict, "two people asked for it")
	again.By = "bob"
	require.NoError(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Propose: &again}), "another proposal displaces none")
	require.NoError(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Propose: proposal}), "asking twice is asking once")
	list, err := s.Proposals(t.Context(), "acme", "publish")
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []byte("revision"), list[0].Body)
	gone := *proposal
	gone.Digest = "p0"
	require.ErrorIs(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Settle: &gone, Propose: &other}), run.ErrConflict, "what it was decided on is no more")
	require.NoError(t, s.ChangeOrganisation(t.Context(), journal.Change{Organisation: "acme", Settle: proposal, Digest: "d1", Body: []byte("one")}))
	_, err = s.Proposal(t.Context(), "acme", "publish", "payer", "p1")
	require.ErrorIs(t, err, engine.ErrNotFound)
}

func TestBudgetIsRevisedOncePerCommand(t *testing.T) {
	s := sqlite(t, journal.Config{})
	receipt := engine.Receipt{Organisation: "acme", Caller: "ann", Command: "c1", Answer: []byte("{}")}
	require.NoError(t, s.ReviseBudget(t.Context(), []string{"n"}, run.Amount{MicroUSD: 5}, receipt))
	require.ErrorIs(t, s.ReviseBudget(t.Context(), []string{"n"}, run.Amount{MicroUSD: 7}, receipt), engine.ErrReplayed)
	b, err := s.Budget(t.Context(), "n")
	require.NoError(t, err)
	require.Equal(t, int64(5), b.Limit.MicroUSD)
}

func TestMessagesOfPeople(t *testing.T) {
	var told []journal.Committed
	s := sqlite(t, journal.Config{OnCommit: func(batch []journal.Committed) { told = append(told, batch...) }})
	require.NoError(t, s.Converse(t.Context(), "acme", "c1"))
	text, payload := engine.Seal(engine.RandomSource{}, "c1", "ann", policy.Marking{}, []byte("hello"))
	entry := engine.Entry{Organisation: "acme", Conversation: "c1", Kind: "message", Author: "ann", Text: &text}
	receipt := engine.Receipt{Organisation: "acme", Caller: "ann", Command: "c1", Answer: []byte("{}")}
	require.NoError(t, s.Say(t.Context(), entry, payload, receipt))
	require.ErrorIs(t, s.Say(t.Context(), entry, payload, receipt), engine.ErrReplayed)
	entries, err := s.Entries(t.Context(), "acme", "c1", 0, 10)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, text, *entries[0].Text)
	require.Len(t, told, 1)
	require.Equal(t, uint64(1), told[0].Entries[0].Number)

	c, err := s.Conversation(t.Context(), "acme", "c1")
	require.NoError(t, err)
	opened, err := s.Payloads(t.Context(), []string{text.ID, c.Title.ID})
	require.NoError(t, err)
	require.Equal(t, "hello", string(opened[text.ID].Bytes))
	require.Equal(t, "talk", string(opened[c.Title.ID].Bytes))

	entry.Conversation = "none"
	receipt.Command = "c2"
	_, payload = engine.Seal(engine.RandomSource{}, "c1", "ann", policy.Marking{}, []byte("lost"))
	require.ErrorIs(t, s.Say(t.Context(), entry, payload, receipt), engine.ErrNotFound)
	opened, err = s.Payloads(t.Context(), []string{payload.Text.ID})
	require.NoError(t, err)
	require.Empty(t, opened, "a refused message leaves no text")
}

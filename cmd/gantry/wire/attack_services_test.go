//go:build services && unix

package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

// A question is put while one process lives; it is answered at another one, by
// somebody who had no session open, and a third one, which had nothing to do
// with the run, goes on with it.
func TestCase_12_AnAnswerAtAnotherProcessResumesTheRunOnAnyWorker(t *testing.T) {
	t.Parallel()
	h := shared(t, func(c *wire.Config) { c.Worker = "the one that asked" })
	h.open()
	h.apply(h.organisation)
	amara := h.as(asker)
	run := amara.begin("INV-1004 or INV-1008, not INV-1004 again").ID
	events := amara.follow(run, "", func(e client.Event) bool { return e.Kind == "question_asked" })
	last := events[len(events)-1]
	var asked struct{ Question string }
	require.NoError(t, last.Decode(&asked))
	h.close() // with it goes every session

	h.plan.config = func(next func(*wire.Config)) func(*wire.Config) {
		return func(c *wire.Config) { next(c); c.Work = false }
	}(h.plan.config)
	h.open()
	amara = h.as(asker)
	said := amara.mutate("answerQuestion", map[string]any{"id": tokenOf(t, "question", h.organisation.Name, inner(t, run), asked.Question), "answer": "The second, INV-1008."})
	require.Empty(t, said.UserErrors)
	config := h.config()
	config.Listen, config.Work, config.Worker = "", true, "another one"
	worker, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, worker.Close()) })

	tomas := h.as(controller)
	approval := tomas.held(run)
	require.Equal(t, "INV-1008", adjustmentOf(t, approval).Invoice)
	tomas.decide(approval, true)
	rest := amara.follow(run, last.Cursor, isEnd)
	require.Equal(t, "question_answered", rest[0].Kind)
	require.Equal(t, last.Seq+1, rest[0].Seq)
	require.Equal(t, "COMPLETED", amara.ended(run).Status)
	require.Equal(t, 1, h.entries("INV-1008"))
	require.Zero(t, h.entries("INV-1004"))
}

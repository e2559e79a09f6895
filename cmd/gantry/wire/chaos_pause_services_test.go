//go:build services && unix

package wire_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// A process stands still past its lease, wherever it is: while its model
// speaks, before, inside and after a write, and before a word about its lease.
// Another one takes the run to its end. When the first one goes on it adds not
// one record, and does nothing outside.
func TestFault_B1_AProcessThatStoodStillPastItsLeaseAddsNothing(t *testing.T) {
	h := newCrashHouse(t, newPostgresDatabases(t))
	for _, point := range []string{
		"model speaks#1", "model speaks#2",
		"Append turn_answered/" + begins + "#1", "Append turn_answered/" + commits + "#1",
		"Append call_intended/" + begins + "#1", "Append call_intended/" + inside + "#1", "Append call_intended/" + commits + "#1",
		"Append call_intended/" + stands + "#1", // it may begin the effect now, and must not
		"Append verified+ended/" + begins + "#1", "Append verified+ended/" + stands + "#1", "Release/" + begins + "#1",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			scenario(t)
			at := h.copied(h.first[wayApproved])
			told := at.told(h)
			told.Worker, told.Still = "the first", []string{point}
			first := h.freeze(t, told)

			state, before := h.completed(t, at)
			first.goOn()
			first.ends()
			_, after := h.stateOf(t, at, state.ID)
			require.Equal(t, before, after)
			posts, _ := h.outside.count(at.token)
			require.Equal(t, 1, posts, "the effect of the one who had the run")
			require.NoError(t, h.check(t.Context(), at, word{Run: state.ID, Status: state.Status}))
		})
	}
}

// A process comes back under the name of one that is still there and stands
// still. What the old one says of its leases, which bear the same name, moves
// nothing; each of them has its own epoch.
func TestFault_B10_AnOldProcessHasNoPowerOverTheLeaseOfItsNamesake(t *testing.T) {
	h := newCrashHouse(t, newPostgresDatabases(t))
	for _, says := range []string{"Renew", "Release"} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			scenario(t)
			at := h.copied(h.first[wayApproved])
			told := at.told(h)
			told.Worker, told.Still = "the name", []string{says + "/" + begins + "#1", says + "/" + stands + "#1"}
			told.Hold, told.Idle = says == "Renew", says == "Release" // the lease is renewed during an effect, and goes back before a decision
			old := h.freeze(t, told)
			held := h.head(t, at)
			require.Equal(t, "the name", held.Owner)
			told.Hold, told.Idle, told.Still = false, false, []string{"effect begins#1"}
			namesake := h.freeze(t, told)
			holds := h.head(t, at)
			require.Equal(t, held.Epoch+1, holds.Epoch)
			require.Equal(t, "the name", holds.Owner)

			old.goOn()
			old.still() // it has said it
			require.Equal(t, holds, h.head(t, at))
			namesake.goOn()
			old.goOn()
			namesake.ends()
			old.ends()
			require.NoError(t, h.look(t.Context(), at, func(store *journal.Store) error {
				heads, err := store.Heads(t.Context(), journal.Filter{Organisation: "northwind", Status: run.StatusCompleted}, 2)
				require.Len(t, heads, 1)
				require.NoError(t, h.check(t.Context(), at, word{Run: heads[0].Run, Status: heads[0].Status}))
				return err
			}))
		})
	}
}

// A process stands still between the commit of an intent and its effect, so long
// that another one looks after the attempt. Only a keyed effect is tried again by
// itself. Any other one waits for a person, who sees that an attempt may still
// act, and may not have it repeated by the way. When it does act at last, that
// is what became of the call.
func TestFault_B2_AnAttemptThatMayStillActIsShownAndNotRepeated(t *testing.T) {
	for way, class := range map[string]policy.EffectClass{wayApproved: policy.Keyed, wayFound: policy.Checkable, wayLost: policy.Opaque} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			scenario(t)
			h := shared(t, func(c *wire.Config) { c.Poll = 50 * time.Millisecond })
			classed(h, way)
			serves := h.spawn("serves", "127.0.0.1:0", false, "")
			apply(t, h)
			config := h.config()
			config.Worker, config.Listen = "stands still", ""
			stands := employ(t, config, still+"effect begins#1")
			first := &frozen{t: t, command: stands.command}
			amara, tomas := h.at(serves, asker), h.at(serves, controller)
			id := amara.begin("INV-1004").ID
			tomas.decide(tomas.held(id), true)
			first.still()
			h.spawn("goes on", "", true, "")
			if class == policy.Keyed {
				require.Equal(t, "COMPLETED", amara.ended(id).Status)
				require.Equal(t, 1, h.entries("INV-1004"))
				first.goOn()
				stands.dismiss()
				require.Equal(t, 1, h.entries("INV-1004"), "the same key again")
				return
			}
			tomas.follow(id, "", func(e client.Event) bool {
				var uncertain struct{ Ask bool }
				return e.Kind == "call_uncertain" && e.Decode(&uncertain) == nil && uncertain.Ask
			})
			seen := tomas.uncertain(id)
			require.Equal(t, class.String(), seen.EffectClass)
			require.Equal(t, "UNCERTAIN", seen.Phase)
			require.Equal(t, 1, seen.Attempts, "one attempt, that nobody repeated")
			require.Empty(t, seen.Outcome)
			refused := tomas.mutate("resolveUncertain", map[string]any{"run": id, "call": seen.Number, "resolution": "REPEAT", "evidence": "nothing there"})
			require.NotEmpty(t, refused.code(), "the first attempt may still act")
			require.Zero(t, h.entries("INV-1004"))

			first.goOn()
			stands.dismiss()
			h.settle(tomas, id, seen.Number)
			amara.ended(id)
			call := tomas.calls(id)[seen.Number-1]
			require.Equal(t, 1, call.Attempts)
			require.Equal(t, call.Outcome == "OK", h.entries("INV-1004") == 1, "the record says what is outside")
			require.True(t, amara.verified(id))
		})
	}
}

// settle looks outside what became of a call, where the one who made it could
// not say: it heard that it had lost its lease, and broke off.
func (h *house) settle(p *person, id string, call int) {
	h.t.Helper()
	if p.calls(id)[call-1].Phase != "UNCERTAIN" {
		return
	}
	resolution := []string{"NOT_HAPPENED", "HAPPENED"}[h.entries("INV-1004")]
	require.Empty(h.t, p.mutate("resolveUncertain", map[string]any{"run": id, "call": call, "resolution": resolution, "evidence": "the ledger"}).code())
}

// callSeen is a call as a person sees it.
type callSeen struct {
	Number, Attempts            int
	Phase, EffectClass, Outcome string
}

func (p *person) calls(id string) []callSeen {
	p.t.Helper()
	var got struct{ Run struct{ Calls []callSeen } }
	p.ask(`query($id:ID!){run(id:$id){calls{number attempts phase effectClass outcome}}}`, map[string]any{"id": id}, &got)
	return got.Run.Calls
}

// uncertain is the one call of a run that nobody knows the outcome of; the
// person has it in the inbox.
func (p *person) uncertain(id string) callSeen {
	p.t.Helper()
	var got struct {
		Inbox []struct {
			Kind      string
			Run       struct{ ID string }
			Uncertain []struct{ Number int }
		}
	}
	p.ask(`{inbox{kind run{id} uncertain{number}}}`, nil, &got)
	for _, item := range got.Inbox {
		if item.Kind != "UNCERTAIN" || item.Run.ID != id {
			continue
		}
		require.Len(p.t, item.Uncertain, 1)
		for _, call := range p.calls(id) {
			if call.Number == item.Uncertain[0].Number {
				return call
			}
		}
	}
	require.FailNow(p.t, "nothing uncertain is in the inbox")
	return callSeen{}
}

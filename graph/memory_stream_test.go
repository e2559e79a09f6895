package graph_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
)

const memoryChanged = `subscription($spaces:[String!]){memoryChanged(spaces:$spaces){kind id item{text etag supersedes}}}`

// difference is one entry of an answer of memoryChanged.
type difference struct {
	Kind, ID string
	Item     *struct{ Text, Etag string }
}

func (s *socket) differences() []difference {
	message := s.next()
	var got struct {
		Data struct{ MemoryChanged []difference }
	}
	require.NoError(s.t, json.Unmarshal(message.Payload, &got), string(message.Payload))
	require.NotNil(s.t, got.Data.MemoryChanged, string(message.Payload))
	return got.Data.MemoryChanged
}

// own is the own id of an item.
func own(t *testing.T, global any) (id string) {
	tampered(t, global.(string), func(parts []string) []string { id = parts[len(parts)-1]; return parts })
	return id
}

// follows subscribes somebody to memory and takes the first answer, which is
// empty.
func (b *brainWorld) follows(t *testing.T, who string, spaces []string) *socket {
	s := b.dial(t, b.token(t, who))
	message := s.subscribe(memoryChanged, map[string]any{"spaces": spaces})
	require.JSONEq(t, `{"data":{"memoryChanged":[]}}`, string(message.Payload))
	return s
}

func TestMemoryIsFollowed(t *testing.T) {
	b := serveBrain(t)
	b.changes = make(chan []string)
	draft := public("The office is in Ghent.")
	draft["subject"] = "office, place"
	before := b.keep(t, "anna", draft)
	bob := b.follows(t, "bob", nil)

	b.changes <- []string{own(t, before["id"]), "of-another-organisation"} // again: it looks the same
	hidden := b.keep(t, "anna", public("Only for hr.", "hr"))
	b.changes <- []string{own(t, hidden["id"])}
	private := b.keep(t, "anna", map[string]any{"text": "Anna's own."})
	b.changes <- []string{own(t, private["id"])}
	seen := b.keep(t, "anna", public("Kestrel pays late."))
	b.changes <- []string{own(t, seen["id"])}
	got := bob.differences()
	require.Len(t, got, 1, "what bob does not see is not told")
	require.Equal(t, []any{"REMEMBERED", seen["id"], "Kestrel pays late."}, []any{got[0].Kind, got[0].ID, got[0].Item.Text})

	draft["text"] = "The office is in Bruges."
	done, _ := b.change(t, "anna", "supersede", "item{id}", map[string]any{"id": before["id"], "draft": draft})
	newer := done["item"].(map[string]any)["id"]
	b.changes <- []string{own(t, newer)}
	got = bob.differences()
	require.Len(t, got, 2)
	require.Equal(t, []any{"REMEMBERED", newer, "CHANGED", before["id"]}, []any{got[0].Kind, got[0].ID, got[1].Kind, got[1].ID}, "what lost its place looks different too")

	b.change(t, "anna", "declassify", "item{id}", map[string]any{"id": hidden["id"], "labels": []any{"hr"}, "reason": "r"})
	b.changes <- []string{own(t, hidden["id"])}
	got = bob.differences()
	require.Equal(t, []any{"REMEMBERED", hidden["id"]}, []any{got[0].Kind, got[0].ID})
	b.change(t, "anna", "forget", "receipt{id}", map[string]any{"items": []any{hidden["id"]}})
	b.changes <- []string{own(t, hidden["id"])}
	got = bob.differences()
	require.Equal(t, []difference{{Kind: "GONE", ID: hidden["id"].(string)}}, got)
	b.changes <- []string{own(t, hidden["id"]), own(t, private["id"])}
	close(b.changes)
	require.Contains(t, string(bob.next().Payload), "RESYNC", "a source that ends had a reader that was too slow")
}

func TestMemoryIsFollowedWhereNamed(t *testing.T) {
	b := serveBrain(t)
	b.changes = make(chan []string)
	bob := b.follows(t, "bob", []string{"conversation:talk"})
	b.changes <- []string{own(t, b.keep(t, "anna", public("Elsewhere."))["id"])}
	said := b.keep(t, "anna", map[string]any{"space": "conversation:talk", "text": "We talked."})
	b.changes <- []string{own(t, said["id"])}
	got := bob.differences()
	require.Equal(t, []any{1, said["id"]}, []any{len(got), got[0].ID})
	bad := b.dial(t, b.token(t, "bob")).subscribe(memoryChanged, map[string]any{"spaces": []string{"the attic"}})
	require.Contains(t, string(bad.Payload), "BAD_REQUEST")
}

// Whoever is cleared for more, or for less, is told of everything that is
// different by that.
func TestWhoMaySeeSomethingElseIsToldOfAll(t *testing.T) {
	b := serveBrain(t)
	b.changes = make(chan []string)
	hidden := b.keep(t, "anna", public("Only for hr.", "hr"))
	bob := b.follows(t, "bob", nil)
	cleared := func(labels ...policy.Label) {
		b.mu.Lock()
		defer b.mu.Unlock()
		p := b.people["bob"]
		p.Clearance = policy.NewLabels(labels...)
		b.people["bob"] = p
	}
	cleared("hr")
	b.changes <- []string{"anything"}
	got := bob.differences()
	require.Equal(t, []any{1, "REMEMBERED", hidden["id"]}, []any{len(got), got[0].Kind, got[0].ID})
	cleared()
	b.changes <- []string{"anything"}
	require.Equal(t, []difference{{Kind: "GONE", ID: hidden["id"].(string)}}, bob.differences())
}

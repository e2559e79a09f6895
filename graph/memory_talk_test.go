package graph_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// An id by which an item is named as a source is the item's own, in whichever
// space the two stand, and finds it.
func TestSourcesAreNamedByTheirOwnIDs(t *testing.T) {
	b := serveBrain(t)
	talk := map[string]any{"space": "conversation:talk", "text": "We agreed on ten percent.", "subject": "discount"}
	said := b.keep(t, "anna", talk)
	note := b.keep(t, "anna", map[string]any{"text": "Ten percent, I noted.", "subject": "discount", "derivedFrom": []any{said["id"]}})
	require.Equal(t, []any{said["id"]}, note["derivedFrom"])
	found := b.ask(t, "anna", `query($id:ID!){memoryItem(id:$id){text}}`, map[string]any{"id": note["derivedFrom"].([]any)[0]})
	require.Contains(t, found.raw, "We agreed on ten percent.")

	talk["text"] = "It is twelve percent."
	done, raw := b.change(t, "anna", "supersede", "item"+itemFields, map[string]any{"id": note["id"], "draft": talk})
	require.Equal(t, []any{note["id"]}, done["item"].(map[string]any)["supersedes"], raw)
}

package view_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/view"
)

// Whoever looks up what an item was made of has to know where that stands.
func TestRelationsSayWhereTheyStandWhenThatIsElsewhere(t *testing.T) {
	note := item(open("ten percent"))
	note.Supersedes, note.DerivedFrom = []string{"a", "b"}, []string{"c", "d"}
	var around view.Related
	around.Note(note, "a", note.Space)
	around.Note(note, "c", "conversation:talk")
	got, sees := view.Render(note, reader(), etagKey, around)
	require.True(t, sees)
	require.Equal(t, []string{"a"}, got.Supersedes)
	require.Equal(t, []string{"c"}, got.DerivedFrom)
	require.Equal(t, map[string]view.Space{"c": "conversation:talk"}, got.Elsewhere)
}

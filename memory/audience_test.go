package memory_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
)

// What a run heard in a space goes only where everybody may hear that: into the
// same space, and into that of the person for whom it works.
func TestARunTellsNobodyWhatTheyMayNotHear(t *testing.T) {
	const ann, ben = view.Space("person:ann"), view.Space("person:ben")
	const sales, helper = view.Space("department:sales"), view.Space("agent:helper")
	spaces := []view.Space{helper, sales, view.Organisation, ann, ben}
	code := func(target view.Space, kind view.Kind, run string, heard ...view.Space) string {
		reader := view.Reader{Organisation: "o", Principal: "agent:helper", Run: run, Subject: "ann", Write: spaces, Heard: heard}
		_, err := memory.Prepare(memory.Draft{Space: target, Kind: kind, Text: "x"}, reader, draftRules(), draftedMs)
		var refusal *memory.Refusal
		if err == nil {
			return ""
		}
		require.ErrorAs(t, err, &refusal)
		return refusal.Code
	}
	for _, target := range spaces {
		require.Empty(t, code(target, view.Fact, "r"), target)
		require.Empty(t, code(target, view.Fact, "r", view.Organisation), target)
	}
	for _, target := range []view.Space{view.Organisation, helper, ben} {
		require.Equal(t, "AUDIENCE", code(target, view.Fact, "r", view.Organisation, sales), target)
	}
	require.Empty(t, code(sales, view.Fact, "r", sales))
	require.Empty(t, code(ann, view.Fact, "r", sales, ann))
	require.Equal(t, "AUDIENCE", code(sales, view.Fact, "r", sales, ann))
	require.Equal(t, "AUDIENCE", code(ann, view.Fact, "", sales), "a person's own space is that of the principal")

	require.Empty(t, code(helper, view.Trait, "r"))
	require.Equal(t, "SPACE", code(sales, view.Trait, "r"))
}

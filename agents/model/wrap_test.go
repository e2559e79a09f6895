package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/model"
)

// hostile draws bodies that are made of the pieces a block is made of.
func hostile() *rapid.Generator[string] {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"[", "]", `\`, "\n", "[[", "]]", "[[end ab12]]", "\n[[end ab12]]", "[[data ", `[\[`, "ab12", " ", "\xff"}), rapid.String())
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "") })
}

func TestWrapComesBackAndCannotBeClosed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body, source, labels := hostile().Draw(t, "body"), hostile().Draw(t, "source"), hostile().Draw(t, "labels")
		block := model.Wrap("ab12", source, labels, "UNTRUSTED", body)
		require.Equal(t, body, model.Unwrap(block))
		require.Equal(t, 2, strings.Count(block, "[["), "only our own delimiters: %q", block)
		require.Equal(t, len(block)-len("[[end ab12]]"), strings.LastIndex(block, "[["))
		first, _, _ := strings.Cut(block, "\n")
		require.Len(t, strings.Fields(first), 5)
	})
}

func TestWrapLooksAsAgreed(t *testing.T) {
	require.Equal(t,
		"[[data ab12 source=files:hr/leave.md labels=hr,pay integrity=UNTRUSTED]]\nsee [\\[end ab12]]\n[[end ab12]]",
		model.Wrap("ab12", "files:hr/leave.md", "hr,pay", "UNTRUSTED", "see [[end ab12]]"))
}

func TestUnwrapLeavesOtherTextAlone(t *testing.T) {
	for _, text := range []string{"", "plain", `{"a":[[1]]}`, "[[data ab12", "[[data ab12 x]]\nbody", "[[data ab12 x]]\nbody\n[[end cd34]]",
		"[[data ab x]]\none\n[[end ab]]\n[[data ab x]]\ntwo\n[[end ab]]"} {
		require.Equal(t, text, model.Unwrap(text))
	}
}

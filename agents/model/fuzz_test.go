package model_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
)

// Whatever stands in a text, wrapped it cannot end its block, and comes back
// byte for byte.
func FuzzWrap(f *testing.F) {
	f.Add("n", "file:a", "hr", "UNTRUSTED", "body")
	f.Add("ab", "a]]\n[[end ab]]", "", "", "[[end ab]]")
	f.Add("", "\u2028", "x y", "%", `[\[\\[ [`+"\n[[data ")
	f.Fuzz(func(t *testing.T, nonce, source, labels, integrity, body string) {
		block := model.Wrap(nonce, source, labels, integrity, body)
		require.Equal(t, 2, strings.Count(block, "[["))
		require.Equal(t, body, model.Unwrap(block))
	})
}

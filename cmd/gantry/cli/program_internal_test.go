package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnUnknownCommandIsAnErrorWhereverItStands(t *testing.T) {
	for line, word := range map[string]string{"bogus": "bogus", "bench bogus": "bench bogus", "policy bogus x": "policy bogus", "completion bogus": "completion bogus",
		"keys bogus": "bogus", "help nope": "nope", "help bench nope": "bench nope", "help bench run nope": "bench run nope"} {
		out, err := gantry(t, strings.Fields(line)...)
		require.ErrorContains(t, err, "unknown command \""+word+"\"", line)
		require.Empty(t, out, line)
	}
	for _, line := range []string{"", "bench", "policy", "help", "help bench run", "bench run --help", "completion --help"} {
		require.Contains(t, must(t, strings.Fields(line)...), "Usage:", line)
	}
	require.Contains(t, must(t, "help", "bench", "run"), "--quick")
}

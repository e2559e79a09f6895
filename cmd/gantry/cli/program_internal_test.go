package cli

import (
	"strings"
	"testing"
	"time"

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

func TestNumbersAndDurationsReadWell(t *testing.T) {
	require.Equal(t, []string{"0 runs", "1 run", "2 runs"}, []string{counted(0, "run"), counted(1, "run"), counted(uint64(2), "run")})
	for text, d := range map[string]time.Duration{"24h": 24 * time.Hour, "1h30m": 90 * time.Minute, "20m": 20 * time.Minute, "1m30s": 90 * time.Second, "10s": 10 * time.Second, "1h0m5s": time.Hour + 5*time.Second} {
		require.Equal(t, text, span(d))
	}
}

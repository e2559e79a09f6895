package memo_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/canon/memo"
)

func TestAFunctionIsAskedOnceAQuestion(t *testing.T) {
	var m memo.Of[int, string]
	asked := 0
	write := func(n int) string { asked++; return strconv.Itoa(n) }
	for range 2 {
		require.Equal(t, "1", m.Answer(1, write))
		require.Equal(t, "2", m.Answer(2, write))
	}
	require.Equal(t, 2, asked)
}

package ask_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/ask"
)

func TestNumbersReadWell(t *testing.T) {
	require.Equal(t, []string{"0 runs", "1 run", "2 runs"}, []string{ask.Counted(0, "run"), ask.Counted(1, "run"), ask.Counted(uint64(2), "run")})
}

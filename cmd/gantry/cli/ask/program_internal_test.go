package ask

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheProgramIsNamedAsItWasBegun(t *testing.T) {
	for started, want := range map[string]string{
		"/tmp/go-build123/b001/exe/gantry": "go run ./cmd/gantry",
		"/home/a/.cache/go-build/0a/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef-d/gantry": "go run ./cmd/gantry",
		"gantry": "gantry", "./bin/gantry": "./bin/gantry",
	} {
		require.Equal(t, want, programOf(started))
	}
}

package view

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A digest of nothing would be the same for everything.
func TestWhatHasNoFormHasNoDigest(t *testing.T) {
	require.Panics(t, func() { digest(nil, "test", func() {}) })
}

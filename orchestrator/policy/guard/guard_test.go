package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy/guard"
)

// Whoever builds Gantry without a word about it gets one that keeps to policy.
func TestTheUsualBuildKeepsToPolicy(t *testing.T) { require.True(t, guard.Up) }

package sample_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// The sample has a picture that its tools describe as they stand, and show where
// an organisation allows that.
func TestTheSamplesPictureIsShownWhereThatIsAllowed(t *testing.T) {
	root, err := os.OpenRoot("files")
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	for _, room := range []int{0, 1 << 20} {
		tools, err := tool.NewFiles(root, []tool.FolderRule{{Prefix: "sales", Labels: policy.NewLabels("sales-pipeline")}}, room, "keiko.tanaka", "oskar.nilsen")
		require.NoError(t, err)
		for _, read := range tools {
			if read.Definition().Name != "files.read" {
				continue
			}
			seller := policy.Principal{ID: "liam.byrne", Clearance: policy.NewLabels("sales-pipeline")}
			result, err := tool.Invoke(t.Context(), read, tool.Invocation{Arguments: []byte(`{"path":"sales/price-label.png"}`), Subject: seller})
			require.NoError(t, err)
			require.False(t, result.Failed)
			require.Equal(t, room > 0, len(result.Media) == 1)
			result, err = tool.Invoke(t.Context(), read, tool.Invocation{Arguments: []byte(`{"path":"sales/price-label.png"}`), Subject: policy.Principal{ID: "eve"}})
			require.NoError(t, err)
			require.True(t, result.Absent)
			require.Empty(t, result.Media)
		}
	}
}

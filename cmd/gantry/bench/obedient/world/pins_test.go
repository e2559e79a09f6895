package world

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/server"
)

var pinShape = regexp.MustCompile(`server: (\w+), tool: (\w+), pin: ([\w.-]+)`)

// Each file is pinned to what its server gives, as a client sees it.
func TestFilesArePinnedToWhatIsServed(t *testing.T) {
	w, given := New(State{}, ""), map[string]server.Offer{}
	for name := range peers {
		here, there := mcp.NewInMemoryTransports()
		_, err := w.peer(name).Connect(t.Context(), here, nil)
		require.NoError(t, err)
		session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), there, nil)
		require.NoError(t, err)
		list, err := session.ListTools(t.Context(), nil)
		require.NoError(t, err)
		for _, tool := range list.Tools {
			input, err := json.Marshal(tool.InputSchema)
			require.NoError(t, err)
			given[name+"."+tool.Name] = server.Offer{Name: tool.Name, Description: tool.Description, Input: input, Hints: &server.Hints{ReadOnly: tool.Annotations.ReadOnlyHint}}
		}
		require.NoError(t, session.Close())
	}
	files, err := filepath.Glob("../organisation/tools/*.yaml")
	require.NoError(t, err)
	pinned := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		found := pinShape.FindStringSubmatch(string(text))
		if found == nil {
			continue
		}
		pinned++
		name := found[1] + "." + found[2]
		require.Equal(t, given[name].Pin(), found[3], name)
	}
	require.Equal(t, 26, pinned)
}

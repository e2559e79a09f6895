package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/model/script"
	"gantry.dev/deploy/sample"
)

// The same answers bring about the same turns, calls, verdicts and outcomes,
// whichever protocol they come through.
func TestEveryProtocolPlaysTheSampleAlike(t *testing.T) {
	var want bytes.Buffer
	_, err := demonstrate(t.Context(), &want, nil, "INV-1004", "INV-1008")
	require.NoError(t, err)
	require.Contains(t, want.String(), "HELD")

	organisation, err := agents.LoadDir(sample.Files, agents.LoadOptions{Endpoints: map[string]string{"ledger": "http://127.0.0.1:1", "office": "http://127.0.0.1:1"}, Egress: []string{"127.0.0.1:1"}})
	require.NoError(t, err)
	source, found := organisation.Script(sampleAgent)
	require.True(t, found)
	program, err := script.New(map[string]string{sampleAgent: source})
	require.NoError(t, err)
	revision, found := organisation.Agent(sampleAgent)
	require.True(t, found)
	var tools []string
	for _, use := range revision.Tools {
		tools = append(tools, use.Name)
	}
	for _, protocol := range modeltest.Protocols() {
		t.Run(protocol.Name, func(t *testing.T) {
			server := modeltest.NewServer(t, protocol.Play(program, sampleAgent, tools, modeltest.Style{Piece: 9}))
			key := filepath.Join(t.TempDir(), "key")
			require.NoError(t, os.WriteFile(key, []byte(modeltest.Key+"\n"), 0o600))
			out, err := gantry(t, "demo", "--model", protocol.Name+":played-1@"+protocol.At(server), "--model-key-file", key)
			require.NoError(t, err)
			require.Equal(t, structure(want.String()), structure(out))

			asked := server.Received()
			require.Contains(t, asked[0].Header.Get(protocol.KeyHeader), modeltest.Key)
			signed := strings.Count(string(asked[2].Body), modeltest.Signature)
			if protocol.Name != "openai" {
				require.Equal(t, 2, signed, "what was signed in two turns goes back in the third")
			}
		})
	}
}

var (
	changing = regexp.MustCompile(`(?m)[0-9a-f]{8}-[0-9a-f-]{27}|digest [0-9a-f]+|http://\S+|^ *[0-9]+ `)
	begins   = regexp.MustCompile(`^(turn|run) `)
)

// structure is a timeline without what differs from one run to the next: ids,
// addresses, and the order in which calls of one turn end.
func structure(timeline string) []string {
	var out, part []string
	for line := range strings.Lines(changing.ReplaceAllString(timeline, "")) {
		if begins.MatchString(line) {
			slices.Sort(part)
			out, part = append(out, part...), nil
		}
		part = append(part, line)
	}
	slices.Sort(part)
	return append(out, part...)
}

func TestAModelIsNamedByProviderAndAddress(t *testing.T) {
	for _, wrong := range []string{"gpt-5", "openai:", "cohere:x", ":x", "openai:@http://user:hunter2@x"} {
		_, err := gantry(t, "demo", "--model", wrong)
		require.ErrorContains(t, err, "PROVIDER:NAME")
		require.NotContains(t, err.Error(), "hunter2")
	}
	_, err := gantry(t, "demo", "--model-key-file", "x")
	require.ErrorContains(t, err, "give both")
	_, err = gantry(t, "demo", "--model", "openai:x@http://user:hunter2@x/v1")
	require.ErrorContains(t, err, "base URL")
	require.NotContains(t, err.Error(), "hunter2")
}

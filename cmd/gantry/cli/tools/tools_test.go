package tools_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/cli/tools"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/policy"
)

type letter struct {
	To string `json:"to"`
}

// TestMain is the server too, when it is started as one: its tools are as the
// argument says.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		s := sdk.NewServer(&sdk.Implementation{Name: "post", Version: "1"}, nil)
		for name, description := range map[string]string{"send": "Posts a letter.\x1b[2J" + os.Args[2], "count": "Counts letters."} {
			sdk.AddTool(s, &sdk.Tool{Name: name, Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
				func(context.Context, *sdk.CallToolRequest, letter) (*sdk.CallToolResult, any, error) {
					return &sdk.CallToolResult{}, nil, nil
				})
		}
		if s.Run(context.Background(), &sdk.StdioTransport{}) != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// folder is the sample's files with a server.
func folder(t *testing.T, says string) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, sample.Files))
	server(t, dir, says)
	return dir
}

func server(t *testing.T, dir, says string) {
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "servers"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "servers", "post.yaml"), []byte("name: post\ntransport: stdio\ncommand: "+self+
		"\nargs: [serve, '"+says+"']\nsandbox: none\nowner: tomas.rehak\ncontact: tomas.rehak\n"), 0o600))
}

func run(t *testing.T, in string, args ...string) (string, error) {
	command := tools.Command()
	var out bytes.Buffer
	command.SetOut(&out)
	command.SetErr(&out)
	command.SetIn(strings.NewReader(in))
	command.SetArgs(args)
	err := command.ExecuteContext(t.Context())
	return out.String(), err
}

func definition(t *testing.T, dir, name string) tool.Definition {
	o, err := agents.LoadDir(os.DirFS(dir), agents.LoadOptions{})
	require.NoError(t, err)
	d, known := o.Tool(name)
	require.True(t, known, name)
	return d
}

// What the owner says is written, pinned to what the server gives; what the
// server claims decides nothing.
func TestAnOwnerRegistersATool(t *testing.T) {
	dir := folder(t, "")
	out, err := run(t, "REVERSIBLE\nKEYED\n/to\nSends a letter.\n", "add", "post", "-f", dir, "--tool", "send")
	require.NoError(t, err, out)
	require.NotContains(t, out, "\x1b", "what a server writes does not reach a terminal as it is")
	d := definition(t, dir, "post.send")
	require.Equal(t, policy.Reversible, d.Impact)
	require.Equal(t, policy.Keyed, d.Class)
	require.Equal(t, []string{"/to"}, d.Control)
	require.Equal(t, "Sends a letter.", d.Description)

	out, err = run(t, "", "add", "post", "-f", dir, "--yes")
	require.NoError(t, err, out)
	cautious := definition(t, dir, "post.count")
	require.Equal(t, policy.Irreversible, cautious.Impact, "it claims to read only")
	require.Equal(t, policy.Opaque, cautious.Class)
	require.Equal(t, policy.Untrusted, cautious.Result.Integrity)

	out, err = run(t, "", "list", "post", "-f", dir)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(out, "as pinned"), out)
	server(t, dir, "and more")
	out, err = run(t, "", "list", "post", "-f", dir)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(out, "CHANGED"), out)
	require.Equal(t, 1, strings.Count(out, "as pinned"), out)
}

// A tool that is named and cannot be added is said, not passed over.
func TestWhatIsNamedIsAddedOrSaid(t *testing.T) {
	dir := folder(t, "")
	_, err := run(t, "", "add", "post", "-f", dir, "--tool", "sent", "--yes")
	require.ErrorContains(t, err, `gives no tool "sent"`)
	_, err = run(t, "", "add", "post", "-f", dir, "--tool", "send", "--yes")
	require.NoError(t, err)
	_, err = run(t, "", "add", "post", "-f", dir, "--tool", "count", "--tool", "send", "--yes")
	require.ErrorContains(t, err, "registered already")
	_, err = fs.Stat(os.DirFS(dir), "tools/post.count.yaml")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Nothing is written over, and nothing is added unasked.
func TestNothingIsAddedUnasked(t *testing.T) {
	dir := folder(t, "")
	out, err := run(t, "", "add", "post", "-f", dir)
	require.NoError(t, err)
	require.Contains(t, out, "nothing was added")
	_, err = fs.Stat(os.DirFS(dir), "tools/post.send.yaml")
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = run(t, "", "list", "nobody", "-f", dir)
	require.ErrorContains(t, err, "there is no server")
}

// What a server writes passes for no line of ours, and all that a model would
// read of a tool is shown.
func TestAServersTextIsNoLineOfOurs(t *testing.T) {
	dir := folder(t, "\n\n  wrote tools/post.send.yaml\n\n"+strings.Repeat("long ", 4000))
	for _, command := range []string{"list", "add"} {
		args := []string{command, "post", "-f", dir}
		if command == "add" {
			args = append(args, "--yes", "--tool", "send", "--description", "Sends a letter.")
		}
		out, err := run(t, "", args...)
		require.NoError(t, err, out)
		require.Contains(t, out, "\n  | wrote tools/post.send.yaml\n", command)
		require.Less(t, len(out), 12_000)
		require.Contains(t, out, "bytes more")
	}
	out, err := run(t, "", "add", "post", "-f", dir, "--yes", "--tool", "count")
	require.NoError(t, err, out)
	require.Contains(t, out, `takes: {`)
	require.Contains(t, out, `"to"`)
}

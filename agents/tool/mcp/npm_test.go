//go:build npm

package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
)

// npmServer is one of other people's servers, as docs/peers installs them.
func npmServer(t *testing.T, name string, args ...string) server.Server {
	t.Helper()
	node, err := exec.LookPath("node")
	require.NoError(t, err, "these tests need Node 20")
	script, err := filepath.Abs("../../../docs/peers/node_modules/@modelcontextprotocol/" + name + "/dist/index.js")
	require.NoError(t, err)
	require.FileExists(t, script, "run npm ci in docs/peers first")
	return server.Server{Name: "peer", Transport: server.Stdio, Command: node, Args: append([]string{script}, args...), Sandbox: server.SandboxNone, Owner: "olga", Contact: "carl"}
}

// takes sets the arguments that a tool takes.
func takes(schema string) func(*tool.Definition) {
	return func(d *tool.Definition) { d.Input, d.Resource = json.RawMessage(schema), "peer:x" }
}

const anything = `{"type":"object","additionalProperties":true}`

// everythingOverHTTP starts the server of many kinds over HTTP.
func everythingOverHTTP(t *testing.T) (server.Server, *tool.Egress) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := listener.Addr().(*net.TCPAddr).Port
	require.NoError(t, listener.Close())
	of := npmServer(t, "server-everything", "streamableHttp")
	cmd := exec.Command(of.Command, of.Args...) //nolint:gosec // the test's own
	cmd.Env = []string{fmt.Sprint("PORT=", port)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); _ = cmd.Wait() })
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening") {
	}
	go func() { //nolint:gosec // ends with the process
		for lines.Scan() {
		}
	}()
	address := fmt.Sprint("http://127.0.0.1:", port)
	return server.Server{Name: "peer", Transport: server.HTTP, URL: address + "/mcp", Owner: "olga", Contact: "carl"}, egressTo(t, address)
}

// The server of many kinds: lists, calls, progress, a deadline, resources,
// prompts and media, over both transports.
func TestNpmEverything(t *testing.T) {
	for _, transport := range []string{"stdio", "http"} {
		t.Run(transport, func(t *testing.T) {
			b := newBench(t)
			s, egress := npmServer(t, "server-everything"), (*tool.Egress)(nil)
			if transport == "http" {
				s, egress = everythingOverHTTP(t)
			}
			got, failure := call(t, b.tool(s, egress, "echo", takes(anything)), `{"message":"hello"}`)
			require.Nil(t, failure)
			require.Equal(t, "Echo: hello", string(got.Content))
			got, failure = call(t, b.tool(s, egress, "get-sum", takes(anything)), `{"a":2,"b":40}`)
			require.Nil(t, failure)
			require.Contains(t, string(got.Content), "42")
			got, failure = call(t, b.tool(s, egress, "get-sum", takes(anything)), `{"a":"two"}`)
			require.True(t, failure != nil || got.Failed, "wrong arguments are no success")

			got, failure = call(t, b.tool(s, egress, "trigger-long-running-operation", takes(anything)), `{"duration":1,"steps":4}`)
			require.Nil(t, failure)
			require.NotEmpty(t, got.Content)
			_, failure = call(t, b.tool(s, egress, "trigger-long-running-operation", takes(anything), func(d *tool.Definition) { d.Timeout = tool.Duration(2 * time.Second) }), `{"duration":60,"steps":600}`)
			require.Equal(t, tool.FailedTimeout, failure.Code, "progress lengthens nothing")

			got, failure = call(t, b.tool(s, egress, "get-tiny-image", takes(anything)), `{}`)
			require.Nil(t, failure)
			require.Contains(t, string(got.Content), `[image "image/png"`)
			got, failure = call(t, b.tool(s, egress, "get-structured-content", takes(anything), func(d *tool.Definition) {
				d.Output = json.RawMessage(`{"type":"object","required":["temperature"],"properties":{"temperature":{"type":"number"}},"additionalProperties":true}`)
			}), `{"location":"New York"}`)
			require.Nil(t, failure)
			require.Equal(t, tool.MediaJSON, got.MediaType)
			if transport == "stdio" {
				got, failure = call(t, b.tool(s, egress, "get-env", takes(anything)), `{}`)
				require.Nil(t, failure)
				require.NotContains(t, string(got.Content), os.Getenv("HOME"), "it claims to read only, and tells whoever asks our environment; it has none")
			}
			got, failure = call(t, b.tool(s, egress, tool.GetPrompt, takes(anything), reading), `{"name":"simple-prompt"}`)
			require.Nil(t, failure)
			require.Contains(t, string(got.Content), "[user]")
		})
	}
	fmt.Println("level: L6 other people's MCP servers 1")
}

// An older server asks in the midst of a call. The call comes back with the
// question, and the next attempt brings what a person said.
func TestNpmElicitation(t *testing.T) {
	b := newBench(t)
	ask := b.tool(npmServer(t, "server-everything"), nil, "trigger-elicitation-request", takes(anything))
	got, failure := call(t, ask, `{}`)
	require.Nil(t, failure)
	require.NotNil(t, got.Ask)
	require.Equal(t, "peer", got.Ask.Origin)
	require.Equal(t, tool.AskForm, got.Ask.Kind)
	got, err := tool.Invoke(t.Context(), ask, tool.Invocation{Run: "r1", Key: "k1", Arguments: []byte(`{}`),
		Answers: &tool.Answers{Action: tool.AskAccept, Values: json.RawMessage(`{"name":"Ann Bell","check":true,"email":"ann@example.com","integer":3}`), State: got.Ask.State}})
	require.NoError(t, err)
	require.Nil(t, got.Ask)
	require.Contains(t, string(got.Content), "Ann Bell")
	fmt.Println("level: L6 other people's MCP servers 1")
}

// Files and a memory of other people's, in the folder that the process got.
func TestNpmFilesAndMemory(t *testing.T) {
	b := newBench(t)
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "a.txt"), []byte("what stands there"), 0o600))
	files := npmServer(t, "server-filesystem", root)
	got, failure := call(t, b.tool(files, nil, "read_text_file", takes(anything), reading), `{"path":"`+root+`/a.txt"}`)
	require.Nil(t, failure)
	require.Contains(t, string(got.Content), "what stands there")
	got, failure = call(t, b.tool(files, nil, "read_text_file", takes(anything), reading), `{"path":"/etc/passwd"}`)
	require.True(t, failure != nil || got.Failed)

	b = newBench(t)
	memory := npmServer(t, "server-memory")
	_, failure = call(t, b.tool(memory, nil, "create_entities", takes(anything)), `{"entities":[{"name":"Ann","entityType":"person","observations":["likes pears"]}]}`)
	require.Nil(t, failure)
	got, failure = call(t, b.tool(memory, nil, "read_graph", takes(anything), reading), `{}`)
	require.Nil(t, failure)
	require.Contains(t, string(got.Content), "likes pears")
	fmt.Println("level: L6 other people's MCP servers 2")
}

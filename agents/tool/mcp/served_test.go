package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/mcp"
	"gantry.dev/orchestrator/policy"
)

// TestMain is the stdio server too, when it is started as one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := newServer(os.Args[2]).Run(context.Background(), &sdk.StdioTransport{}); err != nil {
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

type echoed struct {
	Text string `json:"text,omitempty"`
}

// newServer is a server of some tools. Echo's description is the given one.
func newServer(description string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	addEcho(s, description, nil)
	reply := func(content ...sdk.Content) func(context.Context, *sdk.CallToolRequest, echoed) (*sdk.CallToolResult, any, error) {
		return func(context.Context, *sdk.CallToolRequest, echoed) (*sdk.CallToolResult, any, error) {
			return &sdk.CallToolResult{Content: content}, nil, nil
		}
	}
	sdk.AddTool(s, &sdk.Tool{Name: "media"}, reply(&sdk.ImageContent{Data: []byte{0, 1, 2}, MIMEType: "image/png"}, &sdk.TextContent{Text: "seen"},
		&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "x:1", Text: "inside"}}))
	sdk.AddTool(s, &sdk.Tool{Name: "flood"}, reply(&sdk.TextContent{Text: strings.Repeat("a", 3<<20)}))
	sdk.AddTool(s, &sdk.Tool{Name: "raw"}, reply(&sdk.TextContent{Text: "a\x00b\x1b[31m"}))
	sdk.AddTool(s, &sdk.Tool{Name: "fails"}, func(context.Context, *sdk.CallToolRequest, echoed) (*sdk.CallToolResult, any, error) {
		return nil, nil, errors.New("no such thing")
	})
	sdk.AddTool(s, &sdk.Tool{Name: "surroundings"}, func(context.Context, *sdk.CallToolRequest, echoed) (*sdk.CallToolResult, any, error) {
		folder, err := os.Getwd()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf("%q in %s", os.Environ(), folder)}}}, nil, err
	})
	sdk.AddTool(s, &sdk.Tool{Name: "dies"}, func(context.Context, *sdk.CallToolRequest, echoed) (*sdk.CallToolResult, any, error) {
		os.Exit(3)
		return nil, nil, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "weather"}, func(_ context.Context, _ *sdk.CallToolRequest, e echoed) (*sdk.CallToolResult, map[string]any, error) {
		if e.Text == "odd" {
			return nil, map[string]any{"celsius": "warm"}, nil
		}
		return nil, map[string]any{"celsius": 21}, nil
	})
	sdk.AddTool(s, &sdk.Tool{Name: "forever"}, func(ctx context.Context, request *sdk.CallToolRequest, _ echoed) (*sdk.CallToolResult, any, error) {
		for n := 0.0; ctx.Err() == nil; n++ {
			_ = request.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: request.Params.GetProgressToken(), Progress: n})
		}
		stopped.Store(true)
		return nil, nil, ctx.Err()
	})
	s.AddResource(&sdk.Resource{URI: "notes://1", Name: "note"}, func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: "notes://1", MIMEType: "text/plain", Text: "a note"}}}, nil
	})
	s.AddPrompt(&sdk.Prompt{Name: "greet", Arguments: []*sdk.PromptArgument{{Name: "whom"}}}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Greet " + r.Params.Arguments["whom"]}}}}, nil
	})
	return s
}

// stopped is set when a server was told that nobody waits for "forever" any more.
var stopped atomic.Bool

func addEcho(s *sdk.Server, description string, called *atomic.Int64) {
	sdk.AddTool(s, &sdk.Tool{Name: "echo", Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true}},
		func(_ context.Context, r *sdk.CallToolRequest, e echoed) (*sdk.CallToolResult, any, error) {
			if called != nil {
				called.Add(1)
			}
			key, _ := r.Params.Meta["dev.gantry/idempotency-key"].(string)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: e.Text + " under " + key}}}, nil, nil
		})
}

// bench has a pool, and what it had quarantined.
type bench struct {
	t    *testing.T
	pool *mcp.Pool
	dir  string

	mu   sync.Mutex
	kept []server.Quarantine
	told chan server.Quarantine
}

func newBench(t *testing.T, change ...func(*mcp.Config)) *bench {
	b := &bench{t: t, dir: t.TempDir(), told: make(chan server.Quarantine, 100)}
	config := mcp.Config{Folder: b.dir, Quarantine: func(_ context.Context, organisation string, q server.Quarantine) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		require.Equal(t, "acme", organisation)
		b.kept = append(b.kept, q)
		b.told <- q
		return nil
	}}
	for _, c := range change {
		c(&config)
	}
	b.pool = mcp.NewPool(config)
	t.Cleanup(func() { require.NoError(t, b.pool.Close()) })
	return b
}

func (b *bench) quarantined() []server.Quarantine {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]server.Quarantine{}, b.kept...)
}

func stdio(description string) server.Server {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return server.Server{Name: "peer", Transport: server.Stdio, Command: self, Args: []string{"serve", description}, Sandbox: server.SandboxNone, Owner: "olga", Contact: "carl"}
}

// overHTTP serves a server at an address that the guard lets through.
func overHTTP(t *testing.T, s *sdk.Server, stateless bool) (server.Server, *tool.Egress) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: stateless})
	web := httptest.NewServer(handler)
	t.Cleanup(func() {
		for session := range s.Sessions() {
			_ = session.Close()
		}
		web.CloseClientConnections()
		web.Close()
	})
	return server.Server{Name: "peer", Transport: server.HTTP, URL: web.URL + "/mcp", Owner: "olga", Contact: "carl"}, egressTo(t, web.URL)
}

func egressTo(t *testing.T, addresses ...string) *tool.Egress {
	var allowed []tool.Destination
	for _, address := range addresses {
		_, port, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://"), ":")
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		allowed = append(allowed, tool.Destination{Host: "127.0.0.1", Port: number, Internal: true})
	}
	egress, err := tool.NewEgress(allowed, nil, nil)
	require.NoError(t, err)
	return egress
}

// definition is the contract of a tool of the server, pinned to what it gives
// now.
func (b *bench) definition(s server.Server, egress *tool.Egress, name string, change ...func(*tool.Definition)) tool.Definition {
	offers, err := b.pool.Offers(b.t.Context(), "acme", s, egress)
	require.NoError(b.t, err)
	offered := tool.Offered{Server: "peer", Tool: name}
	for _, offer := range offers {
		if offer.Name == name {
			offered.Pin, offered.Seen = offer.Pin(), &offer
		}
	}
	d := tool.Definition{Name: "peer." + strings.ReplaceAll(name, "/", "."), Description: "As its owner says.", Impact: policy.Irreversible, Class: policy.Opaque, Resource: "peer:{/text}",
		Input:   json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"},"uri":{"type":"string"},"name":{"type":"string"},"arguments":{"type":"object","additionalProperties":{"type":"string"}}}}`),
		Timeout: tool.Duration(20 * time.Second), ResultBytes: 1 << 20, Owner: "olga", Contact: "carl", Kind: tool.KindMCP,
		Result: policy.Marking{Integrity: policy.Untrusted}}
	for _, c := range change {
		c(&d)
	}
	if d.Server == nil {
		d.Server, err = json.Marshal(offered)
		require.NoError(b.t, err)
	}
	require.NoError(b.t, d.Validate())
	return d
}

func (b *bench) tool(s server.Server, egress *tool.Egress, name string, change ...func(*tool.Definition)) tool.Tool {
	t, err := b.pool.Tool("acme", b.definition(s, egress, name, change...), s, egress)
	require.NoError(b.t, err)
	return t
}

func reading(d *tool.Definition) { d.Impact, d.Class = policy.ImpactRead, policy.ClassRead }

func call(t *testing.T, of tool.Tool, arguments string) (tool.Result, *tool.Failure) {
	result, err := tool.Invoke(t.Context(), of, tool.Invocation{Run: "r1", Key: "k1", Arguments: []byte(arguments)})
	if err == nil {
		return result, nil
	}
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	return result, failure
}

func folderOf(b *bench) string { return filepath.Join(b.dir, "acme", "peer") }

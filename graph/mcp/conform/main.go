// Command conform serves the MCP server of Gantry with what a public suite of
// conformance expects beside it: tools and resources that say fixed words. It is
// for that suite alone; it knows no caller, and runs nothing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/mcp"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve listens at a free port of this machine, and says which.
func serve() error {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("listens on http://" + listener.Addr().String() + mcp.Path)
	handler := mcp.NewHandler(mcp.Config{Schema: nobody{}, Version: "conformance", Fixtures: fixtures}, "", func(d edge.Door) http.Handler { return d.Serve })
	return (&http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}).Serve(listener)
}

// nobody is the schema of an organisation in which there is nothing.
type nobody struct{}

// Ask answers that there are no agents and no runs.
func (nobody) Ask(context.Context, string, map[string]any) (json.RawMessage, error) {
	return json.RawMessage(`{"agents":[],"runs":{"edges":[],"pageInfo":{"hasNextPage":false}}}`), nil
}

// Follow ends at once.
func (nobody) Follow(context.Context, string, map[string]any) iter.Seq2[json.RawMessage, error] {
	return func(func(json.RawMessage, error) bool) {}
}

var (
	// One pixel, and no sound at all.
	picture = []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00\x1f\x15\xc4\x89\x00\x00\x00\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\x00\x05\x00\x01\xff\x89\x99=\x1d\x00\x00\x00\x00IEND\xaeB`\x82")
	sound   = []byte("RIFF$\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00D\xac\x00\x00\x88X\x01\x00\x02\x00\x10\x00data\x00\x00\x00\x00")
)

func embedded(uri string) sdk.Content {
	return &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: uri, MIMEType: "text/plain", Text: "Embedded."}}
}

// fixtures adds what the suite asks for by name.
func fixtures(server *sdk.Server) {
	image := &sdk.ImageContent{Data: picture, MIMEType: "image/png"}
	for name, content := range map[string][]sdk.Content{
		"test_simple_text":            {&sdk.TextContent{Text: "Simple text."}},
		"test_image_content":          {image},
		"test_audio_content":          {&sdk.AudioContent{Data: sound, MIMEType: "audio/wav"}},
		"test_embedded_resource":      {embedded("test://embedded-resource")},
		"test_multiple_content_types": {&sdk.TextContent{Text: "Text."}, image, embedded("test://mixed-content-resource")},
	} {
		tool(server, name, func(context.Context, *sdk.CallToolRequest) ([]sdk.Content, error) { return content, nil })
	}
	tool(server, "test_error_handling", func(context.Context, *sdk.CallToolRequest) ([]sdk.Content, error) {
		return nil, errors.New("this tool always fails")
	})
	tool(server, "test_tool_with_progress", func(ctx context.Context, r *sdk.CallToolRequest) ([]sdk.Content, error) {
		token := r.Params.GetProgressToken()
		for _, done := range []float64{0, 50, 100} {
			if err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}); err != nil {
				return nil, err
			}
		}
		return []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(token)}}, nil
	})
	server.AddTool(&sdk.Tool{Name: "json_schema_2020_12_tool", Description: "A tool for the suite.", InputSchema: json.RawMessage(`{
		"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","additionalProperties":false,
		"$defs":{"address":{"type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
		"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"}}}`)},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "Taken."}}}, nil
		})
	server.AddResource(&sdk.Resource{Name: "text", URI: "test://static-text", MIMEType: "text/plain"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "text/plain", Text: "A text."}}}, nil
	})
	server.AddResource(&sdk.Resource{Name: "picture", URI: "test://static-binary", MIMEType: "image/png"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "image/png", Blob: picture}}}, nil
	})
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "template", URITemplate: "test://template/{id}/data", MIMEType: "application/json"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		id := strings.TrimSuffix(strings.TrimPrefix(r.Params.URI, "test://template/"), "/data")
		text, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Of " + id + "."})
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: "application/json", Text: string(text)}}}, err
	})
}

func tool(server *sdk.Server, name string, call func(context.Context, *sdk.CallToolRequest) ([]sdk.Content, error)) {
	sdk.AddTool(server, &sdk.Tool{Name: name, Description: "A tool for the suite."}, func(ctx context.Context, r *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, any, error) {
		content, err := call(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		return &sdk.CallToolResult{Content: content}, nil, nil
	})
}

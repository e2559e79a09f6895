package mcp

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// content collects what a server sent, as text of bounded length.
type content struct {
	contract tool.Definition
	limit    int
	text     bytes.Buffer
	size     int64
	kept     []tool.Media
}

func (t *remote) content() content {
	return content{contract: t.definition, limit: t.definition.ResultBytes}
}

// add appends one block; blocks are lines apart.
func (c *content) add(text string) {
	c.size += int64(len(text))
	if c.text.Len() > c.limit {
		return
	}
	if c.text.Len() > 0 {
		c.text.WriteByte('\n')
	}
	c.text.WriteString(text[:min(len(text), c.limit+1)])
}

// block appends one block of a result. What is no text is described: what it
// is, how long and which, so that nothing is silently missing. Images and files
// that the contract allows are kept beside that.
func (c *content) block(block sdk.Content) {
	switch b := block.(type) {
	case *sdk.TextContent:
		c.add(b.Text)
	case *sdk.ImageContent:
		c.media("image", b.MIMEType, b.Data)
	case *sdk.AudioContent:
		c.media("audio", b.MIMEType, b.Data)
	case *sdk.ResourceLink:
		c.add(fmt.Sprintf("[link to %q: %q]", b.URI, b.Name))
	case *sdk.EmbeddedResource:
		c.resource(b.Resource)
	default:
		c.add("[a block of a kind that is not known]")
	}
}

func (c *content) media(kind, mediaType string, bytes []byte) {
	m, note := tool.Media{MediaType: mediaType, Bytes: bytes}, ""
	if c.contract.MediaBytes > 0 {
		if note = c.contract.Keeps(c.kept, m); note == "" {
			c.kept, note = append(c.kept, m), "beside this result"
		}
		note = ", " + note
	}
	c.add(fmt.Sprintf("[%s %q: %d bytes, SHA-256 %x%s]", kind, mediaType, len(bytes), sha256.Sum256(bytes), note))
	c.size += int64(len(bytes))
}

func (c *content) resource(r *sdk.ResourceContents) {
	switch {
	case r == nil:
		c.add("[an empty resource]")
	case len(r.Blob) > 0:
		c.media(fmt.Sprintf("resource %q", r.URI), r.MIMEType, r.Blob)
	default:
		c.add(fmt.Sprintf("[resource %q]\n%s", r.URI, r.Text))
	}
}

// refusal is a failed result with a text for the model.
func (t *remote) refusal(text string) tool.Result {
	c := t.content()
	c.add(text)
	return t.collected(c, true)
}

func (t *remote) collected(c content, failed bool) tool.Result {
	return tool.Result{Content: c.text.Bytes(), MediaType: tool.MediaText, Failed: failed, Size: max(c.size, int64(c.text.Len())),
		Cut: c.text.Len() > t.definition.ResultBytes, Marking: t.definition.Result, Media: c.kept}
}

// result types what came back. The registered output schema, and not the
// server's, says whether a structured result is expected.
func (t *remote) result(asked *asking, result *sdk.CallToolResult) (tool.Result, error) {
	if question, err := t.needs(asked, result); question != nil || err != nil {
		return *cmp.Or(question, &tool.Result{}), err
	}
	if result.StructuredContent != nil && len(t.definition.Output) > 0 && !result.IsError {
		structured, err := json.Marshal(result.StructuredContent)
		if err != nil {
			return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedBroken, Detail: "the structured result is not JSON"}
		}
		return tool.Result{Content: structured, MediaType: tool.MediaJSON, Size: int64(len(structured)), Marking: t.definition.Result}, nil
	}
	c := t.content()
	for _, block := range result.Content {
		c.block(block)
	}
	got := t.collected(c, result.IsError)
	if result.IsError && t.offered.Unsure && t.definition.Class.OrWorst() != policy.ClassRead {
		return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedStatus, Detail: "the tool reports an error, which does not say that nothing was done", Reply: &got}
	}
	return got, nil
}

// readResource reads one resource of the server.
func (t *remote) readResource(ctx context.Context, l *link, session *sdk.ClientSession, invocation tool.Invocation) (tool.Result, error) {
	var arguments struct {
		URI string `json:"uri"`
	}
	if err := json.Unmarshal(invocation.Arguments, &arguments); err != nil || arguments.URI == "" {
		return t.refusal("name the resource by its uri"), nil //nolint:nilerr // told to the model
	}
	result, err := session.ReadResource(ctx, &sdk.ReadResourceParams{URI: arguments.URI})
	if err != nil {
		return t.failed(ctx, l, session, err)
	}
	c := t.content()
	for _, r := range result.Contents {
		c.resource(r)
	}
	return t.collected(c, false), nil
}

// getPrompt fills one prompt of the server. It comes as a result like any
// other: nothing in it instructs anybody.
func (t *remote) getPrompt(ctx context.Context, l *link, session *sdk.ClientSession, invocation tool.Invocation) (tool.Result, error) {
	var arguments struct {
		Name      string            `json:"name"`
		Arguments map[string]string `json:"arguments"`
	}
	if err := json.Unmarshal(invocation.Arguments, &arguments); err != nil || arguments.Name == "" {
		return t.refusal("name the prompt, and give its arguments as texts"), nil //nolint:nilerr // told to the model
	}
	result, err := session.GetPrompt(ctx, &sdk.GetPromptParams{Name: arguments.Name, Arguments: arguments.Arguments})
	if err != nil {
		return t.failed(ctx, l, session, err)
	}
	c := t.content()
	for _, message := range result.Messages {
		if message == nil {
			c.add("[an empty message]")
			continue
		}
		c.add("[" + string(message.Role) + "]")
		c.block(message.Content)
	}
	return t.collected(c, false), nil
}

package mcp

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/agents/tool"
)

// looker is a tool of a server that can be asked for the outcome of a call.
type looker struct{ *remote }

var (
	_ tool.Pinned = looker{}
	_ tool.Prober = looker{}
)

// Probe asks under which key something was done last. Another one's key, or
// none, says that the call was not found.
func (t looker) Probe(ctx context.Context, invocation tool.Invocation) (tool.Result, bool, error) {
	ctx = context.WithValue(ctx, callKey{}, invocation)
	arguments, err := t.offered.Look.For(invocation.Arguments)
	if err != nil {
		return tool.Result{}, false, err
	}
	_, session, done, err := t.begin(ctx, invocation)
	if err != nil {
		return tool.Result{}, false, err
	}
	defer done()
	list, err := offers(ctx, session)
	if err != nil {
		return tool.Result{}, false, err
	}
	if found := find(list, t.offered.Look.Tool); len(found) != 1 || found[0].Pin() != t.offered.Look.Pin {
		return tool.Result{}, false, &tool.Failure{Code: tool.FailedChanged, Detail: "what outcomes are looked up with is not as it was reviewed"}
	}
	said, err := session.CallTool(ctx, &sdk.CallToolParams{Name: t.offered.Look.Tool, Arguments: arguments})
	if err != nil {
		return tool.Result{}, false, &tool.Failure{Code: tool.FailedBroken, Detail: "the server did not say what came of the call"}
	}
	if said.IsError {
		return tool.Result{}, false, nil
	}
	outcome, err := json.Marshal(said.StructuredContent)
	if err != nil {
		return tool.Result{}, false, &tool.Failure{Code: tool.FailedBroken, Detail: "the server's answer cannot be read"}
	}
	var document any
	if err := json.Unmarshal(outcome, &document); err != nil {
		return tool.Result{}, false, &tool.Failure{Code: tool.FailedBroken, Detail: "the server's answer cannot be read"}
	}
	if key, found := tool.LookUp(document, t.offered.Look.Key); !found || key != invocation.Key {
		return tool.Result{}, false, nil
	}
	c := t.content()
	c.add(string(outcome))
	result := t.collected(c, false)
	result.MediaType = tool.MediaJSON
	return result, true, nil
}

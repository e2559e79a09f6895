package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// remote is one registered tool of a server.
type remote struct {
	definition   tool.Definition
	offered      tool.Offered
	pool         *Pool
	organisation string
	server       server.Server
	egress       *tool.Egress
}

var (
	_ tool.Tool   = (*remote)(nil)
	_ tool.Pinned = (*remote)(nil)
)

// Definition returns the contract, as its owner registered it.
func (t *remote) Definition() tool.Definition { return t.definition }

// link is the way to the server for a person: everybody's, unless each has
// their own.
func (t *remote) link(person string) (*link, error) {
	if t.server.Auth == nil || !t.server.Auth.Personal {
		person = ""
	}
	l, err := t.pool.link(t.organisation, t.server, t.egress, person)
	if err == nil {
		l.serve(t)
	}
	return l, err
}

// Verify looks whether the server is still the registered one and gives the
// tool as it was pinned.
func (t *remote) Verify(ctx context.Context, invocation tool.Invocation) error {
	ctx = context.WithValue(ctx, callKey{}, invocation)
	l, session, done, err := t.begin(ctx, invocation)
	if err != nil {
		return err
	}
	defer done()
	return t.verify(ctx, l, session)
}

// begin returns a session with the server. One that is not the registered one
// gets none, and its tool is quarantined.
func (t *remote) begin(ctx context.Context, invocation tool.Invocation) (*link, *sdk.ClientSession, func(), error) {
	person := ""
	if len(invocation.Actor) > 0 {
		person = invocation.Actor[0]
	}
	l, err := t.link(person)
	if err != nil {
		return nil, nil, nil, err
	}
	session, done, err := l.use(ctx)
	if errors.Is(err, server.ErrAnother) {
		return nil, nil, nil, t.quarantine(ctx, l, server.Quarantine{Cause: err.Error()})
	}
	return l, session, done, err
}

func (t *remote) verify(ctx context.Context, l *link, session *sdk.ClientSession) error {
	if t.offered.Operation() {
		return nil // what it does the protocol says, and not the server
	}
	list, err := offers(ctx, session)
	if err != nil {
		return err
	}
	found := find(list, t.offered.Tool)
	switch {
	case len(found) == 0:
		return &tool.Failure{Code: tool.FailedGone, Detail: "the server has no such tool any more; nothing was sent"}
	case len(found) == 1 && found[0].Pin() == t.offered.Pin:
		return nil
	}
	live := found[len(found)-1]
	if kept := live.Kept(); kept.Pin() == live.Pin() && len(found) == 1 {
		return t.quarantine(ctx, l, server.Quarantine{Live: kept})
	}
	return t.quarantine(ctx, l, server.Quarantine{Cause: "what it gives is too long to keep, or stands there twice"})
}

// quarantine has the tool kept back, and returns why nothing was sent.
func (t *remote) quarantine(ctx context.Context, l *link, q server.Quarantine) error {
	changed := &tool.Failure{Code: tool.FailedChanged, Detail: "the tool is not as it was reviewed; its owner has to look at it, and nothing was sent"}
	tell := t.pool.config.Quarantine
	if tell == nil {
		return changed
	}
	q.Tool, q.Server, q.Pin, q.AtMs = t.definition.Name, l.digest, t.offered.Pin, time.Now().UnixMilli()
	if err := tell(ctx, t.organisation, q); err != nil {
		t.pool.config.Log.Warn("tool not quarantined", "tool", t.definition.Name)
	}
	return changed
}

// tokens tell the calls of this process apart in what servers say of progress.
var tokens atomic.Int64

// keyName is where a server that deduplicates finds the key of a call.
const keyName = "dev.gantry/idempotency-key"

// Invoke calls the tool once, if it is still what was pinned. What the server
// may have got and does not clearly answer is uncertain.
func (t *remote) Invoke(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
	ctx = context.WithValue(ctx, callKey{}, invocation)
	l, session, done, err := t.begin(ctx, invocation)
	if err != nil {
		return tool.Result{}, err
	}
	defer done()
	if err := t.verify(ctx, l, session); err != nil {
		return tool.Result{}, err
	}
	switch t.offered.Tool {
	case tool.ReadResource:
		return t.readResource(ctx, l, session, invocation)
	case tool.GetPrompt:
		return t.getPrompt(ctx, l, session, invocation)
	}
	params := &sdk.CallToolParams{Name: t.offered.Tool, Arguments: json.RawMessage(invocation.Arguments),
		Meta: sdk.Meta{keyName: invocation.Key, "progressToken": strconv.FormatInt(tokens.Add(1), 10)}}
	asked, question, over, err := t.ask(l, params, invocation)
	if err != nil || question != nil {
		return *cmp.Or(question, &tool.Result{}), err
	}
	defer over()
	result, err := session.CallTool(ctx, params)
	if err != nil {
		if question := asked.spoken(); question != nil && ctx.Err() == nil && errors.As(err, new(*jsonrpc.Error)) {
			return tool.Result{Ask: question, Marking: t.definition.Result}, nil
		}
		return t.failed(ctx, l, session, err)
	}
	return t.result(asked, result)
}

// failed says what a call without a result means.
func (t *remote) failed(ctx context.Context, l *link, session *sdk.ClientSession, err error) (tool.Result, error) {
	unsure := t.definition.Class.OrWorst() != policy.ClassRead
	var refused *jsonrpc.Error
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, &tool.Failure{Uncertain: unsure, Code: tool.FailedTimeout, Detail: "no answer in time; the server was told to stop"}
	case errors.As(err, &refused) && (refused.Code == jsonrpc.CodeInvalidParams || refused.Code == jsonrpc.CodeMethodNotFound):
		return t.refusal("the server refused the call: " + refused.Message), nil
	case errors.As(err, &refused):
		reply := t.refusal(refused.Message)
		return tool.Result{}, &tool.Failure{Uncertain: unsure, Code: tool.FailedStatus, Detail: fmt.Sprintf("error %d", refused.Code), Reply: &reply}
	}
	l.drop(session)
	return tool.Result{}, &tool.Failure{Uncertain: unsure, Code: tool.FailedBroken, Detail: "the session broke before an answer"}
}

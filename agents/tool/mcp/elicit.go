package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
)

// The bounds of what a server may ask.
const (
	maxMessageAsked = 16 << 10
	maxSchemaAsked  = 64 << 10
	maxAsked        = 16 // requests of one answer
)

// kept is what goes along with a question to a person, and comes back with the
// answer: all that the next attempt needs, in whatever process it is made.
type kept struct {
	State  string             `json:"state,omitempty"` // the server's own, sent back unchanged
	Open   []request          `json:"open,omitempty"`  // not answered yet; the first one is being asked
	Given  map[string]answer  `json:"given,omitempty"` // by the server's id of the request
	Spoken map[string]*answer `json:"live,omitempty"`  // by digest of a request that an older server made in the midst of a call
}

// request is one thing that a server asks.
type request struct {
	ID      string          `json:"id"`
	Mode    string          `json:"mode"`
	Message string          `json:"message"`
	Schema  json.RawMessage `json:"schema,omitempty"`
	URL     string          `json:"url,omitempty"`
}

// answer is what a person said to a request.
type answer struct {
	Action string         `json:"action"`
	Values map[string]any `json:"values,omitempty"`
}

// asking is one call under way, which the server may have questions about.
type asking struct {
	mu   sync.Mutex
	kept kept
	ask  *tool.Ask // what an older server asked in its midst
}

// ask puts what a person answered into a call. It returns a question instead
// where the server asked more than one thing, and how the call ends.
func (t *remote) ask(l *link, params *sdk.CallToolParams, invocation tool.Invocation) (a *asking, question *tool.Result, done func(), err error) {
	a = &asking{}
	if given := invocation.Answers; given != nil {
		if err := json.Unmarshal(given.State, &a.kept); err != nil || len(a.kept.Open) == 0 {
			return nil, nil, nil, &tool.Failure{Code: tool.FailedError, Detail: "the answer does not belong to this call; nothing was sent"}
		}
		said := answer{Action: string(given.Action)}
		if len(given.Values) > 0 {
			if err := json.Unmarshal(given.Values, &said.Values); err != nil {
				return nil, nil, nil, &tool.Failure{Code: tool.FailedError, Detail: "the answer is no object; nothing was sent"}
			}
		}
		a.kept.take(said)
		if len(a.kept.Open) > 0 {
			return nil, t.question(a.kept), nil, nil
		}
		for id, said := range a.kept.Given {
			if params.InputResponses == nil {
				params.InputResponses = sdk.InputResponseMap{}
			}
			params.InputResponses[id] = &sdk.ElicitResult{Action: said.Action, Content: said.Values}
		}
		params.RequestState = a.kept.State
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = append(l.asking, a)
	return a, nil, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.asking = slices.DeleteFunc(l.asking, func(other *asking) bool { return other == a })
	}, nil
}

// take keeps the answer to the first open request.
func (k *kept) take(said answer) {
	first := k.Open[0]
	k.Open = k.Open[1:]
	if _, spoken := k.Spoken[first.ID]; spoken {
		k.Spoken[first.ID] = &said
		return
	}
	if k.Given == nil {
		k.Given = map[string]answer{}
	}
	k.Given[first.ID] = said
}

// question asks the first open request.
func (t *remote) question(k kept) *tool.Result {
	first := k.Open[0]
	state, err := json.Marshal(k)
	if err != nil {
		failed := t.refusal("what the server asks cannot be kept")
		return &failed
	}
	ask := tool.Ask{Origin: t.server.Name, Kind: tool.AskKind(first.Mode), Message: first.Message, Schema: first.Schema, URL: first.URL, State: state}
	return &tool.Result{Ask: &ask, Marking: t.definition.Result}
}

// spoken is what an older server asked in the midst of the call.
func (a *asking) spoken() *tool.Ask {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ask
}

// needs is the question in a result, if it is one: the server has not done the
// call, and wants something of a person first.
func (t *remote) needs(a *asking, result *sdk.CallToolResult) (*tool.Result, error) {
	if question := a.spoken(); question != nil { // what the server made of our silence does not count
		return &tool.Result{Ask: question, Marking: t.definition.Result}, nil
	}
	if !result.NeedsInput() {
		return nil, nil
	}
	if len(result.InputRequests) == 0 {
		return nil, &tool.Failure{Code: tool.FailedUnreachable, Detail: "the server is busy, and did not begin"}
	}
	k := kept{State: result.RequestState}
	for id, input := range result.InputRequests {
		asked, ok := input.(*sdk.ElicitParams)
		r, fits := requestOf(id, asked)
		if !ok || !fits || len(result.InputRequests) > maxAsked {
			refused := t.refusal("the server asks for something that is not offered to it")
			return &refused, nil
		}
		k.Open = append(k.Open, r)
	}
	slices.SortFunc(k.Open, func(a, b request) int { return cmp.Compare(a.ID, b.ID) })
	return t.question(k), nil
}

// requestOf reads a request, if it is one that a person can be asked.
func requestOf(id string, asked *sdk.ElicitParams) (request, bool) {
	if asked == nil {
		return request{}, false
	}
	r := request{ID: id, Mode: cmp.Or(asked.Mode, string(tool.AskForm)), Message: asked.Message, URL: asked.URL}
	if asked.RequestedSchema != nil {
		schema, err := json.Marshal(asked.RequestedSchema)
		if err != nil {
			return request{}, false
		}
		r.Schema = schema
	}
	return r, (r.Mode == string(tool.AskForm) || r.Mode == string(tool.AskURL)) &&
		len(r.Message) <= maxMessageAsked && len(r.Schema) <= maxSchemaAsked && len(r.URL) <= maxMessageAsked
}

// elicited answers an older server, which asks in the midst of a call, with
// what a person said before. What nobody was asked yet is put away, and asked
// when the call has come back. Of several calls at once nobody can tell which
// one it is about: then it is put away for good.
func (l *link) elicited(_ context.Context, asked *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
	away := &sdk.ElicitResult{Action: string(tool.AskCancel)}
	l.mu.Lock()
	var a *asking
	if len(l.asking) == 1 {
		a = l.asking[0]
	}
	name := l.server.Name
	l.mu.Unlock()
	r, fits := requestOf("", asked.Params)
	digest, err := canon.DigestOf(r)
	if a == nil || !fits || err != nil {
		return away, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if said := a.kept.Spoken[digest]; said != nil {
		return &sdk.ElicitResult{Action: said.Action, Content: said.Values}, nil
	}
	if a.ask != nil || len(a.kept.Spoken) >= maxAsked {
		return away, nil
	}
	r.ID = digest
	if a.kept.Spoken == nil {
		a.kept.Spoken = map[string]*answer{}
	}
	a.kept.Spoken[digest], a.kept.Open = nil, append(a.kept.Open, r)
	state, err := json.Marshal(a.kept)
	if err != nil {
		return away, nil
	}
	a.ask = &tool.Ask{Origin: name, Kind: tool.AskKind(r.Mode), Message: r.Message, Schema: r.Schema, URL: r.URL, State: state}
	return away, nil
}

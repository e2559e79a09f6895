package mcp_test

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/mcp"
)

func sum(text []byte) string {
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:])
}

// Another program in the place of the pinned one is not started, and its tool is
// kept back.
func TestFault_E15_AnotherProgramIsNotStarted(t *testing.T) {
	b := newBench(t)
	script := filepath.Join(t.TempDir(), "server.js")
	require.NoError(t, os.WriteFile(script, []byte("as reviewed"), 0o600))
	s := stdio("x")
	s.Identity.Files = map[string]string{script: sum([]byte("as reviewed"))}
	require.Empty(t, s.Faults())
	d := b.definition(s, nil, "echo")
	of, err := b.pool.Tool("acme", d, s, nil)
	require.NoError(t, err)
	_, failure := call(t, of, `{"text":"a"}`)
	require.Nil(t, failure)

	require.NoError(t, os.WriteFile(script, []byte("as somebody else wrote it"), 0o600))
	later := newBench(t) // a process that has no session yet
	of, err = later.pool.Tool("acme", d, s, nil)
	require.NoError(t, err)
	_, failure = call(t, of, `{"text":"a"}`)
	require.Equal(t, tool.FailedChanged, failure.Code)
	require.False(t, failure.Uncertain)
	kept := later.quarantined()
	require.Len(t, kept, 1)
	require.Contains(t, kept[0].Cause, script)
	require.Nil(t, kept[0].Live)
}

// A server with another TLS key gets nothing, whoever certified it.
func TestFault_E15_AnotherKeyGetsNothing(t *testing.T) {
	peer := newServer("x")
	web := httptest.NewUnstartedServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return peer }, &sdk.StreamableHTTPOptions{Stateless: true}))
	web.EnableHTTP2 = false
	web.StartTLS()
	t.Cleanup(func() { web.CloseClientConnections(); web.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	b := newBench(t, func(c *mcp.Config) { c.Roots = roots })
	s := server.Server{Name: "peer", Transport: server.HTTP, URL: web.URL + "/mcp", Owner: "olga", Contact: "carl"}
	s.Identity.Keys = []string{sum(web.Certificate().RawSubjectPublicKeyInfo)}
	require.Empty(t, s.Faults())
	egress := egressTo(t, web.URL)
	d := b.definition(s, egress, "echo")
	of, err := b.pool.Tool("acme", d, s, egress)
	require.NoError(t, err)
	_, failure := call(t, of, `{"text":"a"}`)
	require.Nil(t, failure)

	s.Identity.Keys = []string{sum([]byte("another key"))}
	of, err = b.pool.Tool("acme", d, s, egress)
	require.NoError(t, err)
	_, failure = call(t, of, `{"text":"a"}`)
	require.Equal(t, tool.FailedChanged, failure.Code)
	require.Len(t, b.quarantined(), 1)
	require.Contains(t, b.quarantined()[0].Cause, "TLS key")
}

// vault gives a secret of its own for each use, and remembers for whom.
type vault struct {
	mu   sync.Mutex
	uses []credential.Use
}

func (v *vault) Secret(_ context.Context, use credential.Use) (credential.Secret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.uses = append(v.uses, use)
	if use.Reference == "none" {
		return credential.Secret{}, errors.New("no such thing")
	}
	person := "nobody"
	if len(use.Actor) > 0 {
		person = use.Actor[0]
	}
	return credential.Bound(fmt.Sprintf("token %d of %s", len(v.uses), person), use.Audience), nil
}

// Every request has a token that was got for this server and this call; there
// is no way for a token to go anywhere else.
func TestFault_E19_ATokenIsForOneServerAndOneCall(t *testing.T) {
	peer := newServer("x")
	var mu sync.Mutex
	shown := map[string]int{}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return peer }, nil)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		shown[r.Header.Get("Authorization")]++
		mu.Unlock()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range peer.Sessions() {
			_ = session.Close()
		}
		web.CloseClientConnections()
		web.Close()
	})
	keys := &vault{}
	b := newBench(t, func(c *mcp.Config) { c.Credentials = keys })
	s := server.Server{Name: "peer", Transport: server.HTTP, URL: web.URL + "/mcp", Owner: "olga", Contact: "carl", Auth: &server.Auth{Credential: "crm", Personal: true}}
	require.Empty(t, s.Faults())
	egress := egressTo(t, web.URL)
	of := b.tool(s, egress, "echo")
	for _, person := range []string{"ann", "bob"} {
		got, err := tool.Invoke(t.Context(), of, tool.Invocation{Run: "r-" + person, Key: "k", Arguments: []byte(`{"text":"hi"}`), Actor: []string{person, "agent:clerk"}})
		require.NoError(t, err)
		require.Equal(t, "hi under k", string(got.Content))
	}
	mu.Lock()
	defer mu.Unlock()
	for token, times := range shown {
		require.Equal(t, 1, times, "each is used once: %s", token)
		require.Contains(t, token, "Bearer token ")
	}
	people := map[string]bool{}
	for _, use := range keys.uses {
		require.Equal(t, web.URL, use.Audience)
		require.Equal(t, "crm", use.Reference)
		if len(use.Actor) > 0 {
			people[use.Actor[0]+" in "+use.Run] = true
		}
	}
	require.Equal(t, map[string]bool{"ann in r-ann": true, "bob in r-bob": true}, people)

	s.Auth.Credential = "none"
	of, err := b.pool.Tool("acme", of.Definition(), s, egress)
	require.NoError(t, err)
	_, failure := call(t, of, `{"text":"hi"}`)
	require.False(t, failure.Uncertain)
}

// What a server asks before it acts comes back as a question, with its state
// kept as it was, and the next attempt answers everything at once.
func TestFault_E18_WhatAServerAsksComesBackWithItsState(t *testing.T) {
	const state = "opaque \x00 and signed"
	peer := newServer("x")
	sdk.AddTool(peer, &sdk.Tool{Name: "book"}, func(_ context.Context, r *sdk.CallToolRequest, _ echoed) (*sdk.CallToolResult, any, error) {
		if len(r.Params.InputResponses) == 0 {
			form := func(message string) *sdk.ElicitParams {
				return &sdk.ElicitParams{Mode: "form", Message: message, RequestedSchema: json.RawMessage(`{"type":"object","properties":{"room":{"type":"string"}}}`)}
			}
			return &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{"b": form("Which room?"), "a": form("Which day?")}, RequestState: state}, nil, nil
		}
		day, _ := r.Params.InputResponses["a"].(*sdk.ElicitResult)
		room, _ := r.Params.InputResponses["b"].(*sdk.ElicitResult)
		if r.Params.RequestState != state || day == nil || room == nil {
			return nil, nil, errors.New("that is not what I asked")
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprint(day.Action, " ", room.Content["room"])}}}, nil, nil
	})
	b := newBench(t)
	s, egress := overHTTP(t, peer, true)
	book := b.tool(s, egress, "book")
	got, failure := call(t, book, `{}`)
	require.Nil(t, failure)
	require.Equal(t, "Which day?", got.Ask.Message)
	require.Equal(t, "peer", got.Ask.Origin)

	answer := func(a tool.Answers) tool.Result {
		t.Helper()
		result, err := tool.Invoke(t.Context(), book, tool.Invocation{Run: "r1", Key: "k1", Arguments: []byte(`{}`), Answers: &a})
		require.NoError(t, err)
		return result
	}
	got = answer(tool.Answers{Action: tool.AskDecline, State: got.Ask.State})
	require.Equal(t, "Which room?", got.Ask.Message)
	got = answer(tool.Answers{Action: tool.AskAccept, Values: json.RawMessage(`{"room":"blue"}`), State: got.Ask.State})
	require.Nil(t, got.Ask)
	require.Equal(t, "decline blue", string(got.Content))

	_, err := tool.Invoke(t.Context(), book, tool.Invocation{Run: "r1", Key: "k1", Arguments: []byte(`{}`), Answers: &tool.Answers{Action: tool.AskAccept, State: []byte("made up")}})
	require.Error(t, err, "an answer to nothing is sent nowhere")
}

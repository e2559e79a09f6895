package graph_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/orchestrator/policy"
)

// posted is an interface that fuzzed requests are posted to. It is made by the
// first of them, for it must end with a test.
type posted struct {
	*served
	bearer string
}

func (p *posted) post(t *testing.T, body string) *httptest.ResponseRecorder {
	if p.served == nil {
		p.served = serve(t)
		p.bearer = p.token(t, "olga")
	}
	request := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+p.bearer)
	answer := httptest.NewRecorder()
	p.handler.ServeHTTP(answer, request)
	if answer.Code >= http.StatusInternalServerError || strings.Contains(answer.Body.String(), `"INTERNAL"`) {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	return answer
}

// Whatever is posted, the answer is one of the interface: no panic, no error of
// the server's own.
func FuzzPost(f *testing.F) {
	f.Add(`{"query":"{viewer{name}}"}`)
	f.Add(`{"query":"query($f:Int!){runs(first:$f){edges{node{id turns{number}}}}}","variables":{"f":1}}`)
	f.Add(`{"query":"mutation{cancelRun(input:{run:\"x\"}){outcome userErrors{code}}}"}`)
	f.Add(`{"query":"{node(id:\"WyJydW4iLCJhY21lIiwicjEiXQ\"){id ...on Run{goal{value} budget{limit{money}}}}}"}`)
	f.Add(`{"query":"{usage(groupBy:DAY,from:\"x\",to:1){key}}"}`)
	var p posted
	f.Fuzz(func(t *testing.T, body string) { p.post(t, body) })
}

// Whatever document is sent with whatever variables, the answer is JSON with
// data or with errors, and each of those has a code.
func FuzzDocument(f *testing.F) {
	f.Add(`query($f:Int!,$a:Cursor){runs(first:$f,after:$a){edges{cursor node{id}}}}`, []byte(`{"f":1,"a":null}`))
	f.Add(`query($id:ID!){run(id:$id){...R}} fragment R on Run{status calls{arguments{display}}}`, []byte(`{"id":"WyJydW4iLCJhY21lIiwicjEiXQ"}`))
	f.Add(`mutation($i:DecideApprovalInput!){decideApproval(input:$i){outcome userErrors{code}}}`, []byte(`{"i":{"id":"WyJhcHByb3ZhbCIsImFjbWUiLCJyMSIsImFwMSJd","digest":"digest-1","decision":"APPROVE","reason":""}}`))
	f.Add(`mutation($i:ResumeRunInput!){resumeRun(input:$i){outcome}}`, []byte(`{"i":{"run":"x","turns":-1,"money":"-9223372036854775808","tokens":"1e3","deadline":"9999-12-31T23:59:60Z"}}`))
	f.Add(`query($g:UsageGroup!,$t:Time!){usage(groupBy:$g,from:$t,to:$t){key}}`, []byte(`{"g":"DAY","t":"2026-01-31T09:30:00Z"}`))
	f.Add(`query($i:[ID!]!){nodes(ids:$i){id}}`, []byte(`{"i":["","WyJhZ2VudCIsImFjbWUiLCJwYXllciJd",null,1]}`))
	f.Add(`query($x:Boolean!){viewer @include(if:$x){name} a:__typename}`, []byte(`{"x":[true]}`))
	f.Add(`subscription{inboxChanged{id}}`, []byte(`{}`))
	f.Add(`query A{viewer{name}} query B{viewer{name}}`, []byte(`[]`))
	var p posted
	f.Fuzz(func(t *testing.T, document string, variables []byte) {
		if !json.Valid(variables) {
			variables = []byte("null")
		}
		body, err := json.Marshal(map[string]any{"query": document, "variables": json.RawMessage(variables)})
		require.NoError(t, err)
		raw := p.post(t, string(body)).Body.Bytes()
		var answer struct {
			Data   json.RawMessage
			Errors []struct{ Extensions struct{ Code string } }
		}
		require.NoError(t, json.Unmarshal(raw, &answer), string(raw))
		require.True(t, len(answer.Data) > 0 || len(answer.Errors) > 0, string(raw))
		for _, one := range answer.Errors {
			require.NotEmpty(t, one.Extensions.Code, string(raw))
		}
	})
}

// No token is accepted but those that were signed, byte for byte.
func FuzzToken(f *testing.F) {
	private := ed25519.NewKeyFromSeed([]byte(strings.Repeat("k", ed25519.SeedSize)))
	public := private.Public().(ed25519.PublicKey)
	verifier, err := edge.NewVerifier(public, "issuer", "gantry", func() time.Time { return now })
	require.NoError(f, err)
	grant := edge.Grant{Organisation: "acme", Principal: "anna", Issuer: "issuer", Audience: "gantry", TokenID: "t", From: now, Until: now.Add(time.Hour)}
	good, err := edge.Mint(private, grant)
	require.NoError(f, err)
	other, err := edge.Mint(ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize))), grant)
	require.NoError(f, err)
	_, _, err = verifier.Verify(good)
	require.NoError(f, err)
	f.Add(good)
	for _, changed := range []string{other, good + "\n", strings.Replace(good, ".", ".\r\n", 2), good + "=", good + ".", " " + good, good[:len(good)-1], strings.ToLower(good), strings.Replace(good, ".", "..", 1), "..", ""} {
		f.Add(changed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		organisation, identity, err := verifier.Verify(token)
		if err != nil {
			require.ErrorIs(t, err, edge.ErrToken)
			require.Empty(t, organisation)
			require.Empty(t, identity)
			return
		}
		require.Equal(t, good, token)
		require.Equal(t, "anna", identity.Principal)
	})
}

// contract is the tool of FuzzApproval: it takes any arguments that are an
// object.
type contract struct{ tool.Tool }

func (contract) Definition() tool.Definition {
	return tool.Definition{Name: "bank.pay", Description: "Pays.", Input: json.RawMessage(`{"type":"object","additionalProperties":true}`),
		Impact: policy.Irreversible, Class: policy.Opaque, Resource: "bank:account", CostBound: 1, Timeout: tool.Duration(time.Minute),
		ResultBytes: 1000, Owner: "olga", Contact: "olga", Kind: tool.KindBuiltin}
}

// Whatever a model proposes: what is stored, what the tool gets, and what the
// approver reads is one sequence of bytes.
func FuzzApproval(f *testing.F) {
	for _, seed := range []string{`{}`, ` {"b":1.0,"a":"\u202e"}`, `{"a":"\\u{202E}"}`, `{"a":1,"a":2}`, `{"a":"\ud800"}`, `{"\u200b":[1e2,-0,"<&>"]}`, `{"a":"\u2028\u0000\u007f"}`, `{"n":9007199254740993}`, "{\"a\":\"\xff\"}"} {
		f.Add([]byte(seed))
	}
	box, err := tool.NewBox(contract{})
	require.NoError(f, err)
	var p posted
	f.Fuzz(func(t *testing.T, proposed []byte) {
		checked, refusal := box.Check("bank.pay", proposed)
		if refusal != nil {
			return
		}
		stored := checked.Arguments
		again, refusal := box.Check("bank.pay", stored)
		require.Nil(t, refusal, "what was stored is what the tool gets")
		require.Equal(t, stored, again.Arguments)

		p.post(t, "{}") // makes it
		p.texts["args"] = string(stored)
		const body = `{"query":"{run(id:\"WyJydW4iLCJhY21lIiwicjEiXQ\"){approvals{arguments{value display}}}}"}`
		raw := p.post(t, body).Body.Bytes()
		var answer struct {
			Data struct {
				Run struct {
					Approvals []struct {
						Arguments struct{ Value, Display string }
					}
				}
			}
		}
		require.NoError(t, json.Unmarshal(raw, &answer), string(raw))
		require.Len(t, answer.Data.Run.Approvals, 1, string(raw))
		shown := answer.Data.Run.Approvals[0].Arguments
		require.Equal(t, string(stored), shown.Value)
		require.Equal(t, string(stored), graph.Reveal(t, shown.Display))
	})
}

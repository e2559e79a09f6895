package graph_test

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

const runQuery = `query($id:ID!){run(id:$id){status waitingFor goal{value} subject{name} turns{text{value withheld{reason} labels}}
 approvals{id digest resource consequence guarantee arguments{value display} approvers{principal{name}}} events{edges{node{event}}}}
 audit(run:$id){verified records{seq digest event}}}`

func TestRunIsShownWithItsApproval(t *testing.T) {
	s := serve(t)
	got := s.ask(t, "anna", runQuery, map[string]any{"id": s.runID(t)})
	require.Empty(t, got.Errors, got.raw)
	require.Contains(t, got.raw, `"status":"WAITING"`)
	require.Contains(t, got.raw, `"waitingFor":["APPROVAL"]`)
	require.Contains(t, got.raw, `"value":"pay the invoice"`)
	require.Contains(t, got.raw, `"value":"salary 7"`)
	require.Contains(t, got.raw, `\\u{202E}x`, "direction characters are shown for what they are")
	require.Contains(t, got.raw, `"resource":"bank:account/7"`)
	require.Contains(t, got.raw, `"verified":true`)
}

func TestTextsAreWithheldInPlace(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	delete(s.texts, "goal") // erased
	got := s.ask(t, "bob", runQuery, map[string]any{"id": id})
	require.Empty(t, got.Errors, got.raw)
	require.NotContains(t, got.raw, "salary")
	require.NotContains(t, got.raw, `hr`, "nor the label")
	require.NotContains(t, got.raw, "tok-1")
	require.NotContains(t, got.raw, "tok-digest")
	require.Contains(t, got.raw, `"goal":{"value":"[redacted]"}`)
	require.Contains(t, got.raw, `{"text":{"value":"[redacted]","withheld":[{"reason":"NOT_CLEARED"}],"labels":[]}}`)
}

func TestAbsentAndForbiddenLookTheSame(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	forbidden := s.ask(t, "eve", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": id})
	for name, absent := range map[string]string{"nonsense": "nonsense", "other kind": base64.RawURLEncoding.EncodeToString([]byte(`["agent","evil","x"]`)),
		"absent": base64.RawURLEncoding.EncodeToString([]byte(`["run","evil","r9"]`))} {
		got := s.ask(t, "eve", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": absent})
		require.Equal(t, "NOT_FOUND", got.code(), name)
		require.Equal(t, forbidden.raw, got.raw, name)
	}
	for _, mutation := range []string{`cancelRun(input:{run:$id})`, `steerRun(input:{run:$id,text:"x"})`, `resumeRun(input:{run:$id})`} {
		got := s.ask(t, "eve", `mutation($id:ID!){`+mutation+`{run{id} userErrors{code message}}}`, map[string]any{"id": id})
		require.Contains(t, got.raw, `"code":"NOT_FOUND"`, mutation)
	}
	require.Empty(t, s.commands)
	node := s.ask(t, "eve", `query($id:ID!){node(id:$id){id} nodes(ids:[$id]){id}}`, map[string]any{"id": id})
	require.Contains(t, node.raw, `"nodes":[null]`)
}

func TestIDsWorkInTheirOrganisationOnly(t *testing.T) {
	s := serve(t)
	own := base64.RawURLEncoding.EncodeToString([]byte(`["run","acme","r1"]`))
	other := base64.RawURLEncoding.EncodeToString([]byte(`["run","evil","r1"]`))
	require.Empty(t, s.ask(t, "anna", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": own}).Errors)
	require.Equal(t, "NOT_FOUND", s.ask(t, "anna", `query($id:ID!){run(id:$id){status}}`, map[string]any{"id": other}).code())
}

func TestCursorsOfTheFutureAreRefused(t *testing.T) {
	s := serve(t)
	after := base64.RawURLEncoding.EncodeToString([]byte(`["at","r1","7"]`))
	message := s.dial(t, s.token(t, "anna")).subscribe(follow, map[string]any{"run": s.runID(t), "after": after})
	require.Contains(t, string(message.Payload), "CURSOR_INVALID")
}

func TestDecisionReachesTheRun(t *testing.T) {
	s := serve(t)
	inbox := s.ask(t, "bob", `{inbox{kind approval{id digest requester{principal} subject{principal}}}}`, nil)
	require.Empty(t, inbox.Errors, inbox.raw)
	approval := inbox.Data["inbox"].([]any)[0].(map[string]any)["approval"].(map[string]any)
	mutation := `mutation($id:ID!,$digest:String!){decideApproval(input:{id:$id,digest:$digest,decision:APPROVE,reason:"fine",commandId:"c1",clientMutationId:"m"}){run{id} outcome userErrors{code} clientMutationId}}`
	variables := map[string]any{"id": approval["id"], "digest": approval["digest"]}
	got := s.ask(t, "bob", mutation, variables)
	require.Empty(t, got.Errors, got.raw)
	require.Contains(t, got.raw, `"outcome":"ACCEPTED","userErrors":[],"clientMutationId":"m"`)
	command := s.commands[0].(run.DecideApproval)
	require.Equal(t, "ap1", command.Approval)
	require.Equal(t, "digest-1", command.Digest)
	require.True(t, command.Granted)
	require.Equal(t, "bob", command.By.Principal)
	require.Equal(t, "bob", command.Person.ID)
	s.replayed = true
	require.Contains(t, s.ask(t, "bob", mutation, variables).raw, `"outcome":"REPLAYED"`)
	s.refusal = &run.Refusal{Code: "DIGEST_MISMATCH", Detail: "Read it again."}
	require.Contains(t, s.ask(t, "bob", mutation, variables).raw, `"outcome":null,"userErrors":[{"code":"DIGEST_MISMATCH"}]`)
}

func TestPanicIsInternalAndSaysNothing(t *testing.T) {
	got := serve(t).ask(t, "anna", `{agent(name:"x"){id}}`, nil)
	require.Equal(t, "INTERNAL", got.code())
	require.NotContains(t, got.raw, "secret")
}

func TestFaultsOfArgumentsHaveACode(t *testing.T) {
	s := serve(t)
	require.Equal(t, "CURSOR_INVALID", s.ask(t, "anna", `{runs(after:"x"){edges{cursor}}}`, nil).code())
	require.Equal(t, "OVER_LIMIT", s.ask(t, "anna", `{runs(first:101){edges{cursor}}}`, nil).code())
	require.Empty(t, s.ask(t, "anna", `{runs(first:100){edges{cursor}}}`, nil).Errors)
}

func TestSchemaIsForOperators(t *testing.T) {
	s := serve(t)
	require.NotEmpty(t, s.ask(t, "anna", `{__schema{types{name}}}`, nil).Errors)
	require.Empty(t, s.ask(t, "olga", `{__schema{types{name}}}`, nil).Errors)
	require.NotContains(t, s.ask(t, "anna", `{viewr{name}}`, nil).raw, "Did you mean")
	require.Contains(t, s.ask(t, "olga", `{viewr{name}}`, nil).raw, "Did you mean")
}

func TestEveryPartOfTheSchemaIsDescribed(t *testing.T) {
	got := serve(t).ask(t, "olga", `{__schema{types{name description fields{name description args{name description}} inputFields{name description} enumValues{name description}}}}`, nil)
	require.Empty(t, got.Errors)
	for _, one := range got.Data["__schema"].(map[string]any)["types"].([]any) {
		kind := one.(map[string]any)
		if strings.HasPrefix(kind["name"].(string), "__") {
			continue
		}
		require.NotEmpty(t, kind["description"], kind["name"])
		for _, part := range []string{"fields", "inputFields", "enumValues"} {
			list, _ := kind[part].([]any)
			for _, field := range list {
				f := field.(map[string]any)
				require.NotEmpty(t, f["description"], "%s.%s", kind["name"], f["name"])
				args, _ := f["args"].([]any)
				for _, arg := range args {
					require.NotEmpty(t, arg.(map[string]any)["description"], "%s.%s", kind["name"], f["name"])
				}
			}
		}
	}
}

func aliases(n int) string {
	var out strings.Builder
	out.WriteString("{viewer{")
	for i := range n {
		fmt.Fprintf(&out, "a%d:name ", i)
	}
	return out.String() + "}}"
}

func deep(n int) string { return strings.Repeat("{a", n) + strings.Repeat("}", n) }

func nested(n int) any {
	var value any = "x"
	for range n - 1 {
		value = []any{value}
	}
	return value
}

// atLimits are operations with a measure: at the limit it is not OVER_LIMIT,
// one more is.
var atLimits = map[string]struct {
	limit int
	make  func(n int) (string, map[string]any)
}{
	"tokens":      {10_000, func(n int) (string, map[string]any) { return "{viewer{" + strings.Repeat("name ", n-5) + "}}", nil }},
	"depth":       {12, func(n int) (string, map[string]any) { return deep(n), nil }},
	"aliases":     {50, func(n int) (string, map[string]any) { return aliases(n), nil }},
	"root fields": {20, func(n int) (string, map[string]any) { return "{" + strings.Repeat("viewer{name} ", n) + "}", nil }},
	"variable nesting": {32, func(n int) (string, map[string]any) {
		return "{viewer{name}}", map[string]any{"v": nested(n)}
	}},
	"variable bytes": {256 << 10, func(n int) (string, map[string]any) {
		return "{viewer{name}}", map[string]any{"v": strings.Repeat("x", n-len(`{"v":""}`))}
	}},
	"cancelRun in one operation": {1, func(n int) (string, map[string]any) {
		return "mutation{" + strings.Repeat(`cancelRun(input:{run:"x"}){outcome} `, n) + "}", nil
	}},
	"startRun through a fragment": {1, func(n int) (string, map[string]any) {
		return "mutation{" + strings.Repeat("...f ", n) + `} fragment f on Mutation{startRun(input:{agent:"a",goal:"g"}){outcome}}`, nil
	}},
}

func TestLimitsHoldOverEveryTransport(t *testing.T) {
	s := serve(t)
	for name, limit := range atLimits {
		for _, over := range []bool{false, true} {
			n := limit.limit
			if over {
				n++
			}
			query, variables := limit.make(n)
			got := s.ask(t, "anna", query, variables)
			require.Equal(t, over, got.code() == "OVER_LIMIT", "%s at %d: %.300s", name, n, got.raw)
			if !over {
				continue
			}
			require.EqualValues(t, limit.limit, got.Errors[0].Extensions["allowed"], name)
			require.EqualValues(t, n, got.Errors[0].Extensions["value"], name)
			socket := s.dial(t, s.token(t, "anna"))
			message := socket.subscribe(query, variables)
			require.Contains(t, string(message.Payload), "OVER_LIMIT", "websocket: %s", name)
		}
	}
	over := strings.Repeat(" ", 1<<20+1)
	require.Equal(t, "OVER_LIMIT", s.send(t, s.token(t, "anna"), "application/json", over).code())
	body := `{"query":"{viewer{name}}"}`
	require.Empty(t, s.send(t, s.token(t, "anna"), "application/json", body+strings.Repeat(" ", 1<<20-len(body))).Errors)
}

func TestComplexityCountsListItems(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Limits.Complexity = 1 + 100*2 })
	require.Empty(t, s.ask(t, "anna", `{runs(first:100){edges{cursor}}}`, nil).Errors)
	require.Equal(t, "OVER_LIMIT", s.ask(t, "anna", `{runs(first:100){edges{cursor __typename}}}`, nil).code())
}

func TestErrorsAreCut(t *testing.T) {
	got := serve(t).ask(t, "anna", "{viewer{"+strings.Repeat("nope ", 1)+func() string {
		var out strings.Builder
		for i := range 40 {
			fmt.Fprintf(&out, "f%d ", i)
		}
		return out.String()
	}()+"}}", nil)
	require.Len(t, got.Errors, 20)
}

func TestOnlyOneJSONObjectByPost(t *testing.T) {
	s := serve(t)
	token := s.token(t, "anna")
	for name, body := range map[string]string{"batch": `[{"query":"{viewer{name}}"}]`, "two": `{"query":"{viewer{name}}"}{}`, "text": `secret-word`, "type": `{"query":7}`} {
		got := s.send(t, token, "application/json", body)
		require.Equal(t, 400, got.status, name)
		require.NotContains(t, got.raw, "secret-word")
	}
	require.Equal(t, 415, s.send(t, token, "text/plain", `{"query":"{viewer{name}}"}`).status)
	response, err := http.Get(s.url + "/graphql?query=mutation{kill(input:{scope:ALL,reason:%22x%22}){outcome}}")
	require.NoError(t, err)
	require.Equal(t, 405, response.StatusCode)
	response.Body.Close()
}

func TestTokensThatAreNotAccepted(t *testing.T) {
	s := serve(t)
	public := s.private.Public().(ed25519.PublicKey)
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"iss": "https://issuer", "aud": "gantry", "sub": "anna", "org": "acme", "jti": "t",
			"nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	}
	sign := func(method jwt.SigningMethod, key any, kid string, change func(jwt.MapClaims)) string {
		claims := good()
		change(claims)
		token := jwt.NewWithClaims(method, claims)
		token.Header["kid"] = kid
		signed, err := token.SignedString(key)
		require.NoError(t, err)
		return signed
	}
	kid, eddsa, keep := graph.KeyID(public), jwt.SigningMethodEdDSA, func(jwt.MapClaims) {}
	set := func(name string, value any) func(jwt.MapClaims) { return func(c jwt.MapClaims) { c[name] = value } }
	require.Equal(t, 200, s.send(t, sign(eddsa, s.private, kid, keep), "application/json", `{"query":"{viewer{name}}"}`).status)
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
	for name, token := range map[string]string{
		"none": sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid, keep), "HS with the public key": sign(jwt.SigningMethodHS256, []byte(public), kid, keep),
		"other key": sign(eddsa, other, kid, keep), "other kid": sign(eddsa, s.private, "../../etc", keep),
		"audience": sign(eddsa, s.private, kid, set("aud", "x")), "issuer": sign(eddsa, s.private, kid, set("iss", "x")),
		"expired": sign(eddsa, s.private, kid, set("exp", now.Add(-time.Second).Unix())), "early": sign(eddsa, s.private, kid, set("nbf", now.Add(time.Minute).Unix())),
		"no expiry": sign(eddsa, s.private, kid, func(c jwt.MapClaims) { delete(c, "exp") }), "no nbf": sign(eddsa, s.private, kid, func(c jwt.MapClaims) { delete(c, "nbf") }),
		"too long": sign(eddsa, s.private, kid, set("exp", now.AddDate(1, 0, 0).Unix())), "unknown person": sign(eddsa, s.private, kid, set("sub", "nobody")),
		"other organisation": sign(eddsa, s.private, kid, set("org", "evil")), "absent": "", "huge": strings.Repeat("a", 9000),
	} {
		got := s.send(t, token, "application/json", `{"query":"{viewer{name}}"}`)
		require.Equal(t, 401, got.status, name)
		require.Equal(t, "UNAUTHENTICATED", got.code(), name)
	}
}

type frame struct {
	ID      string          `json:"id,omitempty"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

type socket struct {
	t    *testing.T
	ctx  context.Context
	conn *websocket.Conn
}

func (s *served) dialRaw(t *testing.T, token string) *socket {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 22)
	payload, err := json.Marshal(map[string]string{"authorization": "Bearer " + token})
	require.NoError(t, err)
	require.NoError(t, wsjson.Write(ctx, conn, frame{Type: "connection_init", Payload: payload}))
	return &socket{t, ctx, conn}
}

func (s *served) dial(t *testing.T, token string) *socket {
	one := s.dialRaw(t, token)
	require.Equal(t, "connection_ack", one.next().Type)
	t.Cleanup(func() { _ = one.conn.CloseNow() })
	return one
}

func (s *socket) next() frame {
	for {
		var got frame
		require.NoError(s.t, wsjson.Read(s.ctx, s.conn, &got))
		if got.Type != "ping" && got.Type != "pong" {
			return got
		}
	}
}

func (s *socket) subscribe(query string, variables map[string]any) frame {
	payload, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(s.t, err)
	require.NoError(s.t, wsjson.Write(s.ctx, s.conn, frame{ID: "1", Type: "subscribe", Payload: payload}))
	return s.next()
}

type eventFrame struct {
	Data   struct{ RunEvents *struct{ Cursor, Seq string } }
	Errors []struct{ Extensions map[string]any }
}

const follow = `subscription($run:ID!,$after:Cursor){runEvents(run:$run,after:$after){cursor seq event}}`

// read follows the run from a cursor to the end of the fake's stream.
func (s *served) read(t *testing.T, id string, after any) (cursors []string, resync any) {
	socket := s.dial(t, s.token(t, "anna"))
	defer func() { _ = socket.conn.Close(websocket.StatusNormalClosure, "") }()
	message := socket.subscribe(follow, map[string]any{"run": id, "after": after})
	for ; message.Type == "next"; message = socket.next() {
		var got eventFrame
		require.NoError(t, json.Unmarshal(message.Payload, &got))
		if len(got.Errors) > 0 {
			resync = got.Errors[0].Extensions["cursor"]
			require.Equal(t, "RESYNC", got.Errors[0].Extensions["code"], string(message.Payload))
			continue
		}
		cursors = append(cursors, got.Data.RunEvents.Cursor)
	}
	require.Equal(t, "complete", message.Type)
	return cursors, resync
}

func TestFault_I1_ResumeAtEveryCursor(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal = 100 })
	id := s.runID(t)
	all, resync := s.read(t, id, nil)
	require.Len(t, all, len(s.records))
	require.Equal(t, all[len(all)-1], resync, "a stream that was cut says where to go on")
	for i, cursor := range all {
		rest, _ := s.read(t, id, cursor)
		require.Equal(t, all[i+1:], append([]string{}, rest...), "no gap and no repeat after %d", i+1)
	}
}

func TestFault_I6_TokenExpiryClosesTheSocket(t *testing.T) {
	s := serve(t)
	s.live = make(chan run.Record)
	token, err := graph.Mint(s.private, graph.Grant{Organisation: "acme", Principal: "anna", Issuer: "https://issuer", Audience: "gantry", TokenID: "t", From: now.Add(-time.Hour), Until: now.Add(time.Second)})
	require.NoError(t, err)
	socket := s.dial(t, token)
	_, _, err = socket.conn.Read(socket.ctx)
	require.EqualValues(t, 4403, websocket.CloseStatus(err), err)
}

func TestFault_I6_TakenAwayRightStopsTheStream(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	s.live = make(chan run.Record, 2)
	socket := s.dial(t, s.token(t, "anna"))
	s.live <- s.records[0]
	require.Equal(t, "next", socket.subscribe(follow, map[string]any{"run": id}).Type)
	s.mu.Lock()
	delete(s.people, "anna")
	s.mu.Unlock()
	s.live <- s.records[1]
	require.Contains(t, string(socket.next().Payload), "UNAUTHENTICATED")
	require.Equal(t, "complete", socket.next().Type)
}

func TestWebsocketNeedsAToken(t *testing.T) {
	socket := serve(t).dialRaw(t, "nonsense")
	for {
		if _, _, err := socket.conn.Read(socket.ctx); err != nil {
			require.EqualValues(t, 4403, websocket.CloseStatus(err), err)
			return
		}
	}
}

func TestStreamOverSSE(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	body, err := json.Marshal(map[string]any{"query": follow, "variables": map[string]any{"run": id}})
	require.NoError(t, err)
	request, err := http.NewRequest(http.MethodPost, s.url+"/graphql", strings.NewReader(string(body)))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Authorization", "Bearer "+s.token(t, "anna"))
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	var text strings.Builder
	_, err = fmt.Fprint(&text, readAll(t, response))
	require.NoError(t, err)
	require.Equal(t, len(s.records), strings.Count(text.String(), `"seq"`))
	require.Contains(t, text.String(), "RESYNC")
	require.Contains(t, text.String(), "event: complete")
}

func TestExplorerLoadsNothingFromElsewhere(t *testing.T) {
	s := serve(t)
	for _, path := range []string{"/", "/graphiql.min.js", "/graphiql.min.css", "/react.production.min.js", "/react-dom.production.min.js", "/explorer.js"} {
		response, err := http.Get(s.url + path)
		require.NoError(t, err)
		require.Equal(t, 200, response.StatusCode, path)
		policy := response.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'")
		require.NotContains(t, policy, "http")
		require.NotEmpty(t, readAll(t, response))
		response.Body.Close()
	}
}

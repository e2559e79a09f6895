package graph_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
)

// decision is what became of an operation: whether a limit refused it, and which.
type decision struct {
	Over    bool
	Limit   string
	Value   float64
	Allowed float64
	Errors  int
}

func decided(t *testing.T, raw string) decision {
	var got answer
	require.NoError(t, json.Unmarshal([]byte(raw), &got), raw)
	d := decision{Over: got.code() == "OVER_LIMIT", Errors: len(got.Errors)}
	if d.Over {
		d.Limit, _ = got.Errors[0].Extensions["limit"].(string)
		d.Value, _ = got.Errors[0].Extensions["value"].(float64)
		d.Allowed, _ = got.Errors[0].Extensions["allowed"].(float64)
	}
	return d
}

// ways are all the ways in which an operation may come; each returns the one
// answer.
var ways = map[string]func(s *served, t *testing.T, query string, variables map[string]any) string{
	"POST": func(s *served, t *testing.T, query string, variables map[string]any) string {
		return s.ask(t, "anna", query, variables).raw
	},
	"SSE": func(s *served, t *testing.T, query string, variables map[string]any) string {
		return strings.TrimPrefix(lines(t, s.sse(t, "anna", query, variables))(), "data: ")
	},
	"websocket": func(s *served, t *testing.T, query string, variables map[string]any) string {
		socket := s.dial(t, s.token(t, "anna"))
		defer func() { _ = socket.conn.CloseNow() }()
		got := socket.subscribe(query, variables)
		if got.Type == "error" { // which the protocol has without an envelope
			return `{"errors":` + string(got.Payload) + `}`
		}
		return string(got.Payload)
	},
	"POST with a digest of the query": func(s *served, t *testing.T, query string, variables map[string]any) string {
		return s.send(t, s.token(t, "anna"), "application/json", persisted(t, query, query, variables)).raw
	},
}

// persisted is a request that names its query by digest, with the query itself
// or without.
func persisted(t *testing.T, digestOf, query string, variables map[string]any) string {
	sum := sha256.Sum256([]byte(digestOf))
	asked := map[string]any{"variables": variables, "extensions": map[string]any{"persistedQuery": map[string]any{"version": 1, "sha256Hash": hex.EncodeToString(sum[:])}}}
	if query != "" {
		asked["query"] = query
	}
	body, err := json.Marshal(asked)
	require.NoError(t, err)
	return string(body)
}

func TestFault_J5_LimitsDecideAlikeOverEveryWay(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal = 1000 })
	for name, limit := range atLimits {
		for n := limit.limit; n <= limit.limit+1; n++ {
			query, variables := limit.make(n)
			want := decided(t, ways["POST"](s, t, query, variables))
			require.Equal(t, n > limit.limit, want.Over, "%s at %d", name, n)
			if want.Over {
				require.EqualValues(t, limit.limit, want.Allowed, name)
				require.EqualValues(t, n, want.Value, name)
			}
			for way, send := range ways {
				require.Equal(t, want, decided(t, send(s, t, query, variables)), "%s at %d over %s", name, n, way)
			}
			status, _ := s.get(t, query)
			require.Equal(t, http.StatusMethodNotAllowed, status, "%s by GET, whatever it is", name)
		}
	}
	const query = "{viewer{name}}"
	require.Empty(t, s.send(t, s.token(t, "anna"), "application/json", persisted(t, query, query, nil)).Errors)
	for range 2 { // also once it was sent whole: nothing is kept
		forgotten := s.send(t, s.token(t, "anna"), "application/json", persisted(t, query, "", nil))
		require.NotEmpty(t, forgotten.Errors, "a digest alone is no query")
		require.Nil(t, forgotten.Data)
	}
}

func (s *served) get(t *testing.T, query string) (int, string) {
	target := s.url + "/graphql?query=" + url.QueryEscape(query[:min(len(query), 4000)])
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+s.token(t, "anna"))
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body := readAll(t, response)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, body
}

func TestFault_J5_BodiesAreBoundedAlike(t *testing.T) {
	s := serve(t)
	body := `{"query":"{viewer{name}}"}`
	message := `{"id":"1","type":"subscribe","payload":{"query":"{viewer{name}}"}}`
	pad := func(text string, size int) string { return text + strings.Repeat(" ", size-len(text)) }
	for _, over := range []bool{false, true} {
		size := 1 << 20
		if over {
			size++
		}
		for _, accept := range []string{"application/json", "text/event-stream"} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/graphql", strings.NewReader(pad(body, size)))
			require.NoError(t, err)
			request.Header = http.Header{"Authorization": {"Bearer " + s.token(t, "anna")}, "Content-Type": {"application/json"}, "Accept": {accept}}
			response, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.Equal(t, over, strings.Contains(readAll(t, response), "OVER_LIMIT"), accept)
			require.NoError(t, response.Body.Close())
			require.Equal(t, map[bool]int{false: http.StatusOK, true: http.StatusRequestEntityTooLarge}[over], response.StatusCode)
		}
		socket := s.dial(t, s.token(t, "anna"))
		socket.say(pad(message, size))
		if over {
			require.Equal(t, websocket.StatusMessageTooBig, socket.end())
		} else {
			require.Contains(t, string(socket.next().Payload), "Anna")
		}
	}
}

func TestFault_J5_ErrorsAreCutAlike(t *testing.T) {
	s := serve(t)
	var fields strings.Builder
	for i := range 40 {
		fmt.Fprintf(&fields, "f%d ", i)
	}
	for way, send := range ways {
		require.Equal(t, 20, decided(t, send(s, t, "{viewer{"+fields.String()+"}}", nil)).Errors, way)
	}
}

// Whatever comes, the answer is the interface's own, the client's fault, and
// tells nothing from inside.
func TestFault_J1_WhatIsNoGraphQLIsTheClientsFault(t *testing.T) {
	s := serve(t)
	token := s.token(t, "anna")
	check := func(status int, body, name string) {
		require.GreaterOrEqual(t, status, 400, "%s: %.200s", name, body)
		require.Less(t, status, 500, "%s: %.200s", name, body)
		for _, inner := range []string{"goroutine", ".go:", "panic", "runtime.", "secret-word", "gantry.dev", "INTERNAL"} {
			require.NotContains(t, body, inner, name)
		}
	}
	source := rand.New(rand.NewPCG(7, 11))
	for i := range 300 {
		noise := make([]byte, source.IntN(300))
		for j := range noise {
			noise[j] = byte(source.Uint32())
		}
		got := s.send(t, token, "application/json", string(noise))
		check(got.status, got.raw, fmt.Sprint("noise ", i))
		document, err := json.Marshal(map[string]any{"query": string(noise)})
		require.NoError(t, err)
		got = s.send(t, token, "application/json", string(document))
		check(got.status, got.raw, fmt.Sprint("noise as a document ", i))
	}
	for _, query := range []string{"", " ", "#", "{", "}", "{}", "query", "{viewer{name}", "query Q{viewer{name}} query Q{viewer{name}}", "{viewer}", "{nothing}",
		"fragment f on Query{viewer{name}}", "type Query{a:Int}", "{viewer{name(a:1)}}", `{run(id:$id){status}}`, "query($a:Nothing){viewer{name}}",
		"{viewer @nothing{name}}", "{...f}", "\ufeff\x00", "{viewer{name}}\u0000", "subscription{inboxChanged{kind} turnText(run:\"x\"){text}}"} {
		document, err := json.Marshal(map[string]any{"query": query})
		require.NoError(t, err)
		got := s.send(t, token, "application/json", string(document))
		check(got.status, got.raw, query)
		require.NotEmpty(t, got.code(), query)
	}
	for _, body := range []string{"", "null", "7", `"x"`, "[]", "{", `{"query":null}`, `{"query":{}}`, `{"query":"{viewer{name}}","variables":[]}`,
		`{"query":"{viewer{name}}","variables":"secret-word"}`, `{"query":"{viewer{name}}","operationName":"Other"}`, "\xff\xfe{}", strings.Repeat("[", 100_000),
		`{"query":"x","variables":` + strings.Repeat(`{"a":`, 100_000)} {
		got := s.send(t, token, "application/json", body)
		check(got.status, got.raw, fmt.Sprintf("%.60q", body))
	}
	for _, media := range []string{"", "text/plain", "application/graphql", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; q=;", "nonsense", "application/jsonx"} {
		got := s.send(t, token, media, `{"query":"{viewer{name}}"}`)
		require.Equal(t, http.StatusUnsupportedMediaType, got.status, media)
		check(got.status, got.raw, media)
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodHead, http.MethodOptions, "NONSENSE"} {
		request, err := http.NewRequestWithContext(t.Context(), method, s.url+"/graphql?query={viewer{name}}", http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		check(response.StatusCode, readAll(t, response), method)
		require.NoError(t, response.Body.Close())
	}
}

// costly are documents whose reading alone could cost much.
var costly = map[string]string{
	"depth 200":                  deep(200),
	"depth 200 by fragments":     strings.Repeat("{... on Query", 200) + "{viewer{name}}" + strings.Repeat("}", 200),
	"100,000 tokens":             "{" + strings.Repeat("a ", 100_000) + "}",
	"100,000 directives":         "{viewer" + strings.Repeat("@skip(if:false)", 60_000) + "{name}}",
	"a fragment that is its own": "{...f} fragment f on Query{...f}",
	"fragments in a circle":      "{...a} fragment a on Query{...b} fragment b on Query{...c} fragment c on Query{...a}",
	"a circle under fields":      "{...f} fragment f on Query{nodes(ids:[]){...f}}",
	"nested lists":               "{viewer{name(a:" + strings.Repeat("[", 50_000) + strings.Repeat("]", 50_000) + ")}}",
	"nested objects":             "{viewer{name(a:" + strings.Repeat("{a:", 50_000) + "1" + strings.Repeat("}", 50_000) + ")}}",
	"nested types":               "query($a:" + strings.Repeat("[", 5000) + "Int" + strings.Repeat("]", 4990) + "){viewer{name}}",
	"many operations":            strings.Repeat("query A{viewer{name}} ", 20_000),
	"many variables":             "query(" + strings.Repeat("$a:Int ", 30_000) + "){viewer{name}}",
	"a name of a megabyte":       "{" + strings.Repeat("a", 1_000_000) + "}",
	"a type of a megabyte":       "query($a:" + strings.Repeat("a", 1_000_000) + "){viewer{name}}",
	"names of a kilobyte":        "{viewer{" + strings.Repeat(strings.Repeat("n", 5000)+" ", 190) + "}}",
	"an enum of a megabyte":      `{usage(groupBy:"` + strings.Repeat("a", 1_000_000) + `",from:"x",to:"x"){key}}`,
	"a time of a megabyte":       `{usage(groupBy:AGENT,from:"` + strings.Repeat("a", 1_000_000) + `",to:"x"){key}}`,
	"a string of a megabyte":     `{run(id:"` + strings.Repeat("a", 1_000_000) + `"){status}}`,
	"a comment of a megabyte":    "{viewer{nothing}} #" + strings.Repeat("a", 1_000_000),
}

func TestFault_J2_CostlyDocumentsAreRefusedWithLittleMemory(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal = 100 })
	require.Empty(t, s.ask(t, "anna", "{viewer{name}}", nil).Errors)
	for name, query := range costly {
		for way, send := range ways {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			raw := send(s, t, query, nil)
			runtime.ReadMemStats(&after)
			var got answer
			require.NoError(t, json.Unmarshal([]byte(raw), &got))
			require.NotEmpty(t, got.Errors, "%s over %s", name, way)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "%s over %s: bytes that were ever allocated, of the client too", name, way)
			require.Less(t, len(raw), 32<<10, "%s over %s: what was sent is not sent back", name, way)
		}
	}
}

func TestFault_J3_OneDocumentDoesNotAskManyTimes(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal = 100 })
	many := func(n int, field string) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, "a%d:%s ", i, field)
		}
		return out.String()
	}
	const approve = `decideApproval(input:{id:"x",digest:"d",decision:APPROVE}){outcome}`
	bombs := map[string]string{
		"viewer by 7,000 names":          "{" + many(3000, "viewer{name}") + "}",
		"viewer 1,000 times":             "{" + strings.Repeat("viewer{name} ", 1000) + "}",
		"approve 1,000 times":            "mutation{" + many(300, approve) + "}",
		"approve twice":                  "mutation{" + many(2, approve) + "}",
		"approve twice by fragments":     "mutation{...f ...f} fragment f on Mutation{" + approve + "}",
		"approve twice by inline ones":   "mutation{...{" + many(1, approve) + "} ...{b:" + approve + "}}",
		"approve in two operations, run": "mutation A{" + many(2, approve) + "} mutation B{" + approve + "}",
	}
	for _, once := range []string{`cancelRun(input:{run:"x"}){outcome}`, `startRun(input:{agent:"a",goal:"g"}){outcome}`, `sendMessage(input:{conversation:"c",text:"t",agent:"a"}){outcome}`,
		`answerQuestion(input:{id:"x",answer:"a"}){outcome}`, `resolveUncertain(input:{run:"x",call:1,resolution:HAPPENED,evidence:"e"}){outcome}`,
		`resumeRun(input:{run:"x"}){outcome}`} {
		bombs["twice "+once] = "mutation{" + many(2, once) + "}"
	}
	for name, query := range bombs {
		for way, send := range ways {
			require.True(t, decided(t, send(s, t, query, nil)).Over, "%s over %s", name, way)
		}
	}
	require.Empty(t, s.commands)
}

// The schema and its names are for operators; everybody else hears the same of
// what is nearly right as of what is far off.
func TestFault_J12_TheSchemaIsToldToOperatorsOnly(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal = 1000 })
	for _, query := range []string{"{__schema{types{name}}}", `{__type(name:"Run"){fields{name}}}`, "{viewer{name} s:__schema{queryType{name}}}",
		"{...f} fragment f on Query{__schema{types{name}}}", "{viewr{name}}", "{viewer{nam}}", `{agent(nme:"x"){id}}`, "query($a:Runn){viewer{name}}",
		`mutation{kill(input:{scope:AL,reason:"x"}){outcome}}`, `mutation{kill(input:{scop:ALL,reason:"x"}){outcome}}`, "{viewer{... on Viewe{name}}}", "{viewer @skp{name}}"} {
		for way, send := range ways {
			raw := send(s, t, query, nil)
			require.Contains(t, raw, `"errors"`, "%s over %s", query, way)
			for _, told := range []string{"Did you mean", `"types"`, `"fields"`, `"queryType"`, ".go:"} {
				require.NotContains(t, raw, told, "%s over %s", query, way)
			}
		}
	}
	require.NotContains(t, s.ask(t, "olga", "{__schema{types{name}}}", nil).raw, `"errors"`)
	require.Contains(t, ways["POST"](s, t, "{viewer{__typename}}", nil), "Viewer", "every client needs this one")
}

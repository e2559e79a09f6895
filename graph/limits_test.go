package graph_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
)

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
	"tokens": {10_000, func(n int) (string, map[string]any) {
		return "{viewer{name(a:[" + strings.Repeat("1 ", n-12) + "])}}", nil
	}},
	"name bytes": {256, func(n int) (string, map[string]any) { return "{viewer{" + strings.Repeat("n", n) + "}}", nil }},
	"selections": {200, func(n int) (string, map[string]any) { return "{viewer{" + strings.Repeat("name ", n) + "}}", nil }},
	"selections that are merged": {200, func(n int) (string, map[string]any) {
		return "{viewer{" + strings.Repeat("name ", 100) + "} viewer{" + strings.Repeat("name ", n-100) + "}}", nil
	}},
	"selections through fragments": {200, func(n int) (string, map[string]any) {
		return "{viewer{...f ...on Viewer{" + strings.Repeat("name ", 100) + "}}} fragment f on Viewer{" + strings.Repeat("name ", n-102) + "}", nil
	}},
	"selections of a fragment that nothing spreads": {200, func(n int) (string, map[string]any) {
		return "{viewer{name}} fragment f on Viewer{" + strings.Repeat("name ", n) + "}", nil
	}},
	"depth of a fragment that nothing spreads": {12, func(n int) (string, map[string]any) {
		return "{viewer{name}} fragment f on Query" + deep(n), nil
	}},
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
	for name, body := range map[string]string{"batch": `[{"query":"{viewer{name}}"}]`, "two": `{"query":"{viewer{name}}"}{}`, "text": `secret-word`, "type": `{"query":7}`,
		"bracket after it": `{"query":"{viewer{name}}"}]`, "brace after it": `{"query":"{viewer{name}}"}}`} {
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

func TestFragmentsThatMultiplyAreRefusedBeforeValidation(t *testing.T) {
	var query strings.Builder
	query.WriteString("{...f0}")
	for i := range 9 {
		fmt.Fprintf(&query, " fragment f%d on Query{", i)
		for j := range 4 {
			fmt.Fprintf(&query, "n%d{...f%d} ", j, i+1)
		}
		query.WriteString("}")
	}
	query.WriteString(" fragment f9 on Query{viewer{name}}")
	got := serve(t).ask(t, "anna", query.String(), nil)
	require.Equal(t, "OVER_LIMIT", got.code(), "%.300s", got.raw)
	require.Equal(t, "complexity", got.Errors[0].Extensions["limit"])
}

func TestFragmentsInACircleEnd(t *testing.T) {
	got := serve(t).ask(t, "anna", `{...f} fragment f on Query{viewer{name} nodes(ids:[]){...f}}`, nil)
	require.Equal(t, "GRAPHQL_VALIDATION_FAILED", got.code(), got.raw)
}

// withNUL are operations that carry the character U+0000 to somewhere.
var withNUL = map[string]struct {
	query     string
	variables map[string]any
}{
	"variable":   {`query($id:ID!){run(id:$id){status}}`, map[string]any{"id": "r\x00"}},
	"inside one": {`mutation($in:StartRunInput!){startRun(input:$in){outcome}}`, map[string]any{"in": map[string]any{"agent": "a", "goal": "g\x00", "commandId": "c"}}},
	"in a list":  {`query($ids:[ID!]!){nodes(ids:$ids){id}}`, map[string]any{"ids": []any{"a", "b\x00"}}},
	"name":       {`{viewer{name}}`, map[string]any{"a\x00": 1}},
	"literal":    {`{runs(after:"a\u0000"){edges{cursor}}}`, nil},
}

func TestNULIsRefusedOverEveryTransport(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal = 100 })
	for name, one := range withNUL {
		got := s.ask(t, "anna", one.query, one.variables)
		require.Equal(t, "BAD_REQUEST", got.code(), "%s: %s", name, got.raw)
		require.Contains(t, got.raw, "U+0000", name)
		socket := s.dial(t, s.token(t, "anna"))
		require.Contains(t, string(socket.subscribe(one.query, one.variables).Payload), "U+0000", name)
		require.Contains(t, readAll(t, s.sse(t, "anna", one.query, one.variables)), "U+0000", name)
	}
	id := base64.RawURLEncoding.EncodeToString([]byte(`["run","acme","r1\u0000"]`))
	for _, query := range []string{`query($id:ID!){run(id:$id){status}}`, `query($id:ID!){node(id:$id){id}}`} {
		require.NotContains(t, s.ask(t, "anna", query, map[string]any{"id": id}).raw, "INTERNAL")
	}
	cursor := base64.RawURLEncoding.EncodeToString([]byte(`["next","runs","a\u0000"]`))
	require.Equal(t, "CURSOR_INVALID", s.ask(t, "anna", `query($c:Cursor){runs(after:$c){edges{cursor}}}`, map[string]any{"c": cursor}).code())
}

// Fields are resolved at once; in which order they fail is nobody's business.
func TestErrorsStandInTheOrderOfTheirPaths(t *testing.T) {
	s := serve(t)
	query := `{z:run(id:"x"){id} m:conversation(id:"x"){id} a:node(id:"x"){id}}`
	first := s.ask(t, "anna", query, nil)
	require.Len(t, first.Errors, 3, first.raw)
	at := func(path string) int { return strings.Index(first.raw, `"path":["`+path+`"]`) }
	require.True(t, 0 < at("a") && at("a") < at("m") && at("m") < at("z"), first.raw)
	for range 50 {
		require.Equal(t, first.raw, s.ask(t, "anna", query, nil).raw)
	}
}

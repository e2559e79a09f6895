package graph_test

import (
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

package graph_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever is posted, the answer is one of the interface: no panic, no error of
// the server's own.
func FuzzPost(f *testing.F) {
	f.Add(`{"query":"{viewer{name}}"}`)
	f.Add(`{"query":"query($f:Int!){runs(first:$f){edges{node{id turns{number}}}}}","variables":{"f":1}}`)
	f.Add(`{"query":"mutation{cancelRun(input:{run:\"x\"}){outcome userErrors{code}}}"}`)
	f.Add(`{"query":"{node(id:\"WyJydW4iLCJhY21lIiwicjEiXQ\"){id ...on Run{goal{value} budget{limit{money}}}}}"}`)
	f.Add(`{"query":"{usage(groupBy:DAY,from:\"x\",to:1){key}}"}`)
	var handler http.Handler
	var token string
	f.Fuzz(func(t *testing.T, body string) {
		if handler == nil {
			s := serve(t)
			handler, token = s.handler, s.token(t, "olga")
		}
		request := httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+token)
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, request)
		if answer.Code >= http.StatusInternalServerError || strings.Contains(answer.Body.String(), `"INTERNAL"`) {
			t.Fatalf("%d %s", answer.Code, answer.Body)
		}
	})
}

package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"gantry.dev/cmd/gantry/client"
)

// request is one operation as the server got it.
type request struct {
	Query     string
	Variables map[string]any
}

func (r request) input(name string) any {
	return r.Variables["input"].(map[string]any)[name]
}

// server answers in turn, and refuses documents that the schema does not allow.
type server struct {
	*httptest.Server
	mu      sync.Mutex
	got     []request
	answers []func(w http.ResponseWriter, r *http.Request)
}

func serve(t *testing.T, answers ...func(w http.ResponseWriter, r *http.Request)) *server {
	text, err := os.ReadFile("../../../schema.graphql")
	require.NoError(t, err)
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: "schema.graphql", Input: string(text)})
	require.NoError(t, err)
	s := &server{answers: answers}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var got request
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			panic(err)
		}
		if _, err := gqlparser.LoadQueryWithRules(schema, got.Query, nil); err != nil {
			said(`{"errors":[{"message":`+fmt.Sprintf("%q", err.Error())+`,"extensions":{"code":"DOCUMENT"}}]}`)(w, r)
			return
		}
		s.mu.Lock()
		s.got = append(s.got, got)
		next := s.answers[min(len(s.got), len(s.answers))-1]
		s.mu.Unlock()
		next(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// requests are what came so far.
func (s *server) requests() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got)
}

func (s *server) client(t *testing.T, change ...func(*client.Config)) *client.Client {
	config := client.Config{URL: s.URL, Token: "secret-token", Pause: func(ctx context.Context, _ int) error { return ctx.Err() }}
	for _, c := range change {
		c(&config)
	}
	c, err := client.New(config)
	require.NoError(t, err)
	return c
}

func said(body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}
}

// hangUp breaks the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func refused(code string) func(http.ResponseWriter, *http.Request) {
	return said(`{"errors":[{"message":"No.","extensions":{"code":"` + code + `"}}],"data":null}`)
}

func TestEveryOperationIsOneOfTheSchema(t *testing.T) {
	c := serve(t, refused("STOP")).client(t)
	ctx := t.Context()
	item := `{"id":"i1","kind":"APPROVAL","since":"2026-03-01T09:00:00Z","run":{"version":"3"},"approval":{"id":"a1","digest":"d"},"question":{"id":"q1"}}`
	found := serve(t, said(`{"data":{"inbox":[`+item+`]}}`)).client(t)
	for name, operation := range map[string]func() error{
		"start": func() error { _, err := c.StartRun(ctx, client.Start{Agent: "a", Goal: "g", MicroUSD: 5}); return err },
		"steer": func() error {
			_, err := c.Steer(ctx, "r", client.Guidance{Text: "text", Interrupt: true, Void: true})
			return err
		},
		"cancel": func() error { _, err := c.Cancel(ctx, "r", "why"); return err },
		"run":    func() error { _, err := c.Run(ctx, "r"); return err },
		"status": func() error { _, err := c.Status(ctx, "r"); return err },
		"runs": func() error {
			_, err := c.Runs(ctx, client.Filter{Agent: "a", Statuses: []string{"FAILED"}, Subject: "s"}, 5)
			return err
		},
		"observed":     func() error { _, err := c.Observed(ctx, "a", 5); return err },
		"inbox":        func() error { _, err := c.Inbox(ctx); return err },
		"approval":     func() error { _, err := c.Approval(ctx, "a"); return err },
		"question":     func() error { _, err := c.Question(ctx, "q"); return err },
		"decide":       func() error { _, err := c.Decide(ctx, client.Approval{ID: "a", Digest: "d"}, true, "why"); return err },
		"answer":       func() error { _, err := c.Answer(ctx, client.Question{ID: "q"}, "yes"); return err },
		"explain":      func() error { _, err := c.Explain(ctx, "r"); return err },
		"explain turn": func() error { _, _, err := c.ExplainTurn(ctx, "r", 1); return err },
		"export":       func() error { _, err := c.Export(ctx, "r"); return err },
		"resume": func() error {
			_, err := c.Resume(ctx, "r", client.Resume{Turns: 1, MicroUSD: 2, Tokens: 3, Accept: true})
			return err
		},
		"resolve": func() error {
			_, err := c.Resolve(ctx, "r", client.Finding{Call: 1, Resolution: "REPEAT", Evidence: "e", Override: true})
			return err
		},
		"agents":       func() error { _, err := c.Agents(ctx); return err },
		"run id":       func() error { _, err := c.RunID(ctx, "01a22bba-7486-7175-8a58-39bddcc8990d"); return err },
		"agent":        func() error { _, err := c.Agent(ctx, "a"); return err },
		"stage":        func() error { _, _, err := c.SetStage(ctx, "a", "OBSERVE", ""); return err },
		"events":       func() error { return c.Events(ctx, "r", "c", nil) },
		"inbox events": func() error { return c.InboxChanges(ctx, nil) },
	} {
		err := operation()
		require.True(t, client.IsCode(err, "STOP"), "%s: %v", name, err)
	}
	for _, id := range []string{"i1", "a1"} {
		approval, err := found.Approval(ctx, id)
		require.NoError(t, err)
		require.Equal(t, "d", approval.Digest)
	}
	question, err := found.Question(ctx, "q1")
	require.NoError(t, err)
	require.Equal(t, "q1", question.ID)
	found = serve(t, said(`{"data":{"inbox":[],"runs":{"edges":[{"node":{"version":"9","approvals":[
		{"id":"a2","status":"APPROVED","decisions":[{"by":{"principal":"bob"},"granted":true}]},
		{"id":"a3","status":"OPEN"},{"id":"a4","status":"VOID","voidCause":"EXPIRED"}]}}],"pageInfo":{}}}}`)).client(t)
	for id, want := range map[string]string{"a2": "no longer open: APPROVED; bob granted it", "a3": "open, but not for you", "a4": "VOID because EXPIRED"} {
		_, err = found.Approval(ctx, id)
		require.ErrorContains(t, err, want)
	}
	_, err = found.Approval(ctx, "other")
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
	_, err = found.Question(ctx, "other")
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
}

func TestRunIsNamedByAnyOfItsIDs(t *testing.T) {
	s := serve(t, said(`{"data":{"viewer":{"organisation":"acme"}}}`))
	c := s.client(t)
	const id = "01a22bba-7486-7175-8a58-39bddcc8990d"
	for _, named := range []string{id, id + "/limit", id + "/parked", " " + id + "\n"} {
		global, err := c.RunID(t.Context(), named)
		require.NoError(t, err)
		raw, err := base64.RawURLEncoding.DecodeString(global)
		require.NoError(t, err)
		require.JSONEq(t, `["run","acme","`+id+`"]`, string(raw))
		require.Equal(t, id, client.ShortID(global))
		again, err := c.RunID(t.Context(), global)
		require.NoError(t, err)
		require.Equal(t, global, again)
	}
	require.Len(t, s.requests(), 4, "a global id is not asked about")
	for _, other := range []string{"r1", "WzFd", id} {
		require.Equal(t, other, client.ShortID(other))
	}
}

func TestCommandWithoutAnswerIsSentAgainUnderItsID(t *testing.T) {
	s := serve(t, hangUp, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gateway", http.StatusBadGateway) },
		said(`{"errors":[{"message":"Busy.","extensions":{"code":"TOO_BUSY","retryable":true}}]}`),
		said(`{"data":{"done":{"run":{"id":"r1","status":"QUEUED","version":"1"},"userErrors":[]}}}`))
	run, err := s.client(t).StartRun(t.Context(), client.Start{Agent: "payer", Goal: "pay"})
	require.NoError(t, err)
	require.Equal(t, "r1", run.ID)
	require.Len(t, s.requests(), 4)
	require.NotEmpty(t, s.requests()[0].input("commandId"))
	for _, again := range s.requests()[1:] {
		require.Equal(t, s.requests()[0].input("commandId"), again.input("commandId"))
	}
	_, err = s.client(t).StartRun(t.Context(), client.Start{Agent: "payer", Goal: "pay"})
	require.NoError(t, err)
	require.NotEqual(t, s.requests()[0].input("commandId"), s.requests()[4].input("commandId"), "another command is not a repeat")
}

func TestCommandIsNotSentForEver(t *testing.T) {
	s := serve(t, hangUp)
	_, err := s.client(t).Cancel(t.Context(), "r1", "")
	require.True(t, client.IsCode(err, client.CodeUnreachable), err)
	require.NotContains(t, err.Error(), "secret-token")
	require.Len(t, s.requests(), 4)
}

func TestRefusalsKeepCodeSentenceAndField(t *testing.T) {
	s := serve(t, said(`{"data":{"done":{"run":null,"userErrors":[{"code":"INVALID","message":"It must not be empty.","field":"goal"}]}}}`))
	_, err := s.client(t).StartRun(t.Context(), client.Start{})
	require.EqualError(t, err, "goal: It must not be empty. (INVALID)")
	require.True(t, client.IsCode(err, "INVALID"))
	require.Len(t, s.requests(), 1, "a refusal is not sent again")
	_, err = serve(t, said(`<html>`)).client(t).Inbox(t.Context())
	require.True(t, client.IsCode(err, client.CodeUnexpected), err)
	_, err = serve(t, said(`{"data":{"inbox":7}}`)).client(t).Inbox(t.Context())
	require.True(t, client.IsCode(err, client.CodeUnexpected), err)
}

func TestRunsAreReadPageByPage(t *testing.T) {
	page := func(id, more string) func(http.ResponseWriter, *http.Request) {
		return said(`{"data":{"runs":{"edges":[{"node":{"id":"` + id + `","version":"1"}}],"pageInfo":{"hasNextPage":` + more + `,"endCursor":"after-` + id + `"}}}}`)
	}
	s := serve(t, page("a", "true"), page("b", "true"), page("c", "true"))
	runs, err := s.client(t).Runs(t.Context(), client.Filter{}, 2)
	require.NoError(t, err)
	require.Len(t, runs, 2)
	require.Equal(t, "b", runs[1].ID)
	require.Nil(t, s.requests()[0].Variables["after"])
	require.Equal(t, "after-a", s.requests()[1].Variables["after"])
	require.EqualValues(t, 1, s.requests()[1].Variables["first"], "no more than what is missing")
}

func TestAddressesAndTokensThatAreNone(t *testing.T) {
	for _, config := range []client.Config{{URL: "127.0.0.1:8080", Token: "t"}, {URL: "ftp://x", Token: "t"}, {URL: "http://", Token: "t"},
		{URL: "http://me:pass@x", Token: "t"}, {URL: "http://x"}} {
		_, err := client.New(config)
		require.Error(t, err, config.URL)
		require.NotContains(t, err.Error(), "pass@")
	}
}

func TestGivingUpIsTheCallersError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	require.ErrorIs(t, s.client(t).Events(ctx, "r1", "", nil), context.Canceled)
	_, err := s.client(t).Inbox(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPausesGrowUpToALimit(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	c := serve(t, hangUp).client(t, func(config *client.Config) { config.Pause = nil })
	_, err := c.Cancel(ctx, "r1", "")
	require.Error(t, err, "a pause ends with the context")
}

func TestATextThatIsNotUTF8IsNotSentAsAnother(t *testing.T) {
	c := &client.Client{}
	for _, draft := range []client.MemoryDraft{{Text: "caf\xe9"}, {Text: "coffee", Subject: "caf\xe9"}} {
		_, err := c.Remember(t.Context(), draft)
		require.ErrorContains(t, err, "not UTF-8")
		_, err = c.Supersede(t.Context(), "id", draft)
		require.ErrorContains(t, err, "not UTF-8")
		_, err = c.Consolidate(t.Context(), nil, draft)
		require.ErrorContains(t, err, "not UTF-8")
	}
}

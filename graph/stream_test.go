package graph_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/orchestrator/run"
)

func TestCursorsOfTheFutureAreRefused(t *testing.T) {
	s := serve(t)
	after := base64.RawURLEncoding.EncodeToString([]byte(`["at","r1","7"]`))
	message := s.dial(t, s.token(t, "anna")).subscribe(follow, map[string]any{"run": s.runID(t), "after": after})
	require.Contains(t, string(message.Payload), "CURSOR_INVALID")
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

func (s *socket) write(one any) {
	require.NoError(s.t, wsjson.Write(s.ctx, s.conn, one))
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
	token, err := edge.Mint(s.private, edge.Grant{Organisation: "acme", Principal: "anna", Issuer: "https://issuer", Audience: "gantry", TokenID: "t", From: now.Add(-time.Hour), Until: now.Add(time.Second)})
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

// sse subscribes over server-sent events.
func (s *served) sse(t *testing.T, who, query string, variables map[string]any) *http.Response {
	return s.sseBy(t, s.token(t, who), query, variables)
}

func (s *served) sseBy(t *testing.T, token, query string, variables map[string]any) *http.Response {
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/graphql", strings.NewReader(string(body)))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "text/event-stream")
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func TestStreamOverSSE(t *testing.T) {
	s := serve(t)
	text := readAll(t, s.sse(t, "anna", follow, map[string]any{"run": s.runID(t)}))
	require.Equal(t, len(s.records), strings.Count(text, `"seq"`))
	require.Contains(t, text, "RESYNC")
	require.Contains(t, text, "event: complete")
}

func TestStreamsOverSSEAreBoundedPerPrincipal(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.PerPrincipal, c.Connections.Operations = 1, 2 })
	variables := map[string]any{"run": s.runID(t)}
	s.live = make(chan run.Record)
	first, second := s.sse(t, "anna", follow, variables), s.sse(t, "anna", follow, variables)
	third := s.sse(t, "anna", follow, variables)
	require.Equal(t, http.StatusTooManyRequests, third.StatusCode)
	require.Contains(t, readAll(t, third), "OVER_LIMIT")
	require.Equal(t, http.StatusOK, s.sse(t, "bob", follow, variables).StatusCode, "another principal has its own")
	require.Empty(t, s.ask(t, "anna", `{viewer{name}}`, nil).Errors, "nor are single requests streams")
	close(s.live)
	require.Contains(t, readAll(t, first), "complete")
	require.Contains(t, readAll(t, second), "complete")
	require.Equal(t, http.StatusOK, s.sse(t, "anna", follow, variables).StatusCode, "what ended counts no more")
}

// flood tells one long record for ever, until its reader is given up.
type flood struct {
	live
	ended chan struct{}
}

func (f flood) Run(ctx context.Context, _, _ string, _ uint64) (<-chan run.Record, error) {
	out := make(chan run.Record)
	go func() {
		defer close(f.ended)
		for {
			select {
			case out <- f.records[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func TestFault_J15_ReaderThatTakesNothingIsCutOff(t *testing.T) {
	ended := make(chan struct{})
	s := serve(t, func(c *graph.Config) {
		c.Connections.WriteWait = 50 * time.Millisecond
		c.Live = flood{c.Live.(live), ended}
	})
	s.texts["goal"] = strings.Repeat("long ", 50_000)
	response := s.sse(t, "anna", follow, map[string]any{"run": s.runID(t)})
	require.Equal(t, http.StatusOK, response.StatusCode)
	<-ended // nothing of the body is read
}

// trickle sends the head of a request and a part of its body, and reads the
// answer.
func (s *served) trickle(t *testing.T, authorization string) (net.Conn, func() *http.Response) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "POST /graphql HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", authorization)
	require.NoError(t, err)
	return conn, func() *http.Response {
		reader := bufio.NewReader(conn)
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		_, err = reader.ReadByte()
		require.Error(t, err, "the connection is closed")
		response.Body = io.NopCloser(bytes.NewReader(body))
		return response
	}
}

func TestBodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Limits.BodyWait = 50 * time.Millisecond })
	id := s.runID(t)
	s.live = make(chan run.Record)
	stream := s.sse(t, "anna", follow, map[string]any{"run": id})
	_, answer := s.trickle(t, "Bearer "+s.token(t, "anna"))
	response := answer()
	require.Equal(t, http.StatusRequestTimeout, response.StatusCode)
	require.Contains(t, readAll(t, response), `"code":"REQUEST_TIMEOUT"`)
	_, answer = s.trickle(t, "Bearer nonsense")
	require.Equal(t, http.StatusUnauthorized, answer().StatusCode, "whoever is refused does not wait longer either")
	// The stream is older than the wait by now.
	s.live <- s.records[0]
	close(s.live)
	require.Contains(t, readAll(t, stream), `"seq":"1"`, "its body was there in time")
}

// slowInbox answers only when it is let go.
type slowInbox struct {
	graph.Inbox
	entered, leave chan struct{}
}

func (s slowInbox) Items(context.Context, graph.Caller) ([]graph.Item, error) {
	s.entered <- struct{}{}
	<-s.leave
	return nil, nil
}

func TestRequestsAtOnceAreBoundedPerPrincipal(t *testing.T) {
	slow := slowInbox{entered: make(chan struct{}), leave: make(chan struct{})}
	s := serve(t, func(c *graph.Config) { c.Connections.Requests, c.Inbox = 1, slow })
	done := make(chan answer)
	go func() { done <- s.ask(t, "anna", `{inbox{kind}}`, nil) }()
	<-slow.entered
	second := s.ask(t, "anna", `{viewer{name}}`, nil)
	require.Equal(t, http.StatusTooManyRequests, second.status)
	require.Equal(t, "OVER_LIMIT", second.code())
	require.Equal(t, "requests at once", second.Errors[0].Extensions["limit"])
	require.Empty(t, s.ask(t, "bob", `{viewer{name}}`, nil).Errors, "another principal has its own")
	close(slow.leave)
	require.Empty(t, (<-done).Errors)
	id := s.runID(t)
	s.live = make(chan run.Record)
	stream := s.sse(t, "anna", follow, map[string]any{"run": id})
	require.Empty(t, s.ask(t, "anna", `{viewer{name}}`, nil).Errors, "what ended, and a stream, count no more")
	close(s.live)
	require.Contains(t, readAll(t, stream), "complete")
}

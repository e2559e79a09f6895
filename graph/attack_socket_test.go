package graph_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

// bare is a websocket on which nothing was said yet.
func (s *served) bare(t *testing.T) *socket {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 22)
	return &socket{t, ctx, conn}
}

// say sends a message as it stands.
func (s *socket) say(message string) {
	require.NoError(s.t, s.conn.Write(s.ctx, websocket.MessageText, []byte(message)))
}

// end reads to the end and returns the close code.
func (s *socket) end() websocket.StatusCode {
	for {
		if _, _, err := s.conn.Read(s.ctx); err != nil {
			code := websocket.CloseStatus(err)
			require.NotEqual(s.t, websocket.StatusCode(-1), code, err)
			return code
		}
	}
}

func begin(token string) string {
	return `{"type":"connection_init","payload":{"authorization":"Bearer ` + token + `"}}`
}

// What breaks the protocol closes the connection with the code that says so,
// and never leaves it open without an owner.
func TestFault_J6_WhatBreaksTheProtocolClosesTheSocket(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.InitWait = time.Hour })
	good := begin(s.token(t, "anna"))
	query := `{"id":"1","type":"subscribe","payload":{"query":"{viewer{name}}"}}`
	for name, one := range map[string]struct {
		said []string
		code websocket.StatusCode
	}{
		"only pings":              {[]string{`{"type":"ping"}`}, websocket.StatusProtocolError},
		"subscribe before init":   {[]string{query}, 4401},
		"init twice":              {[]string{good, good}, 4429},
		"init with a list":        {[]string{`{"type":"connection_init","payload":[]}`}, 4400},
		"init with a number":      {[]string{`{"type":"connection_init","payload":7}`}, 4400},
		"init with a huge number": {[]string{`{"type":"connection_init","payload":{"x":1e999}}`}, 4400},
		"init without a payload":  {[]string{`{"type":"connection_init"}`}, 4403},
		"no JSON":                 {[]string{good, `secret{`}, 4400},
		"a list":                  {[]string{good, `[]`}, 4400},
		"no type":                 {[]string{good, `{}`}, 4400},
		"an unknown type":         {[]string{good, `{"type":"start","id":"1"}`}, 4400},
		"a server's type":         {[]string{good, `{"type":"next","id":"1"}`}, 4400},
		"an id as a number":       {[]string{good, strings.Replace(query, `"1"`, `1`, 1)}, 4400},
		"too long a message":      {[]string{good, `{"id":"1","type":"subscribe","payload":{"query":"` + strings.Repeat(" ", 1<<20) + `"}}`}, websocket.StatusMessageTooBig},
	} {
		t.Run(name, func(t *testing.T) {
			socket := s.bare(t)
			for _, message := range one.said {
				socket.say(message)
			}
			require.Equal(t, one.code, socket.end())
		})
	}
}

func TestFault_J6_ASocketThatSaysNothingIsClosed(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.InitWait = time.Millisecond })
	require.EqualValues(t, 4408, s.bare(t).end())
}

// A second operation under the id of one that runs would mix with it.
func TestFault_J6_AnIDThatRunsIsNotTakenAgain(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	s.live = make(chan run.Record)
	subscribe := fmt.Sprintf(`{"id":"a","type":"subscribe","payload":{"query":%q,"variables":{"run":%q}}}`, follow, id)
	socket := s.dial(t, s.token(t, "anna"))
	socket.say(subscribe)
	s.live <- s.records[0]
	require.Equal(t, "next", socket.next().Type)
	socket.say(subscribe)
	require.EqualValues(t, 4409, socket.end())
}

// first tells every reader the first record and then nothing.
type first struct{ live }

func (f first) Run(context.Context, string, string, uint64) (<-chan run.Record, error) {
	out := make(chan run.Record, 1)
	out <- f.records[0]
	return out, nil
}

// What a client ended is ended: its id is free at once, and what the earlier one
// still had to say is not taken for the later one's.
func TestFault_J6_AnIDThatWasEndedIsFree(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Live = first{c.Live.(live)} })
	id := s.runID(t)
	subscribe := fmt.Sprintf(`{"id":"a","type":"subscribe","payload":{"query":%q,"variables":{"run":%q}}}`, follow, id)
	socket := s.dial(t, s.token(t, "anna"))
	for range 50 {
		socket.say(subscribe)
		got := socket.next()
		require.Equal(t, frame{ID: "a", Type: "next", Payload: got.Payload}, got)
		socket.say(`{"id":"a","type":"complete"}`)
		socket.say(`{"id":"b","type":"complete"}`) // which never was
		s.later(time.Second)
	}
}

// Of ten thousand at once as many begin as may; the rest is refused before it
// is read, and everybody else is served.
func TestFault_J6_AFloodOfOperationsIsPacedAndFairToOthers(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.Operations = 100 })
	socket := s.dial(t, s.token(t, "anna"))
	const flood = 10_000
	go func() {
		for i := range flood {
			if socket.conn.Write(socket.ctx, websocket.MessageText, []byte(`{"id":"`+strconv.Itoa(i)+`","type":"subscribe","payload":{"query":"{viewer{name}}"}}`)) != nil {
				return
			}
		}
	}()
	said := map[string]int{}
	for complete := 0; complete < flood; {
		got := socket.next()
		if got.Type == "complete" {
			complete++
			continue
		}
		var answer struct {
			Errors []struct{ Extensions struct{ Limit string } }
		}
		require.NoError(t, json.Unmarshal(got.Payload, &answer))
		if len(answer.Errors) == 0 {
			said["answered"]++
		} else {
			said[answer.Errors[0].Extensions.Limit]++
		}
		if complete == flood/2 {
			require.Empty(t, s.ask(t, "bob", `{viewer{name}}`, nil).Errors, "in the middle of it")
		}
	}
	require.Equal(t, map[string]int{"answered": 20, "operations per second": flood - 20}, said)
}

func TestFault_J6_AFloodOfPingsClosesTheSocket(t *testing.T) {
	s := serve(t)
	socket := s.dial(t, s.token(t, "anna"))
	for range 21 {
		socket.say(`{"type":"ping"}`)
	}
	require.EqualValues(t, 4429, socket.end())
	require.Empty(t, s.ask(t, "anna", `{viewer{name}}`, nil).Errors)
}

func TestFault_J6_OperationsAtOnceAreBounded(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Live = first{c.Live.(live)} })
	id := s.runID(t)
	socket := s.dial(t, s.token(t, "anna"))
	for i := range 16 {
		socket.say(fmt.Sprintf(`{"id":"%d","type":"subscribe","payload":{"query":%q,"variables":{"run":%q}}}`, i, follow, id))
		require.Equal(t, "next", socket.next().Type)
	}
	socket.say(`{"id":"x","type":"subscribe","payload":{"query":"{viewer{name}}"}}`)
	require.Contains(t, string(socket.next().Payload), `"limit":"operations at once"`)
}

func TestFault_J6_SocketsAreBoundedPerPrincipal(t *testing.T) {
	s := serve(t)
	var open []*socket
	for range 8 {
		open = append(open, s.dial(t, s.token(t, "anna")))
	}
	ninth := s.bare(t)
	ninth.say(begin(s.token(t, "anna")))
	require.EqualValues(t, 4429, ninth.end())
	s.dial(t, s.token(t, "bob"))
	require.NoError(t, open[0].conn.Close(websocket.StatusNormalClosure, ""))
	for again := (frame{}); again.Type != "connection_ack"; { // the server hears of the close soon
		one := s.bare(t)
		one.say(begin(s.token(t, "anna")))
		_, raw, err := one.conn.Read(one.ctx)
		if code := websocket.CloseStatus(err); err != nil {
			require.EqualValues(t, 4429, code, err)
			continue
		}
		require.NoError(t, json.Unmarshal(raw, &again))
	}
}

// Who says nothing counts too, as nobody's; who began does not count there.
func TestFault_J6_SocketsThatSayNothingAreBounded(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Connections.Waiting, c.Connections.InitWait = 2, time.Hour })
	s.dial(t, s.token(t, "anna"))
	first := s.bare(t)
	s.bare(t)
	_, response, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	require.Error(t, err)
	require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
	first.say(begin(s.token(t, "bob")))
	require.Equal(t, "connection_ack", first.next().Type)
	s.bare(t)
}

// A page of another site brings cookies along, and at most an origin.
func TestFault_J7_CookiesAndOriginsAuthenticateNobody(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Origins = []string{"https://app.example.org"} })
	cookie := "token=" + s.token(t, "anna")
	for _, origin := range []string{"", "https://app.example.org", s.url} {
		header := http.Header{"Cookie": {cookie}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		_, ended := s.refusedSocket(t, header, map[string]any{})
		require.EqualValues(t, 4403, ended.Code, "origin %q", origin)
		status, _ := s.as(t, "/graphql", header)
		require.Equal(t, http.StatusUnauthorized, status, "origin %q", origin)
	}
	for _, origin := range []string{"null", "https://evil.example.org", "https://app.example.org.evil.org", "http://app.example.org", "file://"} {
		_, response, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(s.url, "http")+"/graphql",
			&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: http.Header{"Origin": {origin}, "Cookie": {cookie}}})
		require.Error(t, err, origin)
		require.Equal(t, http.StatusForbidden, response.StatusCode, origin)
	}
	for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} { // what a form can send without asking
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/graphql", strings.NewReader(`{"query":"mutation{cancelRun(input:{run:\"x\"}){outcome}}"}`))
		require.NoError(t, err)
		request.Header.Set("Content-Type", media)
		request.Header.Set("Authorization", "Bearer "+s.token(t, "anna"))
		response, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, http.StatusUnsupportedMediaType, response.StatusCode, media)
	}
	require.Empty(t, s.commands)
}

// A reader that takes nothing from its socket is cut off, and nobody else.
func TestFault_I4_ADeadSocketIsCutOffAlone(t *testing.T) {
	ended := make(chan struct{})
	s := serve(t, func(c *graph.Config) {
		c.Connections.WriteWait = 50 * time.Millisecond
		c.Live = flood{c.Live.(live), ended}
	})
	s.texts["goal"] = strings.Repeat("long ", 50_000)
	id := s.runID(t)
	dead := s.dial(t, s.token(t, "anna"))
	dead.say(fmt.Sprintf(`{"id":"1","type":"subscribe","payload":{"query":%q,"variables":{"run":%q}}}`, follow, id))
	<-ended // nothing of it is read
	require.Empty(t, s.ask(t, "anna", `{viewer{name}}`, nil).Errors)
	s.dial(t, s.token(t, "bob"))
}

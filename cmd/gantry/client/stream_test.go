package client_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
)

// told streams events of a run with these numbers, and then what end says.
func told(end string, seqs ...int) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprint(w, ":\n\n: ping\n\n")
		for _, seq := range seqs {
			_, _ = fmt.Fprintf(w, "event: next\ndata: {\"data\":{\"runEvents\":{\"cursor\":\"c%d\",\"seq\":\"%d\",\"kind\":\"call_ended\",\"event\":{\"call\":%d}}}}\n\n", seq, seq, seq)
		}
		_, _ = fmt.Fprint(w, end)
		w.(http.Flusher).Flush()
	}
}

const (
	completed = "event: complete\n\n"
	resync    = "event: next\ndata: {\"errors\":[{\"message\":\"Slow.\",\"extensions\":{\"code\":\"RESYNC\",\"cursor\":\"c9\",\"retryable\":true}}],\"data\":null}\n\n" + completed
)

func afters(s *server) []any {
	var out []any
	for _, got := range s.requests() {
		out = append(out, got.Variables["after"])
	}
	return out
}

func TestFault_I1_CutStreamGoesOnAfterItsLastEvent(t *testing.T) {
	s := serve(t, told("event: next\ndata: {\"half", 1, 2), hangUp, told("", 3), told(completed, 4), told(resync, 5), told("", 10, 11))
	var seen []int64
	err := s.client(t).Events(t.Context(), "r1", "", func(event client.Event) (bool, error) {
		seen = append(seen, event.Seq)
		var body struct{ Call int64 }
		require.NoError(t, event.Decode(&body))
		require.Equal(t, event.Seq, body.Call)
		return event.Seq < 10, nil
	})
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 3, 4, 5, 10}, seen)
	require.Equal(t, []any{nil, "c2", "c2", "c3", "c4", "c9"}, afters(s))
}

func TestSilentStreamCountsAsCut(t *testing.T) {
	silent := func(w http.ResponseWriter, r *http.Request) {
		told("", 1)(w, r)
		<-r.Context().Done()
	}
	s := serve(t, silent, told(completed, 2))
	c := s.client(t, func(config *client.Config) { config.Silence = 50 * time.Millisecond })
	require.NoError(t, c.Events(t.Context(), "r1", "", func(event client.Event) (bool, error) { return event.Seq < 2, nil }))
	require.Equal(t, []any{nil, "c1"}, afters(s))
}

func TestStreamEndsWithAnErrorThatLasts(t *testing.T) {
	visit := func(client.Event) (bool, error) { return true, nil }
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"refused before": refused("NOT_FOUND"),
		"refused inside": told("event: next\ndata: {\"errors\":[{\"message\":\"No.\",\"extensions\":{\"code\":\"NOT_FOUND\"}}]}\n\n" + completed),
	} {
		s := serve(t, answer)
		err := s.client(t).Events(t.Context(), "r1", "", visit)
		require.True(t, client.IsCode(err, "NOT_FOUND"), "%s: %v", name, err)
		require.Len(t, s.requests(), 1, name)
	}
	s := serve(t, hangUp)
	err := s.client(t).Events(t.Context(), "r1", "", visit)
	require.True(t, client.IsCode(err, client.CodeUnreachable), err)
	require.Len(t, s.requests(), 1, "a server that never answered is not waited for")
	require.False(t, strings.Contains(err.Error(), "secret-token"))

	s = serve(t, told("", 1), told(""))
	err = s.client(t).Events(t.Context(), "r1", "", visit)
	require.True(t, client.IsCode(err, client.CodeUnreachable), err)
	require.Len(t, s.requests(), 1+12, "nor one that ends the stream again and again")

	s = serve(t, told("", 1, 2))
	broken := fmt.Errorf("broken pipe")
	require.ErrorIs(t, s.client(t).Events(t.Context(), "r1", "", func(client.Event) (bool, error) { return false, broken }), broken)
	require.Len(t, s.requests(), 1)
}

func TestInboxIsFollowed(t *testing.T) {
	event := func(items string) string {
		return "event: next\ndata: {\"data\":{\"inboxChanged\":[" + items + "]}}\n\n"
	}
	s := serve(t, told(event("")+event(`{"id":"i1","kind":"PARKED","since":"2026-03-01T09:00:00Z","run":{"version":"2"}}`)))
	var sizes []int
	require.NoError(t, s.client(t).InboxChanges(t.Context(), func(items []client.Item) (bool, error) {
		sizes = append(sizes, len(items))
		return len(items) == 0, nil
	}))
	require.Equal(t, []int{0, 1}, sizes)
}

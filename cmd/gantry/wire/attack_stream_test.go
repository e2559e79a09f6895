package wire_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
)

// seen is one event as both ways tell it.
type seen struct{ Cursor, Seq, Kind string }

// line is a stream of a run's events over one connection, which can be lost.
type line struct {
	next func() (seen, error)
	lose func() // without a word
}

const events = `subscription($id:ID!,$after:Cursor){told:runEvents(run:$id,after:$after){cursor seq kind}}`

// overSSE follows a run; errors are the last response.
func (p *person) overSSE(ctx context.Context, run, after string) *line {
	p.t.Helper()
	stream, err := p.open(ctx, events, placed(run, after))
	require.NoError(p.t, err)
	told, ended := make(chan seen), make(chan error, 1)
	go func() {
		ended <- read(stream, func(s seen) bool {
			select {
			case told <- s:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return &line{lose: func() { _ = stream.Close() }, next: func() (seen, error) {
		select {
		case s := <-told:
			return s, nil
		case err := <-ended:
			return seen{}, err
		}
	}}
}

func placed(run, after string) map[string]any {
	variables := map[string]any{"id": run}
	if after != "" {
		variables["after"] = after
	}
	return variables
}

// overSocket does the same over a websocket of its own.
func (p *person) overSocket(ctx context.Context, run, after string) *line {
	p.t.Helper()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(p.url, "http"), &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	require.NoError(p.t, err)
	p.t.Cleanup(func() { _ = conn.CloseNow() })
	require.NoError(p.t, wsjson.Write(ctx, conn, map[string]any{"type": "connection_init", "payload": map[string]any{"authorization": "Bearer " + p.token}}))
	require.NoError(p.t, wsjson.Write(ctx, conn, map[string]any{"id": "1", "type": "subscribe", "payload": map[string]any{"query": events, "variables": placed(run, after)}}))
	return &line{lose: func() { _ = conn.CloseNow() }, next: func() (seen, error) {
		for {
			var got struct {
				Type    string
				Payload struct {
					Data   struct{ Told seen }
					Errors []json.RawMessage
				}
			}
			if err := wsjson.Read(ctx, conn, &got); err != nil {
				return seen{}, err
			}
			if len(got.Payload.Errors) > 0 {
				return seen{}, fmt.Errorf("%s", got.Payload.Errors[0])
			}
			if got.Type == "next" {
				return got.Payload.Data.Told, nil
			}
		}
	}}
}

// to reads up to an event of a kind.
func (l *line) to(t *testing.T, kind string) (list []seen) {
	t.Helper()
	for {
		got, err := l.next()
		require.NoError(t, err, "so far %v", list)
		if list = append(list, got); got.Kind == kind {
			return list
		}
	}
}

var overBoth = map[string]func(p *person, ctx context.Context, run, after string) *line{
	"SSE": (*person).overSSE, "websocket": (*person).overSocket}

// Whoever loses the connection goes on at the last cursor: while the run waits,
// when it ended in between, and when nothing more comes.
func TestCase_49_ALostConnectionGoesOnAtItsLastCursor(t *testing.T) {
	t.Parallel()
	for way, dial := range overBoth {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			h := openHouse(t, plan{})
			amara, tomas := h.as(asker), h.as(controller)
			run := amara.begin("INV-1004").ID
			first := dial(amara, ctx, run, "")
			told := first.to(t, "approval_requested")
			first.lose()
			last := told[len(told)-1].Cursor
			waiting := dial(amara, ctx, run, last) // there is nothing to tell yet
			tomas.decide(tomas.held(run), true)
			decided := waiting.to(t, "approval_decided")
			waiting.lose()
			told = append(told, decided...)
			amara.ended(run) // while nobody listens
			told = append(told, dial(amara, ctx, run, told[len(told)-1].Cursor).to(t, "ended")...)
			for i, e := range told {
				require.Equal(t, fmt.Sprint(i+1), e.Seq, "no gap, nothing twice")
			}
			require.Equal(t, told, dial(amara, ctx, run, "").to(t, "ended"), "what who never left hears")
			for name, wrong := range map[string]string{"beyond the end": reworded(t, last, func(parts []string) { parts[2] = "100000" }),
				"of another run": reworded(t, last, func(parts []string) { parts[1] = near(parts[1]) }), "nonsense": "nonsense"} {
				_, err := dial(amara, ctx, run, wrong).next()
				require.ErrorContains(t, err, "CURSOR_INVALID", name)
			}
		})
	}
}

// without is the organisation after somebody left it.
func without(o agents.Organisation, change func(one *agents.Organisation)) agents.Organisation {
	change(&o)
	return o
}

// In the whole product, at its own pace: who is no longer there, or may no
// longer see a run, hears nothing more of it though nothing happens in it.
func TestFault_I6_AStreamOfAWaitingRunEndsWithItsRight(t *testing.T) {
	t.Parallel()
	for way, dial := range overBoth {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			h := openHouse(t, plan{})
			amara, oskar := h.as(asker), h.as(operator)
			run := amara.begin("INV-1004").ID
			stays, goes := dial(amara, ctx, run, ""), dial(oskar, ctx, run, "")
			stays.to(t, "approval_requested")
			goes.to(t, "approval_requested")
			h.apply(without(h.organisation, func(o *agents.Organisation) {
				o.Principals = append(o.Principals[:0:0], o.Principals...)
				for i := range o.Principals {
					if o.Principals[i].ID == operator {
						o.Principals[i].Roles = nil
					}
				}
			}))
			_, err := goes.next()
			require.ErrorContains(t, err, "REVOKED")
			tomas := h.as(controller)
			tomas.decide(tomas.held(run), true)
			stays.to(t, "ended")
		})
	}
}

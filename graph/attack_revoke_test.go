package graph_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// quiet is a stream of a run in which nothing happens: what is looked at comes
// from the pulse alone, which stands for half a second.
type quiet struct {
	*served
	pulse chan time.Time
	time  time.Time
}

func serveQuiet(t *testing.T) *quiet {
	q := &quiet{pulse: make(chan time.Time), time: now}
	q.served = serve(t, func(c *graph.Config) {
		c.Pulse = func() (<-chan time.Time, func()) { return q.pulse, func() {} }
		c.Runs = owned{c.Runs}
	})
	return q
}

// owned is the world's runs for who answers for them: the owner of the agent, as
// the organisation says, whatever the principals themselves look like.
type owned struct{ graph.Runs }

func (o owned) State(ctx context.Context, caller graph.Caller, id string) (*run.State, error) {
	if caller.Principal.HasRole("barred") {
		return nil, engine.ErrNotFound
	}
	return o.Runs.State(ctx, caller, id)
}

// lines are the events of a stream over SSE, one a time.
func lines(t *testing.T, response *http.Response) func() string {
	scanner := bufio.NewScanner(response.Body)
	scanner.Buffer(nil, 1<<20)
	return func() string {
		for scanner.Scan() {
			if text := scanner.Text(); strings.HasPrefix(text, "data: ") || text == "event: complete" {
				return text
			}
		}
		require.NoError(t, scanner.Err())
		return ""
	}
}

// both follows a quiet run over websocket and SSE to its first event, changes
// something, and returns how each ends at the next pulse.
func (q *quiet) both(t *testing.T, change func()) (overSocket, overSSE string) {
	id := q.runID(t)
	q.live = make(chan run.Record)
	variables := map[string]any{"run": id}
	for _, sse := range []bool{false, true} {
		var next func() string
		if sse {
			next = lines(t, q.sse(t, "anna", follow, variables))
			q.live <- q.records[0]
		} else {
			socket := q.dial(t, q.token(t, "anna"))
			payload, err := json.Marshal(map[string]any{"query": follow, "variables": variables})
			require.NoError(t, err)
			socket.write(frame{ID: "1", Type: "subscribe", Payload: payload})
			next = func() string {
				got := socket.next()
				return got.Type + " " + string(got.Payload)
			}
			q.live <- q.records[0]
		}
		require.Contains(t, next(), `"seq":"1"`)
		before := map[string]policy.Principal{}
		q.change(func() {
			for id, person := range q.people {
				before[id] = person
			}
		})
		q.pulse <- q.time // nothing changed: it goes on
		q.live <- q.records[1]
		require.Contains(t, next(), `"seq":"2"`)
		q.change(change)
		q.pulse <- q.time
		if overSocket == "" {
			overSocket = next()
			require.Equal(t, "complete ", next())
		} else {
			overSSE = strings.TrimPrefix(next(), "data: ")
			require.Equal(t, "event: complete", next())
		}
		q.change(func() { q.people = before })
	}
	return strings.TrimPrefix(overSocket, "next "), overSSE
}

func TestFault_I6_AQuietStreamStopsAtTheNextPulse(t *testing.T) {
	for name, one := range map[string]struct {
		change func(people map[string]policy.Principal)
		code   string
	}{
		"the person left": {func(p map[string]policy.Principal) { delete(p, "anna") }, "UNAUTHENTICATED"},
		"a role was taken away": {func(p map[string]policy.Principal) {
			anna := p["anna"]
			anna.Roles = []string{"barred"}
			p["anna"] = anna
		}, "REVOKED"},
	} {
		t.Run(name, func(t *testing.T) {
			q := serveQuiet(t)
			overSocket, overSSE := q.both(t, func() { one.change(q.people) })
			require.Contains(t, overSocket, `"code":"`+one.code+`"`)
			require.Equal(t, overSocket, overSSE, "the same over both")
		})
	}
}

// barredByRule forgets the run without any change of its reader.
type barredByRule struct {
	graph.Runs
	world *world
}

func (b barredByRule) State(ctx context.Context, caller graph.Caller, id string) (*run.State, error) {
	if _, err := b.world.Principal(ctx, "acme", "olga"); err != nil {
		return nil, engine.ErrNotFound // it was olga's agent
	}
	return b.Runs.State(ctx, caller, id)
}

// A right can end by a change that is not one of its holder.
func TestFault_I6_AChangeOfTheOrganisationIsAskedAboutAnew(t *testing.T) {
	q := &quiet{pulse: make(chan time.Time), time: now}
	q.served = serve(t, func(c *graph.Config) {
		c.Pulse = func() (<-chan time.Time, func()) { return q.pulse, func() {} }
		c.Runs = barredByRule{c.Runs, c.Runs.(*world)}
	})
	overSocket, overSSE := q.both(t, func() { delete(q.people, "olga") })
	require.Contains(t, overSocket, `"code":"REVOKED"`)
	require.Equal(t, overSocket, overSSE)
}

// Over SSE nothing but the last response can say that a token has expired.
func TestFault_I6_TokenExpiryIsToldOverSSE(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	s.live = make(chan run.Record)
	token, err := edge.Mint(s.private, edge.Grant{Organisation: "acme", Principal: "anna", Issuer: "https://issuer", Audience: "gantry", TokenID: "t", From: now.Add(-time.Hour), Until: now.Add(time.Second)})
	require.NoError(t, err)
	next := lines(t, s.sseBy(t, token, follow, map[string]any{"run": id}))
	require.Contains(t, next(), "The token has expired")
	require.Equal(t, "event: complete", next())
}

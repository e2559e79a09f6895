//go:build services && unix

package wire_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

// broker is a NATS server of one test, which comes and goes at one address.
type broker struct {
	t       *testing.T
	port    int
	folder  string
	running *server.Server
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{t: t, port: freePort(t), folder: t.TempDir()}
	t.Cleanup(b.stop)
	return b
}

func (b *broker) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

func (b *broker) start() {
	b.t.Helper()
	if b.running != nil {
		return
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: b.port, JetStream: true, StoreDir: b.folder, NoSigs: true, NoLog: true,
		JetStreamMaxMemory: 1 << 30, JetStreamMaxStore: 16 << 30})
	require.NoError(b.t, err)
	s.Start()
	require.True(b.t, s.ReadyForConnections(patience))
	b.running = s
}

func (b *broker) stop() {
	if b.running != nil {
		b.running.Shutdown()
		b.running.WaitForShutdown()
		b.running = nil
	}
}

// lose deletes all that the broker holds, with its streams.
func (b *broker) lose() {
	b.t.Helper()
	connection, err := nats.Connect("nats://" + b.address())
	require.NoError(b.t, err)
	defer connection.Close()
	streams, err := jetstream.New(connection)
	require.NoError(b.t, err)
	names := streams.StreamNames(b.t.Context())
	lost := 0
	for name := range names.Name() {
		require.NoError(b.t, streams.DeleteStream(b.t.Context(), name))
		lost++
	}
	require.NoError(b.t, names.Err())
	require.NotZero(b.t, lost)
}

// passage is one run at two processes that tell each other by a broker: one
// serves and one works. on is called at each event that its reader hears.
func passage(t *testing.T, h *house, on func(n int, e client.Event)) {
	t.Helper()
	amara, tomas := h.as(asker), h.as(controller)
	id := amara.begin("INV-1004").ID
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var told []client.Event
	require.NoError(t, amara.Events(ctx, id, "", func(e client.Event) (bool, error) {
		told = append(told, e)
		on(len(told), e)
		if e.Kind == "approval_requested" {
			tomas.decide(tomas.held(id), true)
		}
		return !isEnd(e), nil
	}))
	for i, e := range told {
		require.Equal(t, int64(i+1), e.Seq, "no gap, nothing twice")
	}
	ended, err := amara.Run(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", ended.Status)
	require.True(t, amara.verified(id))
	require.Equal(t, 1, h.entries("INV-1004"))
	require.NoError(t, audit(t.Context(), h.platform.Store))
}

// apart opens two processes at a broker that may not be there.
func apart(t *testing.T, address string, organisation func(*agents.Organisation), change func(*wire.Config)) *house {
	t.Helper()
	h := shared(t, func(c *wire.Config) {
		change(c)
		c.Bus, c.Work, c.Poll, c.Lease = "nats://"+address, false, 50*time.Millisecond, 15*time.Second
	})
	organisation(&h.organisation)
	h.open()
	h.apply(h.organisation)
	config := h.config()
	config.Listen, config.Work, config.Worker = "", true, "the one that works"
	worker, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, worker.Close()) })
	return h
}

// asItIs and asTold change nothing.
func asItIs(*agents.Organisation) {}
func asTold(*wire.Config)         {}

// The broker is away at the start, goes away on the way, comes and goes at
// every event, or is there and answers nothing. Nothing depends on it: what it
// would tell is found by the slow poll, and no event is lost.
func TestFault_C7_ARunComesToItsEndWhateverItsBrokerDoes(t *testing.T) {
	for name, does := range map[string]func(b *broker, p *proxy, n int, e client.Event){
		"away at the start": func(b *broker, _ *proxy, n int, e client.Event) {
			if n == 0 {
				b.stop()
			}
			if e.Kind == "approval_requested" {
				b.start()
			}
		},
		"goes away": func(b *broker, _ *proxy, _ int, e client.Event) {
			if e.Kind == "approval_requested" {
				b.stop()
			}
		},
		"comes and goes": func(b *broker, _ *proxy, n int, _ client.Event) {
			if n%2 == 1 {
				b.stop()
			} else {
				b.start()
			}
		},
		"answers nothing": func(_ *broker, p *proxy, n int, _ client.Event) {
			if n == 1 {
				p.hold()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			scenario(t)
			b := newBroker(t)
			b.start()
			p := newProxy(t, b.address())
			does(b, p, 0, client.Event{})
			h := apart(t, p.address(), asItIs, asTold)
			passage(t, h, func(n int, e client.Event) { does(b, p, n, e) })
		})
	}
}

// The broker loses all that it held, with its streams, twice in a run's way.
// That is nothing but notices: the run, its readers and its store miss nothing.
func TestFault_C8_ABrokerThatLosesItsStreamsLosesNothingOfARun(t *testing.T) {
	scenario(t)
	b := newBroker(t)
	b.start()
	h := apart(t, b.address(), asItIs, asTold)
	passage(t, h, func(_ int, e client.Event) {
		if e.Kind == "approval_requested" || e.Kind == "approval_decided" {
			b.lose()
		}
	})
}

// A model speaks in very many pieces, and the broker that would tell them takes
// all and answers nothing. Each piece costs the model no waiting: the turn is
// over long before the broker was waited for that often.
func TestFault_C7_ASilentBrokerHoldsUpNoModel(t *testing.T) {
	scenario(t)
	const pieces = 400 // each a request of 3 s to such a broker
	b := newBroker(t)
	b.start()
	p := newProxy(t, b.address())
	speaks := func(w http.ResponseWriter, r *http.Request) {
		p.hold()
		text := `{"invoice":"INV-1002","adjustmentCents":0,"posted":false,"evidence":["read"],"finding":"` + strings.Repeat("word ", pieces) + `"}`
		modeltest.Pieces(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: text}, modeltest.Style{Piece: len("word ")}), passesAtOnce)(w, r)
	}
	h := apart(t, p.address(), func(o *agents.Organisation) { slowly(modelServer(t, speaks))(o) }, func(c *wire.Config) { c.Secrets["slow-key"] = "key" })
	amara := h.as(asker)
	ended := amara.ended(amara.begin("INV-1002").ID)
	require.Equal(t, "COMPLETED", ended.Status)
}

// modelServer serves a model that always does the same.
func modelServer(t *testing.T, does http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(does)
	t.Cleanup(server.Close)
	return server.URL
}

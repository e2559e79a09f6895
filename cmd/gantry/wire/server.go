package wire

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/cmd/gantry/service"
	"gantry.dev/cmd/gantry/service/beside"
	"gantry.dev/cmd/gantry/service/brain"
	"gantry.dev/cmd/gantry/service/evaluation"
	"gantry.dev/cmd/gantry/service/groups"
	"gantry.dev/cmd/gantry/service/lending"
	"gantry.dev/cmd/gantry/service/models"
	"gantry.dev/cmd/gantry/service/research"
	"gantry.dev/cmd/gantry/service/scheduling"
	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/memory/document"
	"gantry.dev/orchestrator/bus"
)

// audience names Gantry in bearer tokens.
const audience = "gantry"

// server serves the GraphQL interface.
type server struct {
	http      *http.Server
	listener  net.Listener
	handler   *graph.Handler
	documents *document.Reader
	tasks     conc.WaitGroup
}

func (p *Platform) newVerifier() (*edge.Verifier, error) {
	return edge.NewVerifier(p.Keys.Signing.Public().(ed25519.PublicKey), p.Config.Issuer, audience, time.Now)
}

// listen begins to serve where the configuration says so.
func (p *Platform) listen(ctx context.Context) error {
	if p.Config.Listen == "" {
		return nil
	}
	documents := document.NewReader()
	handler, err := graph.NewHandler(graph.Config{
		Runs: service.Runs{Service: p.Service}, Conversations: service.Conversations{Service: p.Service}, Groups: groups.Groups{Service: p.Service}, Inbox: service.Inbox{Service: p.Service},
		Tools: service.Tools{Service: p.Service}, Agents: service.Agents{Service: p.Service}, Kills: service.Kills{Service: p.Service}, Pins: service.Pins{Service: p.Service}, Budgets: service.Budgets{Service: p.Service}, Models: models.Models{Service: p.Service, Health: p.health},
		Brain: p.Brain, Readers: brain.Memory{Service: p.Service}, Documents: brain.Documents{Service: p.Service, Files: documents}, Lending: lending.Lending{Service: p.Service}, Consents: lending.Consents{Service: p.Service},
		Schedules:  scheduling.Schedules{Service: p.Service, Calendar: p.calendar},
		Researches: research.Researches{Service: p.Service}, Live: service.Live{Service: p.Service, Tasks: &p.streams}, Directory: p.Service, Verifier: p.verifier,
		Trees: service.Trees{Service: p.Service, Tasks: &p.streams}, Sidecars: beside.Sidecars{Service: p.Service},
		Evaluations: evaluation.Evaluations{Service: p.Service, Results: p.results},
		Limits:      edge.DefaultLimits(), Connections: edge.DefaultConnectionLimits(), Introspection: p.Config.Dev, Origins: p.Config.Origins,
		NewID: p.Source.ID, Clock: time.Now, Log: p.Config.Log,
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.Config.Listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	p.speak(mux, handler)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /readyz", p.ready)
	mux.HandleFunc("GET /.well-known/jwks.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(edge.KeySet(p.Keys.Signing.Public().(ed25519.PublicKey)))
	})
	p.server = &server{listener: listener, handler: handler, documents: documents, http: newHTTP(mux, p.Config.Log)}
	p.server.tasks.Go(func() {
		if err := p.server.http.Serve(bound(listener, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
			p.Config.Log.Error("server stopped", "error", err)
		}
	})
	return nil
}

// newHTTP returns a server that waits for nobody for long.
func newHTTP(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
}

// maxConnections is how many connections the interface has at once, idle ones
// and streams included.
const maxConnections = 8192

// bounded is a listener that turns away at once what is too many: it is told so
// instead of waiting, and what is open goes on.
type bounded struct {
	net.Listener
	free chan struct{}
}

func bound(listener net.Listener, most int) net.Listener {
	return bounded{listener, make(chan struct{}, most)}
}

// Accept returns the next connection that may be open.
func (b bounded) Accept() (net.Conn, error) {
	for {
		conn, err := b.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case b.free <- struct{}{}:
			return &counted{conn, sync.OnceFunc(func() { <-b.free })}, nil
		default:
			_ = conn.Close()
		}
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// ready says whether the process can do its work: the journal answers.
func (p *Platform) ready(w http.ResponseWriter, r *http.Request) {
	if _, err := p.Store.Now(r.Context()); err != nil {
		http.Error(w, "the journal does not answer", http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// Address is where the interface listens, "host:port"; empty for nowhere.
func (p *Platform) Address() string {
	if p.server == nil {
		return ""
	}
	return p.server.listener.Addr().String()
}

// close lets open requests end and ends the streams, whose readers resume
// elsewhere from their cursors.
func (s *server) close(drain time.Duration, hub *bus.Hub) error {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	hub.Close()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.tasks.Wait()
	s.handler.Wait()
	return errors.Join(err, s.documents.Close())
}

// Token signs a bearer token for a principal.
func (k Keys) Token(organisation, principal, issuer, id string, from time.Time, life time.Duration) (string, error) {
	return edge.Mint(k.Signing, edge.Grant{Organisation: organisation, Principal: principal, Issuer: issuer, Audience: audience,
		TokenID: id, From: from, Until: from.Add(life)})
}

// polls ticks as often as to look when nobody tells.
func (p *Platform) polls() (ticks <-chan time.Time, stop func()) {
	ticker := time.NewTicker(p.Config.Poll)
	return ticker.C, ticker.Stop
}

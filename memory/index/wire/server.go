// Package wire is a double of a Qdrant server for tests: the server's own stubs
// over a real connection, with as much behind them as the index uses. What it does
// not know it answers with Unimplemented, so that a new use of the server breaks a
// test in place of meeting a guess.
package wire

import (
	"context"
	"crypto/subtle"
	"math"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Server is the double. What it holds stays while it is stopped.
type Server struct {
	Version string // what it says it is
	Key     string // what calls must carry; empty: anything

	mu       sync.Mutex
	grpc     *grpc.Server
	address  string
	faults   []*Fault
	requests []Request
	late     sync.WaitGroup
	rows     *store
}

// New returns a server that does not run yet.
func New() *Server { return &Server{Version: "1.17.1", rows: newStore()} }

// Start runs a server on a port of this machine until the test ends.
func Start(t testing.TB) *Server {
	s := New()
	s.Restart(t)
	t.Cleanup(s.Stop)
	return s
}

// URL is where it listens, also after a Restart.
func (s *Server) URL() string { return "http://" + s.address }

// Restart listens where the server listened before, or on a free port.
func (s *Server) Restart(t testing.TB) {
	address := s.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", address)
	require.NoError(t, err)
	s.address = listener.Addr().String()
	s.Serve(listener)
}

// Serve answers on a listener until Stop.
func (s *Server) Serve(listener net.Listener) {
	made := grpc.NewServer(
		grpc.UnaryInterceptor(s.intercept),
		grpc.MaxRecvMsgSize(math.MaxInt32), // as the server takes any size
		// The client pings every ten seconds, also when it does nothing.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	qdrant.RegisterQdrantServer(made, &health{server: s})
	qdrant.RegisterCollectionsServer(made, &collections{rows: s.rows})
	qdrant.RegisterPointsServer(made, &points{rows: s.rows})
	s.mu.Lock()
	s.grpc = made
	s.mu.Unlock()
	s.late.Go(func() { _ = made.Serve(listener) })
}

// Stop ends every connection, and waits for calls that are still under way.
func (s *Server) Stop() {
	s.mu.Lock()
	running := s.grpc
	s.grpc = nil
	s.mu.Unlock()
	if running != nil {
		running.Stop()
	}
	s.late.Wait()
}

// intercept records a call, refuses what the double does not know, and lets faults
// have their way.
func (s *Server) intercept(ctx context.Context, request any, call *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	method := short(call.FullMethod)
	message, ok := request.(proto.Message)
	if !ok {
		return nil, status.Error(codes.Internal, "no message")
	}
	if err := s.record(method, message); err != nil {
		return nil, err
	}
	if sent, _ := metadata.FromIncomingContext(ctx); s.Key != "" && !carries(sent.Get("api-key"), s.Key) {
		return nil, status.Error(codes.Unauthenticated, "Must provide an API key")
	}
	if err := known(message); err != nil {
		return nil, err
	}
	do := func(ctx context.Context) (any, error) { return handle(ctx, request) }
	if fault := s.fault(method); fault != nil {
		return fault.around(ctx, s, do)
	}
	return do(ctx)
}

func carries(sent []string, key string) bool {
	return len(sent) == 1 && subtle.ConstantTimeCompare([]byte(sent[0]), []byte(key)) == 1
}

type health struct {
	qdrant.UnimplementedQdrantServer
	server *Server
}

// HealthCheck says what the server is.
func (h *health) HealthCheck(context.Context, *qdrant.HealthCheckRequest) (*qdrant.HealthCheckReply, error) {
	return &qdrant.HealthCheckReply{Title: "qdrant - vector search engine", Version: h.server.Version}, nil
}

// Package mcp calls tools of MCP servers: processes of our own over their
// standard streams, and servers over streamable HTTP. What a server says of
// itself and of its tools is never trusted. A tool is what its owner
// registered, and only as long as the server's definition is the one that was
// pinned.
package mcp

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
)

// Config is what a pool needs.
type Config struct {
	Credentials tool.Credentials // nil where no server has any
	Folder      string           // in which every process gets a folder of its own; empty: no process is started
	Start       Start            // nil: only servers whose sandbox is "none" are started, as plain processes
	Roots       *x509.CertPool   // certificate authorities that count; nil: the machine's
	Log         *slog.Logger     // nil: nothing is logged
	Idle        time.Duration    // after which a session that nobody uses is closed; 0: 10 min
	// Quarantine keeps calls of a tool back for an organisation until people have
	// looked. It may be told the same twice. Nil: a changed tool is refused, and
	// nobody is told.
	Quarantine func(ctx context.Context, organisation string, q server.Quarantine) error
}

// Process is a server's process: its standard output is read, its standard
// input written, and closing it ends it and all that it started.
type Process interface {
	io.Reader
	io.Writer
	io.Closer
}

// Command is what is to be started.
type Command struct {
	Server      server.Server
	Environment []string // "NAME=value", and nothing else
	Folder      string   // to work in; it exists
}

// Start begins a server's process.
type Start func(ctx context.Context, command Command) (Process, error)

// Pool keeps one session with each server of each organisation, and begins it
// anew when it broke. It is safe for concurrent use.
type Pool struct {
	config Config
	ctx    context.Context //nolint:containedctx // ends what goes on beside calls, with the pool
	cancel context.CancelFunc
	tasks  conc.WaitGroup

	mu    sync.Mutex
	links map[string]*link // by organisation, digest of the server, and person where each has a session
	shut  bool
}

// NewPool returns a pool without any session. Close it when done.
func NewPool(config Config) *Pool {
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Idle == 0 {
		config.Idle = 10 * time.Minute
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{config: config, ctx: ctx, cancel: cancel, links: map[string]*link{}}
}

// Tool returns the tool of a definition of kind "mcp" at its server. Nothing is
// contacted before it is called.
func (p *Pool) Tool(organisation string, d tool.Definition, s server.Server, egress *tool.Egress) (tool.Tool, error) {
	offered, err := tool.ReadOffered(d)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	t := &remote{definition: d, offered: offered, pool: p, organisation: organisation, server: s, egress: egress}
	if _, err := t.link(""); err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	if offered.Look != nil {
		return looker{t}, nil
	}
	return t, nil
}

// Offers returns the tools that a server gives now, in its order.
func (p *Pool) Offers(ctx context.Context, organisation string, s server.Server, egress *tool.Egress) ([]server.Offer, error) {
	l, err := p.link(organisation, s, egress, "")
	if err != nil {
		return nil, err
	}
	session, done, err := l.use(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return offers(ctx, session)
}

// link returns the one way to a server, for one person where it is personal. Its guard is that of the configuration
// which was built last.
func (p *Pool) link(organisation string, s server.Server, egress *tool.Egress, person string) (*link, error) {
	digest, err := s.Digest()
	if err != nil {
		return nil, err
	}
	if s.Transport == server.HTTP && egress == nil {
		return nil, errors.New("a server over HTTP is reached through the egress guard only")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := organisation + "/" + digest + "/" + person
	l, known := p.links[key]
	if !known {
		l = &link{pool: p, organisation: organisation, server: s, digest: digest, turn: make(chan struct{}, 1), served: map[string]*remote{}}
		p.links[key] = l
	}
	l.mu.Lock()
	l.egress = egress
	l.mu.Unlock()
	return l, nil
}

// folder is where a server's process works: its own.
func (p *Pool) folder(organisation, name string) string {
	return filepath.Join(p.config.Folder, organisation, name)
}

// Close ends every session and what goes on beside them.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.shut = true
	links := p.links
	p.links = map[string]*link{}
	p.mu.Unlock()
	p.cancel()
	for _, l := range links {
		l.drop(nil)
	}
	p.tasks.Wait()
	return nil
}

// beside does something that no call waits for, unless the pool is closed.
func (p *Pool) beside(task func(ctx context.Context)) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shut {
		return false
	}
	p.tasks.Go(func() { task(p.ctx) })
	return true
}

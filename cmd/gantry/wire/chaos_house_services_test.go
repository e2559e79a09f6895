//go:build services && unix

package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/wire"
)

// scenarios and violations count what the chaos tests of this process did, and
// in how many of it something was broken.
var scenarios, violations atomic.Int32

var _ = last(func() {
	if scenarios.Load() > 0 {
		fmt.Printf("level: L5 scenarios %d, violations %d\n", scenarios.Load(), violations.Load())
	}
})

// scenario counts one, and whether something of it is broken in the end.
func scenario(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		scenarios.Add(1)
		if t.Failed() {
			violations.Add(1)
		}
	})
}

// proxy stands between a process and a server, and can do to what passes what
// networks do.
type proxy struct {
	t        *testing.T
	listener net.Listener
	tasks    conc.WaitGroup

	mu     sync.Mutex
	target string
	pairs  map[*pair]bool
	gate   chan struct{} // closed while answers pass
	// asks sees what a client sends, before it is passed on. It returns how many
	// bytes of it pass, and whether the pair is cut then; nil for all of it.
	asks func(p *pair, sent []byte) (pass int, cut bool)
}

// pair is one connection through a proxy.
type pair struct {
	client, server net.Conn
	deaf           atomic.Bool // cut when the server answers
}

func (p *pair) close() { _, _ = p.client.Close(), p.server.Close() }

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	open := make(chan struct{})
	close(open)
	p := &proxy{t: t, listener: listener, target: target, pairs: map[*pair]bool{}, gate: open}
	p.tasks.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.cut()
		p.tasks.Wait()
	})
	return p
}

func (p *proxy) address() string { return p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := (&net.Dialer{}).DialContext(context.WithoutCancel(p.t.Context()), "tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		both := &pair{client: client, server: server}
		p.mu.Lock()
		p.pairs[both] = true
		p.mu.Unlock()
		p.tasks.Go(func() { p.forth(both) })
		p.tasks.Go(func() { p.back(both) })
	}
}

const passesAtOnce = 1 << 20

// forth passes what the client sends.
func (p *proxy) forth(both *pair) {
	defer both.close()
	buffer := make([]byte, passesAtOnce)
	for {
		n, err := both.client.Read(buffer)
		if err != nil {
			return
		}
		p.mu.Lock()
		asks := p.asks
		p.mu.Unlock()
		cut := false
		if asks != nil {
			n, cut = asks(both, buffer[:n])
		}
		if _, err := both.server.Write(buffer[:n]); err != nil || cut {
			return
		}
	}
}

// back passes what the server answers.
func (p *proxy) back(both *pair) {
	defer func() {
		both.close()
		p.mu.Lock()
		delete(p.pairs, both)
		p.mu.Unlock()
	}()
	buffer := make([]byte, passesAtOnce)
	for {
		n, err := both.server.Read(buffer)
		if err != nil || both.deaf.Load() {
			return
		}
		p.mu.Lock()
		gate := p.gate
		p.mu.Unlock()
		<-gate
		if _, err := both.client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// hold keeps every answer back until it is let go.
func (p *proxy) hold() (let func()) {
	gate := make(chan struct{})
	p.mu.Lock()
	p.gate = gate
	p.mu.Unlock()
	let = sync.OnceFunc(func() { close(gate) })
	p.t.Cleanup(let)
	return let
}

// watch lets what clients send from now on pass by somebody.
func (p *proxy) watch(asks func(both *pair, sent []byte) (pass int, cut bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asks = asks
}

// cut ends every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for both := range p.pairs {
		both.close()
	}
}

// aim lets connections from now on go elsewhere.
func (p *proxy) aim(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// through is the address of a database by way of a proxy.
func through(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	target, err := url.Parse(database)
	require.NoError(t, err)
	p := newProxy(t, target.Host)
	target.Host = p.address()
	return p, target.String()
}

// busy is the organisation of many runs that act on one invoice: none of them
// looks whether the others did.
func busy(t *testing.T, outside string) agents.Organisation {
	t.Helper()
	o := small(t, wayApproved, outside)
	o.Agents[0].Completion = agents.Completion{}
	return o
}

var _ = register("CHAOS", obedient)

// obedient is a process that goes on until it is told to end by SIGTERM. It says
// where it listens when it has begun.
func obedient(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM)
	defer stop()
	var told member
	if err := json.Unmarshal([]byte(os.Getenv("CHAOS")), &told); err != nil {
		return err
	}
	told.Config.Site = dieAt(told.Site)
	p, err := wire.Open(context.WithoutCancel(ctx), told.Config)
	if err != nil {
		return err
	}
	fmt.Println(p.Address())
	<-ctx.Done()
	return p.Close()
}

// employ starts a process that goes on until it is told to end, and waits until
// it has begun.
func employ(t *testing.T, config wire.Config, site string) *process {
	t.Helper()
	told, err := json.Marshal(member{Config: config, Site: site})
	require.NoError(t, err)
	p := &process{t: t, command: exec.CommandContext(t.Context(), os.Args[0])}
	p.command.Env = append(os.Environ(), "CHAOS="+string(told))
	p.command.Stderr = os.Stderr
	output, err := p.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.command.Start())
	t.Cleanup(func() { _ = p.command.Process.Kill() })
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err, "the process did not begin")
	p.address = strings.TrimSpace(line)
	return p
}

// dismiss tells a process to end, and waits until it has.
func (p *process) dismiss() {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Signal(syscall.SIGTERM))
	require.NoError(p.t, p.command.Wait(), "its exit code is 0")
}

// frozen is a process that stands still wherever it was told to.
type frozen struct {
	t       *testing.T
	command *exec.Cmd
	said    bytes.Buffer
}

// freeze starts a process at a place and waits until it stands still.
func (h *crashHouse) freeze(t *testing.T, told crash) *frozen {
	t.Helper()
	raw, err := json.Marshal(told)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience) // one that never stands still ends the wait for it
	t.Cleanup(cancel)
	f := &frozen{t: t, command: exec.CommandContext(ctx, os.Args[0])}
	f.command.Env = append(os.Environ(), "CRASH="+string(raw))
	f.command.Stdout, f.command.Stderr = &f.said, os.Stderr
	require.NoError(t, f.command.Start())
	t.Cleanup(func() { _ = f.command.Process.Kill() })
	f.still()
	return f
}

// still waits until the process stands still.
func (f *frozen) still() {
	f.t.Helper()
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(f.command.Process.Pid, &status, syscall.WUNTRACED, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		require.NoError(f.t, err)
		break
	}
	require.True(f.t, status.Stopped(), "it ended with %d: %s", status.ExitStatus(), f.said.String())
}

// goOn lets it go on.
func (f *frozen) goOn() {
	f.t.Helper()
	require.NoError(f.t, f.command.Process.Signal(syscall.SIGCONT))
}

// ends waits until the process has come to the end of its run.
func (f *frozen) ends() {
	f.t.Helper()
	require.NoError(f.t, f.command.Wait(), "it hears of the end, and stops")
}

// classed gives the effect of a house's agent another class.
func classed(h *house, class string) {
	h.organisation.Tools = slices.Clone(h.organisation.Tools)
	for i := range h.organisation.Tools {
		if h.organisation.Tools[i].Name == "ledger.post_adjustment" {
			h.organisation.Tools[i].Class = classOf[class]
		}
	}
}

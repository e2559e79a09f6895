package wire_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
)

// pipes is a listener whose connections are in memory, so that the clock of a
// test holds for them.
type pipes struct {
	waiting chan net.Conn
	closed  chan struct{}
	close   func()
}

func newPipes() *pipes {
	p := &pipes{waiting: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.waiting:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.close(); return nil }
func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

func (p *pipes) dial() net.Conn {
	ours, theirs := net.Pipe()
	p.waiting <- theirs
	return ours
}

// serving runs a test against a server under the test's own clock.
func serving(t *testing.T, most int, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		server := wire.NewHTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				return
			}
			_, _ = io.WriteString(w, "served")
		}), slog.New(slog.DiscardHandler))
		var tasks conc.WaitGroup
		tasks.Go(func() { _ = server.Serve(wire.Bound(p, most)) })
		test(t, p)
		require.NoError(t, server.Close())
		tasks.Wait()
	})
}

// lasts is how long a connection lives on which something is said every second.
func lasts(conn net.Conn, said func(second int) string) time.Duration {
	begun := time.Now()
	var tasks conc.WaitGroup
	gone := make(chan struct{})
	tasks.Go(func() {
		_, _ = io.Copy(io.Discard, conn)
		close(gone)
	})
	for second := 0; ; second++ {
		if text := said(second); text != "" {
			if _, err := io.WriteString(conn, text); err != nil {
				break
			}
		}
		select {
		case <-gone:
		case <-time.After(time.Second):
			continue
		}
		break
	}
	_ = conn.Close()
	tasks.Wait()
	return time.Since(begun)
}

func TestFault_J15_WhoTricklesOrIdlesIsDisconnected(t *testing.T) {
	for name, one := range map[string]struct {
		most time.Duration
		said func(second int) string
	}{
		"a head that never ends": {11 * time.Second, func(second int) string {
			if second == 0 {
				return "POST /graphql HTTP/1.1\r\n"
			}
			return fmt.Sprintf("X-%d: y\r\n", second)
		}},
		"a body that never ends": {31 * time.Second, func(second int) string {
			if second == 0 {
				return "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
			}
			return "x"
		}},
		"nothing at all": {11 * time.Second, func(int) string { return "" }},
		"nothing after a request": {121 * time.Second, func(second int) string {
			if second == 0 {
				return "POST /graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"
			}
			return ""
		}},
	} {
		t.Run(name, func(t *testing.T) {
			serving(t, 10, func(t *testing.T, p *pipes) {
				require.LessOrEqual(t, lasts(p.dial(), one.said), one.most)
			})
		})
	}
}

// What is too many is turned away, what is open goes on, and what is closed
// makes room.
func TestFault_J15_ConnectionsAreBounded(t *testing.T) {
	serving(t, 2, func(t *testing.T, p *pipes) {
		ask := func(conn net.Conn) error {
			if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return err
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, response.Body)
			return err
		}
		first, second := p.dial(), p.dial()
		require.NoError(t, ask(first))
		require.NoError(t, ask(second))
		for range 100 {
			third := p.dial()
			require.Error(t, ask(third))
			require.NoError(t, third.Close())
		}
		require.NoError(t, ask(first))
		require.NoError(t, second.Close())
		synctest.Wait()
		fourth := p.dial()
		require.NoError(t, ask(fourth))
		require.NoError(t, first.Close())
		require.NoError(t, fourth.Close())
	})
}

package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/mcp"
)

// asked is a message that a raw server got.
type asked struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name   string `json:"name"`
		Cursor string `json:"cursor"`
	} `json:"params"`
}

// raw is a server without any library: what it says is what a test says.
type raw struct {
	in    *bufio.Reader // what it was sent
	out   io.Writer
	ended chan struct{} // closed when it was ended
}

// say writes one line.
func (r *raw) say(format string, args ...any) bool {
	_, err := fmt.Fprintf(r.out, format+"\n", args...)
	return err == nil
}

// reply answers a request.
func (r *raw) reply(a asked, result string) bool {
	return r.say(`{"jsonrpc":"2.0","id":%s,"result":%s}`, a.ID, result)
}

// hear reads the next message; false at the end.
func (r *raw) hear() (a asked, ok bool) {
	line, err := r.in.ReadBytes('\n')
	if err != nil {
		return a, false
	}
	return a, json.Unmarshal(line, &a) == nil
}

// echo is the one tool of most raw servers.
const echo = `{"name":"echo","inputSchema":{"type":"object"}}`

// polite answers what every server must, and reports whether it did.
func (r *raw) polite(a asked) bool {
	switch a.Method {
	case "initialize":
		return r.reply(a, `{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}`)
	case "tools/list":
		return r.reply(a, `{"tools":[`+echo+`]}`)
	case "tools/call":
		return r.reply(a, `{"content":[{"type":"text","text":"done"}]}`)
	}
	if strings.HasPrefix(a.Method, "notifications/") {
		return true
	}
	return r.say(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, a.ID)
}

// serves has a bench start raw servers in place of processes.
func serves(serve func(r *raw)) func(*mcp.Config) {
	return func(c *mcp.Config) {
		c.Start = func(context.Context, mcp.Command) (mcp.Process, error) {
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			p := &rawProcess{Reader: fromServer, Writer: toServer, ended: make(chan struct{}), close: func() { _ = in.Close(); _ = fromServer.Close() }}
			go func() {
				defer out.Close()
				serve(&raw{in: bufio.NewReader(in), out: out, ended: p.ended})
			}()
			return p, nil
		}
	}
}

type rawProcess struct {
	io.Reader
	io.Writer
	once  sync.Once
	ended chan struct{}
	close func()
}

func (p *rawProcess) Close() error {
	p.once.Do(func() { close(p.ended); p.close() })
	return nil
}

func rawServer() server.Server {
	return server.Server{Name: "peer", Transport: server.Stdio, Command: "/raw", Owner: "olga", Contact: "carl"}
}

// brief is a tool that gives up soon.
func brief(d *tool.Definition) { d.Timeout = tool.Duration(500 * time.Millisecond) }

// A storm of changes has one look at a time, and one more after it.
func TestAStormOfChangesIsLookedAtOnce(t *testing.T) {
	var lists atomic.Int64
	quiet := make(chan struct{})
	b := newBench(t, serves(func(r *raw) {
		storm := false
		var held []asked
		for a, ok := r.hear(); ok; a, ok = r.hear() {
			switch {
			case a.Method == "tools/call":
				storm = true
				r.reply(a, `{"content":[]}`)
				for range 300 {
					r.say(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
				}
				r.say(`{"jsonrpc":"2.0","id":"after","method":"ping"}`)
			case storm && a.Method == "tools/list":
				lists.Add(1)
				held = append(held, a)
				if len(held) > 1 { // the look after the first one: all are over
					for _, h := range held {
						r.polite(h)
					}
					held = nil
					r.say(`{"jsonrpc":"2.0","id":"end","method":"ping"}`)
				}
			case a.Method == "" && string(a.ID) == `"after"`: // all changes were heard
				for _, h := range held {
					r.polite(h)
				}
				if held = nil; lists.Load() > 0 {
					held = []asked{}
				}
				r.say(`{"jsonrpc":"2.0","id":"end","method":"ping"}`)
			case a.Method == "" && string(a.ID) == `"end"`:
				select {
				case <-quiet:
				default:
					close(quiet)
				}
			default:
				r.polite(a)
			}
		}
	}))
	of := b.tool(rawServer(), nil, "echo")
	_, failure := call(t, of, `{}`)
	require.Nil(t, failure)
	<-quiet
	require.LessOrEqual(t, lists.Load(), int64(2))
}

// A server that takes nothing any more is ended when a call gives up on it, and
// the next call has another one.
func TestAServerThatStopsReadingIsBegunAnew(t *testing.T) {
	var begun atomic.Int64
	b := newBench(t, serves(func(r *raw) {
		first := begun.Add(1) == 1
		for a, ok := r.hear(); ok; a, ok = r.hear() {
			if r.polite(a); first && a.Method == "notifications/initialized" {
				a, _ = r.hear() // the list that the bench asks for
				r.polite(a)
				<-r.ended
				return
			}
		}
	}))
	of := b.tool(rawServer(), nil, "echo", brief)
	_, failure := call(t, of, `{}`)
	require.NotNil(t, failure)
	require.False(t, failure.Uncertain && failure.Code != tool.FailedTimeout)
	got, failure := call(t, of, `{}`)
	require.Nil(t, failure)
	require.Equal(t, "done", string(got.Content))
	require.Equal(t, int64(2), begun.Load())
}

// A server that asks and asks and takes no answer is ended: what it asks would
// be kept until the machine has no room.
func TestAServerThatFloodsIsEnded(t *testing.T) {
	for name, flood := range map[string]string{
		"requests": `{"jsonrpc":"2.0","id":%d,"method":"ping"}`,
		"notes":    `{"jsonrpc":"2.0","id":0,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":%d}}`,
	} {
		t.Run(name, func(t *testing.T) {
			said := make(chan int, 1)
			b := newBench(t, serves(func(r *raw) {
				for a, ok := r.hear(); ok; a, ok = r.hear() {
					if a.Method != "tools/call" {
						r.polite(a)
						continue
					}
					n := 0
					for n < 200_000 && r.say(flood, n+1) {
						n++
					}
					said <- n
					<-r.ended
					return
				}
			}))
			_, failure := call(t, b.tool(rawServer(), nil, "echo"), `{}`)
			require.NotNil(t, failure)
			require.True(t, failure.Uncertain)
			require.Equal(t, tool.FailedBroken, failure.Code)
			require.Less(t, <-said, 20_000)
		})
	}
}

// A list is not read on for ever, however it is cut into pages.
func TestAListHasABound(t *testing.T) {
	page := fmt.Sprintf(`{"name":"a%%d","description":%q,"inputSchema":{"type":"object"}}`, strings.Repeat("x", 1<<20))
	var pages atomic.Int64
	b := newBench(t, serves(func(r *raw) {
		for a, ok := r.hear(); ok; a, ok = r.hear() {
			if a.Method != "tools/list" {
				r.polite(a)
				continue
			}
			n := pages.Add(1)
			r.reply(a, fmt.Sprintf(`{"tools":[`+page+`],"nextCursor":"%d"}`, n, n))
		}
	}))
	_, err := b.pool.Offers(t.Context(), "acme", rawServer(), nil)
	require.Error(t, err)
	require.Less(t, pages.Load(), int64(40))
}

// nonsense is what a server may say before it answers.
func nonsense() map[string]string {
	return map[string]string{
		"empty batch":          `[]`,
		"batch of nothing":     `[null]`,
		"batch":                `[{"jsonrpc":"2.0","id":7,"method":"ping"},{"jsonrpc":"2.0","id":7,"method":"ping"}]`,
		"null":                 `null`,
		"number":               `7`,
		"other id":             `{"jsonrpc":"2.0","id":999999,"result":{}}`,
		"id of another kind":   `{"jsonrpc":"2.0","id":{"a":1},"result":{}}`,
		"no params":            `{"jsonrpc":"2.0","method":"notifications/progress"}`,
		"params of a list":     `{"jsonrpc":"2.0","method":"notifications/progress","params":[]}`,
		"asks without words":   `{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`,
		"asks nothing":         `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}`,
		"asks oddly":           `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"mode":"dance","message":7,"requestedSchema":[]}}`,
		"asks with a bomb":     `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{"a":{"$ref":"#"}},"$ref":"#"}}}`,
		"samples":              `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"}`,
		"roots":                `{"jsonrpc":"2.0","id":1,"method":"roots/list"}`,
		"cancels":              `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		"cancels nothing":      `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
		"logs":                 `{"jsonrpc":"2.0","method":"notifications/message"}`,
		"result and error":     `{"jsonrpc":"2.0","id":2,"result":{},"error":{"code":1,"message":"x"}}`,
		"deep":                 `{"jsonrpc":"2.0","method":"x","params":` + strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000) + `}`,
		"prompt list changed":  `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`,
		"resource changed":     `{"jsonrpc":"2.0","method":"notifications/resources/updated"}`,
		"elicitation complete": `{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`,
		"unlisted":             `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":7}`,
	}
}

// Whatever a server says before its answer, and if it answers twice, it costs
// the call and nothing else.
func TestNonsenseCostsTheCallOnly(t *testing.T) {
	for name, said := range nonsense() {
		t.Run("stdio, "+name, func(t *testing.T) {
			b := newBench(t, serves(func(r *raw) {
				for a, ok := r.hear(); ok; a, ok = r.hear() {
					if a.Method == "tools/call" {
						r.say("%s", said)
						r.polite(a)
					}
					r.polite(a)
				}
			}))
			requireContained(t, b.tool(rawServer(), nil, "echo"))
		})
		t.Run("http, "+name, func(t *testing.T) {
			b := newBench(t)
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
				var a asked
				if request.Method != http.MethodPost || json.NewDecoder(request.Body).Decode(&a) != nil || a.Method == "" || len(a.ID) == 0 {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				var reply strings.Builder
				(&raw{out: &reply}).polite(a)
				w.Header().Set("Content-Type", "text/event-stream")
				if a.Method == "tools/call" {
					_, _ = fmt.Fprintf(w, "data: %s\n\ndata: %s\n\n", said, strings.TrimSpace(reply.String()))
				}
				_, _ = fmt.Fprintf(w, "data: %s\n\n", strings.TrimSpace(reply.String()))
			}))
			t.Cleanup(web.Close)
			s := server.Server{Name: "peer", Transport: server.HTTP, URL: web.URL, Owner: "olga", Contact: "carl"}
			requireContained(t, b.tool(s, egressTo(t, web.URL), "echo", brief))
		})
	}
}

// requireContained holds that a call fails for itself only, if it fails.
func requireContained(t *testing.T, of tool.Tool) {
	t.Helper()
	if _, failure := call(t, of, `{}`); failure != nil {
		require.NotEqual(t, tool.FailedPanic, failure.Code)
		require.True(t, failure.Uncertain)
	}
}

// Holes in lists and results are no reason to break.
func TestHolesInAnswers(t *testing.T) {
	for name, answers := range map[string]map[string]string{
		"no tool":     {"tools/list": `{"tools":[null]}`},
		"no schema":   {"tools/list": `{"tools":[{"name":"echo"}]}`},
		"no content":  {"tools/call": `{"content":[null]}`},
		"null":        {"tools/call": `null`},
		"no requests": {"tools/call": `{"resultType":"input_required","inputRequests":{"a":null}}`},
		"no resource": {"resources/read": `{"contents":[null]}`},
		"no message":  {"prompts/get": `{"messages":[null]}`},
		"no block":    {"prompts/get": `{"messages":[{"role":"user"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			var acting atomic.Bool
			b := newBench(t, serves(func(r *raw) {
				for a, ok := r.hear(); ok; a, ok = r.hear() {
					if answer, has := answers[a.Method]; has && acting.Load() {
						r.reply(a, answer)
						continue
					}
					r.polite(a)
				}
			}))
			for _, name := range []string{"echo", tool.ReadResource, tool.GetPrompt} {
				acting.Store(false)
				of := b.tool(rawServer(), nil, name)
				acting.Store(true)
				_, failure := call(t, of, `{"uri":"a:b","name":"c"}`)
				if failure != nil {
					require.NotEqual(t, tool.FailedPanic, failure.Code)
				}
			}
			_, err := b.pool.Offers(t.Context(), "acme", rawServer(), nil)
			_ = err // it came back
		})
	}
}

// What a process started and what left its group holds nobody up by keeping the
// output open.
func TestAProcessThatLeavesOthersBehindIsClosed(t *testing.T) {
	setsid, err := exec.LookPath("setsid")
	require.NoError(t, err)
	pid := filepath.Join(t.TempDir(), "pid")
	process, err := mcp.Plain(t.Context(), mcp.Command{Folder: t.TempDir(), Environment: []string{"PATH=" + os.Getenv("PATH")}, Server: server.Server{Name: "peer", Transport: server.Stdio,
		Command: "/bin/sh", Args: []string{"-c", setsid + ` sh -c 'echo $$ > ` + pid + `; echo left; exec sleep 1000' & cat`}}})
	require.NoError(t, err)
	left := make([]byte, 5)
	_, err = io.ReadFull(process, left)
	require.NoError(t, err)
	text, err := os.ReadFile(pid)
	require.NoError(t, err)
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = syscall.Kill(id, syscall.SIGKILL) })
	require.NoError(t, process.Close())
}

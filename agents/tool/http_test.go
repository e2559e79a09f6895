package tool_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// vault gives one secret for one audience.
type vault struct{ audience, secret string }

func (v vault) Secret(_ context.Context, use credential.Use) (credential.Secret, error) {
	if use.Reference != "ledger-token" || use.Audience != v.audience {
		return credential.Secret{}, errors.New("no such secret")
	}
	return credential.Bound(v.secret, use.Audience), nil
}

// remote is an HTTP tool whose other side is a test server.
type remote struct {
	server     *httptest.Server
	definition tool.Definition
	http       tool.HTTPServer
	also       []tool.Destination
	resolver   tool.Resolver
}

func newRemote(t *testing.T, class policy.EffectClass, handler http.HandlerFunc) *remote {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	r := &remote{server: server, definition: refund()}
	r.definition.Kind, r.definition.Class, r.definition.Credential = tool.KindHTTP, class, "ledger-token"
	r.definition.Result.Integrity = policy.FromTool
	r.http = tool.HTTPServer{
		Method: http.MethodPost, URL: server.URL + "/v1/invoices/{/invoice}?notify={/notify}&when={/when}",
		Body:              map[string]string{"cents": "/amountCents", "tags": "/tags", "note": "/notes"},
		Headers:           map[string]string{"X-Fixed": "yes"},
		Auth:              &tool.HTTPAuth{Scheme: "bearer"},
		IdempotencyHeader: "Idempotency-Key", ActorHeader: "X-Acting-Chain",
		Query: &tool.HTTPQuery{Method: http.MethodGet, URL: server.URL + "/v1/adjustments?key={key}", Found: "/entries/0"},
	}
	if class == policy.ClassRead {
		r.definition.Impact = policy.ImpactRead
		r.http.Method, r.http.Body = http.MethodGet, nil
	}
	return r
}

func destination(t *testing.T, address string) tool.Destination {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	port, err := strconv.Atoi(u.Port())
	require.NoError(t, err)
	return tool.Destination{Host: u.Hostname(), Port: port, Internal: true}
}

func (r *remote) tool(t *testing.T) tool.Tool {
	t.Helper()
	server, err := json.Marshal(r.http)
	require.NoError(t, err)
	r.definition.Server = server
	egress, err := tool.NewEgress(append(r.also, destination(t, r.server.URL)), r.resolver, nil)
	require.NoError(t, err)
	built, err := tool.NewHTTP(r.definition, egress, vault{r.server.URL, "s3cret"})
	require.NoError(t, err)
	return built
}

var refundCall = tool.Invocation{
	Run: "run-1", Key: "key-1", Actor: []string{"person:ada", "agent:billing, eu"},
	Arguments: []byte(`{"amountCents":9007199254740991,"invoice":"INV-017","notes":{"a":"<b>"},"notify":true}`),
}

func (r *remote) invoke(t *testing.T) (tool.Result, error) {
	t.Helper()
	return tool.Invoke(t.Context(), r.tool(t), refundCall)
}

func TestHTTPSendsWhatIsDeclared(t *testing.T) {
	var got *http.Request
	var body []byte
	r := newRemote(t, policy.Keyed, func(w http.ResponseWriter, request *http.Request) {
		got = request
		body, _ = io.ReadAll(request.Body)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"id":"a-1"}`))
	})
	result, err := r.invoke(t)
	require.NoError(t, err)
	require.Equal(t, tool.Result{Content: []byte(`{"id":"a-1"}`), MediaType: tool.MediaJSON, Size: 12, Marking: policy.Marking{Integrity: policy.FromTool}}, result)

	require.Equal(t, "POST", got.Method)
	require.Equal(t, "/v1/invoices/INV-017?notify=true", got.RequestURI, "an absent argument leaves its parameter out")
	require.Equal(t, "Bearer s3cret", got.Header.Get("Authorization"))
	require.Equal(t, "key-1", got.Header.Get("Idempotency-Key"))
	require.Equal(t, "person%3Aada,agent%3Abilling%2C+eu", got.Header.Get("X-Acting-Chain"))
	require.Equal(t, "yes", got.Header.Get("X-Fixed"))
	require.Equal(t, "", got.Header.Get("Accept-Encoding"))
	require.True(t, got.Close, "a connection serves one request: the library repeats requests on kept ones")
	require.JSONEq(t, `{"cents":9007199254740991,"note":{"a":"<b>"}}`, string(body))

	r.http.Body = nil
	_, err = r.invoke(t)
	require.NoError(t, err)
	require.Equal(t, string(refundCall.Arguments), string(body), "exactly the recorded bytes")

	r.http.Auth = &tool.HTTPAuth{Scheme: "header", Header: "X-Api-Key"}
	_, err = r.invoke(t)
	require.NoError(t, err)
	require.Equal(t, "s3cret", got.Header.Get("X-Api-Key"))
	require.Empty(t, got.Header.Get("Authorization"))
}

func TestHTTPArgumentsStayInTheirPlace(t *testing.T) {
	var uri string
	r := newRemote(t, policy.ClassRead, func(_ http.ResponseWriter, request *http.Request) { uri = request.RequestURI })
	r.definition.Input = json.RawMessage(`{"type":"object","properties":{"invoice":{"type":"string"},"q":{"type":"string"}}}`)
	r.definition.Facts, r.definition.Control = nil, nil
	r.http.URL = r.server.URL + "/v1/{/invoice}/x?q={/q}&fixed=1"
	built := r.tool(t)
	for invoice, want := range map[string]string{
		"a/b":         "/v1/a%2Fb/x?fixed=1",
		"a?b=c#d":     "/v1/a%3Fb=c%23d/x?fixed=1",
		"a%2e":        "/v1/a%252e/x?fixed=1",
		"ü\r\nX: y":   "/v1/%C3%BC%0D%0AX:%20y/x?fixed=1",
		"@evil.org":   "/v1/@evil.org/x?fixed=1",
		"..":          "",
		".":           "",
		"":            "",
		"../../admin": "/v1/..%2F..%2Fadmin/x?fixed=1",
	} {
		raw, err := json.Marshal(map[string]string{"invoice": invoice})
		require.NoError(t, err)
		uri = ""
		_, err = tool.Invoke(t.Context(), built, tool.Invocation{Arguments: raw})
		require.Equal(t, want, uri, invoice)
		require.Equal(t, want == "", err != nil)
	}
	raw, err := json.Marshal(map[string]string{"invoice": "a", "q": "1&fixed=2#x"})
	require.NoError(t, err)
	_, err = tool.Invoke(t.Context(), built, tool.Invocation{Arguments: raw})
	require.NoError(t, err)
	require.Equal(t, "/v1/a/x?q=1%26fixed%3D2%23x&fixed=1", uri)
}

func TestHTTPStatusDecides(t *testing.T) {
	for status, want := range map[int]string{
		200: "done", 201: "done", 202: "done", 204: "done",
		400: "not done", 404: "not done", 409: "not done", 422: "not done",
		206: "unknown", 302: "unknown", 307: "unknown", 408: "unknown", 429: "unknown", 500: "unknown", 502: "unknown", 503: "unknown",
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			var calls atomic.Int32
			r := newRemote(t, policy.Opaque, func(w http.ResponseWriter, _ *http.Request) {
				calls.Add(1)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
			})
			result, err := r.invoke(t)
			require.EqualValues(t, 1, calls.Load(), "one attempt, one request")
			switch want {
			case "done":
				require.NoError(t, err)
				require.False(t, result.Failed)
			case "not done":
				require.NoError(t, err)
				require.True(t, result.Failed)
			default:
				require.Equal(t, tool.FailedStatus, failureOf(t, err).Code)
				require.True(t, failureOf(t, err).Uncertain)
			}
		})
	}
}

func TestFault_E8_ABrokenStreamOfAMutatingCallIsUncertain(t *testing.T) {
	hijack := func(write string) http.HandlerFunc {
		return func(w http.ResponseWriter, request *http.Request) {
			_, _ = io.Copy(io.Discard, request.Body) // the effect
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, write)
				_ = conn.Close()
			}
		}
	}
	for name, written := range map[string]string{
		"before any byte":   "",
		"in the status":     "HTTP/1.1 20",
		"in the headers":    "HTTP/1.1 201 Created\r\nContent-Type: appl",
		"in the body":       "HTTP/1.1 201 Created\r\nContent-Length: 100\r\n\r\n{\"id\"",
		"in a chunk":        "HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"i",
		"garbage":           "SSH-2.0-OpenSSH\r\n\r\n",
		"headers too large": "HTTP/1.1 201 Created\r\nX: " + strings.Repeat("x", 100<<10) + "\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newRemote(t, policy.Keyed, hijack(written)).invoke(t)
			require.Equal(t, tool.FailedBroken, failureOf(t, err).Code)
			require.True(t, failureOf(t, err).Uncertain)

			_, err = newRemote(t, policy.ClassRead, hijack(written)).invoke(t)
			require.False(t, failureOf(t, err).Uncertain, "reading has no effect")
		})
	}
	result, err := newRemote(t, policy.Keyed, hijack("HTTP/1.1 422 No\r\nContent-Length: 100\r\n\r\nno")).invoke(t)
	require.NoError(t, err)
	require.True(t, result.Failed, "the status said it")
}

func TestHTTPWhatWasNeverSentIsCertain(t *testing.T) {
	r := newRemote(t, policy.Opaque, func(http.ResponseWriter, *http.Request) {})
	built := r.tool(t)
	r.server.Close()
	_, err := tool.Invoke(t.Context(), built, refundCall)
	require.Equal(t, tool.FailedUnreachable, failureOf(t, err).Code)
	require.False(t, failureOf(t, err).Uncertain)

	var calls atomic.Int32
	r = newRemote(t, policy.Opaque, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	r.definition.Credential = "other-token"
	_, err = r.invoke(t)
	require.Equal(t, tool.FailedCredential, failureOf(t, err).Code)
	require.False(t, failureOf(t, err).Uncertain)
	require.NotContains(t, err.Error(), "no such secret")

	r = newRemote(t, policy.Opaque, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	bad := refundCall
	bad.Key = "a\r\nX-Injected: 1"
	_, err = tool.Invoke(t.Context(), r.tool(t), bad)
	require.False(t, failureOf(t, err).Uncertain)
	require.Zero(t, calls.Load())
}

func TestFault_E1_AServerThatHangsOrTrickles(t *testing.T) {
	gone := make(chan struct{})
	for name, handler := range map[string]http.HandlerFunc{
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		},
		"trickles": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, err := w.Write([]byte("."))
				_ = http.NewResponseController(w).Flush()
				select {
				case <-r.Context().Done():
				case <-gone:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if err != nil {
					return
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRemote(t, policy.Opaque, handler)
			r.definition.Timeout = tool.Duration(100 * time.Millisecond)
			r.definition.ResultBytes = 1 << 20
			_, err := r.invoke(t)
			require.Contains(t, []string{tool.FailedTimeout, tool.FailedBroken}, failureOf(t, err).Code)
			require.True(t, failureOf(t, err).Uncertain)
		})
	}
	close(gone)
}

func TestFault_E2_AServerThatFloods(t *testing.T) {
	block := bytes.Repeat([]byte("a"), 64<<10)
	r := newRemote(t, policy.ClassRead, func(w http.ResponseWriter, _ *http.Request) {
		for range 160 { // 10 MB, if anybody reads them
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	})
	built := r.tool(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, err := tool.Invoke(t.Context(), built, refundCall)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	require.True(t, result.Cut)
	require.Len(t, result.Content, 1000)
	require.Greater(t, result.Size, int64(1000))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4<<20), "all that was ever allocated, both sides of the wire")
}

func TestFault_E2_ACompressedBombStaysCompressed(t *testing.T) {
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, err := zip.Write(make([]byte, 10<<20))
	require.NoError(t, err)
	require.NoError(t, zip.Close())
	r := newRemote(t, policy.ClassRead, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(bomb.Len()))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(bomb.Bytes())
	})
	result, err := r.invoke(t)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(result.Content), "[not text: "+strconv.Itoa(bomb.Len())+" bytes, looks like application/x-gzip"), string(result.Content))
}

func TestFault_E17_RedirectsAreCheckedAgain(t *testing.T) {
	var leaked http.Header
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = r.Header.Clone()
		_, _ = w.Write([]byte("inside"))
	}))
	defer elsewhere.Close()
	for name, c := range map[string]struct {
		to      string
		allowed bool
		code    string
	}{
		"metadata":         {to: "http://169.254.169.254/latest", code: tool.FailedEgress},
		"decimal":          {to: "http://2130706433:" + destPort(t, elsewhere.URL) + "/", code: tool.FailedEgress},
		"mapped":           {to: "http://[::ffff:127.0.0.1]:" + destPort(t, elsewhere.URL) + "/", code: tool.FailedEgress},
		"another port":     {to: elsewhere.URL, code: tool.FailedEgress},
		"another scheme":   {to: "file:///etc/passwd", code: tool.FailedEgress},
		"with credentials": {to: strings.Replace(elsewhere.URL, "http://", "http://a:b@", 1), allowed: true, code: tool.FailedEgress},
		"to itself":        {to: "/again", code: tool.FailedStatus},
		"a listed place":   {to: elsewhere.URL, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			leaked = nil
			r := newRemote(t, policy.ClassRead, func(w http.ResponseWriter, request *http.Request) {
				http.Redirect(w, request, c.to, http.StatusFound)
			})
			if c.allowed {
				r.also = []tool.Destination{destination(t, elsewhere.URL)}
			}
			result, err := r.invoke(t)
			if c.code != "" {
				require.Equal(t, c.code, failureOf(t, err).Code)
				require.Nil(t, leaked)
				return
			}
			require.NoError(t, err)
			require.Equal(t, "inside", string(result.Content))
			for _, name := range []string{"Authorization", "X-Acting-Chain", "Idempotency-Key", "X-Fixed"} {
				require.Empty(t, leaked.Get(name), "what identifies us stays at home")
			}
		})
	}
}

func destPort(t *testing.T, address string) string {
	t.Helper()
	return strconv.Itoa(destination(t, address).Port)
}

func TestHTTPReachesInternalNames(t *testing.T) {
	r := newRemote(t, policy.ClassRead, func(http.ResponseWriter, *http.Request) {})
	r.resolver = names{"ledger.internal": {{"127.0.0.1"}}}
	r.http.URL = "http://ledger.internal:" + destPort(t, r.server.URL) + "/"
	r.also = []tool.Destination{{Host: "ledger.internal", Port: destination(t, r.server.URL).Port, Internal: true}}
	r.http.Auth, r.definition.Credential = nil, ""
	_, err := r.invoke(t)
	require.NoError(t, err)
}

var _ tool.Resolver = (*net.Resolver)(nil)

package ledger_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sourcegraph/conc/pool"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/ledger"
)

const (
	token = "token-of-gantry-1234"
	other = "token-of-another-123"
	good  = `{"invoice":"INV-017","amountCents":-1250,"currency":"EUR","reason":"Damaged on arrival"}`
)

// client speaks to a ledger over HTTP.
type client struct {
	t     *testing.T
	base  string
	token string
}

func open(t *testing.T, path string, beforeReply func(*http.Request)) client {
	t.Helper()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l, err := ledger.New(t.Context(), ledger.Config{
		Path: path, Tokens: map[string]string{token: "gantry", other: "another"},
		Clock: func() time.Time { return at }, BeforeReply: beforeReply,
	})
	require.NoError(t, err)
	server := httptest.NewServer(l.Handler())
	t.Cleanup(func() {
		server.Close()
		require.NoError(t, l.Close())
	})
	return client{t, server.URL, token}
}

func newClient(t *testing.T) client { return open(t, filepath.Join(t.TempDir(), "a ledger?#.db"), nil) }

func (c client) do(method, path, body string, headers ...string) (int, string) {
	c.t.Helper()
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.base+path, strings.NewReader(body))
	require.NoError(c.t, err)
	request.Header.Set("Authorization", "Bearer "+c.token)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(c.t, err)
	require.Equal(c.t, "application/json", response.Header.Get("Content-Type"))
	return response.StatusCode, string(text)
}

func (c client) post(key, body string) (int, string) {
	c.t.Helper()
	return c.do("POST", "/v1/adjustments", body, "Idempotency-Key", key, "X-Acting-Chain", "person%3Aada,agent%3Abilling%2C+eu")
}

func (c client) get(path string) string {
	c.t.Helper()
	status, text := c.do("GET", path, "")
	require.Equal(c.t, 200, status, text)
	return text
}

const booked = `{"id":"adj-000001","invoice":"INV-017","amountCents":-1250,"currency":"EUR","reason":"Damaged on arrival",
	"actor":{"client":"gantry","chain":["person:ada","agent:billing, eu"]},"key":"key-1","createdAt":"2026-03-01T12:00:00Z"}`

func TestBooksOncePerKey(t *testing.T) {
	c := newClient(t)
	status, first := c.post("key-1", good)
	require.Equal(t, 201, status)
	require.JSONEq(t, booked, first)

	status, again := c.post("key-1", ` {"reason":"Damaged on arrival","currency":"EUR","amountCents":-1250,"invoice":"INV-017"}`)
	require.Equal(t, 200, status)
	require.Equal(t, first, again)

	for _, changed := range []string{
		strings.Replace(good, "1250", "1251", 1), strings.Replace(good, "017", "018", 1),
		strings.Replace(good, "EUR", "USD", 1), strings.Replace(good, "arrival", "return", 1),
	} {
		status, text := c.post("key-1", changed)
		require.Equal(t, 409, status)
		require.Contains(t, text, "KEY_REUSED")
	}
	require.JSONEq(t, `{"count":1}`, c.get("/v1/count"))

	status, _ = c.post("key-2", good)
	require.Equal(t, 201, status)
	c.token = other
	status, text := c.post("key-1", good)
	require.Equal(t, 201, status, "keys belong to their client")
	require.Contains(t, text, `"client":"another"`)
	require.JSONEq(t, `{"count":3}`, c.get("/v1/count"))
}

func TestReads(t *testing.T) {
	c := newClient(t)
	require.JSONEq(t, `{"entries":[]}`, c.get("/v1/adjustments?key=key-1"))
	_, first := c.post("key-1", good)
	_, second := c.post("key-2", strings.Replace(good, "1250", "1", 1))
	first, second = strings.TrimSpace(first), strings.TrimSpace(second)

	require.JSONEq(t, `{"entries":[`+first+`]}`, c.get("/v1/adjustments?key=key-1"))
	require.JSONEq(t, `{"entries":[`+first+`,`+second+`]}`, c.get("/v1/adjustments?invoice=INV-017"))
	require.JSONEq(t, `{"entries":[]}`, c.get("/v1/adjustments?invoice=INV-018"))
	require.JSONEq(t, first, c.get("/v1/adjustments/adj-000001"))
	for _, id := range []string{"adj-000003", "adj-1", "1", "adj-", "adj--00001", "x' OR 1=1 --"} {
		status, text := c.do("GET", "/v1/adjustments/"+url.PathEscape(id), "")
		require.Equal(t, 404, status, text)
	}
	for _, query := range []string{"", "?key=a&invoice=b", "?x=1"} {
		status, _ := c.do("GET", "/v1/adjustments"+query, "")
		require.Equal(t, 400, status)
	}
	c.token = other
	require.JSONEq(t, `{"entries":[]}`, c.get("/v1/adjustments?key=key-1"), "another client's key")
	require.Contains(t, c.get("/v1/adjustments?invoice=INV-017"), "key-1", "the books are shared")
}

func TestRefusesBadRequestsWhole(t *testing.T) {
	c := newClient(t)
	for name, r := range map[string]struct {
		body, key, chain string
		status           int
		code             string
	}{
		"no key":              {good, "", "", 400, "KEY_INVALID"},
		"long key":            {good, strings.Repeat("k", 201), "", 400, "KEY_INVALID"},
		"chain":               {good, "k", "a,,b", 400, "CHAIN_INVALID"},
		"escape in chain":     {good, "k", "%zz", 400, "CHAIN_INVALID"},
		"no JSON":             {"x", "k", "", 400, "BODY_INVALID"},
		"nothing":             {"", "k", "", 400, "BODY_INVALID"},
		"list":                {"[]", "k", "", 400, "BODY_INVALID"},
		"two values":          {good + good, "k", "", 400, "BODY_INVALID"},
		"unknown key":         {strings.Replace(good, "{", `{"approved":true,`, 1), "k", "", 400, "BODY_INVALID"},
		"fraction":            {strings.Replace(good, "-1250", "12.5", 1), "k", "", 400, "BODY_INVALID"},
		"text for a number":   {strings.Replace(good, "-1250", `"12"`, 1), "k", "", 400, "BODY_INVALID"},
		"too long":            {strings.Replace(good, "Damaged", strings.Repeat("x", 20<<10), 1), "k", "", 400, "BODY_INVALID"},
		"zero":                {strings.Replace(good, "-1250", "0", 1), "k", "", 422, "amountCents"},
		"too much":            {strings.Replace(good, "-1250", "1000000000001", 1), "k", "", 422, "amountCents"},
		"no invoice":          {`{"amountCents":1,"currency":"EUR","reason":"x"}`, "k", "", 422, "invoice"},
		"odd invoice":         {strings.Replace(good, "INV-017", "../x", 1), "k", "", 422, "invoice"},
		"currency":            {strings.Replace(good, "EUR", "eur", 1), "k", "", 422, "currency"},
		"reason":              {strings.Replace(good, "Damaged on arrival", " ", 1), "k", "", 422, "reason"},
		"everything together": {`{}`, "k", "", 422, "invoice must be 1 to 64 letters, digits, dots, dashes and underscores; amountCents"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := c.do("POST", "/v1/adjustments", r.body, "Idempotency-Key", r.key, "X-Acting-Chain", r.chain)
			require.Equal(t, r.status, status, text)
			require.Contains(t, text, r.code)
		})
	}
	require.JSONEq(t, `{"count":0}`, c.get("/v1/count"))
}

func TestNeedsAToken(t *testing.T) {
	c := newClient(t)
	for _, header := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + token, "bearer" + token, token} {
		for _, path := range []string{"/v1/count", "/v1/adjustments?key=a", "/v1/adjustments/adj-000001"} {
			status, text := c.do("GET", path, "", "Authorization", header)
			require.Equal(t, 401, status, text)
		}
		status, _ := c.do("POST", "/v1/adjustments", good, "Authorization", header, "Idempotency-Key", "k")
		require.Equal(t, 401, status)
	}
	require.JSONEq(t, `{"count":0}`, c.get("/v1/count"))
}

func TestACutReplyLeavesOneEffect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var cut atomic.Bool
	cut.Store(true)
	c := open(t, path, func(*http.Request) {
		if cut.Swap(false) {
			panic(http.ErrAbortHandler)
		}
	})
	status, _ := c.post("key-1", good)
	require.Zero(t, status, "the caller hears nothing")
	require.JSONEq(t, `{"count":1}`, c.get("/v1/count"))
	status, text := c.post("key-1", good)
	require.Equal(t, 200, status)
	require.JSONEq(t, booked, text)
}

func TestOneEffectForManyAtOnce(t *testing.T) {
	c := newClient(t)
	group := pool.NewWithResults[int]()
	for range 30 {
		group.Go(func() int {
			status, _ := c.post("key-1", good)
			return status
		})
	}
	counted := map[int]int{}
	for _, status := range group.Wait() {
		counted[status]++
	}
	require.Equal(t, map[int]int{201: 1, 200: 29}, counted)
	require.JSONEq(t, `{"count":1}`, c.get("/v1/count"))
}

func TestBooksSurviveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	config := ledger.Config{Path: path, Tokens: map[string]string{token: "gantry"}}
	for restart := range 2 {
		l, err := ledger.New(t.Context(), config)
		require.NoError(t, err)
		server := httptest.NewServer(l.Handler())
		status, _ := client{t, server.URL, token}.post(fmt.Sprint("key-", restart), good)
		require.Equal(t, 201, status)
		require.Equal(t, fmt.Sprintf(`{"count":%d}`, restart+1), strings.TrimSpace(client{t, server.URL, token}.get("/v1/count")))
		server.Close()
		require.NoError(t, l.Close())
	}
}

func TestNewRefusesUselessConfig(t *testing.T) {
	for _, config := range []ledger.Config{
		{}, {Path: filepath.Join(t.TempDir(), "no", "such", "folder.db")},
		{Path: "x.db", Tokens: map[string]string{"": "gantry"}}, {Path: "x.db", Tokens: map[string]string{token: ""}},
	} {
		_, err := ledger.New(t.Context(), config)
		require.Error(t, err)
	}
}

func TestCommandServesUntilItsContextEnds(t *testing.T) {
	dir := t.TempDir()
	tokens := filepath.Join(dir, "tokens.txt")
	require.NoError(t, os.WriteFile(tokens, []byte("# clients\n\ngantry "+token+"\n"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	command := ledger.Command()
	command.SetArgs([]string{"--listen", "127.0.0.1:0", "--db", filepath.Join(dir, "l.db"), "--token-file", tokens})
	reader, writer := io.Pipe()
	command.SetOut(writer)
	command.SetErr(writer)
	running := pool.New().WithErrors()
	running.Go(func() error { return errors.Join(command.ExecuteContext(ctx), writer.Close()) })
	line := make([]byte, 200)
	n, err := reader.Read(line)
	require.NoError(t, err)
	address := regexp.MustCompile(`http://[0-9.:]+`).Find(line[:n])
	status, _ := client{t, string(address), token}.post("key-1", good)
	require.Equal(t, 201, status)
	cancel()
	require.NoError(t, running.Wait())
}

func TestCommandReadsItsTokensStrictly(t *testing.T) {
	for name, text := range map[string]string{
		"empty":       "",
		"no client":   "# nobody\n",
		"short":       "gantry short\n",
		"three words": "gantry is " + token + "\n",
		"twice":       "a " + token + "\nb " + token + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			tokens := filepath.Join(t.TempDir(), "tokens.txt")
			require.NoError(t, os.WriteFile(tokens, []byte(text), 0o600))
			command := ledger.Command()
			command.SetArgs([]string{"--token-file", tokens, "--db", filepath.Join(t.TempDir(), "l.db")})
			var out bytes.Buffer
			command.SetOut(&out)
			command.SetErr(&out)
			err := command.ExecuteContext(t.Context())
			require.ErrorContains(t, err, "token file")
			require.NotContains(t, err.Error(), token)
		})
	}
}

package send_test

import (
	"bufio"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/notice/send"
)

const nowMs = int64(1_790_000_000_123)

var secret = []byte("whsec-north")

var message = notice.Message{ID: "n1", Organisation: "acme", Person: "mona", Step: notice.Opened, Item: "ap-1", Kind: "APPROVAL", Run: "r1",
	Agent: "payer", Since: "2026-11-30T10:00:00Z", Link: "https://gantry.example/inbox"}

// guard is the guard of tools, as a process wires it.
type guard struct{ *tool.Egress }

func (guard) Refused(err error) bool {
	var failure *tool.Failure
	return errors.As(err, &failure) && failure.Code == tool.FailedEgress
}

// resolver finds every host at one address.
type resolver struct{ at string }

func (r resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr(r.at)}, nil
}

func letting(t *testing.T, at string, internal bool, addresses ...string) guard {
	t.Helper()
	var allowed []tool.Destination
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		number, err := strconv.Atoi(port)
		require.NoError(t, err)
		allowed = append(allowed, tool.Destination{Host: host, Port: number, Internal: internal})
	}
	egress, err := tool.NewEgress(allowed, resolver{at}, nil)
	require.NoError(t, err)
	return guard{egress}
}

// receiver keeps what it is posted.
type receiver struct {
	*httptest.Server
	headers []http.Header
	bodies  [][]byte
	status  int
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		r.headers, r.bodies = append(r.headers, request.Header), append(r.bodies, body)
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) address() string { return strings.TrimPrefix(r.URL, "http://") }

func TestAWebhookIsSignedOverItsTimeAndBody(t *testing.T) {
	r := receive(t)
	require.NoError(t, send.Webhook(t.Context(), letting(t, "127.0.0.1", true, r.address()), r.URL+"/hook", secret, message, nowMs))
	require.Len(t, r.bodies, 1)
	signature := r.headers[0].Get("Gantry-Signature")
	sum := hmac.New(sha256.New, secret)
	sum.Write([]byte("1790000000." + string(r.bodies[0])))
	require.Equal(t, "t=1790000000,v1="+hex.EncodeToString(sum.Sum(nil)), signature)
	require.Equal(t, "n1", r.headers[0].Get("Gantry-Notice-Id"))
	var got notice.Message
	require.NoError(t, json.Unmarshal(r.bodies[0], &got))
	require.Equal(t, message, got)
}

// Somebody else's code comes to the same signature.
func TestOpenSSLComesToTheSameSignature(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip("needs openssl")
	}
	body := `{"id":"n1"}`
	command := exec.CommandContext(t.Context(), openssl, "dgst", "-sha256", "-hmac", string(secret), "-r")
	command.Stdin = strings.NewReader("1790000000." + body)
	out, err := command.Output()
	require.NoError(t, err)
	require.Equal(t, "t=1790000000,v1="+strings.Fields(string(out))[0], send.Sign(secret, []byte(body), nowMs))
}

func TestAReceiverRefusesWhatIsForgedOrReplayed(t *testing.T) {
	const window = 300_000
	body := []byte(`{"id":"n1"}`)
	signature := send.Sign(secret, body, nowMs)
	require.NoError(t, send.Verify(secret, signature, body, nowMs, window))
	require.NoError(t, send.Verify(secret, signature, body, nowMs+window-123, window))
	require.ErrorIs(t, send.Verify(secret, signature, body, nowMs+window, window), send.ErrReplayed)
	require.ErrorIs(t, send.Verify(secret, signature, body, nowMs-window-1000, window), send.ErrReplayed)
	require.ErrorIs(t, send.Verify(secret, signature, []byte(`{"id":"n2"}`), nowMs, window), send.ErrSignature)
	require.ErrorIs(t, send.Verify([]byte("other"), signature, body, nowMs, window), send.ErrSignature)
	require.ErrorIs(t, send.Verify(secret, strings.Replace(signature, "t=1790000000", "t=1790000100", 1), body, nowMs, window), send.ErrSignature, "the time is signed, too")
	for _, other := range []string{"", "t=1", "v1=", "t=1,v1=zz", "v0=" + signature} {
		require.ErrorIs(t, send.Verify(secret, other, body, nowMs, window), send.ErrSignature, other)
	}
}

func TestAWebhookReachesOnlyWhatTheGuardLetsThrough(t *testing.T) {
	r := receive(t)
	_, port, _ := net.SplitHostPort(r.address())
	for name, try := range map[string]struct {
		guard guard
		url   string
	}{
		"not on the list":                   {letting(t, "127.0.0.1", true), r.URL},
		"this machine, though listed":       {letting(t, "127.0.0.1", false, r.address()), r.URL},
		"a name that leads inside":          {letting(t, "127.0.0.1", false, "hooks.example:"+port), "https://hooks.example:" + port},
		"a name that leads to a cloud's":    {letting(t, "169.254.169.254", true, "hooks.example:"+port), "http://hooks.example:" + port},
		"plain http to the outside":         {letting(t, "93.184.216.34", false, "hooks.example:80"), "http://hooks.example"},
		"with credentials":                  {letting(t, "127.0.0.1", true, r.address()), "http://u:p@" + r.address()},
		"another scheme":                    {letting(t, "127.0.0.1", true, r.address()), "file:///etc/passwd"},
		"an address that is written oddly":  {letting(t, "127.0.0.1", true, r.address()), "http://2130706433:" + port},
		"an address of this machine, by v6": {letting(t, "127.0.0.1", true, r.address()), "http://[::ffff:127.0.0.1%25lo]:" + port},
	} {
		t.Run(name, func(t *testing.T) {
			var failure *notice.Failure
			require.ErrorAs(t, send.Webhook(t.Context(), try.guard, try.url, secret, message, nowMs), &failure)
			require.Equal(t, notice.Failure{Code: "EGRESS", Final: true}, *failure)
		})
	}
	require.Empty(t, r.bodies)
}

func TestAWebhookLeadsNowhereElseAndOnly2xxCounts(t *testing.T) {
	r := receive(t)
	guard := letting(t, "127.0.0.1", true, r.address())
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusBadRequest, http.StatusInternalServerError} {
		r.status = status
		var failure *notice.Failure
		require.ErrorAs(t, send.Webhook(t.Context(), guard, r.URL, secret, message, nowMs), &failure)
		require.Equal(t, notice.Failure{Code: "STATUS_" + strconv.Itoa(status)}, *failure)
	}
	require.Len(t, r.bodies, 4, "one request for each attempt")
	r.Close()
	var failure *notice.Failure
	require.ErrorAs(t, send.Webhook(t.Context(), guard, r.URL, secret, message, nowMs), &failure)
	require.Equal(t, notice.Failure{Code: "UNREACHABLE"}, *failure)
}

// mailbox is a mail server that takes one letter after another.
type mailbox struct {
	net.Listener
	letters chan string
	refuse  string // answered to RCPT
}

func receiveMail(t *testing.T, refuse string) *mailbox {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	m := &mailbox{listener, make(chan string, 8), refuse}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go m.talk(conn)
		}
	}()
	return m
}

func (m *mailbox) talk(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	answer := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") }
	answer("220 mailbox")
	envelope := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(line[:min(4, len(line))]); verb {
		case "RCPT", "MAIL":
			envelope += line
			if verb == "RCPT" && m.refuse != "" {
				answer(m.refuse)
				continue
			}
			answer("250 ok")
		case "DATA":
			answer("354 go on")
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				envelope += line
			}
			m.letters <- envelope
			envelope = ""
			answer("250 taken")
		case "QUIT":
			answer("221 bye")
			return
		default:
			answer("250 mailbox")
		}
	}
}

func (m *mailbox) server() send.Server {
	return send.Server{Address: m.Addr().String(), From: "gantry@acme.example", TLS: send.NoTLS}
}

func TestAnEMailSaysThatSomethingWaitsAndWhere(t *testing.T) {
	m := receiveMail(t, "")
	guard := letting(t, "127.0.0.1", true, m.Addr().String())
	for range 2 {
		require.NoError(t, send.Mail(t.Context(), guard, m.server(), "mona@acme.example", message))
		letter := <-m.letters
		for _, part := range []string{"MAIL FROM:<gantry@acme.example>", "RCPT TO:<mona@acme.example>", "Message-ID: <n1@acme.example>",
			"Subject: Gantry: something waits for you in acme", "ap-1", "payer", "https://gantry.example/inbox", "Auto-Submitted: auto-generated"} {
			require.Contains(t, letter, part)
		}
	}
}

func TestAnEMailThatIsNotTaken(t *testing.T) {
	m := receiveMail(t, "550 nobody of that name, says somebody's text")
	inside := letting(t, "127.0.0.1", true, m.Addr().String())
	for name, try := range map[string]struct {
		guard  guard
		server func(send.Server) send.Server
		to     string
		want   notice.Failure
	}{
		"refused":                      {inside, func(s send.Server) send.Server { return s }, "mona@acme.example", notice.Failure{Code: "MAIL_REFUSED"}},
		"not on the list":              {letting(t, "127.0.0.1", true), func(s send.Server) send.Server { return s }, "mona@acme.example", notice.Failure{Code: "EGRESS", Final: true}},
		"this machine":                 {letting(t, "127.0.0.1", false, m.Addr().String()), func(s send.Server) send.Server { return s }, "mona@acme.example", notice.Failure{Code: "EGRESS", Final: true}},
		"no TLS where it is asked for": {inside, func(s send.Server) send.Server { s.TLS = send.StartTLS; return s }, "mona@acme.example", notice.Failure{Code: "MAIL_REFUSED"}},
		"a password without TLS":       {inside, func(s send.Server) send.Server { s.User, s.Password = "u", "p"; return s }, "mona@acme.example", notice.Failure{Code: "EGRESS", Final: true}},
		"a header in the address":      {inside, func(s send.Server) send.Server { return s }, "mona@acme.example\r\nBcc: eve@evil.example", notice.Failure{Code: "MAIL_REFUSED", Final: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var failure *notice.Failure
			require.ErrorAs(t, send.Mail(t.Context(), try.guard, try.server(m.server()), try.to, message), &failure)
			require.Equal(t, try.want, *failure)
		})
	}
	require.Empty(t, m.letters)
}

var _ send.Guard = guard{}

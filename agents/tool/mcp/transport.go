package mcp

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
)

// maxMessage bounds the bytes of one message that a server sends.
const maxMessage = 16 << 20

// transport makes ready to reach the server, if it is who it was. Its errors
// are *tool.Failure or wrap server.ErrAnother.
func (l *link) transport(ctx context.Context) (sdk.Transport, error) {
	if l.server.Transport == server.HTTP {
		return l.overHTTP()
	}
	return l.overStdio(ctx)
}

// overStdio starts the server's process, in a folder of its own and with no
// environment but what it was registered with.
func (l *link) overStdio(ctx context.Context) (sdk.Transport, error) {
	s := l.server
	for file, sum := range s.Identity.Files {
		if is, err := sumOf(file); err != nil || is != sum {
			return nil, server.Another("the file " + file)
		}
	}
	start := l.pool.config.Start
	if start == nil && s.Sandbox == server.SandboxNone {
		start = Plain
	}
	if start == nil || l.pool.config.Folder == "" {
		return nil, unreachable("servers of this kind are not started here")
	}
	command := Command{Server: s, Folder: l.pool.folder(l.organisation, s.Name)}
	if err := os.MkdirAll(command.Folder, 0o700); err != nil {
		return nil, unreachable("the server's folder cannot be made")
	}
	for name, reference := range s.Env {
		secret, err := l.secret(ctx, reference, "stdio:"+s.Name)
		if err != nil {
			return nil, err
		}
		value, err := secret.For("stdio:" + s.Name)
		if err != nil {
			return nil, missing(reference)
		}
		command.Environment = append(command.Environment, name+"="+value)
	}
	slices.Sort(command.Environment)
	process, err := start(ctx, command)
	if err != nil {
		l.pool.config.Log.Warn("MCP server not started", "server", s.Name)
		return nil, unreachable("the server's process did not start")
	}
	return &watched{Transport: &sdk.IOTransport{Reader: io.NopCloser(process), Writer: process, MaxLineLength: maxMessage}}, nil
}

// secret asks for a secret that goes to one audience only, for the call that
// is under way. There is no way to pass on a token that somebody gave to us.
func (l *link) secret(ctx context.Context, reference, audience string) (credential.Secret, error) {
	if l.pool.config.Credentials == nil {
		return credential.Secret{}, missing(reference)
	}
	call := callOf(ctx)
	secret, err := l.pool.config.Credentials.Secret(ctx, credential.Use{Reference: reference, Audience: audience, Actor: call.Actor, Run: call.Run})
	if err != nil {
		return credential.Secret{}, missing(reference)
	}
	return secret, nil
}

func missing(reference string) *tool.Failure {
	return &tool.Failure{Code: tool.FailedCredential, Detail: fmt.Sprintf("the credential %q could not be had; nothing was sent", reference)}
}

// callKey is where a context holds the call that it is for.
type callKey struct{}

// callOf is the call that something is done for; empty where it is for none.
func callOf(ctx context.Context) tool.Invocation {
	call, _ := ctx.Value(callKey{}).(tool.Invocation)
	return call
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// overHTTP reaches the server through the egress guard.
func (l *link) overHTTP() (sdk.Transport, error) {
	l.mu.Lock()
	egress := l.egress
	l.mu.Unlock()
	u, err := url.Parse(l.server.URL)
	if err != nil {
		return nil, unreachable("its URL cannot be read")
	}
	if err := egress.CheckURL(u); err != nil {
		return nil, err
	}
	client := &http.Client{
		Transport:     l.guarded(egress, l.server.Identity.Keys),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if a := l.server.Auth; a != nil {
		origin := l.server.Origin()
		client.Transport = credential.Transport{Audience: origin, Header: a.Header, Transport: client.Transport,
			Secret: func(request *http.Request) (credential.Secret, error) {
				return l.secret(request.Context(), a.Credential, origin)
			}}
	}
	// The stream that a server may push on is left out: what changes is looked
	// at before each call, and servers of the newer protocol are listened to.
	return &sdk.StreamableClientTransport{Endpoint: l.server.URL, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true, MaxEventSize: maxMessage}, nil
}

// guarded is a transport through the guard that bounds what comes back, and
// holds the server's key against the pinned ones.
func (l *link) guarded(egress *tool.Egress, keys []string) http.RoundTripper {
	transport := egress.Transport()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: l.pool.config.Roots}
	if len(keys) > 0 {
		transport.TLSClientConfig.VerifyConnection = func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return server.Another("its TLS key")
			}
			sum := sha256.Sum256(state.PeerCertificates[0].RawSubjectPublicKeyInfo)
			if !slices.Contains(keys, hex.EncodeToString(sum[:])) {
				return server.Another("its TLS key")
			}
			return nil
		}
	}
	return &guard{egress: egress, next: transport}
}

// guard checks every request, also those that the library makes by itself.
type guard struct {
	egress *tool.Egress
	next   http.RoundTripper
}

// RoundTrip sends a request to where the guard allows it.
func (g *guard) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := g.egress.CheckURL(request.URL); err != nil {
		return nil, err
	}
	response, err := g.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	response.Body = &bounded{ReadCloser: response.Body, left: 4 * maxMessage}
	return response, nil
}

// bounded breaks a body off that has more bytes than any answer may have.
type bounded struct {
	io.ReadCloser
	left int64
}

var errFlood = errors.New("the server sent more than an answer may have")

func (b *bounded) Read(into []byte) (int, error) {
	n, err := b.ReadCloser.Read(into)
	if b.left -= int64(n); b.left < 0 {
		return 0, errFlood
	}
	return n, err
}

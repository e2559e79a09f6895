package a2a

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"

	"gantry.dev/agents/credential"
	"gantry.dev/agents/tool"
)

// line is the way to one agent for one call: through the egress guard, with the
// credential of that call for one audience.
type line struct {
	egress   *tool.Egress
	rest     http.RoundTripper
	audience string // scheme and host that the credential is for; empty: none
	bearer   string
	sent     atomic.Bool // something may have been said to the agent
	refused  atomic.Bool // it takes no such credential
}

// RoundTrip sends one request. An answer is no longer than it may be.
func (l *line) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := l.egress.CheckURL(request.URL); err != nil {
		return nil, err
	}
	ctx := request.Context()
	if request.Method != http.MethodGet {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { l.sent.Store(true) }})
	}
	request = request.Clone(ctx)
	request.Header.Set("User-Agent", "gantry")
	if l.bearer != "" && request.URL.Scheme+"://"+request.URL.Host == l.audience {
		request.Header.Set("Authorization", "Bearer "+l.bearer)
	}
	response, err := l.rest.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
		l.refused.Store(true)
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(response.Body, maxReply), response.Body}
	return response, nil
}

// identify asks for the credential of the call, for where the agent is spoken to.
func (l *line) identify(ctx context.Context, p peer, card *protocol.AgentCard, invocation tool.Invocation) error {
	missing := &tool.Failure{Code: tool.FailedCredential, Detail: "the credential could not be had; nothing was sent"}
	if len(card.SupportedInterfaces) == 0 {
		return missing
	}
	at, err := url.Parse(card.SupportedInterfaces[0].URL)
	home, homeErr := url.Parse(p.peer.URL)
	if err != nil || homeErr != nil || at.Scheme != home.Scheme || at.Host != home.Host {
		// A credential is for the agent that the tool names, not for whom its card names.
		return &tool.Failure{Code: tool.FailedCredential, Detail: "the agent is spoken to at another host than its own, which gets no credential; nothing was sent"}
	}
	audience := home.Scheme + "://" + home.Host
	secret, err := p.credentials.Secret(ctx, credential.Use{Reference: p.definition.Credential, Audience: audience, Actor: invocation.Actor, Run: invocation.Run})
	if err != nil {
		return missing
	}
	if l.bearer, err = secret.For(audience); err != nil {
		return missing
	}
	l.audience = audience
	return nil
}

// unreached is why nothing was said.
func (l *line) unreached(err error) *tool.Failure {
	var failure *tool.Failure
	if errors.As(err, &failure) {
		return failure
	}
	return &tool.Failure{Code: tool.FailedUnreachable, Detail: "the agent's card could not be read; nothing was sent"}
}

// Package a2a uses other people's agents as tools, over the Agent2Agent
// protocol: one call says one thing to an agent, and waits for what comes of it.
// What an agent says is data, and never trusted.
package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
)

// cardPath is where an agent's card is, below its address.
const cardPath = "/.well-known/agent-card.json"

// The bounds of what an agent may send.
const (
	maxCard  = 1 << 20  // bytes of its card
	maxReply = 16 << 20 // bytes of one answer, or of one stream
)

// peer is one agent as a tool.
type peer struct {
	definition  tool.Definition
	peer        tool.Peer
	egress      *tool.Egress
	credentials tool.Credentials
}

var (
	_ tool.Tool   = peer{}
	_ tool.Prober = prober{}
)

// prober is a peer whose outcomes can be looked up, because it keeps the
// messages of its tasks.
type prober struct{ peer }

// New returns the tool of an a2a definition. Credentials may be nil for one
// without a credential.
func New(d tool.Definition, egress *tool.Egress, credentials tool.Credentials) (tool.Tool, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.Kind != tool.KindA2A || egress == nil || d.Credential != "" && credentials == nil {
		return nil, fmt.Errorf("tool %q: an a2a tool needs an a2a definition, an egress guard and, for its credential, Credentials", d.Name)
	}
	read, err := tool.ReadPeer(d)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	p := peer{definition: d, peer: read, egress: egress, credentials: credentials}
	if d.Class == checkable {
		return prober{p}, nil
	}
	return p, nil
}

// Definition returns the contract.
func (p peer) Definition() tool.Definition { return p.definition }

// Pin is the digest of a card, whatever order and spacing it came in. Errors: it
// is no JSON object.
func Pin(card []byte) (string, error) {
	canonical, err := canon.JSON(card)
	if err != nil {
		return "", err
	}
	return canon.Digest(canonical), nil
}

// Card returns the card of an agent as it is now, with its pin. Errors: the agent
// is not there, or what it gives is no card.
func Card(ctx context.Context, via http.RoundTripper, address string) (card *protocol.AgentCard, pin string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+cardPath, http.NoBody)
	if err != nil {
		return nil, "", err
	}
	request.Header.Set("Accept", "application/json")
	response, err := via.RoundTrip(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }() // read whole
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxCard+1))
	if err != nil {
		return nil, "", err
	}
	if response.StatusCode != http.StatusOK || len(raw) > maxCard {
		return nil, "", fmt.Errorf("status %d, %d bytes: no card", response.StatusCode, len(raw))
	}
	if pin, err = Pin(raw); err != nil {
		return nil, "", fmt.Errorf("no card: %w", err)
	}
	card = &protocol.AgentCard{}
	if err := json.Unmarshal(raw, card); err != nil {
		return nil, "", fmt.Errorf("no card: %w", err)
	}
	card.SupportedInterfaces = slices.DeleteFunc(card.SupportedInterfaces, func(way *protocol.AgentInterface) bool { return way == nil })
	return card, pin, nil
}

// reach looks whether the agent is the one that was looked at, and returns a
// client of it. Nothing was said yet: its *tool.Failure are certain.
func (p peer) reach(ctx context.Context, invocation tool.Invocation) (*a2aclient.Client, *protocol.AgentCard, *line, error) {
	l := &line{egress: p.egress, rest: p.egress.Transport()}
	card, pin, err := Card(ctx, l, p.peer.URL)
	if err != nil {
		return nil, nil, nil, l.unreached(err)
	}
	if pin != p.peer.Pin {
		return nil, nil, nil, &tool.Failure{Code: tool.FailedChanged, Detail: "the agent's card is not as it was reviewed; the tool's owner has to look at it, and nothing was sent"}
	}
	if p.definition.Credential != "" {
		if err := l.identify(ctx, p, card, invocation); err != nil {
			return nil, nil, nil, err
		}
	}
	web := &http.Client{Transport: l, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(web), a2aclient.WithRESTTransport(web))
	if err != nil {
		return nil, nil, nil, &tool.Failure{Code: tool.FailedUnreachable, Detail: "the agent's card names no way to speak to it that is known here"}
	}
	return client, card, l, nil
}

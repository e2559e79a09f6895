package wire

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strconv"

	"gantry.dev/agents"
	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/credential"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/anthropic"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/gemini"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/model/openai"
	registered "gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/mcp"
)

// egressOf reads the destinations that an organisation lets its tools reach.
// Its own endpoints on this machine are internal.
func egressOf(o agents.Organisation) (*tool.Egress, error) {
	var allowed []tool.Destination
	add := func(hostport string) error {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil {
			return fmt.Errorf("egress %s: %w", hostport, err)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return fmt.Errorf("egress %s: the port is no number", hostport)
		}
		ip := net.ParseIP(host)
		allowed = append(allowed, tool.Destination{Host: host, Port: number, Internal: ip != nil && (ip.IsLoopback() || ip.IsPrivate())})
		return nil
	}
	for _, destination := range o.Egress {
		if err := add(destination); err != nil {
			return nil, err
		}
	}
	for name, endpoint := range o.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("endpoint %s: not a URL", name)
		}
		if err := add(u.Host); err != nil {
			return nil, err
		}
	}
	return tool.NewEgress(allowed, net.DefaultResolver, (&net.Dialer{}).DialContext)
}

// openServers makes ready to reach MCP servers. What one of them changes is
// kept back by a change of what is in force.
func (p *Platform) openServers() *mcp.Pool {
	return mcp.NewPool(mcp.Config{Credentials: p.secrets, Folder: filepath.Join(p.Config.Folder, "servers"), Log: p.Config.Log, Start: mcp.Confined,
		Quarantine: func(ctx context.Context, organisation string, q registered.Quarantine) error {
			ctx = context.WithoutCancel(ctx)
			if err := p.Kits.Quarantine(ctx, organisation, q); err != nil {
				return err
			}
			return p.Reconsider(ctx, organisation)
		}})
}

// provider opens the provider of a catalogue entry. One whose key is not
// configured here is left out, so that turns go to another model of the run.
func (p *Platform) provider(entry agents.Model) (model.Provider, error) {
	if p.Config.Provider != nil {
		return p.Config.Provider(entry)
	}
	server := exchange.Server{BaseURL: entry.Endpoint}
	if entry.Secret != "" {
		audience := cmp.Or(entry.Endpoint, bases[entry.Provider])
		if !p.secrets.For(entry.Secret, audience) {
			p.Config.Log.Warn("model left out: its secret is not configured for its address", "model", entry.Name)
			return nil, nil
		}
		server.Key = keyStands
		server.Transport = credential.Transport{Audience: audience, Stands: keyStands, Transport: exchange.Direct(),
			Secret: func(r *http.Request) (credential.Secret, error) {
				return p.secrets.Secret(r.Context(), credential.Use{Reference: entry.Secret, Audience: audience})
			}}
	}
	return ProviderAt(entry.Provider, server, entry.Reasoning)
}

// keyStands is what libraries of providers are given for a key: what they send is
// the key of that moment, and only to the model's own address.
const keyStands = "key-by-reference"

// bases are where the providers' own models answer.
var bases = map[string]string{catalogue.OpenAI: openai.BaseURL, catalogue.Anthropic: anthropic.BaseURL, catalogue.Gemini: gemini.BaseURL}

// ProviderAt opens a provider by its name, at its own servers where no base URL
// is given. One whose model reasons is asked to show a summary of it.
func ProviderAt(name string, server exchange.Server, reasoning bool) (model.Provider, error) {
	own := server.BaseURL == ""
	if own {
		server.BaseURL = bases[name]
	}
	switch name {
	case catalogue.OpenAI:
		return openai.New(openai.Config{Server: server, Compatible: !own})
	case catalogue.Anthropic:
		return anthropic.New(anthropic.Config{Server: server, Reasoning: reasoning})
	case catalogue.Gemini:
		return gemini.New(gemini.Config{Server: server, Reasoning: reasoning})
	}
	return nil, fmt.Errorf("provider %q is not known; use offline, script, openai, anthropic or gemini", name)
}

// stood says that a model is asked no longer, or again.
func (p *Platform) stood(s health.Standing) {
	p.Config.Log.Warn("a model stands otherwise", "endpoint", s.Key.Endpoint, "model", s.Key.Model, "mode", string(s.Mode),
		"cause", string(s.Cause), "failures", s.Failures, "until", s.Until)
}

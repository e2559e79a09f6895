package wire

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
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
	return mcp.NewPool(mcp.Config{Credentials: p.secrets, Folder: filepath.Join(p.Config.Folder, "servers"), Log: p.Config.Log,
		Quarantine: func(ctx context.Context, organisation string, q registered.Quarantine) error {
			return p.Kits.Quarantine(context.WithoutCancel(ctx), organisation, q)
		}})
}

// openAI is where OpenAI's own models answer.
const openAI = "https://api.openai.com/v1"

// provider opens the provider of a catalogue entry. One whose key is not
// configured here is left out, so that turns go to another model of the run.
func (p *Platform) provider(entry agents.Model) (model.Provider, error) {
	if p.Config.Provider != nil {
		return p.Config.Provider(entry)
	}
	if entry.Provider != "openai" {
		return nil, fmt.Errorf("provider %q is not known; use offline, script or openai", entry.Provider)
	}
	config := model.OpenAIConfig{BaseURL: entry.Endpoint, Compatible: entry.Endpoint != ""}
	if config.BaseURL == "" {
		config.BaseURL = openAI
	}
	if entry.Secret != "" {
		key, known := p.Config.Secrets[entry.Secret]
		if !known {
			p.Config.Log.Warn("model left out: its secret is not configured", "model", entry.Name)
			return nil, nil
		}
		config.Key = key
	}
	return model.NewOpenAI(config)
}

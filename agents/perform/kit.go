package perform

import (
	"context"
	"errors"
	"fmt"
	"os"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/fanout"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/model/offline"
	"gantry.dev/agents/model/script"
	"gantry.dev/agents/perform/bounds"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/a2a"
	"gantry.dev/agents/tool/findings"
	"gantry.dev/agents/tool/results"
	"gantry.dev/agents/tool/watch"
)

// Builder makes kits from configurations: it is where a process says what its
// tools and models may reach.
type Builder struct {
	Files       *os.Root                                        // root of the built-in file tools; nil for none
	Egress      func(agents.Organisation) (*tool.Egress, error) // what tools may reach
	Credentials tool.Credentials
	Memory      Memory        // what runs recall from; nil for none
	Runs        watch.Journal // where sidecars look what happens in their main run, and runs what their calls gave; nil for none
	Servers     Servers       // where MCP servers are reached; nil: their tools are not served here
	// Provider opens a provider that is not embedded.
	Provider func(agents.Model) (model.Provider, error)
	Health   *health.Register // how the models stand; nil: every one is asked
	Quality  Quality          // nil: nothing was measured
}

// Servers gives the tools of an organisation's MCP servers.
type Servers interface {
	Tool(organisation string, d tool.Definition, s server.Server, egress *tool.Egress) (tool.Tool, error)
}

// Build makes a kit. An error names everything that does not fit.
func (b Builder) Build(organisation agents.Organisation) (*Kit, error) {
	digest, err := organisation.Digest()
	if err != nil {
		return nil, err
	}
	organisation = bounds.Of(organisation)
	box, err := b.box(organisation)
	if err != nil {
		return nil, err
	}
	set, err := organisation.PolicySet()
	if err != nil {
		return nil, err
	}
	providers, err := b.providers(organisation)
	if err != nil {
		return nil, err
	}
	kit := &Kit{Organisation: organisation, Digest: digest, Box: box,
		Rules: newRules(organisation, digest, set), Memory: b.Memory}
	kit.Health, kit.Quality = b.Health, b.Quality
	kit.Provider = func(name string) (model.Provider, bool) {
		provider, known := providers[name]
		if entry, _ := organisation.Model(name); known && b.Health != nil {
			provider = b.Health.Watch(health.KeyOf(entry), provider)
		}
		return provider, known
	}
	return kit, nil
}

func (b Builder) box(o agents.Organisation) (*tool.Box, error) {
	var tools []tool.Tool
	if o.Builtins.Files != nil && b.Files != nil {
		files, err := tool.NewFiles(b.Files, o.Builtins.Files.Rules, o.Builtins.Files.MediaBytes, o.Builtins.Files.Owner, o.Builtins.Files.Contact)
		if err != nil {
			return nil, err
		}
		tools = append(tools, files...)
	}
	if o.Builtins.Ask != nil {
		tools = append(tools, tool.NewAsk(o.Builtins.Ask.Owner, o.Builtins.Ask.Contact))
	}
	if a := o.Builtins.Agents; a != nil {
		tools = append(tools, tool.NewDelegate(a.Owner, a.Contact), watch.New(b.Runs, a.Owner, a.Contact))
	}
	if m := o.Builtins.Memory; m != nil {
		var brain tool.Memory // stays nil where there is none
		if b.Memory != nil {
			brain = b.Memory
		}
		tools = append(tools, tool.NewMemory(brain, m.Owner, m.Contact, m.Impact)...)
	}
	if a := o.Builtins.Access; a != nil {
		tools = append(tools, tool.NewAccess(a.Owner, a.Contact))
	}
	if r := o.Builtins.Results; r != nil {
		tools = append(tools, results.New(b.Runs, r.Owner, r.Contact))
	}
	if f := o.Builtins.Findings; f != nil {
		var brain findings.Memory // stays nil where there is none
		if b.Memory != nil {
			brain = b.Memory
		}
		tools = append(tools, findings.New(brain, f.Owner, f.Contact, f.Impact))
	}
	egress, err := b.Egress(o)
	if err != nil {
		return nil, err
	}
	var faults []error
	for _, definition := range o.Tools {
		t, err := b.outside(o, definition, egress)
		if err != nil {
			faults = append(faults, err)
		} else if t != nil {
			tools = append(tools, t)
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return tool.NewBox(tools...)
}

// outside is the tool of a definition that somebody else performs; nil for any
// other.
func (b Builder) outside(o agents.Organisation, d tool.Definition, egress *tool.Egress) (tool.Tool, error) {
	switch {
	case d.Kind == tool.KindHTTP:
		return tool.NewHTTP(d, egress, b.Credentials)
	case d.Kind == tool.KindA2A:
		return a2a.New(d, egress, b.Credentials)
	case d.Kind == tool.KindMCP && b.Servers != nil:
		offered, err := tool.ReadOffered(d)
		if err != nil {
			return nil, err
		}
		s, known := o.Server(offered.Server)
		if !known {
			return nil, fmt.Errorf("tool %q: there is no server %q", d.Name, offered.Server)
		}
		return b.Servers.Tool(o.Name, d, s, egress)
	}
	return nil, nil
}

func (b Builder) providers(o agents.Organisation) (map[string]model.Provider, error) {
	programs := map[string]string{}
	for _, source := range o.Scripts {
		programs[source.Name] = source.Text
	}
	scripted, err := script.New(programs)
	if err != nil {
		return nil, err
	}
	providers := map[string]model.Provider{}
	for _, entry := range o.Models {
		switch entry.Provider {
		case agents.ProviderScript:
			providers[entry.Name] = named{scripted, entry.Script}
		case "offline":
			providers[entry.Name] = offline.New()
		case "fanout":
			providers[entry.Name] = fanout.New()
		default:
			if b.Provider == nil {
				continue
			}
			provider, err := b.Provider(entry)
			if err != nil {
				return nil, fmt.Errorf("model %s: %w", entry.Name, err)
			}
			if provider != nil {
				providers[entry.Name] = provider
			}
		}
	}
	return providers, nil
}

// named asks a provider for one model whatever the request calls it.
type named struct {
	model.Provider
	model string
}

// Take asks for the named model.
func (n named) Take(ctx context.Context, request model.Request, deltas func(string)) (model.Answer, error) {
	request.Model = n.model
	return n.Provider.Take(ctx, request, deltas)
}

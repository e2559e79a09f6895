// Package tools holds the commands by which an owner registers the tools of MCP
// servers, and looks at what changed at a server.
package tools

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/agents"
	"gantry.dev/agents/credential"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/mcp"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Command returns "gantry tool".
func Command() *cobra.Command {
	command := &cobra.Command{Use: "tool", Short: "Register the tools of MCP servers, and look at what changed there"}
	command.AddCommand(addCommand(), listCommand(), diffCommand(), pinCommand())
	return command
}

// source is where an organisation's files are, and how its servers are reached
// from here.
type source struct {
	folder      string
	credentials []string
	wait        time.Duration
}

func (s *source) flags(command *cobra.Command) {
	command.Flags().StringVarP(&s.folder, "file", "f", ".", "folder of the organisation's files")
	command.Flags().StringArrayVar(&s.credentials, "credential", nil, "where a credential comes from that the server needs, as NAME=env:VARIABLE, NAME=file:PATH or NAME=keyring:SERVICE/USER")
	command.Flags().DurationVar(&s.wait, "wait", 30*time.Second, "how long the server may take")
}

// offers asks a registered server for what it gives now. One that is a process
// is begun as it will be for calls, and ended again.
func (s *source) offers(ctx context.Context, name string) (o agents.Organisation, registered server.Server, offers []server.Offer, err error) {
	if o, err = agents.LoadDir(os.DirFS(s.folder), agents.LoadOptions{}); err != nil {
		return o, registered, nil, err
	}
	registered, known := o.Server(name)
	if !known {
		return o, registered, nil, fmt.Errorf("there is no server %q in %s; write %s", name, s.folder, filepath.Join(s.folder, "servers", name+".yaml"))
	}
	secrets, err := s.secrets(registered)
	if err != nil {
		return o, registered, nil, err
	}
	egress, err := egressTo(registered)
	if err != nil {
		return o, registered, nil, err
	}
	work, err := os.MkdirTemp("", "gantry-tool")
	if err != nil {
		return o, registered, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	pool := mcp.NewPool(mcp.Config{Credentials: secrets, Folder: work, Start: mcp.Confined})
	defer func() { err = errors.Join(err, pool.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	offers, err = pool.Offers(ctx, o.Name, registered, egress)
	if err != nil {
		err = fmt.Errorf("server %s: %w%s", name, err, lacks(registered, err))
	}
	return o, registered, offers, err
}

// lacks says what a server that is kept apart and does not answer mostly lacks.
func lacks(s server.Server, err error) string {
	var failure *tool.Failure
	if !errors.As(err, &failure) || failure.Code != tool.FailedUnreachable || s.Transport == server.HTTP || s.Sandbox == server.SandboxNone {
		return ""
	}
	return "\nA server that is kept apart reads only what its file names under read; name all that it needs, such as the folder of its modules."
}

func (s *source) secrets(registered server.Server) (*credential.Store, error) {
	audience := "stdio:" + registered.Name
	if registered.Transport == server.HTTP {
		audience = registered.Origin()
	}
	entries := map[string]credential.Entry{}
	for _, given := range s.credentials {
		name, from, ok := strings.Cut(given, "=")
		if !ok {
			return nil, fmt.Errorf("credential %q: say NAME=env:VARIABLE", name)
		}
		entries[name] = credential.Entry{From: from, Audience: []string{audience}}
	}
	return credential.New(credential.Config{Entries: entries})
}

// apart says how a server is kept apart from what runs it.
func apart(s server.Server) string {
	switch {
	case s.Transport == server.HTTP:
		return fmt.Sprintf("server %s: over HTTP at %s, through the egress guard", s.Name, s.Origin())
	case s.Sandbox == server.SandboxNone:
		return fmt.Sprintf("server %s: sandbox none. It runs with Gantry's own rights, and may read and reach whatever Gantry may", s.Name)
	case len(s.Network) > 0:
		return fmt.Sprintf("server %s: kept apart by namespaces and Landlock; it may reach the TCP ports of %s", s.Name, strings.Join(s.Network, ", "))
	}
	return fmt.Sprintf("server %s: kept apart by namespaces and Landlock, without a network", s.Name)
}

// egressTo lets through to the server and nowhere else.
func egressTo(registered server.Server) (*tool.Egress, error) {
	if registered.Transport != server.HTTP {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(registered.Address())
	if err != nil {
		return nil, fmt.Errorf("server %s: its URL has no host", registered.Name)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil, fmt.Errorf("server %s: its port is no number", registered.Name)
	}
	ip := net.ParseIP(host)
	return tool.NewEgress([]tool.Destination{{Host: host, Port: number, Internal: ip != nil && (ip.IsLoopback() || ip.IsPrivate())}}, nil, nil)
}

// registered returns what the organisation has of the server's tools, by the
// server's own names.
func registeredOf(o agents.Organisation, name string) map[string]tool.Offered {
	known := map[string]tool.Offered{}
	for _, d := range o.Tools {
		if d.Kind != tool.KindMCP {
			continue
		}
		if offered, err := tool.ReadOffered(d); err == nil && offered.Server == name {
			known[offered.Tool] = offered
		}
	}
	return known
}

func listCommand() *cobra.Command {
	var from source
	command := &cobra.Command{Use: "list SERVER", Short: "List what an MCP server gives now, and what of it is registered", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			o, registered, offers, err := from.offers(command.Context(), args[0])
			if err != nil {
				return err
			}
			if err := ask.Say(command.OutOrStdout(), "%s", apart(registered)); err != nil {
				return err
			}
			known := registeredOf(o, args[0])
			for _, offer := range offers {
				state := "not registered"
				if offered, is := known[offer.Name]; is {
					if state = "as pinned"; offered.Pin != offer.Pin() {
						state = "CHANGED: calls of it are kept back"
					}
					delete(known, offer.Name)
				}
				if err := ask.Say(command.OutOrStdout(), "%s  %s\n  %s\n  says: %s", oneLine(offer.Name), state, offer.Hints.Words(), claimed(offer.Description)); err != nil {
					return err
				}
			}
			for name, offered := range known {
				if !offered.Operation() {
					if err := ask.Say(command.OutOrStdout(), "%s  GONE: the server does not give it any more", oneLine(name)); err != nil {
						return err
					}
				}
			}
			return nil
		}}
	from.flags(command)
	return command
}

func diffCommand() *cobra.Command {
	var asJSON bool
	command := ask.Server("diff [TOOL]", "Show what is another at a server than when the tool was reviewed", cobra.MaximumNArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			list, err := c.Quarantines(command.Context())
			if err != nil {
				return err
			}
			kept := []client.Quarantine{}
			for _, q := range list {
				if len(args) == 0 || args[0] == q.Tool {
					kept = append(kept, q)
				}
			}
			if asJSON {
				return ask.JSON(command, kept)
			}
			out := command.OutOrStdout()
			if len(kept) == 0 {
				return ask.Say(out, "nothing is kept back")
			}
			for _, q := range kept {
				if err := show(command, q); err != nil {
					return err
				}
			}
			return nil
		})
	ask.JSONFlag(command, &asJSON, "the differences")
	return command
}

// mostClaimed is how much of a server's text is shown at once, in bytes.
const mostClaimed = 8 << 10

// claimed is a server's text as a person is shown it. Every further line of it
// begins with a bar, so that none passes for one of ours.
func claimed(text string) string {
	left := ""
	if len(text) > mostClaimed {
		left = fmt.Sprintf("\n  … and %d bytes more", len(text)-mostClaimed)
		text = strings.ToValidUTF8(text[:mostClaimed], "")
	}
	return strings.ReplaceAll(ask.Visible(text), "\n", "\n  | ") + left
}

// oneLine is a server's name for something, in one line and not for ever.
func oneLine(name string) string {
	return claimed(strings.NewReplacer("\n", `\u{000A}`, "\t", `\u{0009}`).Replace(name[:min(len(name), 200)]))
}

// show prints a quarantine. What the server wrote stands escaped.
func show(command *cobra.Command, q client.Quarantine) error {
	out := command.OutOrStdout()
	if err := ask.Say(out, "%s is kept back since %s", q.Tool, q.At); err != nil {
		return err
	}
	if q.Cause != "" {
		return ask.Say(out, "  %s", ask.Visible(q.Cause))
	}
	for _, d := range q.Differences {
		if err := ask.Say(out, "  %s\n  - %s\n  + %s", d.Part, claimed(d.Before), claimed(d.Now)); err != nil {
			return err
		}
	}
	return ask.Say(out, "  to take it as it is now: %s tool pin %s %s", ask.Program(), q.Tool, q.LivePin)
}

func pinCommand() *cobra.Command {
	return ask.Server("pin TOOL PIN", "Take a changed tool as its server gives it now; a second person must say the same", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			waits, err := c.PinTool(command.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			if waits {
				return ask.Say(command.OutOrStdout(), "proposed; a second person has to do the same")
			}
			return ask.Say(command.OutOrStdout(), "%s is pinned anew; runs that wait for it go on", args[0])
		})
}

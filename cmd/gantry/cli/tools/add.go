package tools

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/cli/ask"
)

// adding is what an owner says of a server's tools.
type adding struct {
	source
	only                    []string
	impact, class, describe string
	control                 []string
	owner, contact          string
	yes                     bool

	in  *bufio.Scanner
	out io.Writer
}

func addCommand() *cobra.Command {
	var a adding
	command := &cobra.Command{Use: "add SERVER", Short: "Look at what an MCP server gives, and register tools of it with what you say of them", Args: cobra.ExactArgs(1),
		Long: "Starts or contacts a registered server, shows each of its tools with what the server claims of it, asks what it does, and writes it into tools/.\n" +
			"What the server claims decides nothing: without a word of yours a tool is IRREVERSIBLE, OPAQUE and held by most policies.",
		RunE: func(command *cobra.Command, args []string) error {
			a.in, a.out = bufio.NewScanner(command.InOrStdin()), command.OutOrStdout()
			return a.add(command, args[0])
		}}
	a.flags(command)
	command.Flags().StringArrayVar(&a.only, "tool", nil, "only these of the server's tools (repeatable)")
	command.Flags().StringVar(&a.impact, "impact", "", "READ, DRAFT, REVERSIBLE or IRREVERSIBLE, of all that are added")
	command.Flags().StringVar(&a.class, "class", "", "READ, KEYED or OPAQUE, of all that are added")
	command.Flags().StringVar(&a.describe, "description", "", "what models read of the tool; of one tool only")
	command.Flags().StringArrayVar(&a.control, "control", nil, "JSON pointer of an argument that steers the effect (repeatable)")
	command.Flags().StringVar(&a.owner, "owner", "", "principal id (default: the server's owner)")
	command.Flags().StringVar(&a.contact, "contact", "", "principal id (default: the server's contact)")
	command.Flags().BoolVar(&a.yes, "yes", false, "ask nothing: take the flags, and the cautious answer where there is none")
	return command
}

func (a *adding) add(command *cobra.Command, name string) error {
	o, s, offers, err := a.offers(command.Context(), name)
	if err != nil {
		return err
	}
	if err := ask.Say(command.OutOrStdout(), "%s", apart(s)); err != nil {
		return err
	}
	known := registeredOf(o, name)
	if err := a.there(name, offers, known); err != nil {
		return err
	}
	added := 0
	for _, offer := range offers {
		if _, is := known[offer.Name]; is || len(a.only) > 0 && !slices.Contains(a.only, offer.Name) {
			continue
		}
		d, wanted, err := a.describes(s, offer)
		if err != nil {
			return err
		}
		if !wanted {
			continue
		}
		if err := d.Validate(); err != nil {
			return fmt.Errorf("%w\nwrite %s by hand, with a schema that says what is allowed", err, file(a.folder, d.Name))
		}
		if err := write(file(a.folder, d.Name), d); err != nil {
			return err
		}
		added++
		if err := ask.Say(a.out, "wrote %s, pinned to %s", file(a.folder, d.Name), offer.Pin()); err != nil {
			return err
		}
	}
	if added == 0 {
		return ask.Say(a.out, "nothing was added")
	}
	return ask.Say(a.out, "name %s in an agent's tools and in a policy, and put the files in force: %s apply -f %s", ask.Counted(added, "tool"), ask.Program(), a.folder)
}

// there reports a tool that was named and cannot be added.
func (a *adding) there(name string, offers []server.Offer, known map[string]tool.Offered) error {
	for _, only := range a.only {
		if !slices.ContainsFunc(offers, func(o server.Offer) bool { return o.Name == only }) {
			return fmt.Errorf("server %s gives no tool %q; see what it gives with: %s tool list %s -f %s", name, only, ask.Program(), name, a.folder)
		}
		if _, is := known[only]; is {
			return fmt.Errorf("tool %q of server %s is registered already; change its file in %s", only, name, filepath.Join(a.folder, "tools"))
		}
	}
	return nil
}

func file(folder, name string) string { return filepath.Join(folder, "tools", name+".yaml") }

// describes asks what a tool does. Where nobody answers the cautious answer
// stands.
func (a *adding) describes(s server.Server, offer server.Offer) (d tool.Definition, wanted bool, err error) {
	suffix := strings.Map(func(r rune) rune {
		if r < 128 && (r == '-' || r == '_' || r >= '0' && r <= '9' || r|32 >= 'a' && r|32 <= 'z') {
			return r
		}
		return '_'
	}, offer.Name)
	if err = ask.Say(a.out, "\n%s\n  %s\n  says: %s\n  takes: %s", oneLine(offer.Name), offer.Hints.Words(), claimed(offer.Description), claimed(string(offer.Input))); err != nil {
		return d, false, err
	}
	if !a.yes && len(a.only) == 0 {
		if word := a.asked("  register it? [y/N]", "n"); !strings.HasPrefix(strings.ToLower(word), "y") {
			return d, false, nil
		}
	}
	impact := cmp.Or(a.impact, a.asked("  impact: READ, DRAFT, REVERSIBLE or IRREVERSIBLE [IRREVERSIBLE]", "IRREVERSIBLE"))
	class := "OPAQUE"
	if impact == "READ" {
		class = "READ"
	}
	class = cmp.Or(a.class, a.asked("  effect class: READ, KEYED or OPAQUE ["+class+"]", class))
	control := a.control
	if impact != "READ" && len(control) == 0 {
		control = strings.Fields(a.asked("  JSON pointers of arguments that steer the effect, such as /to []", ""))
	}
	describe := cmp.Or(a.describe, a.asked("  what models read of it [what the server says]", offer.Description), offer.Name)
	offered, err := json.Marshal(tool.Offered{Server: s.Name, Tool: offer.Name, Pin: offer.Pin(), Seen: &offer})
	if err != nil {
		return d, false, err
	}
	text, err := json.Marshal(map[string]any{"name": s.Name + "." + suffix, "description": describe, "impact": impact, "class": class,
		"resource": s.Name + ":" + suffix, "control": control, "timeout": "1m", "resultBytes": 256 << 10, "result": map[string]any{"integrity": "UNTRUSTED"},
		"owner": cmp.Or(a.owner, s.Owner), "contact": cmp.Or(a.contact, s.Contact), "kind": tool.KindMCP, "input": plain(offer.Input), "server": json.RawMessage(offered)})
	if err != nil {
		return d, false, err
	}
	d, err = tool.ReadDefinition(text)
	return d, err == nil, err
}

// asked puts a question, and gives the answer or what stands for none.
func (a *adding) asked(question, none string) string {
	if a.yes {
		return none
	}
	if _, err := fmt.Fprint(a.out, question+" "); err != nil || !a.in.Scan() {
		return none
	}
	return cmp.Or(strings.TrimSpace(a.in.Text()), none)
}

// plain is a server's input schema as the tool's owner takes it over: without
// the draft that it names.
func plain(schema json.RawMessage) json.RawMessage {
	var document map[string]any
	if json.Unmarshal(schema, &document) != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	delete(document, "$schema")
	text, err := json.Marshal(document)
	if err != nil {
		return schema
	}
	return text
}

// write writes a definition for people to read on. It never writes over one.
func write(path string, d tool.Definition) (err error) {
	raw, err := json.Marshal(d)
	if err != nil {
		return err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // the organisation's files hold no secret
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec // as above
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, key := range []string{"name", "description", "owner", "contact", "impact", "class", "resource", "facts", "control", "costBound", "timeout", "resultBytes", "result", "kind", "input", "output", "server"} {
		value, has := fields[key]
		if !has || value == nil {
			continue
		}
		text, err := yaml.Marshal(map[string]any{key: value})
		if err != nil {
			return err
		}
		if _, err := f.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// Package lending has the commands by which people lend agents, ask for them,
// agree and take them back.
package lending

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Commands returns the commands.
func Commands() []*cobra.Command {
	return []*cobra.Command{catalogue(), share(), request(), delegation(), grants(), agree(), refuse(), takeBack()}
}

func catalogue() *cobra.Command {
	var asJSON bool
	command := ask.Server("catalogue", "List the agents that you have, by what, and those that you can ask for", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			offers, err := c.Catalogue(command.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, append([]client.Offer{}, offers...))
			}
			table := tabwriter.NewWriter(command.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, offer := range offers {
				if err := ask.Say(table, "%s\t%s\t%s\t%s", offer.Name, offer.Department, by(offer), strings.Join(strings.Fields(offer.Description), " ")); err != nil {
					return err
				}
			}
			return table.Flush()
		})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

// by says how somebody has an agent.
func by(offer client.Offer) string {
	switch {
	case offer.Stopped:
		return "stopped"
	case len(offer.AvailableBy) == 0 && offer.Listed:
		return "ask for a share"
	case len(offer.AvailableBy) == 0:
		return "you answer for it"
	case offer.AvailableBy[0].Share == "":
		return "for your department"
	}
	until := ""
	if end := offer.AvailableBy[0].Until; end != nil {
		until = " until " + end.Format(time.DateOnly)
	}
	return "by share " + offer.AvailableBy[0].Share + until
}

// terms are the flags that say what is lent.
type terms struct {
	in       client.GrantInput
	ceiling  client.CeilingInput
	tools    []string
	yields   string
	yesNo    []string
	money    float64
	fanOut   int
	duration time.Duration
}

// flags are those of a share and of a delegation.
func (t *terms) flags(command *cobra.Command, label string) {
	flags := command.Flags()
	flags.StringVar(&t.in.Reason, "reason", "", "why (needed)")
	flags.DurationVar(&t.duration, "for", 0, "how long, for example 720h; without it until it is taken back")
	flags.StringSliceVar(&t.ceiling.Labels, "label", nil, label+"; its owner must agree")
	flags.StringSliceVar(&t.ceiling.ReadSpaces, "read-space", nil, "memory space that may be read (default those of the agent)")
	flags.StringSliceVar(&t.ceiling.Models, "model", nil, "model that may be used (default those of the agent)")
	flags.StringSliceVar(&t.tools, "tool", nil, "tool that may be used, with its impact and calls, for example files.read:READ:5 (default all that only read)")
	_ = command.MarkFlagRequired("reason") // the flag is there
}

// shareFlags are those of a share. A delegation neither adds to what is counted
// nor has a private side.
func (t *terms) shareFlags(command *cobra.Command) {
	t.flags(command, "label that the private side may read")
	flags := command.Flags()
	flags.StringVar(&t.ceiling.Stage, "stage", "", "freest stage (default the agent's)")
	flags.Float64Var(&t.money, "usd", 0, "dollars of one run (default the agent's)")
	flags.IntVar(&t.fanOut, "consults", -1, "how often a run may ask the private side (default the agent's fanOut)")
	flags.StringArrayVar(&t.yesNo, "yes-no", nil, "an answer of the private side by yes or no, as NAME=what it tells")
	flags.StringVar(&t.yields, "yields", "", "JSON file with answers of the private side: [{name, description, schema, template}]")
}

// input reads the flags.
func (t *terms) input(command *cobra.Command, now time.Time) (client.GrantInput, error) {
	in := t.in
	if t.duration > 0 {
		until := now.Add(t.duration)
		in.Until = &until
	}
	for _, use := range t.tools {
		one, err := toolUse(use)
		if err != nil {
			return in, err
		}
		t.ceiling.Tools = append(t.ceiling.Tools, one)
	}
	t.ceiling.MicroUSD = int64(math.Round(t.money * 1_000_000))
	if command.Flags().Changed("consults") {
		t.ceiling.FanOut = &t.fanOut
	}
	in.Ceiling = &t.ceiling
	for _, yesNo := range t.yesNo {
		name, tells, ok := strings.Cut(yesNo, "=")
		if !ok {
			return in, fmt.Errorf("--yes-no needs NAME=what it tells, not %q", yesNo)
		}
		in.Yields = append(in.Yields, client.Yield{Name: name, Description: tells, Schema: `{"type":"boolean"}`})
	}
	if t.yields == "" {
		return in, nil
	}
	more, err := readYields(t.yields)
	in.Yields = append(in.Yields, more...)
	return in, err
}

func toolUse(text string) (client.ToolUse, error) {
	var use client.ToolUse
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return use, fmt.Errorf("--tool needs NAME:IMPACT:CALLS, for example files.read:READ:5, not %q", text)
	}
	use.Name, use.Impact = parts[0], strings.ToUpper(parts[1])
	if _, err := fmt.Sscan(parts[2], &use.Calls); err != nil {
		return use, fmt.Errorf("--tool %q: calls are a number", text)
	}
	return use, nil
}

func readYields(path string) ([]client.Yield, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read []struct {
		Name, Description, Template string
		Schema                      json.RawMessage
	}
	if err := json.Unmarshal(raw, &read); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var list []client.Yield
	for _, y := range read {
		list = append(list, client.Yield{Name: y.Name, Description: y.Description, Schema: string(y.Schema), Template: y.Template})
	}
	return list, nil
}

func share() *cobra.Command {
	var t terms
	var pin bool
	command := ask.Server("share AGENT", "Lend an agent that you answer for to a department or a person", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			in, err := t.input(command, time.Now())
			if err != nil {
				return err
			}
			in.Agent = args[0]
			if pin {
				if in.Revision, err = current(command, c, args[0]); err != nil {
					return err
				}
			}
			g, err := c.Share(command.Context(), in)
			return tell(command, g, err)
		})
	t.shareFlags(command)
	command.Flags().StringVar(&t.in.Department, "department", "", "department that borrows (needed, or --person)")
	command.Flags().StringVar(&t.in.Person, "person", "", "person who borrows")
	command.Flags().BoolVar(&pin, "pin", false, "lend the current revision whatever comes after")
	return command
}

func current(command *cobra.Command, c *client.Client, agent string) (string, error) {
	offers, err := c.Catalogue(command.Context())
	at := slices.IndexFunc(offers, func(o client.Offer) bool { return o.Name == agent })
	if err != nil || at < 0 {
		return "", err
	}
	return offers[at].Revision, nil
}

func request() *cobra.Command {
	var t terms
	command := ask.Server("request-share AGENT", "Ask for an agent, for yourself or a department", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			in, err := t.input(command, time.Now())
			if err != nil {
				return err
			}
			in.Agent = args[0]
			g, err := c.RequestShare(command.Context(), in)
			return tell(command, g, err)
		})
	t.shareFlags(command)
	command.Flags().StringVar(&t.in.Department, "department", "", "department that borrows (default you alone)")
	return command
}

func delegation() *cobra.Command {
	var t terms
	command := ask.Server("delegation FROM AGENT", "Let an agent hand work to a stronger one", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			in, err := t.input(command, time.Now())
			if err != nil {
				return err
			}
			in.From, in.Agent = args[0], args[1]
			g, err := c.GrantDelegation(command.Context(), in)
			return tell(command, g, err)
		})
	t.flags(command, "label that the one may read for the other")
	return command
}

func grants() *cobra.Command {
	var asJSON, waiting bool
	command := ask.Server("grants", "List shares and delegations: those that you asked for, agreed to, profit from or answer for", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			var status []string
			if waiting {
				status = []string{"ASKED"}
			}
			list, err := c.Grants(command.Context(), status...)
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, append([]client.Grant{}, list...))
			}
			if len(list) == 0 {
				return ask.Say(command.OutOrStdout(), "there is no such grant that you may know of")
			}
			for _, g := range list {
				if err := tell(command, g, nil); err != nil {
					return err
				}
			}
			return nil
		})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	command.Flags().BoolVar(&waiting, "waiting", false, "only those to which somebody must still agree")
	return command
}

func agree() *cobra.Command {
	return ask.Server("agree GRANT", "Agree to a share or a delegation that was asked for", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			g, err := c.DecideShare(command.Context(), args[0], true, "")
			return tell(command, g, err)
		})
}

func refuse() *cobra.Command {
	return ended("refuse GRANT", "Refuse a share or a delegation that was asked for, or withdraw your request", func(command *cobra.Command, c *client.Client, id, reason string) (client.Grant, error) {
		return c.DecideShare(command.Context(), id, false, reason)
	})
}

func takeBack() *cobra.Command {
	return ended("take-back GRANT", "End a share or a delegation, from the next call on", func(command *cobra.Command, c *client.Client, id, reason string) (client.Grant, error) {
		return c.RecallAgent(command.Context(), id, reason)
	})
}

func ended(use, short string, do func(command *cobra.Command, c *client.Client, id, reason string) (client.Grant, error)) *cobra.Command {
	var reason string
	command := ask.Server(use, short, cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		g, err := do(command, c, args[0], reason)
		return tell(command, g, err)
	})
	command.Flags().StringVar(&reason, "reason", "", "why (needed)")
	_ = command.MarkFlagRequired("reason") // the flag is there
	return command
}

// tell prints a grant with what is still missing.
func tell(command *cobra.Command, g client.Grant, err error) error {
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%s  %s  %s of %s %s", g.ID, strings.ToLower(strings.ReplaceAll(g.Status, "_", " ")), strings.ToLower(g.Kind), g.Agent, whom(g))
	if len(g.Ceiling.Labels) > 0 {
		line += ", " + map[string]string{"SHARE": "private side reads", "DELEGATION": "with the labels"}[g.Kind] + " " + strings.Join(g.Ceiling.Labels, ", ")
	}
	if g.Until != nil && g.Ended == nil {
		line += ", until " + g.Until.Format(time.RFC3339)
	}
	if g.Ended != nil {
		line += fmt.Sprintf(", by %s: %s", g.Ended.By.Name, g.Ended.Reason)
	}
	if err := ask.Say(command.OutOrStdout(), "%s", line); err != nil {
		return err
	}
	for _, word := range g.Missing {
		var names []string
		for _, person := range word.People {
			names = append(names, person.Name)
		}
		whose := strings.Join(names, " or ")
		if whose == "" {
			whose = "anybody who does not borrow it"
		}
		if err := ask.Say(command.OutOrStdout(), "    waits for %s (%s)", whose, word.For); err != nil {
			return err
		}
	}
	return nil
}

func whom(g client.Grant) string {
	switch {
	case g.Kind == "ACCESS" && g.Person != nil:
		return "to " + strings.Join(given(g.Ceiling), ", ") + " for " + g.Person.Name + within(g)
	case g.Person != nil:
		return "to " + g.Person.Name
	case g.Department != "":
		return "to " + g.Department
	}
	return "from " + g.From
}

// given names what an access is to.
func given(c client.Ceiling) []string {
	names := slices.Concat(c.ReadSpaces, c.Labels, c.Models)
	for _, use := range c.Tools {
		names = append(names, use.Name)
	}
	return names
}

// within says where an access holds.
func within(g client.Grant) string {
	if g.Talk != "" {
		return " in conversation " + client.ShortID(g.Talk)
	}
	return " in run " + client.ShortID(g.Run)
}

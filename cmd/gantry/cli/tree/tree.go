// Package tree holds the command that shows a run with what stands above and
// below it.
package tree

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// node is a run with the runs below it.
type node struct {
	Run     string        `json:"run"`
	Agent   string        `json:"agent"`
	Status  string        `json:"status"`
	Lineage []link        `json:"lineage,omitempty"` // of the run that was asked for
	As      *client.Child `json:"as,omitempty"`      // how the run above knows it; nil for the run that was asked for
	Below   []node        `json:"below"`
	line    string        // Lineage, in words
}

// link is a run of the line down to the one that was asked for.
type link struct {
	Run           string `json:"run"`
	Kind          string `json:"kind"`
	Agent         string `json:"agent"`
	AgentRevision string `json:"agentRevision"`
}

// Command returns the command.
func Command() *cobra.Command {
	var asJSON, follow bool
	command := ask.Run("tree RUN", "Show a run with the runs above and below it", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			top, err := read(command.Context(), c, args[0])
			if err != nil {
				return err
			}
			switch {
			case follow:
				return told(command, c, top)
			case asJSON:
				return ask.JSON(command, top)
			}
			return show(command.OutOrStdout(), top)
		})
	command.Flags().BoolVar(&follow, "follow", false, "follow the events of all these runs until the first one ended")
	ask.JSONFlag(command, &asJSON, "one JSON object")
	command.MarkFlagsMutuallyExclusive("follow", "json")
	return command
}

// read reads a run and all below it that may be seen.
func read(ctx context.Context, c *client.Client, id string) (node, error) {
	run, err := c.Status(ctx, id)
	if err != nil {
		return node{}, err
	}
	top := node{Run: client.ShortID(id), Agent: run.Agent, Status: run.Status}
	line, err := c.Lineage(ctx, id)
	if err != nil {
		return node{}, err
	}
	for _, above := range line {
		above.Run = client.ShortID(above.Run)
		top.Lineage = append(top.Lineage, link(above))
	}
	top.line = Line(line)
	top.Below, err = below(ctx, c, id)
	return top, err
}

func below(ctx context.Context, c *client.Client, id string) ([]node, error) {
	children, err := c.Children(ctx, id)
	if err != nil {
		return nil, err
	}
	nodes := make([]node, 0, len(children))
	for _, child := range children {
		one := node{Run: client.ShortID(child.Run.ID), Agent: child.Agent, Status: child.Status, As: &child}
		if one.Below, err = below(ctx, c, child.Run.ID); err != nil {
			return nil, err
		}
		nodes = append(nodes, one)
	}
	return nodes, nil
}

func show(out io.Writer, top node) error {
	if err := ask.Say(out, "run %s: %s, %s", top.Run, top.line, top.Status); err != nil {
		return err
	}
	return showBelow(out, top.Below, "  ")
}

func showBelow(out io.Writer, nodes []node, indent string) error {
	for _, n := range nodes {
		if err := ask.Say(out, "%srun %s: %s, %s", indent, n.Run, strings.Join(words(n), ", "), n.Status); err != nil {
			return err
		}
		if err := showBelow(out, n.Below, indent+"  "); err != nil {
			return err
		}
	}
	return nil
}

// words say how the run above knows a run.
func words(n node) []string {
	said := []string{n.Agent}
	if n.As.Kind == "SIDECAR" {
		said = append(said, strings.TrimSpace("sidecar "+n.As.Purpose))
	}
	if n.As.Call > 0 {
		said = append(said, fmt.Sprintf("call %d", n.As.Call))
	}
	if n.As.Carve == nil {
		return append(said, "on a budget of its own")
	}
	said = append(said, ask.Dollars(n.As.Carve.MicroUSD)+" carved")
	if n.As.Settled != nil {
		said = append(said, ask.Dollars(n.As.Settled.MicroUSD)+" spent")
	}
	return said
}

// Line is a line of agents, the root's first.
func Line(lineage []client.Link) string {
	agents := make([]string, 0, len(lineage))
	for _, link := range lineage {
		agents = append(agents, link.Agent)
	}
	return strings.Join(agents, " → ")
}

// told prints the events of the runs as they are told, until the run at the top
// ended.
func told(command *cobra.Command, c *client.Client, top node) error {
	id, err := c.RunID(command.Context(), top.Run)
	if err != nil {
		return err
	}
	agents := map[string]string{id: top.Agent}
	return c.TreeEvents(command.Context(), id, "", func(e client.Event) (bool, error) {
		agent, known := agents[e.Run]
		if !known {
			run, err := c.Status(command.Context(), e.Run)
			if err != nil {
				return false, err
			}
			agent, agents[e.Run] = run.Agent, run.Agent
		}
		ends := e.Kind == "ended" && e.Run == id
		return !ends, ask.Say(command.OutOrStdout(), "%s %s %3d %s", client.ShortID(e.Run), agent, e.Seq, e.Summary)
	})
}

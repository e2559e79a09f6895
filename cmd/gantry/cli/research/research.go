// Package research holds the commands by which a person has a question looked
// into by many runs.
package research

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/cli/brain"
	"gantry.dev/cmd/gantry/client"
)

// The agents of the sample that make a research.
const (
	Coordinator  = "research-coordinator"
	Reader       = "library-reader"
	Consolidator = "research-editor"
)

// Command returns research and what belongs to it.
func Command(h brain.House) *cobra.Command {
	s := &asking{house: h, start: client.StartResearch{}}
	command := ask.Server("research QUESTION PATH", "Have a question looked into by many runs, each in a few documents of a file or folder", cobra.ExactArgs(2), s.run)
	command.Long = "Remembers the documents of PATH, as \"remember\" does, divides them among branches, and follows the research until it has ended.\n" +
		"Each branch is a run of its own with its own budget; what they found is made one and kept with its citations."
	flags := command.Flags()
	flags.StringVar(&s.draft.Space, "space", "", "space of documents and findings (default what the folder's rules say, then your own)")
	flags.StringSliceVar(&s.draft.Labels, "label", nil, "label of all documents; may be given again")
	flags.IntVar(&s.start.PerBranch, "per-branch", 3, "documents of one branch")
	flags.IntVar(&s.start.AtOnce, "at-once", 0, "branches under way together (default as the coordinator's limits allow)")
	flags.Int64Var(&s.start.MicroUSD, "budget", 0, "micro-dollars to spend at most, for everything (default the coordinator's limit)")
	flags.StringVar(&s.start.Coordinator, "coordinator", Coordinator, "agent that coordinates")
	flags.StringVar(&s.start.Agent, "agent", Reader, "agent that takes the branches")
	flags.StringVar(&s.start.Consolidator, "consolidator", Consolidator, "agent that makes one of what they found; empty for nobody")
	ask.JSONFlag(command, &s.asJSON, "one JSON object when the command ends")
	command.AddCommand(retryCommand(), showCommand())
	return command
}

// asking is one research that is asked for.
type asking struct {
	house  brain.House
	draft  client.MemoryDraft
	start  client.StartResearch
	asJSON bool
}

func (s *asking) run(command *cobra.Command, c *client.Client, args []string) error {
	if s.asJSON {
		s.house.Say = silent
	}
	names, err := s.house.Documents(command, c, args[1], s.draft)
	var skipped *brain.SkippedError
	if err != nil && !errors.As(err, &skipped) {
		return err
	}
	if len(names) == 0 {
		return errors.New("there is no document to look into")
	}
	s.start.Question, s.start.Inputs = args[0], names
	begun, err := c.StartResearch(command.Context(), s.start)
	if err != nil {
		return err
	}
	return follow(command, c, begun, s.asJSON)
}

func retryCommand() *cobra.Command {
	var agent string
	var asJSON bool
	command := ask.Run("retry RUN", "Have the branches of a research that failed taken again, and keep the others", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			begun, err := c.RetryBranches(command.Context(), args[0], agent)
			if err != nil {
				return err
			}
			return follow(command, c, begun, asJSON)
		})
	command.Flags().StringVar(&agent, "agent", "", "another agent for them (default those that took them before)")
	ask.JSONFlag(command, &asJSON, "one JSON object when the command ends")
	return command
}

func showCommand() *cobra.Command {
	var asJSON bool
	command := ask.Run("show RUN", "Show how a research stands and what it found, as far as you may see it", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			found, err := c.Research(command.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, found)
			}
			out := command.OutOrStdout()
			return errors.Join(ask.Say(out, "%s  %s", client.ShortID(found.ID), Line(found)), Tell(out, found))
		})
	ask.JSONFlag(command, &asJSON, "one JSON object")
	return command
}

// follow shows how a research moves on until it has ended, and what it found.
func follow(command *cobra.Command, c *client.Client, begun client.Research, asJSON bool) error {
	out := command.OutOrStdout()
	p := &Progress{Out: out, Screen: isScreen(out), Silent: asJSON}
	if err := p.Begin(begun); err != nil {
		return err
	}
	last := begun
	err := c.ResearchProgress(command.Context(), begun.ID, func(r client.Research) (bool, error) {
		last = r
		// What waits for a person does not go on by itself.
		return r.Code == "" || r.EndedAt != nil, p.Tell(r)
	})
	if err := errors.Join(err, p.End()); err != nil {
		if command.Context().Err() != nil {
			return ask.Say(command.ErrOrStderr(), "the research goes on; see it with: %s research show %s", ask.Program(), client.ShortID(begun.ID))
		}
		return err
	}
	if last, err = c.Research(command.Context(), last.ID); err != nil {
		return err
	}
	if asJSON {
		return errors.Join(ask.JSON(command, last), outcome(last))
	}
	return errors.Join(Tell(out, last), outcome(last))
}

// outcome is an error where something is missing.
func outcome(r client.Research) error {
	id := client.ShortID(r.ID)
	switch {
	case r.EndedAt == nil:
		return fmt.Errorf("the research waits (%s); see why with: %s watch %s", r.Code, ask.Program(), id)
	case r.Status == "COMPLETED":
		return nil
	case r.Failed == 0:
		return fmt.Errorf("the research is %s (%s); see why with: %s explain %s", r.Status, r.Code, ask.Program(), id)
	}
	return fmt.Errorf("the research is %s, %s missing; take again what failed with: %s research retry %s",
		r.Status, strings.Join(quoted(r.Missing()), ", "), ask.Program(), id)
}

func quoted(titles []string) []string {
	const most = 5
	out := make([]string, 0, most+1)
	for n, title := range titles {
		if n == most {
			return append(out, fmt.Sprintf("%d more", len(titles)-most))
		}
		out = append(out, fmt.Sprintf("%q", title))
	}
	return out
}

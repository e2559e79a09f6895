package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/run"
)

func explainCommand() *cobra.Command {
	var asJSON bool
	var turn int
	command := ask.Run("explain RUN", "Say what was asked, what happened, who intervened and why it stopped", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			answers, err := explanation(command, c, args[0], turn)
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, answers)
			}
			for i, answer := range answers {
				if err := sayAnswer(command.OutOrStdout(), answer, i > 0); err != nil {
					return err
				}
			}
			return nil
		})
	command.Flags().IntVar(&turn, "turn", 0, "only what the model saw in this turn")
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func explanation(command *cobra.Command, c *client.Client, id string, turn int) ([]client.Explained, error) {
	if !command.Flags().Changed("turn") {
		return c.Explain(command.Context(), id)
	}
	answer, found, err := c.ExplainTurn(command.Context(), id, turn)
	if err == nil && !found {
		err = fmt.Errorf("the run has no turn %d", turn)
	}
	return []client.Explained{answer}, err
}

func sayAnswer(out io.Writer, answer client.Explained, apart bool) error {
	heading := answer.Question
	if apart {
		heading = "\n" + heading
	}
	lines := answer.Lines
	if len(lines) == 0 {
		lines = []string{"nothing"}
	}
	if err := ask.Say(out, "%s", heading); err != nil {
		return err
	}
	for _, text := range lines {
		if err := ask.Say(out, "  %s", strings.ReplaceAll(text, "\n", "\n  ")); err != nil {
			return err
		}
	}
	return nil
}

func exportCommand() *cobra.Command {
	var path string
	command := ask.Run("export RUN", "Write a run's journal as JSON lines, for the command \"verify\"", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			lines, err := c.Export(command.Context(), args[0])
			if err != nil {
				return err
			}
			if path == "" {
				_, err = io.WriteString(command.OutOrStdout(), lines)
				return err
			}
			return os.WriteFile(path, []byte(lines), 0o600)
		})
	command.Flags().StringVarP(&path, "output", "o", "", "file to write (default standard output)")
	return command
}

func observeCommand() *cobra.Command {
	var asJSON bool
	var most int
	command := ask.Server("observe AGENT", "List what an agent would have done where its stage only lets it be simulated", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			if err := atLeastOne("--last", most); err != nil {
				return err
			}
			agent, err := c.Agent(command.Context(), args[0])
			if err != nil {
				return err
			}
			runs, err := c.Observed(command.Context(), args[0], most)
			if err != nil {
				return err
			}
			seen := observe(runs)
			if asJSON {
				return ask.JSON(command, seen)
			}
			return sayObserved(command.OutOrStdout(), agent, len(runs), seen)
		})
	command.Flags().IntVar(&most, "last", 50, "how many of the latest runs to look at")
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

// observation is one call that was only simulated.
type observation struct {
	Run     string      `json:"run"`
	At      time.Time   `json:"at"` // when the run began
	Subject string      `json:"subject"`
	Call    client.Call `json:"call"`
}

func observe(runs []client.Run) []observation {
	seen := []observation{}
	for _, r := range runs {
		for _, call := range r.Calls {
			if call.Outcome == string(run.OutcomeSimulated) {
				seen = append(seen, observation{Run: r.ID, At: r.StartedAt, Subject: r.Subject.Principal, Call: call})
			}
		}
	}
	return seen
}

func sayObserved(out io.Writer, agent client.Agent, runs int, seen []observation) error {
	would, last := map[string]int{}, ""
	for _, one := range seen {
		if one.Run != last {
			last = one.Run
			if err := ask.Say(out, "run %s of %s for %s", client.ShortID(one.Run), one.At.Format(time.RFC3339), one.Subject); err != nil {
				return err
			}
		}
		answer, by := judgement(one.Call)
		would[answer]++
		if err := ask.Say(out, "  call %d: %s %s — would have been %s%s", one.Call.Number, one.Call.Tool, one.Call.Arguments.Display, answer, by); err != nil {
			return err
		}
	}
	sums := fmt.Sprintf("%s is in stage %s; calls simulated in the last %d runs: %d", agent.Name, agent.Stage, runs, len(seen))
	for _, answer := range slices.Sorted(maps.Keys(would)) {
		sums += fmt.Sprintf("; %s: %d", answer, would[answer])
	}
	return ask.Say(out, "%s", sums)
}

func judgement(call client.Call) (answer, by string) {
	if call.Verdict == nil {
		return "undecided", ""
	}
	var policies []string
	for _, reason := range call.Verdict.Reasons {
		policies = append(policies, reason.Policy)
	}
	if len(policies) > 0 {
		by = " by " + strings.Join(policies, ", ")
	}
	return call.Verdict.Would, by
}

func agentsCommand() *cobra.Command {
	var asJSON bool
	command := ask.Server("agents", "List the agents that you may know of", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			agents, err := c.Agents(command.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return ask.JSON(command, append([]client.Agent{}, agents...))
			}
			table := tabwriter.NewWriter(command.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, agent := range agents {
				stage := agent.Stage
				if agent.Stopped {
					stage += ", stopped"
				}
				if err := ask.Say(table, "%s\t%s\t%s", agent.Name, stage, oneLine(agent.Description)); err != nil {
					return err
				}
			}
			return table.Flush()
		})
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func stageCommand() *cobra.Command {
	var evidence string
	command := ask.Server("stage AGENT OBSERVE|CONSTRAIN|APPROVE|AUTOMATE", "Change how much an agent may do by itself", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			stage, err := ask.OneOf("the stage", args[1], []string{"OBSERVE", "CONSTRAIN", "APPROVE", "AUTOMATE"})
			if err != nil {
				return err
			}
			agent, waits, err := c.SetStage(command.Context(), args[0], stage, evidence)
			if err != nil {
				return err
			}
			if waits {
				return ask.Say(command.OutOrStdout(), "%s stays in stage %s until a second person does the same", agent.Name, agent.Stage)
			}
			return ask.Say(command.OutOrStdout(), "%s is in stage %s", agent.Name, agent.Stage)
		})
	command.Flags().StringVar(&evidence, "evidence", "", "where what was observed can be read; needed for a freer stage")
	return command
}

// stopped reads what a kill names: ALL, or a scope and a name.
func stopped(args []string) (scope, name string, err error) {
	scope, err = ask.OneOf("the scope", args[0], []string{"ALL", "DEPARTMENT", "AGENT", "TOOL"})
	if err == nil && (scope == "ALL") != (len(args) == 1) {
		err = errors.New("name what is to be stopped, except for ALL")
	}
	if len(args) > 1 {
		name = args[1]
	}
	return scope, name, err
}

// killCommand stops new effects.
func killCommand() *cobra.Command {
	var reason string
	command := ask.Server("kill ALL|DEPARTMENT|AGENT|TOOL [NAME]", "Stop new effects of an agent, a tool, a department or everything, at once", cobra.RangeArgs(1, 2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			scope, name, err := stopped(args)
			if err != nil {
				return err
			}
			if err := c.Kill(command.Context(), scope, name, reason); err != nil {
				return err
			}
			return ask.Say(command.OutOrStdout(), "stopped: %s", strings.TrimSpace(scope+" "+name))
		})
	command.Flags().StringVar(&reason, "reason", "", "why; it is recorded")
	_ = command.MarkFlagRequired("reason") // the flag is declared above
	return command
}

// liftCommand ends a kill, with a second person.
func liftCommand() *cobra.Command {
	return ask.Server("lift ALL|DEPARTMENT|AGENT|TOOL [NAME]", "End a kill; two people have to", cobra.RangeArgs(1, 2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			scope, name, err := stopped(args)
			if err != nil {
				return err
			}
			waits, err := c.LiftKill(command.Context(), scope, name)
			if err != nil {
				return err
			}
			if waits {
				return ask.Say(command.OutOrStdout(), "stays stopped until a second person does the same: %s", strings.TrimSpace(scope+" "+name))
			}
			return ask.Say(command.OutOrStdout(), "lifted: %s", strings.TrimSpace(scope+" "+name))
		})
}

// killsCommand lists what is stopped.
func killsCommand() *cobra.Command {
	return ask.Server("kills", "List what is stopped, by whom and why", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		kills, err := c.Kills(command.Context())
		if err != nil {
			return err
		}
		if len(kills) == 0 {
			return ask.Say(command.OutOrStdout(), "nothing is stopped")
		}
		for _, kill := range kills {
			if err := ask.Say(command.OutOrStdout(), "%s %s since %s by %s: %s", kill.Scope, kill.Name, kill.At.UTC().Format(time.RFC3339), kill.By.Principal, oneLine(kill.Reason)); err != nil {
				return err
			}
		}
		return nil
	})
}

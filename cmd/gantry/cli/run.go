package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/run"
)

func runCommand() *cobra.Command {
	var asJSON, noFollow bool
	var budget int64
	command := ask.Server("run AGENT MESSAGE", "Start a run and follow it until it ended or waits for a person", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			started, err := c.StartRun(command.Context(), client.Start{Agent: args[0], Goal: args[1], MicroUSD: budget})
			if err != nil {
				return err
			}
			if noFollow {
				if asJSON {
					return ask.JSON(command, started)
				}
				return ask.Say(command.OutOrStdout(), "%s", client.ShortID(started.ID))
			}
			out := command.OutOrStdout()
			if asJSON {
				out = io.Discard
			}
			hints := hintsOf(command)
			t := &timeline{out: out, hints: &hints}
			if err := t.begin(started); err != nil {
				return err
			}
			stands, err := followRun(command.Context(), c, t, started.ID, false)
			if err != nil {
				return leave(command, started.ID, err)
			}
			if asJSON {
				err = ask.JSON(command, stands)
			} else {
				err = sayWhereItStands(out, stands, hints)
			}
			return cmp.Or(err, outcome(stands))
		})
	command.Flags().BoolVar(&noFollow, "no-follow", false, "print the run's id and do not wait")
	command.Flags().Int64Var(&budget, "budget", 0, "micro-dollars to spend at most (default the agent's limit)")
	ask.JSONFlag(command, &asJSON, "one JSON object when the command ends")
	return command
}

func watchCommand() *cobra.Command {
	var asJSON bool
	command := ask.Run("watch RUN", "Follow a run from its beginning until it ended", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			stands, err := c.Status(command.Context(), args[0])
			if err != nil {
				return err
			}
			watch := watchText
			if asJSON {
				watch = watchJSON
			}
			if stands, err = watch(command, c, stands); err != nil {
				return leave(command, args[0], err)
			}
			return outcome(stands)
		})
	ask.JSONFlag(command, &asJSON, "one JSON object per event")
	return command
}

// watchJSON prints a run's events as they are told until it ended.
func watchJSON(command *cobra.Command, c *client.Client, r client.Run) (client.Run, error) {
	lines := json.NewEncoder(command.OutOrStdout())
	lines.SetEscapeHTML(false)
	err := c.Events(command.Context(), r.ID, "", func(e client.Event) (bool, error) {
		return run.EventKind(e.Kind) != run.KindEnded, lines.Encode(e)
	})
	if err != nil {
		return r, err
	}
	return c.Status(command.Context(), r.ID)
}

// watchText prints a run's events for people until it ended.
func watchText(command *cobra.Command, c *client.Client, r client.Run) (client.Run, error) {
	out, hints := command.OutOrStdout(), hintsOf(command)
	t := &timeline{out: out, hints: &hints}
	if err := t.begin(r); err != nil {
		return r, err
	}
	stands, err := followRun(command.Context(), c, t, r.ID, true)
	if err != nil {
		return stands, err
	}
	return stands, sayWhereItStands(out, stands, hints)
}

// leave ends a command whose person wants to see no more: that is no failure
// of the run.
func leave(command *cobra.Command, id string, err error) error {
	if command.Context().Err() == nil {
		return err
	}
	return ask.Say(command.ErrOrStderr(), "the run goes on; see it with: %s", hintsOf(command).command("watch", client.ShortID(id)))
}

// asksPeople are the events after which a run may wait for a person.
var asksPeople = map[run.EventKind]bool{run.KindApprovalRequested: true, run.KindQuestionAsked: true, run.KindAccessRequested: true, run.KindLimitReached: true,
	run.KindCallUncertain: true, run.KindParked: true}

// followRun prints a run's events until it ended or, unless the follower is
// patient, until only a person can bring it on. It returns the run as it is then.
func followRun(ctx context.Context, c *client.Client, t *timeline, id string, patient bool) (client.Run, error) {
	var stands client.Run
	asked := false // whether the run may wait for a person by now
	err := c.Events(ctx, id, "", func(e client.Event) (bool, error) {
		if err := t.print(e); err != nil {
			return false, err
		}
		kind := run.EventKind(e.Kind)
		if kind == run.KindEnded {
			return false, nil
		}
		asked = asked || asksPeople[kind]
		if patient || !asked || e.Seq < stands.Version {
			return true, nil
		}
		var err error
		stands, err = c.Status(ctx, id)
		// What came after this event is printed first.
		return stands.Version != e.Seq || !stands.Waits(), err
	})
	if err != nil {
		return stands, err
	}
	return c.Status(ctx, id)
}

func sayWhereItStands(out io.Writer, r client.Run, hints hints) error {
	if r.End == nil {
		return ask.Say(out, "waits for: %s\n  whoever decides sees it with: %s\n  go on with: %s", strings.Join(r.WaitingFor, ", "),
			hints.command("inbox"), hints.command("watch", client.ShortID(r.ID)))
	}
	if r.End.Result != nil {
		if err := ask.Say(out, "\n%s\n", r.End.Result.Display); err != nil {
			return err
		}
	}
	return ask.Say(out, "%s: %s — spent %s", r.End.Status, told(r.End.Reason, r.End.Code), ask.Dollars(r.Budget.Settled.MicroUSD))
}

// outcome is an error for a run that ended without a result that was checked.
func outcome(r client.Run) error {
	if r.End == nil || r.End.Status == string(run.StatusCompleted) {
		return nil
	}
	return fmt.Errorf("the run is %s: %s", r.End.Status, r.End.Reason)
}

// told is a word and, where it says more, a code.
func told(word, code string) string {
	if code == "" || code == word {
		return word
	}
	return word + " " + code
}

// dollars writes micro-dollars as dollars.

// statuses are all that a run may have.
var statuses = []string{"QUEUED", "RUNNING", "WAITING", "CANCELLING", "PARKED", "COMPLETED", "PARTIAL", "FAILED", "CANCELLED"}

func runsCommand() *cobra.Command {
	var asJSON bool
	var filter client.Filter
	var most int
	var below bool
	command := ask.Server("runs", "List runs, latest first", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		if err := atLeastOne("--last", most); err != nil {
			return err
		}
		for i, status := range filter.Statuses {
			var err error
			if filter.Statuses[i], err = ask.OneOf("--status", status, statuses); err != nil {
				return err
			}
		}
		filter.Roots = !below
		runs, err := c.Runs(command.Context(), filter, most)
		if err != nil {
			return err
		}
		if asJSON {
			return ask.JSON(command, append([]client.Run{}, runs...))
		}
		table := tabwriter.NewWriter(command.OutOrStdout(), 0, 0, 2, ' ', 0)
		for _, r := range runs {
			stands := r.Status
			if len(r.WaitingFor) > 0 {
				stands += " " + strings.Join(r.WaitingFor, ",")
			}
			if err := ask.Say(table, "%s\t%s\t%s\t%s\t%s\t%s", r.StartedAt.Format(time.RFC3339), stands, r.Agent, r.Subject.Principal,
				ask.Dollars(r.Budget.Settled.MicroUSD), client.ShortID(r.ID)); err != nil {
				return err
			}
		}
		return table.Flush()
	})
	command.Flags().StringSliceVar(&filter.Statuses, "status", nil, "only runs of these statuses, for example WAITING,FAILED")
	command.Flags().StringVar(&filter.Agent, "agent", "", "only runs of this agent")
	command.Flags().StringVar(&filter.Subject, "for", "", "only runs for this principal")
	command.Flags().BoolVar(&below, "below", false, "also runs that other runs started")
	command.Flags().IntVar(&most, "last", 20, "how many at most")
	ask.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func steerCommand() *cobra.Command {
	var guidance client.Guidance
	command := ask.Run("steer RUN TEXT", "Give guidance to a run", cobra.ExactArgs(2),
		func(command *cobra.Command, c *client.Client, args []string) error {
			guidance.Text = args[1]
			r, err := c.Steer(command.Context(), args[0], guidance)
			return sayStatus(command, r, err)
		})
	command.Flags().BoolVar(&guidance.Interrupt, "interrupt", false, "stop the turn in flight and begin it anew with the guidance")
	command.Flags().BoolVar(&guidance.Void, "void", false, "void the open approvals of the run")
	return command
}

func cancelCommand() *cobra.Command {
	var reason string
	command := ask.Run("cancel RUN", "Cancel a run: nothing new begins, and what is in flight is settled", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			r, err := c.Cancel(command.Context(), args[0], reason)
			return sayStatus(command, r, err)
		})
	command.Flags().StringVar(&reason, "reason", "", "why")
	return command
}

func resumeCommand() *cobra.Command {
	var how client.Resume
	command := ask.Run("resume RUN", "Let a run go on that waits at a limit or is parked, or end it", cobra.ExactArgs(1),
		func(command *cobra.Command, c *client.Client, args []string) error {
			r, err := c.Resume(command.Context(), args[0], how)
			return sayStatus(command, r, err)
		})
	command.Flags().IntVar(&how.Turns, "turns", 0, "more model turns")
	command.Flags().Int64Var(&how.MicroUSD, "money", 0, "more micro-dollars")
	command.Flags().Int64Var(&how.Tokens, "tokens", 0, "more tokens")
	command.Flags().BoolVar(&how.Accept, "accept", false, "take the unchecked answer as it is")
	command.Flags().BoolVar(&how.End, "end", false, "end the run instead")
	command.MarkFlagsMutuallyExclusive("accept", "end")
	return command
}

func sayStatus(command *cobra.Command, r client.Run, err error) error {
	if err != nil {
		return err
	}
	return ask.Say(command.OutOrStdout(), "run %s: %s", client.ShortID(r.ID), strings.TrimSpace(r.Status+" "+strings.Join(r.WaitingFor, ", ")))
}

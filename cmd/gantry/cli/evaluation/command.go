package evaluation

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gantry.dev/agents/evaluate"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// secretPrefix begins the variables that hold secrets, as a server reads them.
const secretPrefix = "GANTRY_SECRET_"

// Command returns eval, with what can be done with results.
func Command() *cobra.Command {
	var trial Trial
	var folder, draft, out string
	var asJSON bool
	command := &cobra.Command{
		Use: "eval AGENT CASES", Short: "Try an agent on cases, and say how well it does", Args: cobra.ExactArgs(2),
		Long: "Plays each case of the file or folder CASES in a process, a database and an outside of its own, with the organisation's files, and says\n" +
			"how much of it was useful, what unsafe thing was tried or happened, and what it took. Nothing real is reached but the agent's models.\n\n" +
			"Secrets of models are read from " + secretPrefix + "NAME, as a server does.",
		Example: "  gantry eval invoice-desk deploy/sample/evaluations/invoice-desk.yaml --organisation deploy/sample",
		RunE: func(command *cobra.Command, args []string) error {
			set, err := readCases(args[0], args[1])
			if err != nil {
				return err
			}
			trial.Files, trial.Material, trial.Secrets = os.DirFS(folder), "files", secrets(os.Environ())
			if draft != "" {
				if trial.Draft, err = os.ReadFile(draft); err != nil {
					return fmt.Errorf("draft: %w", err)
				}
			}
			progress := command.ErrOrStderr()
			result, err := trial.Evaluate(command.Context(), set, func(s evaluate.Scored) { _ = tell(progress, s) })
			if err != nil {
				return err
			}
			return report(command, result, out, asJSON)
		},
	}
	flags := command.Flags()
	flags.StringVar(&folder, "organisation", ".", "folder of the organisation")
	flags.StringVar(&draft, "draft", "", "file with a revision of the agent, in place of the one in the folder")
	flags.StringVar(&trial.Model, "model", "", "model of the catalogue that answers every turn (default those of the revision)")
	flags.BoolVar(&trial.Servers, "servers", false, "start the MCP servers that are processes, as the organisation declares them")
	flags.StringVar(&out, "out", "", "file to write the result to, for eval record")
	ask.JSONFlag(command, &asJSON, "the result as JSON")
	command.AddCommand(digest(), record(), list())
	return command
}

// secrets are those of the environment, by their references.
func secrets(environment []string) map[string]string {
	found := map[string]string{}
	for _, line := range environment {
		name, value, _ := strings.Cut(line, "=")
		if reference, is := strings.CutPrefix(name, secretPrefix); is {
			found[strings.ToLower(reference)] = value
		}
	}
	return found
}

// readCases reads the cases of an agent from a file, or from AGENT.yaml in a
// folder.
func readCases(agent, path string) (evaluate.Set, error) {
	if at, err := os.Stat(path); err == nil && at.IsDir() {
		if agent == "" {
			return evaluate.Set{}, fmt.Errorf("%s is a folder: name the file of one agent's cases in it", path)
		}
		path = filepath.Join(path, agent+".yaml")
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return evaluate.Set{}, fmt.Errorf("there are no cases at %s", path)
	}
	if err != nil {
		return evaluate.Set{}, fmt.Errorf("cases: %w", err)
	}
	set, faults := evaluate.Read(path, raw)
	if len(faults) > 0 {
		lines := make([]string, len(faults))
		for i, fault := range faults {
			lines[i] = fault.String()
		}
		return set, errors.New(strings.Join(lines, "\n"))
	}
	if agent != "" && set.Agent != agent {
		return set, fmt.Errorf("the cases are for agent %q, not for %q", set.Agent, agent)
	}
	return set, nil
}

func tell(to io.Writer, s evaluate.Scored) error {
	verdict := "useful"
	if !s.Useful {
		verdict = "not useful: " + strings.Join(s.Missing, ", ")
	}
	if len(s.Happened) > 0 {
		verdict += "; UNSAFE happened: " + strings.Join(s.Happened, ", ")
	} else if len(s.Attempts) > 0 {
		verdict += "; unsafe tried: " + strings.Join(s.Attempts, ", ")
	}
	return ask.Say(to, "%s  %s  %s, %s, %s", s.Case, s.Status, verdict, ask.Counted(s.Approvals, "approval"), ask.Counted(s.Turns, "turn"))
}

func report(command *cobra.Command, result evaluate.Result, out string, asJSON bool) error {
	raw, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if out != "" {
		if err := os.WriteFile(out, raw, 0o600); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	if asJSON {
		return ask.JSON(command, result)
	}
	f := result.Figures()
	table := tabwriter.NewWriter(command.OutOrStdout(), 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"agent", result.Agent}, {"revision", result.Revision}, {"model", result.Model}, {"cases", result.Cases},
		{"played", fmt.Sprint(f.Played)}, {"utility", fmt.Sprintf("%.3f", f.Utility)}, {"utility of failures", fmt.Sprintf("%.3f", f.Failures)},
		{"unsafe tried", fmt.Sprint(f.Attempts)}, {"unsafe happened", fmt.Sprint(f.Happened)}, {"approvals a task", fmt.Sprintf("%.2f", f.Approvals)},
		{"turns a task", fmt.Sprintf("%.2f", f.Turns)}, {"cost", ask.Dollars(f.MicroUSD)}, {"latency, median and p95", fmt.Sprintf("%d ms, %d ms", f.LatencyP50, f.LatencyP95)},
	} {
		if _, err := fmt.Fprintf(table, "%s\t%s\n", row[0], row[1]); err != nil {
			return err
		}
	}
	return table.Flush()
}

func digest() *cobra.Command {
	return &cobra.Command{Use: "digest CASES", Short: "Print the digest that a revision names these cases by", Args: cobra.ExactArgs(1), RunE: func(command *cobra.Command, args []string) error {
		set, err := readCases("", args[0])
		if err != nil {
			return err
		}
		digest, err := set.Digest()
		if err != nil {
			return err
		}
		return ask.Say(command.OutOrStdout(), "%s", digest)
	}}
}

func record() *cobra.Command {
	return ask.Server("record FILE", "Keep a result of eval --out with the organisation", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		raw, err := os.ReadFile(args[0])
		if err != nil {
			return fmt.Errorf("result: %w", err)
		}
		var kept struct {
			Done struct {
				UserErrors []struct{ Code, Message string }
				Evaluation *evaluated
			}
		}
		if err := c.Ask(command.Context(), `mutation($input:RecordEvaluationInput!){done:recordEvaluation(input:$input){userErrors{code message} evaluation{`+evaluatedFields+`}}}`,
			map[string]any{"input": map[string]any{"report": string(raw)}}, &kept); err != nil {
			return err
		}
		for _, refused := range kept.Done.UserErrors {
			return fmt.Errorf("%s: %s", refused.Code, refused.Message)
		}
		return kept.Done.Evaluation.say(command.OutOrStdout())
	})
}

// evaluated is a kept result as the interface shows it.
type evaluated struct {
	Revision, Model, Cases, RecordedAt string
	RecordedBy                         struct{ Principal string }
	Played, UnsafeHappened             int
	Utility, ApprovalsPerTask          float64
}

const evaluatedFields = `revision model cases recordedAt recordedBy{principal} played unsafeHappened utility approvalsPerTask`

func (e *evaluated) say(to io.Writer) error {
	return ask.Say(to, "%s  revision %.12s  %s  cases %.12s  %s, utility %.3f, unsafe %d, approvals %.2f  by %s", e.RecordedAt, e.Revision, e.Model, e.Cases,
		ask.Counted(e.Played, "playing"), e.Utility, e.UnsafeHappened, e.ApprovalsPerTask, e.RecordedBy.Principal)
}

func list() *cobra.Command {
	return ask.Server("list AGENT", "List what the revisions of an agent came to, the latest first", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		var found struct{ Evaluations []evaluated }
		if err := c.Ask(command.Context(), `query($agent:String!){evaluations(agent:$agent){`+evaluatedFields+`}}`, map[string]any{"agent": args[0]}, &found); err != nil {
			return err
		}
		if len(found.Evaluations) == 0 {
			return ask.Say(command.OutOrStdout(), "No results are kept.")
		}
		for i := range found.Evaluations {
			if err := found.Evaluations[i].say(command.OutOrStdout()); err != nil {
				return err
			}
		}
		return nil
	})
}

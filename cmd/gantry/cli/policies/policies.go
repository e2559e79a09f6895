// Package policies holds the commands that check, test and explain policies.
package policies

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/cases"
)

// Source reads what policies rest on from an organisation's directory:
// the files of its policies, its tools and its people.
type Source func(dir string) (files []policy.File, tools []policy.ToolShape, people policy.Directory, err error)

// Folder is the source that reads an organisation's files. Errors: agents.Faults.
func Folder(dir string) ([]policy.File, []policy.ToolShape, policy.Directory, error) {
	organisation, err := agents.LoadDir(os.DirFS(dir), agents.LoadOptions{})
	if err != nil {
		return nil, nil, nil, err
	}
	return organisation.PolicyFiles(), organisation.Shapes(), organisation.Directory(), nil
}

// ErrFaults is returned by the policy commands after they printed what is
// wrong. The program ends with exit code 1 and prints nothing more.
var ErrFaults = errors.New("the policies are not in order")

// Command returns the command that checks, tests and explains policies.
func Command(source Source) *cobra.Command {
	command := &cobra.Command{
		Use:   "policy",
		Short: "Check, test and explain an organisation's policies",
	}
	command.AddCommand(policyCheck(source), policyTest(source), policyExplain(source), policySchema(source))
	for _, sub := range command.Commands() {
		sub.SilenceUsage, sub.SilenceErrors = true, true
	}
	return command
}

func policyCheck(source Source) *cobra.Command {
	return &cobra.Command{
		Use:   "check DIR",
		Short: "Validate all policies and print every fault",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			_, err := loadPolicies(source, args[0], command.OutOrStdout())
			return err
		},
	}
}

func policyTest(source Source) *cobra.Command {
	return &cobra.Command{
		Use:   "test DIR CASES...",
		Short: "Decide the cases in the given files and print those that come out otherwise",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			out := command.OutOrStdout()
			loaded, err := loadPolicies(source, args[0], out)
			if err != nil {
				return err
			}
			list, err := readCases(loaded, args[1:])
			if err != nil {
				return printFaults(out, err)
			}
			return runCases(out, loaded, list)
		},
	}
}

func policyExplain(source Source) *cobra.Command {
	return &cobra.Command{
		Use:   "explain DIR REQUEST",
		Short: "Decide requests and print which policy decided each, and where it is written",
		Long: `REQUEST is a file of cases, as "policy test" reads them, or one request as JSON
in a file that ends in .json. A case for the sample in deploy/sample:

` + exampleCase + `
The same request as JSON:

` + exampleRequest,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			out := command.OutOrStdout()
			loaded, err := loadPolicies(source, args[0], out)
			if err != nil {
				return err
			}
			if filepath.Ext(args[1]) != ".json" {
				return explainCases(out, loaded, args[1])
			}
			request, err := readRequest(args[1])
			if err != nil {
				return err
			}
			loaded.fillIn(&request)
			explain(out, loaded.set, policy.Decide(request, loaded.set, loaded.people))
			return nil
		},
	}
}

const (
	exampleCase = `case: a small adjustment is held for the ledger's owner
subject: amara.diallo
agent: agent:invoice-reconciler
tool: ledger.post_adjustment
resource: ledger:invoice/INV-1004
fact invoice: "INV-1004"
fact amountCents: -64856
fact currency: "EUR"
stage: AUTOMATE
expect: HOLD
`
	exampleRequest = `{"subject": {"id": "amara.diallo", "kind": "PERSON", "organisation": "northwind", "department": "finance"},
 "agent": {"name": "invoice-reconciler", "department": "finance"},
 "chain": [{"id": "amara.diallo", "kind": "PERSON", "organisation": "northwind", "department": "finance"}],
 "tool": {"name": "ledger.post_adjustment", "owner": "tomas.rehak", "impact": "REVERSIBLE"},
 "resource": "ledger:invoice/INV-1004",
 "facts": {"invoice": "INV-1004", "amountCents": -64856, "currency": "EUR"},
 "stage": "AUTOMATE"}
`
)

// fillIn means the tool as it is defined now where the request names no revision.
func (p policies) fillIn(request *policy.Request) {
	at := slices.IndexFunc(p.tools, func(tool policy.ToolShape) bool { return tool.Name == request.Tool.Name })
	if request.Tool.Revision == "" && at >= 0 {
		request.Tool.Revision = p.tools[at].Revision
	}
}

// explainCases decides each case of a file, whatever it expects.
func explainCases(out io.Writer, loaded policies, name string) error {
	list, err := readCases(loaded, []string{name})
	if err != nil {
		return printFaults(out, err)
	}
	for _, each := range list {
		fmt.Fprintf(out, "%s:%d: %s\n", each.File, each.Line, each.Name)
		explain(out, loaded.set, policy.Decide(each.Request, loaded.set, loaded.people))
	}
	return nil
}

func policySchema(source Source) *cobra.Command {
	return &cobra.Command{
		Use:   "schema DIR",
		Short: "Print the Cedar schema that the policies are validated against",
		Args:  cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			_, tools, _, err := source(args[0])
			if err != nil {
				return err
			}
			text, err := policy.Schema(tools)
			if err != nil {
				return printFaults(command.OutOrStdout(), err)
			}
			_, err = command.OutOrStdout().Write(text)
			return err
		},
	}
}

// policies is an organisation's directory as the policy commands need it.
type policies struct {
	set    *policy.Set
	tools  []policy.ToolShape
	people policy.Directory
}

// loadPolicies prints all faults, or one line that says what was read.
func loadPolicies(source Source, dir string, out io.Writer) (policies, error) {
	files, tools, people, err := source(dir)
	if err != nil {
		return policies{}, printFaults(out, err)
	}
	set, err := policy.Parse(files, tools)
	if err != nil {
		return policies{}, printFaults(out, err)
	}
	fmt.Fprintf(out, "%d policies over %d tools, revision %s\n", len(set.Policies()), len(tools), set.Revision())
	return policies{set: set, tools: tools, people: people}, nil
}

// printFaults prints faults one a line, each once, and returns ErrFaults; any
// other error is returned as it is.
func printFaults(out io.Writer, err error) error {
	var lines []string
	var ofPolicies policy.Faults
	var ofFiles agents.Faults
	switch {
	case errors.As(err, &ofPolicies):
		for _, fault := range ofPolicies {
			lines = append(lines, fault.String())
		}
	case errors.As(err, &ofFiles):
		for _, fault := range ofFiles {
			lines = append(lines, fault.String())
		}
	default:
		return err
	}
	said := map[string]bool{}
	for _, text := range lines {
		if !said[text] {
			fmt.Fprintln(out, text)
		}
		said[text] = true
	}
	return ErrFaults
}

// readCases reads all files before it reports, so that all faults are known. A
// file without any case is one: a test of nothing proves nothing.
func readCases(loaded policies, names []string) ([]cases.Case, error) {
	var (
		list   []cases.Case
		faults policy.Faults
	)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		read, err := cases.Parse(policy.File{Name: name, Text: text}, loaded.tools, loaded.people)
		var wrong policy.Faults
		if errors.As(err, &wrong) {
			faults = append(faults, wrong...)
		}
		if err == nil && len(read) == 0 {
			faults = append(faults, policy.Fault{File: name, Line: 1, Message: `the file has no case; a case begins with a line "case: " and its name`})
		}
		list = append(list, read...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return list, nil
}

func runCases(out io.Writer, loaded policies, list []cases.Case) error {
	failed := 0
	for _, each := range list {
		wrong := each.Run(loaded.set, loaded.people)
		if len(wrong) > 0 {
			failed++
		}
		for _, difference := range wrong {
			fmt.Fprintf(out, "%s:%d: %s: %s\n", each.File, each.Line, each.Name, difference)
		}
	}
	fmt.Fprintf(out, "%s, %d failed\n", ask.Counted(len(list), "case"), failed)
	if failed > 0 {
		return ErrFaults
	}
	return nil
}

// readRequest reads a policy.Request as JSON and refuses fields it does not
// know: a misspelt one would be judged as absent.
func readRequest(name string) (policy.Request, error) {
	var request policy.Request
	file, err := os.Open(name)
	if err != nil {
		return request, err
	}
	defer func() { _ = file.Close() }() // only read
	decoder := json.NewDecoder(file)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return request, fmt.Errorf("%s: %w", name, err)
	}
	return request, nil
}

func explain(out io.Writer, set *policy.Set, verdict policy.Verdict) {
	fmt.Fprintln(out, verdict.Answer)
	if verdict.Would != "" {
		fmt.Fprintf(out, "  would have been %s\n", verdict.Would)
	}
	for _, reason := range verdict.Reasons {
		place := "a rule of Gantry"
		if file, line, found := set.Source(reason.Policy); found {
			place = fmt.Sprintf("%s:%d", file, line)
		}
		fmt.Fprintf(out, "  because %s (%s): %s\n", reason.Policy, place, reason.Text)
	}
	for _, approver := range verdict.Approvers {
		who := approver.Principal
		if approver.Role != "" {
			who = "role:" + approver.Role
		}
		fmt.Fprintf(out, "  decided by %s (%s), %d needed\n", who, approver.Why, max(approver.Quorum, 1))
	}
	if verdict.ExpiresMs > 0 {
		fmt.Fprintf(out, "  open for %s\n", span(time.Duration(verdict.ExpiresMs)*time.Millisecond))
	}
}

// span writes a duration as policies do: 24h, not 24h0m0s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

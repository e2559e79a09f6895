package lending

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// Who takes part in the demonstration, and what they ask.
const (
	Question = "Is 4600 EUR a month within band D?"

	agentName = "pay-librarian"
	partner   = "dario.conti"     // HR: the agent is there for him
	rep       = "liam.byrne"      // sales: borrows it
	owner     = "ruth.abelson"    // answers for the agent, and for the label of pay
	tools     = "keiko.tanaka"    // owns the tools
	payer     = "marta.lindqvist" // sees what every department spends
)

// House is a running installation with the sample organisation.
type House struct {
	As func(principal string) (*client.Client, error) // speaks to it as somebody
}

// Result is what the demonstration showed.
type Result struct {
	Partner  string           `json:"partner"`  // what HR was answered
	Borrower string           `json:"borrower"` // what sales was answered
	Share    client.Grant     `json:"share"`
	MicroUSD map[string]int64 `json:"microUsd"` // what each department paid
	Checks   []string         `json:"checks"`   // what was looked at and found as it must be
}

// DemoCommand returns the command that shows lending with what show begins.
func DemoCommand(show func(ctx context.Context, out io.Writer) (Result, error)) *cobra.Command {
	return ask.Demonstration("lending", "Have HR's pay librarian answer HR and sales, each what they may know, and take it back", show)
}

// demo is the demonstration under way.
type demo struct {
	ask.Witness
	people map[string]*client.Client
	began  time.Time
}

// Demonstrate has one agent answer HR and sales from one revision, each what
// they may know, bills each department, and takes the agent back. The error says
// what was not as it must be.
func Demonstrate(ctx context.Context, house House, out io.Writer) (result Result, err error) {
	d := &demo{Witness: ask.Witness{Out: out}, people: map[string]*client.Client{}, began: time.Now().Add(-time.Minute)}
	for _, principal := range []string{partner, rep, owner, tools, payer} {
		if d.people[principal], err = house.As(principal); err != nil {
			return result, err
		}
	}
	if result.Partner, err = d.forHR(ctx); err != nil {
		return result, err
	}
	if result.Share, err = d.agreed(ctx); err != nil {
		return result, err
	}
	if result.Borrower, err = d.forSales(ctx); err != nil {
		return result, err
	}
	if result.MicroUSD, err = d.bills(ctx); err != nil {
		return result, err
	}
	err = d.takenBack(ctx, result.Share.ID)
	result.Checks = d.Checked
	if err == nil {
		err = d.Conclude()
	}
	return result, err
}

func (d *demo) checks(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}
	return nil
}

// answer asks the agent for somebody.
func (d *demo) answer(ctx context.Context, principal string) (client.Run, string, error) {
	c := d.people[principal]
	run, err := c.StartRun(ctx, client.Start{Agent: agentName, Goal: Question})
	if err != nil {
		return run, "", err
	}
	err = c.Events(ctx, run.ID, "", func(event client.Event) (bool, error) { return event.Kind != "ended" && event.Kind != "parked", nil })
	if err == nil {
		run, err = c.Run(ctx, run.ID)
	}
	if err != nil || run.End == nil || run.End.Result == nil {
		return run, "", fmt.Errorf("the run for %s gave no answer: %s: %w", principal, run.Status, err)
	}
	return run, run.End.Result.Value, d.Say("%s asks: %s\n    %s", principal, Question, run.End.Result.Value)
}

func (d *demo) forHR(ctx context.Context) (string, error) {
	run, text, err := d.answer(ctx, partner)
	if err != nil {
		return "", err
	}
	return text, d.checks(d.Check(run.Status == "COMPLETED" && strings.Contains(text, "4300 to 5900"), "HR is told the band"))
}

// agreed is the share that sales asks for, once everybody agreed.
func (d *demo) agreed(ctx context.Context) (client.Grant, error) {
	_, err := d.people[rep].StartRun(ctx, client.Start{Agent: agentName, Goal: Question})
	if err := d.Check(client.IsCode(err, "NOT_FOUND"), "sales does not have the agent"); err != nil {
		return client.Grant{}, err
	}
	g, err := d.people[rep].RequestShare(ctx, client.GrantInput{Agent: agentName, Department: "sales", Reason: "What we offer to people whom we would like to hire.",
		Ceiling: &client.CeilingInput{Labels: []string{"hr-salary"}},
		Yields:  []client.Yield{{Name: "within-band", Description: "Whether a salary is within a band: yes or no.", Schema: `{"type":"boolean"}`}}})
	if err != nil {
		return g, err
	}
	if err := d.Say("\n%s asks for a share of %s for sales; it waits for %s", rep, agentName, missing(g)); err != nil {
		return g, err
	}
	for _, person := range []string{owner, tools} {
		if g, err = d.people[person].DecideShare(ctx, g.ID, true, ""); err != nil {
			return g, err
		}
		if err := d.Say("%s agrees; it is %s", person, strings.ToLower(strings.ReplaceAll(g.Status, "_", " "))); err != nil {
			return g, err
		}
	}
	return g, d.Check(g.Status == "IN_FORCE", "the owners of agent, label and tools agreed")
}

func missing(g client.Grant) string {
	var words []string
	for _, word := range g.Missing {
		words = append(words, word.For)
	}
	return strings.Join(words, ", ")
}

func (d *demo) forSales(ctx context.Context) (string, error) {
	if err := d.Say(""); err != nil {
		return "", err
	}
	run, text, err := d.answer(ctx, rep)
	if err != nil {
		return "", err
	}
	seen, err := d.people[rep].Export(ctx, run.ID)
	if err != nil {
		return "", err
	}
	own, err := d.people[rep].Runs(ctx, client.Filter{Agent: agentName}, 100)
	if err != nil {
		return "", err
	}
	hr, err := d.people[owner].Runs(ctx, client.Filter{Agent: agentName}, 100)
	if err != nil {
		return "", err
	}
	return text, d.checks(d.Check(run.Status == "COMPLETED" && strings.HasPrefix(text, "Yes"), "sales is told yes"),
		d.Check(!strings.Contains(text, "4300") && !strings.Contains(text, "5900") && !strings.Contains(seen, "4,300"), "and neither the answer nor the run's journal holds the band"),
		d.Check(len(own) == 1 && len(hr) == 3, "the private side's run is open to HR alone"))
}

func (d *demo) bills(ctx context.Context) (map[string]int64, error) {
	var got struct {
		Usage []struct {
			Key   string
			Spent struct {
				Money int64 `json:"money,string"`
			}
		}
	}
	err := d.people[payer].Ask(ctx, `query($from:Time!,$to:Time!){usage(groupBy:DEPARTMENT,from:$from,to:$to){key spent{money}}}`,
		map[string]any{"from": d.began.UTC().Format(time.RFC3339), "to": time.Now().Add(time.Minute).UTC().Format(time.RFC3339)}, &got)
	if err != nil {
		return nil, err
	}
	bills := map[string]int64{}
	for _, row := range got.Usage {
		bills[row.Key] = row.Spent.Money
	}
	if err := d.Say("\nhr paid %d µUSD for its answer, sales %d µUSD for theirs", bills["hr"], bills["sales"]); err != nil {
		return bills, err
	}
	return bills, d.Check(len(bills) == 2 && bills["hr"] > 0 && bills["sales"] > 0, "each department paid for its own")
}

func (d *demo) takenBack(ctx context.Context, share string) error {
	if _, err := d.people[owner].RecallAgent(ctx, share, "The positions are filled."); err != nil {
		return err
	}
	_, err := d.people[rep].StartRun(ctx, client.Start{Agent: agentName, Goal: Question})
	refused := client.IsCode(err, "NOT_FOUND")
	if err := d.Say("%s takes it back; the next call for %s is refused", owner, rep); err != nil {
		return err
	}
	return d.Check(refused, "what was taken back is gone at the next call")
}

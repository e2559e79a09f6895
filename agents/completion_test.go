package agents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
)

// What confirms an effect must look at what it read, and nothing that the model
// says may switch it off.
func TestNoContractTakesTheModelsWordForAnEffect(t *testing.T) {
	const when = `      when: calls.exists(c, c.tool == "ledger.post_adjustment" && c.outcome == "OK")` + "\n      tool: ledger.find_adjustments\n"
	for name, row := range map[string]struct{ before, after, fault string }{
		"the model's word switches it off": {when, "      when: output.posted\n      tool: ledger.find_adjustments\n", "completion.checks[0].when: must not look at output"},
		"a review that nobody makes":       {"  required: [/finding, /evidence]\n", "  required: [/finding, /evidence]\n  review: true\n", "completion.review: name a sidecar"},
		"an artifact that nobody reads": {"    - name: answer-says-what-happened\n", "    - name: answer-says-what-happened\n      artifact: {format: json}\n",
			"completion.checks[1].artifact: name the tool that reads it"},
		"a form that nobody knows": {"    - name: answer-says-what-happened\n", "    - name: answer-says-what-happened\n      artifact: {format: docx}\n",
			"completion.checks[1].artifact.format: must be one of"},
		"a name that the platform uses": {"    - name: answer-says-what-happened\n", "    - name: review\n", `"review" is the name of a check that the platform makes`},
	} {
		t.Run(name, func(t *testing.T) {
			changed := files(t)
			edit(t, changed, reconciler, row.before, row.after)
			_, err := agents.LoadDir(changed, agents.LoadOptions{})
			require.ErrorContains(t, err, row.fault)
		})
	}
}

// A check that reads and then judges the model's answer alone confirms nothing.
func TestACheckThatDoesNotLookConfirmsNothing(t *testing.T) {
	o := load(t)
	for i := range o.Agents {
		if o.Agents[i].Name == "invoice-reconciler" {
			check := o.Agents[i].Completion.Checks[0]
			check.Expression = "output.posted"
			o.Agents[i].Completion.Checks = []agents.Check{check}
		}
	}
	require.ErrorContains(t, o.Validate(), "only a check that reads with a tool and looks at the result confirms anything")
}

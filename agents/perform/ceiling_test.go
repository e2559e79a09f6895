package perform_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// What the rules answered before changes nothing of what they answer to another
// line, in another conversation, or once a grant has ended.
func TestACeilingIsWhatRulesThatWereNeverAskedSay(t *testing.T) {
	o := delegating()
	definition, _ := o.Tool("things.write")
	use := agents.ToolUse{Name: "things.write", Impact: policy.Irreversible, Calls: 2}
	o.Agents[1].Tools, o.Agents[1].MayRequest = nil, &agents.Requestable{Tools: []agents.ToolUse{use}}
	above, agent := o.Agents[0].Name, o.Agents[1].Name
	given := agents.Grant{Kind: agents.Access, Agent: agent, To: agents.Borrower{Person: "ada"}, Pin: definition.Digest(),
		Ceiling: agents.Ceiling{Tools: []agents.ToolUse{use}, Stage: policy.Automate}}
	forRun, forAll := given, given
	forRun.ID, forRun.Run = "access-1", "r1"
	forAll.ID, forAll.Conversation, forAll.UntilMs = "access-2", "here", now
	o.Grants = []agents.Grant{forRun, forAll}
	var lines []run.Acting
	for _, subject := range []string{"ada", "eve"} {
		for _, conversation := range []string{"", "here", "elsewhere"} {
			for _, at := range []int64{0, now - 1, now, now + 1} {
				for _, links := range [][]run.Link{{{Agent: agent}}, {{Agent: agent, Run: "r1"}}, {{Agent: agent, Run: "r2"}}, {{Agent: above, Run: "r1"}},
					{{Agent: above, Run: "r0"}, {Agent: agent, Run: "r1"}}, {{Agent: above, Run: "r0"}, {Agent: agent, Run: "r2"}}, {{Agent: above, Run: "r0"}, {Agent: agent, Run: "r2", Grant: "access-1"}}} {
					lines = append(lines, run.Acting{Subject: subject, Conversation: conversation, AtMs: at, Links: links})
				}
			}
		}
	}
	fresh := make([]policy.Authority, len(lines))
	with := 0
	for i, line := range lines {
		fresh[i] = rulesOf(t, o).Ceiling(line)
		with += len(fresh[i].Tools)
	}
	require.NotZero(t, with)
	rapid.Check(t, func(rt *rapid.T) {
		rules := rulesOf(t, o)
		for _, i := range rapid.Permutation(order(len(lines))).Draw(rt, "order") {
			require.Equal(rt, fresh[i], rules.Ceiling(lines[i]), "%+v", lines[i])
			require.Equal(rt, fresh[i], rules.Ceiling(lines[i]), "%+v", lines[i])
		}
	})
}

func order(count int) (order []int) {
	for i := range count {
		order = append(order, i)
	}
	return order
}

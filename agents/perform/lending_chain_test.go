package perform_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// anyOrganisation draws agents with random bounds, and random grants on them.
func anyOrganisation(t *rapid.T) agents.Organisation {
	o := delegating()
	base := o.Agents[1]
	o.Agents = nil
	some := func(what string) []agents.ToolUse {
		var uses []agents.ToolUse
		for _, name := range []string{"things.read", "things.write", tool.AskName, tool.DelegateName} {
			if rapid.Bool().Draw(t, what+name) {
				uses = append(uses, agents.ToolUse{Name: name, Impact: policy.Irreversible, Calls: rapid.IntRange(1, 9).Draw(t, "calls")})
			}
		}
		return uses
	}
	labels := func() policy.Labels {
		if rapid.Bool().Draw(t, "secret") {
			return policy.NewLabels("secret")
		}
		return nil
	}
	spaces := func() []string {
		return rapid.SliceOfDistinct(rapid.SampledFrom([]string{"organisation", "agent", "subject", "department:d"}), rapid.ID).Draw(t, "spaces")
	}
	for i := range 4 {
		r := base
		r.Name, r.Tools, r.Clearance, r.Spaces = fmt.Sprint("a", i), some("own"), labels(), agents.Spaces{Read: spaces(), Write: spaces()}
		r.Audience = rapid.SampledFrom([][]string{{"d"}, {"e"}, {"d", "e"}}).Draw(t, "audience")
		r.Stage = policy.Stage(rapid.IntRange(0, 3).Draw(t, "stage"))
		r.Limits.MicroUSD = rapid.Int64Range(1, 9).Draw(t, "money")
		o.Agents = append(o.Agents, r)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "grants") {
		g := agents.Grant{ID: fmt.Sprint("g", i), Kind: agents.Share, Agent: fmt.Sprint("a", rapid.IntRange(0, 3).Draw(t, "agent")), To: agents.Borrower{Department: "e"}, AtMs: 1,
			Ceiling: agents.Ceiling{Tools: some("given"), Labels: labels(), ReadSpaces: spaces(), WriteSpaces: spaces(), Models: base.Models,
				Stage: policy.Stage(rapid.IntRange(0, 3).Draw(t, "stage")), MicroUSD: rapid.Int64Range(0, 9).Draw(t, "money"), Tokens: 100, FanOut: 3},
			Words: []agents.Word{{Person: "olga", AtMs: 1}}}
		if rapid.Bool().Draw(t, "delegation") {
			g.Kind, g.To, g.From = agents.Delegation, agents.Borrower{}, fmt.Sprint("a", rapid.IntRange(0, 3).Draw(t, "from"))
		}
		if rapid.Bool().Draw(t, "recalled") {
			g.Recalled = &agents.Recalled{By: "olga"}
		}
		o.Grants = append(o.Grants, g)
	}
	return o
}

// No chain of shares and spawns widens: without a grant nobody has more than the
// one above, and with one no more than the grants of the chain give, in tools,
// labels, spaces and models alone.
func TestNoChainWidensWithoutAGrant(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOrganisation(t)
		kit, err := perform.Builder{Egress: func(agents.Organisation) (*tool.Egress, error) { return nil, nil }}.Build(o)
		require.NoError(t, err)
		rules := kit.Rules
		subject := rapid.SampledFrom([]string{"ada", "eve"}).Draw(t, "subject")
		var links []run.Link
		var above, most policy.Authority
		for i := range rapid.IntRange(1, 4).Draw(t, "length") {
			link := run.Link{Run: fmt.Sprint(i), Agent: fmt.Sprint("a", rapid.IntRange(0, 3).Draw(t, "link"))}
			if i > 0 && rapid.Bool().Draw(t, "granted") {
				link.Grant = fmt.Sprint("g", rapid.IntRange(0, 4).Draw(t, "grant"))
			}
			links = append(links, link)
			may := rules.Ceiling(run.Acting{Subject: subject, Links: links})
			if i == 0 {
				above, most = may, may
				continue
			}
			given, inForce := o.GrantCeiling(link.Grant, 0)
			switch {
			case link.Grant == "" && !may.Below(above):
				t.Fatal("more than the one above, and no grant says so")
			case link.Grant != "" && !inForce && may.Turns+len(may.Tools)+len(may.Labels) > 0:
				t.Fatal("a grant that is not in force gives something")
			}
			if inForce {
				most = policy.Widen(most, given)
			}
			if !may.Below(most) {
				t.Fatal("more than the grants of the chain give")
			}
			above = may
		}
	})
}

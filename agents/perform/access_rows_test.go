package perform_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// accesses draws what people let runs use, and took back, for runs and people of
// a chain and others.
func accesses(t *rapid.T, o agents.Organisation) (list []agents.Grant) {
	for i := range rapid.IntRange(0, 5).Draw(t, "accesses") {
		g := agents.Grant{ID: fmt.Sprint("access-", i), Kind: agents.Access, Agent: "a0", Run: fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "run")),
			To: agents.Borrower{Person: rapid.SampledFrom([]string{"ada", "eve"}).Draw(t, "for")}, Ceiling: agents.Ceiling{Stage: policy.Automate}}
		switch rapid.IntRange(0, 3).Draw(t, "thing") {
		case 0:
			name := rapid.SampledFrom([]string{"things.read", "things.write"}).Draw(t, "tool")
			definition, _ := o.Tool(name)
			g.Ceiling.Tools, g.Pin = []agents.ToolUse{{Name: name, Impact: policy.Irreversible, Calls: 2}}, definition.Digest()
			if rapid.IntRange(0, 3).Draw(t, "changed") == 0 {
				g.Pin = "another definition"
			}
		case 1:
			g.Ceiling.Labels = policy.NewLabels("secret")
		case 2:
			g.Ceiling.ReadSpaces = []string{"department:d"}
		case 3:
			g.Ceiling.Models = []string{"another"}
		}
		if rapid.Bool().Draw(t, "for the conversation") {
			g.Agent, g.Run = fmt.Sprint("a", rapid.IntRange(0, 3).Draw(t, "whose")), ""
			g.Conversation = rapid.SampledFrom([]string{"here", "elsewhere"}).Draw(t, "conversation")
			g.UntilMs = rapid.SampledFrom([]int64{0, now, now + 1}).Draw(t, "until")
		}
		if rapid.IntRange(0, 3).Draw(t, "taken back") == 0 {
			g.Recalled = &agents.Recalled{By: "olga"}
		}
		list = append(list, g)
	}
	return list
}

// now is when the runs of these tests act, UTC ms.
const now = 1000

func rulesOf(t require.TestingT, o agents.Organisation) run.Rules {
	kit, err := perform.Builder{Egress: func(agents.Organisation) (*tool.Egress, error) { return nil, nil }}.Build(o)
	require.NoError(t, err)
	return kit.Rules
}

// No sequence of consents, spawns and shares gives anybody more than what people
// consented to for a run of the chain, that has not been taken back and is as it
// was seen; nor the person more than they may read, nor a run more for what was
// given to one below it.
func TestNoConsentWidensBeyondItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := anyOrganisation(t)
		for i := range o.Agents {
			if rapid.IntRange(0, 3).Draw(t, "may ask") > 0 {
				o.Agents[i].MayRequest = &agents.Requestable{Labels: policy.NewLabels("secret"), Spaces: []string{"department:d"}, Models: []string{"another"}}
				for _, name := range []string{"things.read", "things.write"} {
					o.Agents[i].MayRequest.Tools = append(o.Agents[i].MayRequest.Tools, agents.ToolUse{Name: name, Impact: policy.Irreversible, Calls: 2})
				}
			}
		}
		plain := rulesOf(t, o)
		given := accesses(t, o)
		o.Grants = append(o.Grants, given...)
		rules := rulesOf(t, o)
		subject := rapid.SampledFrom([]string{"ada", "eve"}).Draw(t, "subject")
		person, _ := o.Principal(subject)
		conversation := rapid.SampledFrom([]string{"", "here"}).Draw(t, "in")
		var links []run.Link
		var above, bare policy.Authority
		for i := range rapid.IntRange(1, 4).Draw(t, "length") {
			link := run.Link{Run: fmt.Sprint(i), Agent: fmt.Sprint("a", rapid.IntRange(0, 3).Draw(t, "link"))}
			if i > 0 && rapid.Bool().Draw(t, "granted") {
				link.Grant = fmt.Sprint("g", rapid.IntRange(0, 4).Draw(t, "grant"))
			}
			links = append(links, link)
			acting := run.Acting{Subject: subject, Links: links, Conversation: conversation, AtMs: now}
			may, without := rules.Ceiling(acting), plain.Ceiling(acting)
			consented := policy.Authority{}
			mine := 0
			for _, g := range given {
				definition, _ := o.Tool("")
				if len(g.Ceiling.Tools) > 0 {
					definition, _ = o.Tool(g.Ceiling.Tools[0].Name)
				}
				if g.Recalled != nil || g.To.Person != subject || g.Pin != "" && g.Pin != definition.Digest() {
					continue
				}
				gives := policy.Authority{Labels: g.Ceiling.Labels, ReadSpaces: g.Ceiling.ReadSpaces, Models: g.Ceiling.Models}
				for _, use := range g.Ceiling.Tools {
					gives.Tools = map[string]policy.ToolGrant{use.Name: {Revision: definition.Digest(), Impact: use.Impact, Calls: use.Calls}}
				}
				gives.Labels = person.Clearance.Meet(gives.Labels)
				for n, one := range links {
					asks, _ := o.Agent(one.Agent)
					if one.Run == g.Run || g.Run == "" && g.Conversation == conversation && g.Agent == one.Agent && asks.MayRequest != nil && (g.UntilMs == 0 || g.UntilMs > now) {
						consented = policy.Widen(consented, gives)
						if n == i {
							mine++
						}
					}
				}
			}
			switch {
			case may.Turns == 0 && len(may.Tools)+len(may.Labels)+len(may.ReadSpaces)+len(may.Models) > 0 && without.Turns == 0 && len(without.Tools)+len(without.Labels)+len(without.ReadSpaces)+len(without.Models) == 0:
				t.Fatal("who may not act was given something")
			case link.Grant == "" && i > 0 && mine == 0 && !may.Below(above):
				t.Fatal("more than the one above, and nobody consented")
			}
			most := bare
			if i == 0 || link.Grant != "" {
				most = without
			}
			if i > 0 {
				most = policy.Widen(most, without)
				most = policy.Widen(most, above)
			}
			if extra := policy.Widen(most, consented); !within(may, extra) {
				t.Fatalf("more than was consented to: %+v above %+v", may, extra)
			}
			if may.MicroUSD > without.MicroUSD || may.Turns > without.Turns || may.Depth > without.Depth || may.Stage > without.Stage {
				t.Fatal("a consent adds to what is counted or lasts")
			}
			above, bare = may, without
		}
	})
}

// within reports whether b has all tools by name and definition, labels, spaces
// and models of a.
func within(a, b policy.Authority) bool {
	for name, grant := range a.Tools {
		if wide, has := b.Tools[name]; !has || wide.Revision != grant.Revision {
			return false
		}
	}
	a.Tools = nil
	return b.Includes(a)
}

// A consent is looked at again at every intent: it ends with its recall, with a
// kill of the agent or the tool, and with another definition.
func TestAConsentIsLookedAtAgain(t *testing.T) {
	o := delegating()
	definition, _ := o.Tool("things.write")
	o.Agents[1].Tools = nil
	acting := run.Acting{Subject: "ada", Links: []run.Link{{Run: "r1", Agent: o.Agents[1].Name}}}
	given := agents.Grant{ID: "access-1", Kind: agents.Access, Agent: o.Agents[1].Name, Run: "r1", To: agents.Borrower{Person: "ada"}, Pin: definition.Digest(),
		Ceiling: agents.Ceiling{Tools: []agents.ToolUse{{Name: "things.write", Impact: policy.Irreversible, Calls: 1}}, Stage: policy.Automate}}
	has := func(o agents.Organisation) bool {
		_, has := rulesOf(t, o).Ceiling(acting).Tools["things.write"]
		return has
	}
	require.False(t, has(o))
	o.Grants = []agents.Grant{given}
	require.True(t, has(o))
	for name, change := range map[string]func(*agents.Organisation, *agents.Grant){
		"recalled":       func(_ *agents.Organisation, g *agents.Grant) { g.Recalled = &agents.Recalled{By: "olga"} },
		"another run":    func(_ *agents.Organisation, g *agents.Grant) { g.Run = "r2" },
		"another person": func(_ *agents.Organisation, g *agents.Grant) { g.To.Person = "eve" },
		"another tool":   func(_ *agents.Organisation, g *agents.Grant) { g.Pin = "before" },
		"killed tool": func(o *agents.Organisation, _ *agents.Grant) {
			o.Kills = []agents.Kill{{Scope: agents.KillTool, Name: "things.write"}}
		},
		"killed agent": func(o *agents.Organisation, g *agents.Grant) {
			o.Kills = []agents.Kill{{Scope: agents.KillAgent, Name: g.Agent}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed, g := o, given
			change(&changed, &g)
			changed.Grants = []agents.Grant{g}
			require.False(t, has(changed))
		})
	}
}

// So is a consent for a conversation: it is for one agent, one person and one
// conversation, until it ends, and while the agent may still ask for as much.
func TestAConsentForAConversationIsLookedAtAgain(t *testing.T) {
	o := delegating()
	definition, _ := o.Tool("things.write")
	use := agents.ToolUse{Name: "things.write", Impact: policy.Irreversible, Calls: 2}
	o.Agents[1].Tools, o.Agents[1].MayRequest = nil, &agents.Requestable{Tools: []agents.ToolUse{use}}
	agent := o.Agents[1].Name
	given := agents.Grant{ID: "access-1", Kind: agents.Access, Agent: agent, Conversation: "here", To: agents.Borrower{Person: "ada"}, Pin: definition.Digest(),
		Ceiling: agents.Ceiling{Tools: []agents.ToolUse{use}, Stage: policy.Automate}, UntilMs: now + 1}
	has := func(o agents.Organisation, g agents.Grant, acting run.Acting) bool {
		o.Grants = []agents.Grant{g}
		_, has := rulesOf(t, o).Ceiling(acting).Tools["things.write"]
		return has
	}
	acting := func() run.Acting {
		return run.Acting{Subject: "ada", Links: []run.Link{{Agent: agent}}, Conversation: "here", AtMs: now}
	}
	require.True(t, has(o, given, acting()), "a run that is not started yet has it, too")
	for name, change := range map[string]func(*agents.Organisation, *agents.Grant, *run.Acting){
		"recalled": func(_ *agents.Organisation, g *agents.Grant, _ *run.Acting) {
			g.Recalled = &agents.Recalled{By: "olga"}
		},
		"ended":                func(_ *agents.Organisation, _ *agents.Grant, a *run.Acting) { a.AtMs = now + 1 },
		"at no known time":     func(_ *agents.Organisation, _ *agents.Grant, a *run.Acting) { a.AtMs = 0 },
		"another conversation": func(_ *agents.Organisation, _ *agents.Grant, a *run.Acting) { a.Conversation = "elsewhere" },
		"no conversation":      func(_ *agents.Organisation, _ *agents.Grant, a *run.Acting) { a.Conversation = "" },
		"another person":       func(_ *agents.Organisation, _ *agents.Grant, a *run.Acting) { a.Subject = "eve" },
		"another agent":        func(o *agents.Organisation, g *agents.Grant, _ *run.Acting) { g.Agent = o.Agents[0].Name },
		"another tool":         func(_ *agents.Organisation, g *agents.Grant, _ *run.Acting) { g.Pin = "before" },
		"may not ask for it":   func(o *agents.Organisation, _ *agents.Grant, _ *run.Acting) { o.Agents[1].MayRequest = nil },
		"may ask for fewer of them": func(o *agents.Organisation, _ *agents.Grant, _ *run.Acting) {
			o.Agents[1].MayRequest.Tools[0].Calls = 1
		},
	} {
		t.Run(name, func(t *testing.T) {
			changed, g, a := o, given, acting()
			changed.Agents = slices.Clone(o.Agents)
			for i := range changed.Agents {
				changed.Agents[i].MayRequest = &agents.Requestable{Tools: []agents.ToolUse{use}}
			}
			change(&changed, &g, &a)
			require.False(t, has(changed, g, a))
		})
	}
}

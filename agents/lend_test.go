package agents_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/policy"
)

// narrowed is the sample with an agent of hr that only hr may use.
func narrowed(t *testing.T) agents.Organisation {
	t.Helper()
	in := files(t)
	edit(t, in, "agents/policy-librarian.yaml", "audience: [finance, hr, operations, procurement, sales]", "audience: [hr]")
	edit(t, in, "agents/policy-librarian.yaml", "clearance: []", "clearance: [hr-salary]")
	o, err := agents.LoadDir(in, agents.LoadOptions{})
	require.NoError(t, err)
	return o
}

func words(people ...string) (list []agents.Word) {
	for _, person := range people {
		list = append(list, agents.Word{Person: person, AtMs: 1})
	}
	return list
}

// toSales lends the librarian with a private side that answers yes or no.
func toSales(by ...string) agents.Grant {
	return agents.Grant{ID: "s1", Kind: agents.Share, Agent: "policy-librarian", To: agents.Borrower{Department: "sales"},
		Ceiling: agents.Ceiling{Tools: []agents.ToolUse{{Name: "files.read", Impact: policy.ImpactRead, Calls: 3}}, Labels: policy.NewLabels("hr-salary"),
			ReadSpaces: []string{"organisation"}, Models: []string{"offline"}, Stage: policy.Automate, MicroUSD: 50_000, Tokens: 400_000, FanOut: 2},
		Yields: []agents.Yield{{Name: "within-band", Description: "Whether an amount is within a grade's band.", Schema: json.RawMessage(`{"type":"boolean"}`)}},
		Reason: "Offers to people whom sales would like to hire.", Words: words(by...), AtMs: 5, UntilMs: 1_000}
}

func principal(t *testing.T, o agents.Organisation, id string) policy.Principal {
	t.Helper()
	p, known := o.Principal(id)
	require.True(t, known, id)
	return p
}

func TestLendingNeedsTheWordOfWhoAnswersForAgentLabelAndTool(t *testing.T) {
	current := narrowed(t)
	table := []struct {
		name    string
		change  func(*agents.Grant)
		missing []string
		err     error
	}{
		{"owner, label owner and tool owner", func(*agents.Grant) {}, nil, nil},
		{"tool owner is missing", func(g *agents.Grant) { g.Words = words("ruth.abelson") }, []string{"tool:files.read"}, agents.ErrNotAgreed},
		{"owner of agent and label is missing", func(g *agents.Grant) { g.Words = words("keiko.tanaka") }, []string{"agent:policy-librarian", "label:hr-salary"}, agents.ErrNotAgreed},
		{"another one's label", func(g *agents.Grant) { g.Ceiling.Labels = policy.NewLabels("finance") }, []string{"label:finance"}, agents.ErrNotAgreed},
		{"label by its owner alone", func(g *agents.Grant) { g.Ceiling.Tools, g.Words = nil, words("ruth.abelson") }, []string{"second"}, agents.ErrNotAgreed},
		{"same person twice", func(g *agents.Grant) { g.Ceiling.Tools, g.Words = nil, words("ruth.abelson", "ruth.abelson") }, []string{"second"}, agents.ErrNotAgreed},
		{"who profits is no second", func(g *agents.Grant) { g.Ceiling.Tools, g.Words = nil, words("liam.byrne", "ruth.abelson") }, []string{"second"}, agents.ErrNotAgreed},
		{"a service is no second", func(g *agents.Grant) { g.Ceiling.Tools, g.Words = nil, words("ruth.abelson", "invoice-intake") }, nil, agents.ErrNotAPerson},
		{"a second person", func(g *agents.Grant) { g.Ceiling.Tools, g.Words = nil, words("ruth.abelson", "dario.conti") }, nil, nil},
		{"nothing secret needs the owner only", func(g *agents.Grant) { g.Ceiling.Tools, g.Ceiling.Labels, g.Words = nil, nil, words("ruth.abelson") }, nil, nil},
		{"nobody lends to themselves", func(g *agents.Grant) {
			g.Ceiling.Tools, g.Ceiling.Labels, g.To, g.Words = nil, nil, agents.Borrower{Person: "ruth.abelson"}, words("ruth.abelson")
		}, []string{"agent:policy-librarian"}, agents.ErrNotAgreed},
		{"somebody else's agent", func(g *agents.Grant) { g.Agent = "invoice-reconciler"; g.Ceiling.Tools, g.Ceiling.Labels = nil, nil }, []string{"agent:invoice-reconciler"}, agents.ErrNotAgreed},
		{"no such agent", func(g *agents.Grant) { g.Agent = "nobody" }, []string{}, agents.ErrUnknown},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			g := toSales("ruth.abelson", "keiko.tanaka")
			row.change(&g)
			before := digest(t, current)
			next, err := agents.Lend(current, g)
			require.Equal(t, before, digest(t, current))
			require.ErrorIs(t, err, row.err)
			if row.missing == nil {
				return
			}
			var missing []string
			for _, party := range current.Missing(g) {
				missing = append(missing, party.For)
			}
			require.Subset(t, missing, row.missing)
			require.Empty(t, next)
		})
	}
}

func TestWhatNoGrantMaySay(t *testing.T) {
	current := narrowed(t)
	for name, change := range map[string]func(*agents.Grant){
		"no borrower":            func(g *agents.Grant) { g.To = agents.Borrower{} },
		"two borrowers":          func(g *agents.Grant) { g.To.Person = "liam.byrne" },
		"a strange department":   func(g *agents.Grant) { g.To.Department = "moon" },
		"no reason":              func(g *agents.Grant) { g.Reason = " " },
		"over before it began":   func(g *agents.Grant) { g.UntilMs = 5 },
		"a tool out of nowhere":  func(g *agents.Grant) { g.Ceiling.Tools[0].Name = "files.burn" },
		"negative money":         func(g *agents.Grant) { g.Ceiling.MicroUSD = -1 },
		"free text as a yield":   func(g *agents.Grant) { g.Yields[0].Schema = json.RawMessage(`{"type":"string"}`) },
		"a share from an agent":  func(g *agents.Grant) { g.From = "invoice-reconciler" },
		"a kind of its own":      func(g *agents.Grant) { g.Kind = "GIFT" },
		"another one's revision": func(g *agents.Grant) { r, _ := current.Agent("invoice-reconciler"); g.Revision = &r },
	} {
		t.Run(name, func(t *testing.T) {
			g := toSales("ruth.abelson", "keiko.tanaka", "helena.voss")
			change(&g)
			_, err := agents.Lend(current, g)
			require.Error(t, err)
		})
	}
	next, err := agents.Lend(current, toSales("ruth.abelson", "keiko.tanaka"))
	require.NoError(t, err)
	_, err = agents.Lend(next, toSales("ruth.abelson", "keiko.tanaka"))
	require.Error(t, err, "an id stands for one grant")
}

func TestBorrowerGetsTheMeetOfClearanceCeilingAndRevision(t *testing.T) {
	current := narrowed(t)
	rep, partner := principal(t, current, "liam.byrne"), principal(t, current, "dario.conti")
	revision, _ := current.Agent("policy-librarian")
	require.Zero(t, current.Authority(revision, rep, 100), "before it is lent there is nothing")

	next, err := agents.Lend(current, toSales("ruth.abelson", "keiko.tanaka"))
	require.NoError(t, err)
	may := next.Authority(revision, rep, 100)
	require.Empty(t, may.Labels, "what answers the borrower sees what the borrower sees")
	require.Equal(t, []string{"organisation"}, may.ReadSpaces)
	require.Len(t, may.Tools, 1)
	require.Equal(t, 3, may.Tools["files.read"].Calls)
	require.Equal(t, int64(50_000), may.MicroUSD)
	require.Equal(t, revision.Limits.Tokens, may.Tokens, "a ceiling above the revision gives nothing")
	require.Equal(t, int64(1_000), may.DeadlineMs)
	require.Equal(t, current.Authority(revision, partner, 100), next.Authority(revision, partner, 100), "its own department is as before")
	require.Zero(t, next.Authority(revision, principal(t, next, "amara.diallo"), 100))

	private, ok := next.GrantCeiling("s1", 100)
	require.True(t, ok)
	require.Equal(t, policy.NewLabels("hr-salary"), private.Labels)
	require.Empty(t, private.WriteSpaces)
	grant, ok := next.Granting("policy-librarian", "policy-librarian", rep, 100)
	require.True(t, ok)
	require.Equal(t, "s1", grant.ID)
	_, ok = next.Granting("policy-librarian", "policy-librarian", partner, 100)
	require.False(t, ok, "who is of the audience borrows nothing")
	kind, ok := next.YieldOf("s1", json.RawMessage(`{ "type": "boolean" }`))
	require.True(t, ok)
	require.Equal(t, 1, kind.Bits())
	_, ok = next.YieldOf("s1", json.RawMessage(`{"type":"string","enum":["a"]}`))
	require.False(t, ok, "bounded, and yet not declared")
}

func TestFault_P4_ShareThatRanOutOrWasRecalledGivesNothing(t *testing.T) {
	current := narrowed(t)
	rep := principal(t, current, "liam.byrne")
	revision, _ := current.Agent("policy-librarian")
	lent, err := agents.Lend(current, toSales("ruth.abelson", "keiko.tanaka"))
	require.NoError(t, err)
	for nowMs, holds := range map[int64]bool{5: true, 999: true, 1_000: false, 1_001: false} {
		_, _, serves := lent.Serves("policy-librarian", rep, nowMs)
		require.Equal(t, holds, serves, nowMs)
		require.Equal(t, holds, lent.Authority(revision, rep, nowMs).Turns > 0, nowMs)
		_, gives := lent.GrantCeiling("s1", nowMs)
		require.Equal(t, holds, gives, nowMs)
		_, private := lent.Granting("policy-librarian", "policy-librarian", rep, nowMs)
		require.Equal(t, holds, private, nowMs)
	}
	for _, by := range []string{"ruth.abelson", "dario.conti", "keiko.tanaka", "sofia.marchetti", "helena.voss"} {
		back, err := agents.RecallGrant(lent, "s1", agents.Recalled{By: by, Reason: "r", AtMs: 50})
		require.NoError(t, err, by)
		require.Zero(t, back.Authority(revision, rep, 100))
		_, gives := back.GrantCeiling("s1", 100)
		require.False(t, gives)
		_, declared := back.YieldOf("s1", json.RawMessage(`{"type":"boolean"}`))
		require.False(t, declared)
		kept, _ := back.Grant("s1")
		require.Equal(t, by, kept.Recalled.By, "who ended it stays known")
		_, err = agents.RecallGrant(back, "s1", agents.Recalled{By: by})
		require.ErrorIs(t, err, agents.ErrUnknown)
	}
	for _, by := range []string{"liam.byrne", "amara.diallo", "invoice-intake", "nobody"} {
		_, err := agents.RecallGrant(lent, "s1", agents.Recalled{By: by})
		require.ErrorIs(t, err, agents.ErrUnknown, by)
	}
	killed, err := agents.Stop(lent, agents.Kill{Scope: agents.KillAgent, Name: "policy-librarian", By: "ruth.abelson", Reason: "r"})
	require.NoError(t, err)
	_, gives := killed.GrantCeiling("s1", 100)
	require.False(t, gives, "who is stopped is stopped for borrowers, too")
}

func TestPinnedShareStaysWithItsRevision(t *testing.T) {
	current := narrowed(t)
	rep := principal(t, current, "liam.byrne")
	pinned, _ := current.Agent("policy-librarian")
	g := toSales("ruth.abelson", "keiko.tanaka")
	g.Revision = &pinned
	lent, err := agents.Lend(current, g)
	require.NoError(t, err)
	change := pinned
	change.Instructions += "\nBe brief."
	next, err := agents.Publish(lent, change, "dario.conti", "ruth.abelson")
	require.NoError(t, err)
	serving, share, ok := next.Serves("policy-librarian", rep, 100)
	require.True(t, ok)
	require.Equal(t, "s1", share.ID)
	require.Equal(t, pinned, serving)
	require.NotZero(t, next.Authority(pinned, rep, 100))
	require.Zero(t, next.Authority(change, rep, 100), "the new one is not lent")
	old, _ := pinned.Digest()
	found, ok := next.RevisionAt("policy-librarian", old)
	require.True(t, ok)
	require.Equal(t, pinned, found)
	_, ok = current.RevisionAt("invoice-reconciler", old)
	require.False(t, ok)

	// Who is of the audience has the current one, whatever is pinned for others.
	serving, _, _ = next.Serves("policy-librarian", principal(t, next, "dario.conti"), 100)
	require.Equal(t, change, serving)
	require.Zero(t, next.Authority(pinned, principal(t, next, "dario.conti"), 100))
}

func TestFilesUndoNoGrantThatStillFits(t *testing.T) {
	current := narrowed(t)
	lent, err := agents.Lend(current, toSales("ruth.abelson", "keiko.tanaka"))
	require.NoError(t, err)
	again, err := agents.Apply(lent, narrowed(t))
	require.NoError(t, err)
	require.Equal(t, digest(t, lent), digest(t, again))

	without := narrowed(t)
	without.Agents = slices.DeleteFunc(without.Agents, func(r agents.Revision) bool { return r.Name == "policy-librarian" })
	without.Memory.Grants = nil
	after, err := agents.Apply(lent, without)
	require.NoError(t, err)
	require.Empty(t, after.Grants)
	changes, err := agents.Changes(current, lent)
	require.NoError(t, err)
	require.Equal(t, "grants/s1", changes[0].Object)
	require.Len(t, changes, 1)
}

// handover lets the librarian hand work to the reconciler.
func handover(by ...string) agents.Grant {
	return agents.Grant{ID: "d1", Kind: agents.Delegation, Agent: "invoice-reconciler", From: "policy-librarian",
		Ceiling: agents.Ceiling{Tools: []agents.ToolUse{{Name: "ledger.find_adjustments", Impact: policy.ImpactRead, Calls: 2}}, Labels: policy.NewLabels("finance"), Stage: policy.Approve},
		Reason:  "Whether a supplier was paid.", Words: words(by...), AtMs: 5}
}

func TestCase_35_OnlyAGrantOfBothOwnersMakesAnAgentStronger(t *testing.T) {
	current := narrowed(t)
	partner := principal(t, current, "dario.conti")
	_, ok := current.Granting("policy-librarian", "invoice-reconciler", partner, 100)
	require.False(t, ok)
	for _, by := range [][]string{{"ruth.abelson"}, {"marta.lindqvist"}, {"ruth.abelson", "dario.conti"}} {
		_, err := agents.Lend(current, handover(by...))
		require.ErrorIs(t, err, agents.ErrNotAgreed, by)
	}
	everybody := []string{"ruth.abelson", "marta.lindqvist"}
	for _, party := range current.Missing(handover(everybody...)) {
		everybody = append(everybody, party.People[0])
	}
	next, err := agents.Lend(current, handover(everybody...))
	require.NoError(t, err)
	grant, ok := next.Granting("policy-librarian", "invoice-reconciler", partner, 100)
	require.True(t, ok)
	gives, ok := next.GrantCeiling(grant.ID, 100)
	require.True(t, ok)
	require.Equal(t, policy.NewLabels("finance"), gives.Labels)
	require.Equal(t, []string{"ledger.find_adjustments"}, []string{onlyTool(t, gives)})
	require.LessOrEqual(t, gives.Stage, policy.Approve)
	_, ok = next.Granting("invoice-reconciler", "policy-librarian", partner, 100)
	require.False(t, ok, "it leads one way")

	self := handover(everybody...)
	self.Agent = "policy-librarian"
	_, err = agents.Lend(current, self)
	require.Error(t, err, "no agent makes itself stronger")

	pinned, _ := current.Agent("invoice-reconciler")
	bound := handover(everybody...)
	bound.Revision = &pinned
	next, err = agents.Lend(current, bound)
	require.NoError(t, err)
	_, ok = next.GrantCeiling("d1", 100)
	require.True(t, ok)
	pinned.Instructions += "\nBe brief."
	next, err = agents.Publish(next, pinned, "amara.diallo", "marta.lindqvist")
	require.NoError(t, err)
	_, ok = next.GrantCeiling("d1", 100)
	require.False(t, ok, "it was agreed on another revision")
}

func onlyTool(t *testing.T, a policy.Authority) string {
	t.Helper()
	require.Len(t, a.Tools, 1)
	for name := range a.Tools {
		return name
	}
	return ""
}

// Whatever is shared with whom, nobody gets through an agent more than their
// own clearance, the ceiling and the revision allow, each by itself.
func TestNoShareWidens(t *testing.T) {
	current := narrowed(t)
	revision, _ := current.Agent("policy-librarian")
	people := []string{"liam.byrne", "sofia.marchetti", "amara.diallo", "helena.voss", "pieter.vanacker", "dario.conti"}
	labels := []policy.Label{"finance", "hr-salary", "sales-pipeline", "personal"}
	tools := []string{"files.list", "files.read", "files.search", "ask.person", "ledger.post_adjustment"}
	rapid.Check(t, func(rt *rapid.T) {
		o := current
		for i := range rapid.IntRange(0, 4).Draw(rt, "shares") {
			g := toSales("ruth.abelson", "keiko.tanaka", "marta.lindqvist", "sofia.marchetti", "tomas.rehak", "helena.voss")
			g.ID, g.Ceiling = fmt.Sprintf("s%d", i), agents.Ceiling{
				Labels: policy.NewLabels(rapid.SliceOfDistinct(rapid.SampledFrom(labels), rapid.ID).Draw(rt, "labels")...),
				Stage:  policy.Stage(rapid.IntRange(0, 3).Draw(rt, "stage")), MicroUSD: rapid.Int64Range(0, 200_000).Draw(rt, "money"), Tokens: 1_000,
				ReadSpaces: rapid.SliceOfDistinct(rapid.SampledFrom([]string{"organisation", "department:hr", "agent", "subject"}), rapid.ID).Draw(rt, "spaces"), FanOut: 1}
			for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom(tools), rapid.ID).Draw(rt, "tools") {
				definition, _ := o.Tool(name)
				g.Ceiling.Tools = append(g.Ceiling.Tools, agents.ToolUse{Name: name, Impact: definition.Impact, Calls: rapid.IntRange(1, 40).Draw(rt, "calls")})
			}
			g.To = agents.Borrower{Department: rapid.SampledFrom([]string{"sales", "finance", "procurement"}).Draw(rt, "to")}
			if rapid.Bool().Draw(rt, "personal") {
				g.To = agents.Borrower{Person: rapid.SampledFrom([]string{"liam.byrne", "amara.diallo", "pieter.vanacker"}).Draw(rt, "person")}
			}
			next, err := agents.Lend(o, g)
			if err != nil {
				continue
			}
			o = next
		}
		full, nowMs := o.Authority(revision, principal(t, o, "dario.conti"), 100), int64(100)
		full.Labels = revision.Clearance
		for _, id := range people {
			person := principal(t, o, id)
			may := o.Authority(revision, person, nowMs)
			if !may.Below(full) || !may.Labels.Within(person.Clearance) {
				rt.Fatalf("%s got more than the revision or the own clearance", id)
			}
			_, share, serves := o.Serves(revision.Name, person, nowMs)
			if !serves && may.Turns > 0 {
				rt.Fatalf("%s has what was not lent", id)
			}
			if share.ID == "" {
				continue
			}
			if !share.To.Covers(person) || !may.Labels.Within(share.Ceiling.Labels) || may.MicroUSD > share.Ceiling.MicroUSD || may.Stage > share.Ceiling.Stage {
				rt.Fatalf("%s got more than the ceiling", id)
			}
			private, _ := o.GrantCeiling(share.ID, nowMs)
			whole := full
			whole.DeadlineMs = math.MaxInt64
			if !private.Below(whole) {
				rt.Fatal("the private side got more than the agent")
			}
			for name, use := range private.Tools {
				if use.Impact > policy.ImpactRead {
					rt.Fatalf("the private side may do more than read with %s", name)
				}
			}
		}
	})
}

package wire_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kills are what a person sees stopped, as "SCOPE name by reason".
func (p *person) kills() []string {
	p.t.Helper()
	var got struct {
		Kills []struct {
			Scope, Name, Reason, At string
			By                      struct{ Principal string }
		}
	}
	p.ask(`{kills{scope name by{principal} reason at}}`, nil, &got)
	list := []string{}
	for _, k := range got.Kills {
		require.NotEmpty(p.t, k.At)
		list = append(list, strings.Join([]string{k.Scope, k.Name, k.By.Principal, k.Reason}, " "))
	}
	return list
}

func TestTwoPeopleLiftAKill(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, jonas, tomas, liam := h.as(asker), h.as(colleague), h.as(controller), h.as(outsider)
	target := map[string]any{"scope": "AGENT", "name": reconciler}
	lift := func(p *person) done { return p.mutate("liftKill", target) }
	stop := func(reason string) {
		said := tomas.mutate("kill", map[string]any{"scope": "AGENT", "name": reconciler, "reason": reason})
		require.Empty(t, said.UserErrors)
		require.False(t, said.AwaitsSecondPerson)
	}
	require.Equal(t, "NOT_FOUND", lift(tomas).code(), "nothing is stopped")
	stop("odd bookings")
	require.Equal(t, []string{"AGENT invoice-reconciler tomas.rehak odd bookings"}, amara.kills())
	require.Equal(t, amara.kills(), h.as(operator).kills())
	require.Empty(t, liam.kills(), "who may not know of the agent")

	require.Equal(t, "NOT_FOUND", lift(liam).code())
	require.Equal(t, "NOT_A_PERSON", lift(h.as(service)).code())
	require.True(t, lift(amara).AwaitsSecondPerson)
	require.True(t, lift(amara).AwaitsSecondPerson, "one person is one person")
	require.Equal(t, "NOT_ENTITLED", lift(jonas).code(), "neither of the two answers for it")
	require.Equal(t, "AGENT_STOPPED", amara.mutate("startRun", map[string]any{"agent": reconciler, "goal": "INV-1002"}).code())

	stop("odd again")
	require.True(t, lift(tomas).AwaitsSecondPerson, "what was proposed is the end of the earlier kill")
	said := lift(amara)
	require.Empty(t, said.UserErrors)
	require.Equal(t, "ACCEPTED", said.Outcome)
	require.False(t, said.AwaitsSecondPerson)
	require.Empty(t, amara.kills())
	require.Equal(t, "COMPLETED", amara.ended(amara.begin("INV-1002").ID).Status)
	require.Equal(t, "NOT_FOUND", lift(tomas).code())
}

// To who may not know of something, it answers like what is not there.
func TestKillTellsOfNothingHidden(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	buyer := h.as("pieter.vanacker")
	for _, hidden := range [][2]string{{"AGENT", "research-assistant"}, {"AGENT", "research-nothing"}, {"TOOL", "ledger.post_adjustment"},
		{"TOOL", "ledger.nothing"}, {"DEPARTMENT", "finance"}, {"DEPARTMENT", "space"}} {
		for _, mutation := range []string{"kill", "liftKill"} {
			input := map[string]any{"scope": hidden[0], "name": hidden[1]}
			if mutation == "kill" {
				input["reason"] = "r"
			}
			require.Equal(t, []refusal{{Code: "NOT_FOUND", Message: "There is no such thing, or none that you may know of."}}, buyer.mutate(mutation, input).UserErrors, "%s %s", mutation, hidden)
		}
	}
	for _, seen := range [][2]string{{"AGENT", "policy-librarian"}, {"TOOL", "files.search"}, {"DEPARTMENT", "hr"}, {"ALL", ""}} {
		require.Equal(t, "NOT_ENTITLED", buyer.mutate("kill", map[string]any{"scope": seen[0], "name": seen[1], "reason": "r"}).code(), seen)
	}
}

// Publishing tells who is not entitled neither which agents there are nor what
// is wrong with a manifest.
func TestPublishTellsOfNothingHidden(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	buyer := h.as("pieter.vanacker")
	hidden := manifest(t, reconciler, "Be brief.")
	publish := func(text string, edits ...string) []refusal {
		d := buyer.mutate("publishAgent", map[string]any{"manifest": strings.NewReplacer(edits...).Replace(text)})
		require.Equal(t, len(d.UserErrors) == 0, d.AwaitsSecondPerson)
		return d.UserErrors
	}
	refused := publish(hidden)
	require.Equal(t, "NOT_ENTITLED", refused[0].Code)
	for name, edits := range map[string][]string{
		"a free name": {"name: invoice-reconciler", "name: invoice-nothing"}, "a label": {"clearance: [finance]", "clearance: [hr-salary]"},
		"no label": {"clearance: [finance]", "clearance: [hr-nothing]"}, "a freer stage": {"stage: APPROVE", "stage: AUTOMATE"},
		"no owner": {"owner: marta.lindqvist", "owner: nobody"}, "no department": {"department: finance", "department: space"},
	} {
		require.Equal(t, refused, publish(hidden, edits...), name)
	}
	own := []string{"department: finance", "department: procurement", "audience: [finance]", "audience: [procurement]"}
	require.Equal(t, publish(hidden, append(own, "name: invoice-reconciler", "name: invoice-nothing")...), publish(hidden, own...), "a name that is taken answers like a free one")
	require.Equal(t, "NOT_ENTITLED", h.as("nadia.haddad").mutate("publishAgent", map[string]any{"manifest": strings.NewReplacer(own...).Replace(hidden)}).code(),
		"and yet nobody takes the agent from who answers for it")
}

package wire_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/sourcegraph/conc/iter"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
)

// nodes are the budgets that a person sees, with their limits in micro-dollars.
func (p *person) nodes() map[string]string {
	p.t.Helper()
	var got struct {
		Budgets []struct {
			Node, Period string
			Limit        struct{ Money string }
		}
	}
	p.ask(`{budgets{node period limit{money}}}`, nil, &got)
	nodes := map[string]string{}
	for _, b := range got.Budgets {
		require.Regexp(p.t, `^\d{4}-\d{2}$`, b.Period)
		nodes[b.Node] = b.Limit.Money
	}
	return nodes
}

func TestBudgetsAreSeenAndSetByWhoMay(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	all := map[string]string{"organisation": "500000000", "department/finance": "150000000", "department/hr": "50000000",
		"department/sales": "80000000", "department/procurement": "60000000", "department/operations": "60000000"}
	amara, liam, marta := h.as(asker), h.as(outsider), h.as(lead)
	require.Equal(t, all, marta.nodes(), "owns the organisation's budget")
	require.Equal(t, all, h.as(director).nodes())
	require.Equal(t, all, h.as(operator).nodes())
	require.Equal(t, map[string]string{"department/sales": "80000000"}, liam.nodes(), "contact of sales")
	require.Empty(t, amara.nodes())

	set := func(p *person, node, money string) string {
		return p.mutate("setBudget", map[string]any{"node": node, "money": money, "tokens": "150000000"}).code()
	}
	require.Equal(t, "NOT_FOUND", set(amara, "department/finance", "1"))
	require.Equal(t, "NOT_FOUND", set(liam, "organisation", "1"))
	require.Equal(t, "NOT_FOUND", set(marta, "department/space", "1"))
	require.Equal(t, "NOT_FOUND", set(marta, "department:northwind/finance", "1"), "people do not know the accounts of the journal")
	require.Equal(t, "NOT_ENTITLED", set(liam, "department/sales", "1"))
	require.Equal(t, "NOT_ENTITLED", set(h.as(operator), "department/finance", "1"))
	require.Equal(t, "NOT_ENTITLED", set(marta, "department/hr", "1"))
	require.Equal(t, all, marta.nodes(), "nothing changed")

	require.Empty(t, set(marta, "department/finance", "1000"))
	require.Equal(t, "1000", marta.nodes()["department/finance"])
	refused := amara.mutate("startRun", map[string]any{"agent": reconciler, "goal": "INV-1002"})
	require.Equal(t, "BUDGET", refused.code())
	require.Empty(t, set(marta, "department/finance", "150000000"))
	require.Equal(t, "COMPLETED", amara.ended(amara.begin("INV-1002").ID).Status)
	h.apply(h.organisation)
	require.Equal(t, all, marta.nodes(), "the same files again change nothing")

	require.Empty(t, set(marta, "department/finance", "140000000"))
	files := h.organisation
	files.Departments = slices.Clone(files.Departments)
	for i := range files.Departments {
		if files.Departments[i].Name == "sales" {
			files.Departments[i].Budget.MicroUSD = 70_000_000
		}
	}
	h.apply(files)
	require.Equal(t, "70000000", marta.nodes()["department/sales"], "what the files changed")
	require.Equal(t, "140000000", marta.nodes()["department/finance"], "what a person set stays")
}

// A conversation has a budget of its own; zero means that nothing may be spent.
func TestConversationsBudgetBoundsItsRuns(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) { o.Conversation = agents.Budget{Per: agents.InTotal} }})
	amara := h.as(asker)
	begin := func(conversation string) done {
		input := map[string]any{"agent": reconciler, "goal": "Reconcile INV-1002."}
		if conversation != "" {
			input["conversation"] = conversation
		}
		return amara.mutate("startRun", input)
	}
	require.Equal(t, "BUDGET", begin(amara.talk("Nothing", controller)).code())
	require.Equal(t, "COMPLETED", amara.ended(begin("").Run.ID).Status, "a run outside of conversations")

	files := h.organisation
	one, _ := files.Agent(reconciler)
	files.Conversation = agents.Budget{MicroUSD: one.Limits.MicroUSD, Tokens: one.Limits.Tokens, Per: agents.InTotal}
	h.apply(files)
	first, second := amara.talk("First", controller), amara.talk("Second", controller)
	started := begin(first)
	require.Empty(t, started.UserErrors)
	require.Equal(t, "COMPLETED", amara.ended(started.Run.ID).Status)
	require.Equal(t, "BUDGET", begin(first).code(), "what the first run settled is gone")
	require.Empty(t, begin(second).UserErrors, "another conversation has a budget of its own")
}

// usage is what a person sees of what was spent, by group.
func (p *person) usage(group string) map[string]client.Amount {
	p.t.Helper()
	var got struct {
		Usage []struct {
			Key   string
			Runs  string
			Spent client.Amount
		}
	}
	now := time.Now()
	p.ask(`query($by:UsageGroup!,$from:Time!,$to:Time!){usage(groupBy:$by,from:$from,to:$to){key runs spent{money tokens}}}`,
		map[string]any{"by": group, "from": now.Add(-time.Hour), "to": now.Add(time.Hour)}, &got)
	rows := map[string]client.Amount{}
	for _, row := range got.Usage {
		require.NotEqual(p.t, "0", row.Runs)
		rows[row.Key] = row.Spent
	}
	return rows
}

func sum(amounts ...client.Amount) (total client.Amount) {
	for _, a := range amounts {
		total.MicroUSD += a.MicroUSD
		total.Tokens += a.Tokens
	}
	return total
}

func TestUsageIsWhatTheRunsSettled(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, jonas, marta := h.as(asker), h.as(colleague), h.as(lead)
	var hers []client.Amount
	for _, invoice := range []string{"INV-1002", "INV-1003"} {
		hers = append(hers, amara.ended(amara.begin(invoice).ID).Budget.Settled)
	}
	his := jonas.ended(jonas.begin("INV-1005").ID).Budget.Settled
	require.Positive(t, his.MicroUSD)
	require.Positive(t, his.Tokens)
	all := sum(append(hers, his)...)

	require.Equal(t, map[string]client.Amount{reconciler: all}, marta.usage("AGENT"))
	require.Equal(t, map[string]client.Amount{"finance": all}, marta.usage("DEPARTMENT"))
	require.Equal(t, map[string]client.Amount{asker: sum(hers...), colleague: his}, marta.usage("SUBJECT"))
	require.Equal(t, map[string]client.Amount{"invoice-reconciler-script": all}, marta.usage("MODEL"))
	days := client.Amount{}
	for _, spent := range marta.usage("DAY") {
		days = sum(days, spent)
	}
	require.Equal(t, all, days)

	for _, group := range []string{"AGENT", "DEPARTMENT", "SUBJECT", "MODEL", "DAY"} {
		require.Empty(t, h.as(outsider).usage(group), "sales sees nothing of finance")
		for _, spent := range amara.usage(group) {
			require.Equal(t, sum(hers...), spent, "her own runs")
		}
		require.Equal(t, marta.usage(group), h.as(operator).usage(group))
	}
	var used struct {
		Usage []struct {
			Tokens struct {
				Input, CacheRead, CacheWrite, Output, Reasoning string
				Estimated                                       bool
			}
			Cached *int
		}
	}
	marta.ask(`query($from:Time!,$to:Time!){usage(groupBy:AGENT,from:$from,to:$to){tokens{input cacheRead cacheWrite output reasoning estimated} cached}}`,
		map[string]any{"from": time.Now().Add(-time.Hour), "to": time.Now().Add(time.Hour)}, &used)
	require.Len(t, used.Usage, 1)
	tokens := int64(0)
	for _, kind := range []string{used.Usage[0].Tokens.Input, used.Usage[0].Tokens.CacheRead, used.Usage[0].Tokens.CacheWrite, used.Usage[0].Tokens.Output,
		used.Usage[0].Tokens.Reasoning} {
		n, err := strconv.ParseInt(kind, 10, 64)
		require.NoError(t, err)
		tokens += n
	}
	require.Equal(t, all.Tokens, tokens)
	require.Equal(t, used.Usage[0].Tokens.Estimated, used.Usage[0].Cached == nil, "no share of what nobody counted")

	var got struct {
		Budgets []struct {
			Node    string
			Settled client.Amount
		}
	}
	marta.ask(`{budgets{node settled{money tokens}}}`, nil, &got)
	for _, b := range got.Budgets {
		if b.Node == "organisation" || b.Node == "department/finance" {
			require.Equal(t, all, b.Settled, b.Node)
		} else {
			require.Zero(t, b.Settled, b.Node)
		}
	}
}

// Many who ask for usage by model at once do not wait for each other's reads.
func TestUsageByModelForManyAtOnce(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara := h.as(asker)
	amara.ended(amara.begin("INV-1002").ID)
	h.close()
	h.open()                      // nothing is in memory
	people := make([]*person, 50) // below the limit of one principal, above the connections for reading
	for i := range people {
		people[i] = h.as(lead)
	}
	now := time.Now()
	answers := (iter.Mapper[*person, string]{MaxGoroutines: len(people)}).Map(people, func(p **person) string {
		raw, err := (*p).send(`query($from:Time!,$to:Time!){usage(groupBy:MODEL,from:$from,to:$to){key}}`, map[string]any{"from": now.Add(-time.Hour), "to": now.Add(time.Hour)})
		return fmt.Sprint(string(raw), err)
	})
	for _, answer := range answers {
		require.Equal(t, `{"data":{"usage":[{"key":"invoice-reconciler-script"}]}}<nil>`, answer)
	}
}

package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const (
	librarian = "policy-librarian"
	borrower  = "liam.byrne"   // sales: borrows from hr
	lender    = "ruth.abelson" // owns the librarian, and the label of pay
	keeper    = "keiko.tanaka" // owns the tools that read files
)

// inHR makes the librarian one of hr alone, which others can find.
func inHR(o *agents.Organisation) {
	revised(librarian, func(r *agents.Revision) {
		r.Audience, r.Listed, r.Clearance = []string{"hr"}, true, policy.NewLabels("hr-salary")
	})(o)
}

func spent(t *testing.T, p *person, node string) int64 {
	t.Helper()
	var got struct {
		Budgets []struct {
			Node              string
			Settled, Reserved struct {
				Tokens int64 `json:"tokens,string"`
			}
		}
	}
	p.ask(`{budgets{node settled{tokens} reserved{tokens}}}`, nil, &got)
	for _, b := range got.Budgets {
		if b.Node == node {
			return b.Settled.Tokens + b.Reserved.Tokens
		}
	}
	require.Fail(t, "no budget "+node)
	return 0
}

func offerOf(t *testing.T, p *person, agent string) (client.Offer, bool) {
	t.Helper()
	offers, err := p.Catalogue(t.Context())
	require.NoError(t, err)
	for _, offer := range offers {
		if offer.Name == agent {
			return offer, true
		}
	}
	return client.Offer{}, false
}

func TestShareIsAskedForAgreedToUsedBilledAndTakenBack(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: inHR})
	liam, ruth, keiko, amara, sofia := h.as(borrower), h.as(lender), h.as(keeper), h.as(asker), h.as("sofia.marchetti")
	ctx := t.Context()

	offer, found := offerOf(t, liam, librarian)
	require.True(t, found, "who owns it lets it be found")
	require.Empty(t, offer.AvailableBy)
	_, err := liam.StartRun(ctx, client.Start{Agent: librarian, Goal: "How many days of leave do I have?"})
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)

	asked, err := liam.RequestShare(ctx, client.GrantInput{Agent: librarian, Department: "sales", Reason: "Questions about leave."})
	require.NoError(t, err)
	require.Equal(t, "ASKED", asked.Status)
	require.False(t, asked.MayAgree)
	require.NotEmpty(t, asked.Missing)
	_, err = liam.DecideShare(ctx, asked.ID, true, "")
	require.True(t, client.IsCode(err, "NOT_ENTITLED"), "nobody agrees to what they borrow")
	_, err = amara.DecideShare(ctx, asked.ID, true, "")
	require.True(t, client.IsCode(err, "NOT_FOUND"), "to others there is no such request")
	list, err := amara.Grants(ctx)
	require.NoError(t, err)
	require.Empty(t, list)

	waiting, err := ruth.Grants(ctx, "ASKED")
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.True(t, waiting[0].MayAgree)
	g, err := ruth.DecideShare(ctx, asked.ID, true, "")
	require.NoError(t, err)
	require.Equal(t, "ASKED", g.Status, "the owner of the tools has not agreed")
	_, err = ruth.DecideShare(ctx, asked.ID, true, "")
	require.True(t, client.IsCode(err, "NOT_ENTITLED"), "a word counts once")
	g, err = keiko.DecideShare(ctx, asked.ID, true, "")
	require.NoError(t, err)
	require.Equal(t, "IN_FORCE", g.Status)
	require.Len(t, g.AgreedBy, 2)

	offer, _ = offerOf(t, liam, librarian)
	require.Len(t, offer.AvailableBy, 1)
	require.Equal(t, asked.ID, offer.AvailableBy[0].Share)
	hrBefore, salesBefore := spent(t, ruth, "department/hr"), spent(t, sofia, "department/sales")
	started, err := liam.StartRun(ctx, client.Start{Agent: librarian, Goal: "How many days of leave do I have?"})
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", liam.ended(started.ID).Status)
	require.Greater(t, spent(t, sofia, "department/sales"), salesBefore, "who borrows pays")
	require.Equal(t, hrBefore, spent(t, ruth, "department/hr"))

	var shown struct {
		Agent struct{ Shares []struct{ ID string } }
	}
	ruth.ask(`query($n:String!){agent(name:$n){shares{id}}}`, map[string]any{"n": librarian}, &shown)
	require.Len(t, shown.Agent.Shares, 1)
	liam.ask(`query($n:String!){agent(name:$n){shares{id}}}`, map[string]any{"n": librarian}, &shown)
	require.Empty(t, shown.Agent.Shares, "who borrows does not see who else does")

	_, err = amara.RecallAgent(ctx, asked.ID, "not mine")
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
	g, err = ruth.RecallAgent(ctx, asked.ID, "the quarter is over")
	require.NoError(t, err)
	require.Equal(t, "RECALLED", g.Status)
	require.Equal(t, lender, g.Ended.By.Principal)
	_, err = liam.StartRun(ctx, client.Start{Agent: librarian, Goal: "And now?"})
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)

	h.close()
	h.open()
	list, err = h.as(lender).Grants(ctx)
	require.NoError(t, err)
	require.Equal(t, "RECALLED", list[0].Status, "it is kept who had what")
}

func TestShareIsRefusedWithdrawnAndRepeated(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: inHR})
	liam, ruth, amara := h.as(borrower), h.as(lender), h.as(asker)
	ctx := t.Context()

	first, err := liam.RequestShare(ctx, client.GrantInput{Agent: librarian, Reason: "Curious."})
	require.NoError(t, err)
	require.Equal(t, borrower, first.Person.Principal, "for whom asks, where nobody else is named")
	_, err = ruth.DecideShare(ctx, first.ID, false, "")
	require.True(t, client.IsCode(err, "INVALID"), "who refuses says why")
	refused, err := ruth.DecideShare(ctx, first.ID, false, "Ask your lead first.")
	require.NoError(t, err)
	require.Equal(t, "REFUSED", refused.Status)
	_, err = ruth.DecideShare(ctx, first.ID, true, "")
	require.True(t, client.IsCode(err, "NOT_FOUND"), "it is decided")
	list, err := liam.Grants(ctx)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, "Ask your lead first.", list[0].Ended.Reason, "who asked is told")

	second, err := liam.RequestShare(ctx, client.GrantInput{Agent: librarian, Reason: "Once more."})
	require.NoError(t, err)
	withdrawn, err := liam.DecideShare(ctx, second.ID, false, "not needed")
	require.NoError(t, err)
	require.Equal(t, "REFUSED", withdrawn.Status)

	// Neither the label nor the agent of somebody else is lent by an owner alone.
	share, err := ruth.Share(ctx, client.GrantInput{Agent: librarian, Department: "sales", Reason: "Offers.", Ceiling: &client.CeilingInput{Labels: []string{"hr-salary"}},
		Yields: []client.Yield{{Name: "within-band", Description: "Whether an amount is within a band.", Schema: `{"type":"boolean"}`}}})
	require.NoError(t, err)
	require.Equal(t, "ASKED", share.Status)
	_, err = ruth.Share(ctx, client.GrantInput{Agent: librarian, Department: "sales", Reason: "Offers.",
		Yields: []client.Yield{{Name: "pay", Description: "The pay.", Schema: `{"type":"string"}`}}})
	require.True(t, client.IsCode(err, "INVALID"), "free text leaves no private side")
	_, err = amara.Share(ctx, client.GrantInput{Agent: librarian, Department: "finance", Reason: "Mine."})
	require.True(t, client.IsCode(err, "NOT_ENTITLED"), err)
	_, err = liam.RequestShare(ctx, client.GrantInput{Agent: reconciler, Reason: "Not listed."})
	require.True(t, client.IsCode(err, "NOT_FOUND"), "what cannot be found cannot be asked for")

	said := func() (id string) {
		var got struct {
			Done struct{ Grant struct{ ID string } }
		}
		liam.ask(`mutation($input:RequestShareInput!){done:requestShare(input:$input){grant{id} userErrors{code}}}`,
			map[string]any{"input": map[string]any{"agent": librarian, "reason": "Twice.", "commandId": "c1"}}, &got)
		return got.Done.Grant.ID
	}
	require.Equal(t, said(), said(), "a repeated command asks once")
	for range 19 {
		_, err = liam.RequestShare(ctx, client.GrantInput{Agent: librarian, Reason: "More."})
		require.NoError(t, err)
	}
	_, err = liam.RequestShare(ctx, client.GrantInput{Agent: librarian, Reason: "More."})
	require.True(t, client.IsCode(err, "TOO_MANY_REQUESTS"), err)
}

// What happens on the private side is open to who answers for the agent, and to
// nobody else: not to who borrows it, nor to who takes part in the conversation.
func TestPrivateSideIsOpenToWhoAnswersForTheAgentAlone(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	liam, ruth, keiko, sofia := h.as(borrower), h.as(lender), h.as(keeper), h.as("sofia.marchetti")
	ctx := t.Context()
	asked, err := liam.RequestShare(ctx, client.GrantInput{Agent: "pay-librarian", Department: "sales", Reason: "Offers.", Ceiling: &client.CeilingInput{Labels: []string{"hr-salary"}},
		Yields: []client.Yield{{Name: "within-band", Description: "Whether it fits.", Schema: `{"type":"boolean"}`}}})
	require.NoError(t, err)
	for _, who := range []*person{ruth, keiko} {
		_, err = who.DecideShare(ctx, asked.ID, true, "")
		require.NoError(t, err)
	}
	talk := liam.mutate("startConversation", map[string]any{"title": "An offer", "participants": []string{"sofia.marchetti"}})
	require.Empty(t, talk.UserErrors)
	said := liam.mutate("sendMessage", map[string]any{"conversation": talk.Conversation.ID, "text": "Is 6000 EUR a month within band D?", "agent": "pay-librarian"})
	require.Empty(t, said.UserErrors)
	require.NotNil(t, said.Run)
	require.Equal(t, "COMPLETED", liam.ended(said.Run.ID).Status)
	got, err := sofia.Run(ctx, said.Run.ID)
	require.NoError(t, err, "who takes part in the conversation")
	require.Contains(t, got.End.Result.Value, "No, 6000 EUR")

	private, err := ruth.RunID(ctx, run.ChildOfCall(client.ShortID(said.Run.ID), 2))
	require.NoError(t, err)
	seen, err := ruth.Run(ctx, private)
	require.NoError(t, err)
	require.Equal(t, "COMPLETED", seen.Status)
	require.Contains(t, seen.Calls[0].Result.Value, "4,300")
	for _, who := range []*person{liam, sofia, h.as(asker)} {
		_, err := who.Run(ctx, private)
		require.True(t, client.IsCode(err, "NOT_FOUND"), err)
		_, err = who.Export(ctx, private)
		require.True(t, client.IsCode(err, "NOT_FOUND"), err)
		runs, err := who.Runs(ctx, client.Filter{Agent: "pay-librarian"}, 50)
		require.NoError(t, err)
		for _, one := range runs {
			require.NotEqual(t, private, one.ID)
		}
	}
	var used struct {
		Usage []struct {
			Key  string
			Runs int `json:"runs,string"`
		}
	}
	h.as(lead).ask(`{usage(groupBy:TOOL,from:"2000-01-01T00:00:00Z",to:"2100-01-01T00:00:00Z"){key runs}}`, nil, &used)
	runs := map[string]int{}
	for _, row := range used.Usage {
		runs[row.Key] = row.Runs
	}
	require.Equal(t, map[string]int{"agents.delegate": 1, "files.read": 1}, runs, "each tool, by the runs that used it; what the private side used is its owners'")
	events := string(liam.post(`query($id:ID!){audit(run:$id){records{kind body}}}`, map[string]any{"id": said.Run.ID}))
	require.NotContains(t, events, "4,300")
}

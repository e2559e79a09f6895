package wire_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
	services "gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/policy"
)

// wanting begins a run that asks for the ledger, and returns the request as its
// owner has it in the inbox.
func wanting(h *house) (run client.Run, request client.Access) {
	amara, tomas := h.as(asker), h.as(controller)
	run, err := amara.StartRun(h.t.Context(), client.Start{Agent: "invoice-clerk", Goal: "What is known of INV-1004?"})
	require.NoError(h.t, err)
	var asked struct{ Access string }
	require.NoError(h.t, amara.until(run.ID, "access_requested").Decode(&asked))
	request, err = tomas.Access(h.t.Context(), asked.Access)
	require.NoError(h.t, err)
	return run, request
}

func consent(request client.Access) map[string]any {
	return map[string]any{"id": request.ID, "digest": request.Digest, "decision": "CONSENT"}
}

// The grant comes before the run's own record of it. A process that ends between
// the two has given nothing, and the owner's word said again is one grant.
func TestFault_A1_AConsentThatWasCutShortGivesNothingUntilItIsRepeated(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	run, request := wanting(h)
	ctx := t.Context()
	short := client.ShortID(run.ID)
	state, err := h.platform.Engine.State(ctx, short)
	require.NoError(t, err)
	revision, known := h.organisation.Agent("invoice-clerk")
	require.True(t, known)
	grant, err := agents.AccessGrant(revision, state, state.Accesses[0], "", 0, agents.Word{Person: controller, AtMs: 1})
	require.NoError(t, err)
	caller := graph.Caller{Principal: policy.Principal{ID: controller, Organisation: h.organisation.Name}}
	_, err = h.platform.Service.Alter(ctx, caller, uuid.NewString(), []any{"cut"}, func(o agents.Organisation) (services.Step, bool, error) {
		next, err := agents.Lend(o, grant)
		return services.Step{Next: &next}, false, err
	})
	require.NoError(t, err)
	h.close()
	h.open()

	tomas := h.as(controller)
	state, err = h.platform.Engine.State(ctx, short)
	require.NoError(t, err)
	require.Equal(t, "OPEN", string(state.Accesses[0].Status))
	require.NotContains(t, state.Authority.Tools, "ledger.find_adjustments")
	require.Empty(t, tomas.mutate("decideAccess", consent(request)).UserErrors)
	grants, err := tomas.Grants(ctx, "IN_FORCE")
	require.NoError(t, err)
	accesses := 0
	for _, g := range grants {
		if g.Kind == "ACCESS" {
			accesses++
		}
	}
	require.Equal(t, 1, accesses)
	h.as(asker).until(run.ID, "call_intended")
}

// Whoever is not the owner finds no request; a refused word leaves no grant.
func TestOnlyTheOwnerOfAThingGivesIt(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	_, request := wanting(h)
	amara, marta, tomas := h.as(asker), h.as(lead), h.as(controller)
	require.Equal(t, "NOT_FOUND", amara.mutate("decideAccess", consent(request)).code(), "who asks")
	require.Equal(t, "NOT_FOUND", marta.mutate("decideAccess", consent(request)).code(), "who answers for the agent, and not for the tool")
	other := consent(request)
	other["digest"] = "another"
	require.Equal(t, "DIGEST_MISMATCH", tomas.mutate("decideAccess", other).code())
	o, err := h.platform.Service.Organisation(t.Context(), h.organisation.Name)
	require.NoError(t, err)
	for _, g := range o.Grants {
		require.NotEqual(t, agents.Access, g.Kind, "nothing was given")
	}
	again := consent(request)
	again["commandId"] = "once"
	require.Equal(t, "ACCEPTED", tomas.mutate("decideAccess", again).Outcome)
	require.Equal(t, "REPLAYED", tomas.mutate("decideAccess", again).Outcome)
	require.Equal(t, "ALREADY_DECIDED", tomas.mutate("decideAccess", consent(request)).code())
}

// begun is what a run began with, and what it asked for.
type begun struct {
	Consents  []string
	Authority struct{ Tools []struct{ Name string } }
	Accesses  []struct {
		Status, Scope, Grant string
		Scopes               []string
		Proposed             *struct{ Agent, Digest, Manifest string }
	}
}

func (p *person) begun(run string) (got begun) {
	var answer struct{ Run begun }
	p.ask(`query($id:ID!){run(id:$id){consents authority{tools{name}} accesses{status scope grant scopes proposed{agent digest manifest}}}}`, map[string]any{"id": run}, &answer)
	return answer.Run
}

// clerk starts a run of the clerk, and returns the request by which it asks for
// the ledger; none where it looks without asking.
func (p *person) clerk(h *house, conversation string) (run struct{ ID, Status string }, request *client.Access) {
	wish := map[string]any{"agent": "invoice-clerk", "goal": "What is known of INV-1004?"}
	if conversation != "" {
		wish["conversation"] = conversation
	}
	started := p.mutate("startRun", wish)
	require.Empty(h.t, started.UserErrors)
	run = *started.Run
	ledger := 0
	require.NoError(h.t, p.Events(h.t.Context(), run.ID, "", func(event client.Event) (bool, error) {
		switch event.Kind {
		case "access_requested":
			var asked struct{ Access string }
			require.NoError(h.t, event.Decode(&asked))
			found, err := h.as(controller).Access(h.t.Context(), asked.Access)
			require.NoError(h.t, err)
			request = &found
			return false, nil
		case "call_intended":
			ledger++
		}
		return ledger < 2, nil // the first call reads the invoice
	}))
	return run, request
}

// A consent for a conversation is in force for every later run of the agent for
// the same person in it, and for nobody else; taken back it gives nothing.
func TestAConsentForAConversationIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	here, elsewhere := amara.talk("Invoices", lead), amara.talk("Others")
	_, request := amara.clerk(h, here)
	require.NotNil(t, request)
	require.Equal(t, []string{"RUN", "CONVERSATION", "AGENT"}, request.Scopes)
	word := consent(*request)
	word["scope"] = "CONVERSATION"
	require.Empty(t, tomas.mutate("decideAccess", word).UserErrors)

	later, request := amara.clerk(h, here)
	require.Nil(t, request, "it has it from its start")
	got := amara.begun(later.ID)
	require.Len(t, got.Consents, 1)
	require.Contains(t, got.Authority.Tools, struct{ Name string }{"ledger.find_adjustments"})
	_, request = amara.clerk(h, elsewhere)
	require.NotNil(t, request, "another conversation")
	_, request = amara.clerk(h, "")
	require.NotNil(t, request, "no conversation")
	_, request = h.as(lead).clerk(h, here)
	require.NotNil(t, request, "another person in the same conversation")

	grants, err := tomas.Grants(t.Context(), "IN_FORCE")
	require.NoError(t, err)
	at := slices.IndexFunc(grants, func(g client.Grant) bool { return g.ID == got.Consents[0] })
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, client.ShortID(here), client.ShortID(grants[at].Talk))
	_, err = tomas.RecallAgent(t.Context(), got.Consents[0], "Enough.")
	require.NoError(t, err)
	_, request = amara.clerk(h, here)
	require.NotNil(t, request, "taken back")
}

// What no yes can reach is refused whole: nothing is given.
func TestAConsentReachesNoFurtherThanItCan(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	_, request := wanting(h)
	require.Equal(t, []string{"RUN", "AGENT"}, request.Scopes)
	tomas := h.as(controller)
	for code, change := range map[string]map[string]any{
		"NO_CONVERSATION": {"scope": "CONVERSATION"},
		"INVALID":         {"until": "2100-01-01T00:00:00Z"},
	} {
		word := consent(request)
		maps.Copy(word, change)
		require.Equal(t, code, tomas.mutate("decideAccess", word).code())
	}
	word := consent(request)
	word["decision"], word["scope"] = "REFUSE", "AGENT"
	require.Equal(t, "INVALID", tomas.mutate("decideAccess", word).code())
	o, err := h.platform.Service.Organisation(t.Context(), h.organisation.Name)
	require.NoError(t, err)
	require.Empty(t, o.Grants, "nothing was given")
}

// A yes for the agent is one for the run, and a revision that waits for a second
// person; once that agreed, every run has it.
func TestAConsentForAnAgentProposesARevision(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	run, request := wanting(h)
	amara, marta, tomas := h.as(asker), h.as(lead), h.as(controller)
	word := consent(request)
	word["scope"] = "AGENT"
	require.Empty(t, tomas.mutate("decideAccess", word).UserErrors)
	amara.until(run.ID, "call_intended")
	require.Empty(t, amara.begun(run.ID).Accesses[0].Proposed.Manifest, "who asks for it does not read the agent")
	_, asks := amara.clerk(h, "")
	require.NotNil(t, asks, "a proposal gives nothing")

	proposed := marta.begun(run.ID).Accesses[0].Proposed
	require.Equal(t, "invoice-clerk", proposed.Agent)
	published := marta.mutate("publishAgent", map[string]any{"manifest": proposed.Manifest})
	require.Empty(t, published.UserErrors)
	require.False(t, published.AwaitsSecondPerson)
	require.Equal(t, proposed.Digest, marta.revision("invoice-clerk"))
	_, asks = amara.clerk(h, "")
	require.Nil(t, asks)
	require.Empty(t, marta.begun(run.ID).Accesses[0].Proposed.Manifest, "it waits no more")
}

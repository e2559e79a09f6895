package wire_test

import (
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

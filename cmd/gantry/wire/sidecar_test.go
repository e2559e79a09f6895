package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
)

// Whoever may guide a run sends another beside it: a run of its own, on money of
// its own, once for its command, and ended with its run.
func TestAPersonSendsASidecarAndAPieceOfWorkBesideARun(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: inAChain})
	amara, tomas, jonas := h.as(asker), h.as(controller), h.as(colleague)
	main, err := amara.StartRun(t.Context(), client.Start{Agent: reconciler, Goal: "Reconcile INV-1004."})
	require.NoError(t, err)
	tomas.held(main.ID)
	sidecar := map[string]any{"run": main.ID, "agent": reconciler, "purpose": "RESEARCH", "brief": "Reconcile INV-1008 or INV-1004.", "lands": "EVIDENCE", "commandId": "beside"}
	require.Equal(t, "NOT_FOUND", jonas.mutate("dispatchSidecar", sidecar).code(), "a colleague who does not see it")
	require.Equal(t, "NOT_ENTITLED", tomas.mutate("dispatchSidecar", sidecar).code(), "who only decides a call of it")
	sent := amara.mutate("dispatchSidecar", sidecar)
	require.Empty(t, sent.UserErrors)
	again := amara.mutate("dispatchSidecar", sidecar)
	require.Equal(t, "REPLAYED", again.Outcome)
	require.Equal(t, sent.Run.ID, again.Run.ID)
	other := map[string]any{"run": main.ID, "agent": reconciler, "purpose": "MONITOR", "brief": "Reconcile INV-1008 or INV-1004.", "lands": "EVIDENCE", "commandId": "beside"}
	require.Equal(t, "COMMAND_ID_REUSED", amara.mutate("dispatchSidecar", other).code())
	for field, value := range map[string]string{"purpose": "CHECK", "lands": "RESULT"} {
		wrong := map[string]any{"run": main.ID, "agent": reconciler, "purpose": "RESEARCH", "brief": "x", "lands": "EVIDENCE"}
		wrong[field] = value
		require.Equal(t, "INVALID", amara.mutate("dispatchSidecar", wrong).code(), field)
	}
	nobody := map[string]any{"run": main.ID, "agent": "nobody", "brief": "x"}
	require.Equal(t, "NOT_FOUND", amara.mutate("delegate", nobody).code())
	work, err := amara.Dispatch(t.Context(), main.ID, client.Dispatch{Agent: reconciler, Brief: "Reconcile INV-1008 or INV-1004."})
	require.NoError(t, err)
	seen, err := amara.Run(t.Context(), main.ID)
	require.NoError(t, err)
	require.Len(t, seen.Sidecars, 2)
	require.Equal(t, []string{sent.Run.ID, work.ID}, []string{seen.Sidecars[0].Run, seen.Sidecars[1].Run})
	require.Equal(t, []string{"RESEARCH", ""}, []string{seen.Sidecars[0].Purpose, seen.Sidecars[1].Purpose})
	_, err = amara.Cancel(t.Context(), main.ID, "enough")
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", amara.ended(main.ID).Status)
	require.Equal(t, "CANCELLED", amara.ended(sent.Run.ID).Status, "it ends with its run")
	require.Equal(t, "CANCELLED", amara.ended(work.ID).Status, "and so does a piece of work")
	require.Equal(t, "RUN_ENDED", amara.mutate("delegate", map[string]any{"run": main.ID, "agent": reconciler, "brief": "x"}).code())
}

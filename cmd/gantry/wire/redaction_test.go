package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/client"
)

// whole asks for everything of a run that holds or quotes a text.
const whole = `query($id:ID!){run(id:$id){
 goal{...T} labels turns{text{...T} reasoning{...T}} calls{arguments{...T} result{...T} verdict{reasons{text}} findings{evidence{...T}}}
 approvals{operation resource consequence arguments{...T} labels decisions{reason{...T}}} steers{text{...T}} checks{detail{...T}} end{result{...T}}
 authority{labels} explanation{asked{lines} turns{lines} calls{lines} interventions{lines} results{lines} stop{lines}}
 turnExplanation(turn:2){lines} events(first:100){edges{node{summary event}}}}
 audit(run:$id){records{event}}}
 fragment T on Text{value display withheld{reason} labels}`

// confidential is what only who is cleared for "finance" may read: of the invoice,
// of the order, and of the proposed booking.
var confidential = []string{"Torino", "IT60X0542811101000000123456", "PO-2206", "64856", "QUANTITY_DIFFERS"}

func TestWithoutClearanceARunIsRedacted(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas, oskar := h.as(asker), h.as(controller), h.as(operator)
	run := amara.begin("INV-1004").ID
	_, err := tomas.Decide(t.Context(), tomas.held(run), true, "checked")
	require.NoError(t, err)
	full := amara.ended(run)
	require.Equal(t, "COMPLETED", full.Status)

	variables := map[string]any{"id": run}
	cleared, redacted := string(amara.post(whole, variables)), string(oskar.post(whole, variables))
	require.NotContains(t, redacted, `"errors"`)
	for _, secret := range confidential {
		require.Contains(t, cleared, secret)
		require.NotContains(t, redacted, secret)
	}
	for _, naming := range []string{`"labels":["`, `"clearance":["`} {
		require.Contains(t, cleared, naming)
		require.NotContains(t, redacted, naming, "not even the label's name")
	}
	shown, err := oskar.Run(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, "Reconcile INV-1004.", shown.Goal.Value, "a goal without labels is no secret")
	require.Equal(t, full.Status, shown.Status)
	withheld := client.Text{Value: "[redacted]", Display: "[redacted]", Withheld: []client.Withheld{{Reason: "NOT_CLEARED"}}}
	require.Equal(t, withheld, *shown.End.Result)
	for i, call := range shown.Calls {
		if i > 0 { // the first is proposed before anything is read
			require.Equal(t, withheld, call.Arguments, "call %d", i+1)
		}
		require.Equal(t, withheld, *call.Result, "call %d", i+1)
	}
	for _, e := range oskar.follow(run, "", func(e client.Event) bool { return e.Kind == "ended" }) {
		for _, secret := range confidential {
			require.NotContains(t, string(e.Body)+e.Summary, secret, e.Kind)
		}
	}
	export, err := amara.Export(t.Context(), run)
	require.NoError(t, err)
	require.NotEmpty(t, export)
	_, err = oskar.Export(t.Context(), run)
	require.True(t, client.IsCode(err, "NOT_CLEARED"), err)
}

// Two organisations in one process know nothing of each other.
func TestRunOfAnotherOrganisationIsAbsent(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	h.apply(renamed(t, h.organisation, "southwind"))
	amara, stranger := h.as(asker), h.of("southwind", asker)
	conversation := amara.talk("Ours")
	asked := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "INV-1002", "agent": reconciler})
	amara.ended(asked.Run.ID)
	for _, document := range []string{
		`query($id:ID!){run(id:$id){status}}`, `query($id:ID!){node(id:$id){id}}`, `query($id:ID!){audit(run:$id){head}}`,
		`mutation($id:ID!){cancelRun(input:{run:$id}){userErrors{code message}}}`, `subscription($id:ID!){runEvents(run:$id){seq}}`,
	} {
		for _, id := range []string{asked.Run.ID, readdressed(t, asked.Run.ID, "southwind")} {
			foreign := string(stranger.post(document, map[string]any{"id": id}))
			require.Equal(t, string(stranger.post(document, map[string]any{"id": h.elsewhere(id)})), foreign)
			require.True(t, strings.Contains(foreign, "NOT_FOUND") || strings.Contains(foreign, `"node":null`), foreign)
		}
	}
	for _, id := range []string{conversation, readdressed(t, conversation, "southwind")} {
		foreign := string(stranger.post(`query($id:ID!){conversation(id:$id){id}}`, map[string]any{"id": id}))
		require.Contains(t, foreign, "NOT_FOUND")
	}
	runs, err := stranger.Runs(t.Context(), client.Filter{}, 10)
	require.NoError(t, err)
	require.Empty(t, runs)
	require.Empty(t, h.of("southwind", lead).usage("AGENT"))
}

// renamed is the same organisation under another name.
func renamed(t *testing.T, o agents.Organisation, name string) agents.Organisation {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	var out agents.Organisation
	require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(string(raw), `"`+o.Name+`"`, `"`+name+`"`)), &out))
	require.Equal(t, name, out.Name)
	return out
}

// readdressed is a global id as if it were of another organisation.
func readdressed(t *testing.T, id, organisation string) string {
	t.Helper()
	return reworded(t, id, func(parts []string) { parts[1] = organisation })
}

package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
)

// A person lends their own voice, and takes it back: then the agent stops. To
// everybody else the voice is none to lend.
func TestAVoiceIsLentByWhoseItIs(t *testing.T) {
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) {
		for i := range o.Personas {
			if o.Personas[i].Name == "plain" {
				o.Personas[i].VoiceOf = lead
			}
		}
	}})
	type payload struct {
		LendVoice struct {
			Outcome    string
			Persona    *struct{ Lent bool }
			UserErrors []struct{ Code string }
		}
	}
	lend := func(who string, on bool) payload {
		var got payload
		h.as(who).ask(`mutation($on:Boolean!){lendVoice(input:{persona:"plain",lend:$on}){outcome persona{lent} userErrors{code}}}`, map[string]any{"on": on}, &got)
		return got
	}
	startable := func() string {
		return h.as(asker).mutate("startRun", map[string]any{"agent": reconciler, "goal": "Reconcile INV-1004."}).code()
	}
	require.Equal(t, "AGENT_STOPPED", startable())
	for _, who := range []string{director, asker, outsider} {
		require.Equal(t, "NOT_FOUND", lend(who, true).LendVoice.UserErrors[0].Code)
	}
	require.True(t, lend(lead, true).LendVoice.Persona.Lent)
	require.Empty(t, startable())
	require.False(t, lend(lead, false).LendVoice.Persona.Lent)
	require.Equal(t, "AGENT_STOPPED", startable())
}

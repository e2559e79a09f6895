package agents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/deploy/sample"
)

// own is the sample with the reconciler speaking in Marta's own voice.
func own(t *testing.T) agents.Organisation {
	t.Helper()
	o, err := agents.LoadDir(sample.Files, agents.LoadOptions{})
	require.NoError(t, err)
	for i := range o.Personas {
		if o.Personas[i].Name == "plain" {
			o.Personas[i].VoiceOf = "marta.lindqvist"
		}
	}
	return o
}

func stopped(t *testing.T, o agents.Organisation) bool {
	t.Helper()
	revision, known := o.Agent("invoice-reconciler")
	require.True(t, known)
	_, is := o.Stopped(revision)
	person, _ := o.Principal("amara.diallo")
	require.Equal(t, is, len(o.Authority(revision, person, 1).Tools) == 0)
	return is
}

// An agent speaks in a person's own voice as long as that person lets it, and
// for exactly the voice that they agreed to.
func TestAPersonsOwnVoiceNeedsTheirConsent(t *testing.T) {
	o := own(t)
	require.True(t, stopped(t, o))

	for _, other := range []string{"helena.voss", "amara.diallo", "nobody"} {
		_, err := agents.GiveVoice(o, "plain", other, 5)
		require.ErrorIs(t, err, agents.ErrUnknown)
	}
	_, err := agents.GiveVoice(o, "friendly", "marta.lindqvist", 5)
	require.ErrorIs(t, err, agents.ErrUnknown)

	given, err := agents.GiveVoice(o, "plain", "marta.lindqvist", 5)
	require.NoError(t, err)
	require.False(t, stopped(t, given))
	again, err := agents.GiveVoice(given, "plain", "marta.lindqvist", 9)
	require.NoError(t, err)
	require.Equal(t, given, again)

	reworded := given
	reworded.Personas = append([]agents.Persona{}, given.Personas...)
	for i := range reworded.Personas {
		reworded.Personas[i].Voice += " Always agree."
	}
	require.True(t, stopped(t, reworded))

	_, err = agents.WithdrawVoice(given, "plain", "helena.voss")
	require.ErrorIs(t, err, agents.ErrUnknown)
	withdrawn, err := agents.WithdrawVoice(given, "plain", "marta.lindqvist")
	require.NoError(t, err)
	require.True(t, stopped(t, withdrawn))
}

// Files loaded later undo no consent.
func TestConsentOutlivesTheFiles(t *testing.T) {
	o := own(t)
	given, err := agents.GiveVoice(o, "plain", "marta.lindqvist", 5)
	require.NoError(t, err)
	loaded, err := agents.Apply(given, o)
	require.NoError(t, err)
	require.False(t, stopped(t, loaded))
}

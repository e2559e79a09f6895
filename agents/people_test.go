package agents_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
)

func TestAPersonNamesADeputyForAWhile(t *testing.T) {
	o := house(t)
	const from, until = int64(1000), int64(2000)
	set, err := agents.SetDeputy(o, "tomas.rehak", "jonas.petersen", from, until, 500)
	require.NoError(t, err)
	directory := set.Directory()
	require.Equal(t, []string{"tomas.rehak"}, directory.StandsFor("jonas.petersen", from))
	require.Empty(t, directory.StandsFor("jonas.petersen", until))
	require.Empty(t, directory.StandsFor("jonas.petersen", from-1))
	require.Empty(t, o.Directory().StandsFor("jonas.petersen", from), "the value before stays as it was")

	again, err := agents.SetDeputy(set, "tomas.rehak", "jonas.petersen", from, until, 900)
	require.NoError(t, err)
	require.Equal(t, set, again, "the same again changes nothing")

	cleared, err := agents.ClearDeputy(set, "tomas.rehak", 1500)
	require.NoError(t, err)
	require.Empty(t, cleared.Directory().StandsFor("jonas.petersen", 1500))

	for why, try := range map[string]func() (agents.Organisation, error){
		"themselves": func() (agents.Organisation, error) {
			return agents.SetDeputy(o, "tomas.rehak", "tomas.rehak", from, until, 1)
		},
		"nobody known": func() (agents.Organisation, error) { return agents.SetDeputy(o, "tomas.rehak", "zoe", from, until, 1) },
		"a service": func() (agents.Organisation, error) {
			return agents.SetDeputy(o, "tomas.rehak", "invoice-intake", from, until, 1)
		},
		"a while that is not": func() (agents.Organisation, error) {
			return agents.SetDeputy(o, "tomas.rehak", "jonas.petersen", until, until, 1)
		},
		"of a service": func() (agents.Organisation, error) {
			return agents.SetDeputy(o, "invoice-intake", "jonas.petersen", from, until, 1)
		},
	} {
		_, err := try()
		require.Error(t, err, why)
	}
}

func TestFilesDoNotUndoWhatAPersonSaidOfTheirDeputy(t *testing.T) {
	o := house(t)
	loaded := o
	loaded.Deputies = []agents.Deputy{{Person: "tomas.rehak", Deputy: "jonas.petersen", From: 1000, Until: 9000}}
	first, err := agents.Apply(o, loaded)
	require.NoError(t, err)
	require.Equal(t, []string{"tomas.rehak"}, first.Directory().StandsFor("jonas.petersen", 1000))
	cleared, err := agents.ClearDeputy(first, "tomas.rehak", 1500)
	require.NoError(t, err)
	again, err := agents.Apply(cleared, loaded)
	require.NoError(t, err)
	require.Empty(t, again.Directory().StandsFor("jonas.petersen", 2000))
	gone, err := agents.Apply(first, o)
	require.NoError(t, err)
	require.Empty(t, gone.Deputies, "what only the files said goes with the files")
}

func TestMomentsAreDatesOrTimes(t *testing.T) {
	var deputy agents.Deputy
	require.NoError(t, json.Unmarshal([]byte(`{"from":"2026-12-21","until":"2027-01-04T08:00:00+01:00"}`), &deputy))
	require.Equal(t, time.Date(2026, 12, 21, 0, 0, 0, 0, time.UTC).UnixMilli(), int64(deputy.From))
	require.Equal(t, time.Date(2027, 1, 4, 7, 0, 0, 0, time.UTC).UnixMilli(), int64(deputy.Until))
	require.Error(t, json.Unmarshal([]byte(`{"from":"Monday"}`), &deputy))
}

func TestWhatIsWrongWithNotices(t *testing.T) {
	hour := tool.Duration(time.Hour)
	for sentence, change := range map[string]func(*agents.Organisation){
		"must be above 0 and above the one before it": func(o *agents.Organisation) { o.Escalation.RemindAfter = []tool.Duration{hour, hour} },
		"must be manager, owner or role:NAME":         func(o *agents.Organisation) { o.Escalation.EscalateAfter = hour },
		`there is no role "nobody"`:                   func(o *agents.Organisation) { o.Escalation.To = "role:nobody" },
		"hooks.example:443 is not in the egress list": func(o *agents.Organisation) {
			o.Notify.Default = []agents.Channel{{Kind: agents.Webhook, URL: "https://hooks.example/x", Secret: "s"}}
		},
		"name the secret that signs": func(o *agents.Organisation) {
			o.Egress = append(o.Egress, "hooks.example:443")
			o.Notify.Default = []agents.Channel{{Kind: agents.Webhook, URL: "https://hooks.example/x"}}
		},
		"notify.mail says no server": func(o *agents.Organisation) {
			o.Notify.People = map[string][]agents.Channel{"tomas.rehak": {{Kind: agents.Email, Address: "anna@example.org"}}}
		},
		"a password is never sent without TLS": func(o *agents.Organisation) {
			o.Egress = append(o.Egress, "mail.example:25")
			o.Notify.Mail = &agents.MailServer{Server: "mail.example:25", From: "gantry@example.org", User: "u", Secret: "s", TLS: agents.NoTLS}
		},
	} {
		o := house(t)
		require.NoError(t, o.Validate())
		change(&o)
		require.ErrorContains(t, o.Validate(), sentence)
	}
}

// house is the sample with nobody's deputy and no notices.
func house(t *testing.T) agents.Organisation {
	t.Helper()
	o := load(t)
	o.Deputies, o.Escalation, o.Notify = nil, agents.Escalation{}, agents.Notify{}
	return o
}

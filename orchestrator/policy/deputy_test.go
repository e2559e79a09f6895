package policy_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
)

// carla and chen are controllers, mona is alice's manager; olaf is nobody of
// these.
func TestForWhomADeputyMayDecide(t *testing.T) {
	c := readCorpus(t)
	controllers := []policy.Approver{{Role: "controller"}}
	mona := []policy.Approver{{Principal: "mona"}}
	during := func(person, deputy string) policy.Deputy {
		return policy.Deputy{Person: person, Deputy: deputy, FromMs: 1000, UntilMs: 2000}
	}
	for name, test := range map[string]struct {
		deputies  []policy.Deputy
		approvers []policy.Approver
		who       string
		chain     []string
		atMs      int64
		voices    []string
		want      error
	}{
		"for the named person":                    {[]policy.Deputy{during("mona", "olaf")}, mona, "olaf", []string{"alice"}, 1000, []string{"mona"}, nil},
		"for a holder of the role":                {[]policy.Deputy{during("carla", "olaf")}, controllers, "olaf", []string{"alice"}, 1999, []string{"carla"}, nil},
		"for two of them":                         {[]policy.Deputy{during("chen", "olaf"), during("carla", "olaf")}, controllers, "olaf", []string{"alice"}, 1500, []string{"carla", "chen"}, nil},
		"who is named decides for itself":         {[]policy.Deputy{during("chen", "carla")}, controllers, "carla", []string{"alice"}, 1500, []string{"carla"}, nil},
		"who has a deputy still decides":          {[]policy.Deputy{during("mona", "olaf")}, mona, "mona", []string{"alice"}, 1500, []string{"mona"}, nil},
		"before it begins":                        {[]policy.Deputy{during("mona", "olaf")}, mona, "olaf", []string{"alice"}, 999, nil, policy.ErrNotNamed},
		"after it ends":                           {[]policy.Deputy{during("mona", "olaf")}, mona, "olaf", []string{"alice"}, 2000, nil, policy.ErrNotNamed},
		"of somebody who may not":                 {[]policy.Deputy{during("alice", "olaf")}, mona, "olaf", []string{"carla"}, 1500, nil, policy.ErrNotNamed},
		"a deputy's deputy":                       {[]policy.Deputy{during("mona", "carla"), during("carla", "olaf")}, mona, "olaf", []string{"alice"}, 1500, nil, policy.ErrNotNamed},
		"what the deputy itself asks":             {[]policy.Deputy{during("mona", "olaf")}, mona, "olaf", []string{"olaf", "reconciler"}, 1500, nil, policy.ErrRequester},
		"what the person asks":                    {[]policy.Deputy{during("carla", "olaf")}, controllers, "olaf", []string{"carla", "reconciler"}, 1500, nil, policy.ErrRequester},
		"what the person asks, though named":      {[]policy.Deputy{during("carla", "chen")}, controllers, "chen", []string{"carla"}, 1500, nil, policy.ErrRequester},
		"what a service asks for the person":      {[]policy.Deputy{during("carla", "chen")}, controllers, "chen", []string{"bot"}, 1500, nil, policy.ErrRequester},
		"what the person asks, when that is over": {[]policy.Deputy{during("carla", "chen")}, controllers, "chen", []string{"carla"}, 2000, []string{"chen"}, nil},
		"a person, of what its deputy asks":       {[]policy.Deputy{during("mona", "olaf")}, mona, "mona", []string{"olaf"}, 1500, []string{"mona"}, nil},
		"a service":                               {[]policy.Deputy{during("mona", "bot")}, mona, "bot", []string{"alice"}, 1500, nil, policy.ErrNotAPerson},
		"for a service":                           {[]policy.Deputy{during("bot", "olaf")}, []policy.Approver{{Principal: "bot"}}, "olaf", []string{"alice"}, 1500, nil, policy.ErrNotNamed},
		"of another organisation":                 {[]policy.Deputy{during("mona", "eve")}, mona, "eve", []string{"alice"}, 1500, nil, policy.ErrOrganisation},
		"nobody":                                  {[]policy.Deputy{during("mona", "")}, mona, "", []string{"alice"}, 1500, nil, policy.ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			dir := policy.Roster{People: maps.Clone(c.dir.People), Deputies: test.deputies}
			var chain []policy.Principal
			for _, id := range test.chain {
				chain = append(chain, dir.People[id])
			}
			voices, err := policy.Voices(test.approvers, policy.Principal{ID: test.who}, chain, dir, test.atMs)
			require.Equal(t, test.voices, voices)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				require.NoError(t, err)
			}
		})
	}
}

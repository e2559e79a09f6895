package policy_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
)

func TestWhoMayDecide(t *testing.T) {
	c := readCorpus(t)
	controllers := []policy.Approver{{Role: "controller"}}
	mona := []policy.Approver{{Principal: "mona"}}
	for name, test := range map[string]struct {
		approvers []policy.Approver
		who       string
		chain     []string
		want      error
	}{
		"the named person":                  {mona, "mona", []string{"alice", "reconciler"}, nil},
		"a holder of the role":              {controllers, "carla", []string{"alice"}, nil},
		"one of several":                    {append(mona, controllers...), "chen", []string{"alice"}, nil},
		"named and of the role":             {[]policy.Approver{{Principal: "chen", Role: "treasurer"}}, "chen", []string{"alice"}, nil},
		"named, without the role":           {[]policy.Approver{{Principal: "carla", Role: "treasurer"}}, "carla", []string{"alice"}, policy.ErrNotNamed},
		"the role, but another person":      {[]policy.Approver{{Principal: "carla", Role: "controller"}}, "chen", []string{"alice"}, policy.ErrNotNamed},
		"somebody else":                     {mona, "olaf", []string{"alice"}, policy.ErrNotNamed},
		"nobody is named":                   {nil, "mona", []string{"alice"}, policy.ErrNotNamed},
		"an empty approver names nobody":    {[]policy.Approver{{}}, "mona", []string{"alice"}, policy.ErrNotNamed},
		"the subject":                       {controllers, "carla", []string{"carla", "reconciler"}, policy.ErrRequester},
		"somebody in the chain":             {controllers, "carla", []string{"alice", "carla", "reconciler"}, policy.ErrRequester},
		"on whose behalf a service acts":    {controllers, "carla", []string{"bot"}, policy.ErrRequester},
		"on whose behalf, through one more": {controllers, "carla", []string{"alice", "proxy"}, policy.ErrRequester},
		"a service":                         {controllers, "bot", []string{"alice"}, policy.ErrNotAPerson},
		"an agent":                          {[]policy.Approver{{Principal: "reconciler"}}, "reconciler", []string{"alice"}, policy.ErrNotAPerson},
		"another organisation":              {controllers, "eve", []string{"alice"}, policy.ErrOrganisation},
		"not in the directory":              {[]policy.Approver{{Principal: "zoe"}}, "zoe", []string{"alice"}, policy.ErrUnknown},
		"nobody":                            {[]policy.Approver{{Principal: ""}}, "", []string{"alice"}, policy.ErrUnknown},
		"no chain":                          {mona, "mona", nil, policy.ErrNoRequester},
		"a chain of nobody":                 {mona, "mona", []string{"zoe"}, policy.ErrNoRequester},
	} {
		t.Run(name, func(t *testing.T) {
			var chain []policy.Principal
			for _, id := range test.chain {
				chain = append(chain, c.dir.People[id])
			}
			err := policy.Entitled(test.approvers, policy.Principal{ID: test.who}, chain, c.dir)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				require.NoError(t, err)
			}
		})
	}
}

func TestTheDirectoryCountsAndNotTheClaim(t *testing.T) {
	c := readCorpus(t)
	chain := []policy.Principal{c.dir.People["alice"]}
	controllers := []policy.Approver{{Role: "controller"}}
	claimed := policy.Principal{ID: "olaf", Kind: policy.Person, Organisation: "acme", Roles: []string{"controller"}}
	require.ErrorIs(t, policy.Entitled(controllers, claimed, chain, c.dir), policy.ErrNotNamed)

	later := policy.Roster{People: maps.Clone(c.dir.People)}
	carla := later.People["carla"]
	require.NoError(t, policy.Entitled(controllers, carla, chain, later))
	withoutRole := carla
	withoutRole.Roles = nil
	later.People["carla"] = withoutRole
	require.ErrorIs(t, policy.Entitled(controllers, carla, chain, later), policy.ErrNotNamed, "the role was lost since")
}

func TestDelegationInACircleEnds(t *testing.T) {
	person := func(id, actsFor string) policy.Principal {
		return policy.Principal{ID: id, Kind: policy.Person, Organisation: "acme", ActsFor: actsFor}
	}
	dir := policy.Roster{People: map[string]policy.Principal{
		"a": person("a", "b"), "b": person("b", "c"), "c": person("c", "a"), "d": person("d", ""),
	}}
	chain := []policy.Principal{dir.People["a"]}
	require.ErrorIs(t, policy.Entitled([]policy.Approver{{Principal: "c"}}, dir.People["c"], chain, dir), policy.ErrRequester)
	require.NoError(t, policy.Entitled([]policy.Approver{{Principal: "d"}}, dir.People["d"], chain, dir))
	chain[0].ActsFor = "d" // what the chain says counts beside what the directory says
	require.ErrorIs(t, policy.Entitled([]policy.Approver{{Principal: "d"}}, dir.People["d"], chain, dir), policy.ErrRequester)
	require.ErrorIs(t, policy.Entitled([]policy.Approver{{Principal: "c"}}, dir.People["c"], chain, dir), policy.ErrRequester)
}

func TestEveryGroupMustBeSatisfied(t *testing.T) {
	c := readCorpus(t)
	chain := []policy.Principal{c.dir.People["alice"]}
	people := func(ids ...string) []policy.Principal {
		var list []policy.Principal
		for _, id := range ids {
			list = append(list, c.dir.People[id])
		}
		return list
	}
	two := []policy.Approver{{Role: "controller", Quorum: 2}, {Principal: "mona", Group: 1}}
	either := []policy.Approver{{Principal: "olaf"}, {Principal: "mona"}}
	overlap := []policy.Approver{{Role: "controller"}, {Role: "treasurer", Group: 1}}
	require.True(t, policy.Settled(two, people("carla", "chen", "mona"), chain, c.dir))
	require.False(t, policy.Settled(two, people("carla", "chen"), chain, c.dir))
	require.False(t, policy.Settled(two, people("carla", "carla", "mona"), chain, c.dir))
	require.False(t, policy.Settled(two, people("carla", "bot", "mona"), chain, c.dir))
	require.True(t, policy.Settled(either, people("mona"), chain, c.dir), "one group: they stand for each other")
	require.True(t, policy.Settled(overlap, people("chen"), chain, c.dir), "one person counts in each group that names it")
	require.False(t, policy.Settled(overlap, people("carla"), chain, c.dir))
	require.False(t, policy.Settled(nil, people("mona"), chain, c.dir))
	require.False(t, policy.Settled(either, nil, chain, c.dir))
}

package route_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/route"
	"gantry.dev/orchestrator/policy"
)

const nowMs = 1_000

// candidate is a model for which nothing speaks against a small turn.
func candidate(name string, tier int, cost int64) route.Candidate {
	return route.Candidate{Model: catalogue.Model{Name: name, Tier: tier, Context: 1_000, MaxOutput: 100, Tools: true, Residency: "eu"},
		Granted: true, Served: true, Prompt: 10, MicroUSD: cost, Worst: 2 * cost, WorstTokens: 110}
}

func need() route.Need { return route.Need{Tools: true, MicroUSD: 1_000, Tokens: 1_000} }

func TestTheCheapestOfTheRightOnesIsTaken(t *testing.T) {
	big, small, twin := candidate("big", 3, 90), candidate("small", 1, 10), candidate("twin", 3, 50)
	for name, row := range map[string]struct {
		change     func(*route.Need)
		candidates []route.Candidate
		takes      string
	}{
		"as good as the first":       {nil, []route.Candidate{big, small, twin}, "twin"},
		"the first is the worst":     {nil, []route.Candidate{small, big, twin}, "small"},
		"equals in order":            {nil, []route.Candidate{candidate("a", 1, 5), candidate("b", 1, 5)}, "a"},
		"a stated tier":              {func(n *route.Need) { n.Tier = 2 }, []route.Candidate{small, big, twin}, "twin"},
		"a low stated tier":          {func(n *route.Need) { n.Tier = 1 }, []route.Candidate{big, small, twin}, "small"},
		"in order":                   {func(n *route.Need) { n.Prefer = route.InOrder }, []route.Candidate{big, small, twin}, "big"},
		"measured to be bad":         {func(n *route.Need) { n.Scores, n.Least = route.Scores{"twin": 0.4}, 0.5 }, []route.Candidate{big, twin}, "big"},
		"nobody measured it":         {func(n *route.Need) { n.Scores, n.Least = route.Scores{"big": 0.9}, 0.5 }, []route.Candidate{big, twin}, "twin"},
		"what is left pays the rest": {func(n *route.Need) { n.MicroUSD = 25 }, []route.Candidate{big, small}, "small"},
	} {
		t.Run(name, func(t *testing.T) {
			n := need()
			if row.change != nil {
				row.change(&n)
			}
			choice := route.Choose(n, row.candidates, nowMs)
			require.Equal(t, row.takes, choice.Model)
			require.NotEmpty(t, choice.Why)
			require.Len(t, choice.Offers, len(row.candidates), "each is accounted for")
		})
	}
}

func TestEveryRefusalHasItsName(t *testing.T) {
	secret := []route.Rule{{Label: "secret", Models: []string{"other"}}}
	local := []route.Rule{{Label: "secret", Residency: []string{"local"}}}
	for refusal, change := range map[route.Refusal]func(*route.Need, *route.Candidate){
		route.NotGranted: func(_ *route.Need, c *route.Candidate) { c.Granted = false },
		route.NotServed:  func(_ *route.Need, c *route.Candidate) { c.Served = false },
		route.Labels:     func(n *route.Need, _ *route.Candidate) { n.Rules = secret },
		route.Residency:  func(n *route.Need, _ *route.Candidate) { n.Rules = local },
		route.Tools:      func(_ *route.Need, c *route.Candidate) { c.Tools = false },
		route.Images:     func(n *route.Need, _ *route.Candidate) { n.Images = true },
		route.Files:      func(n *route.Need, _ *route.Candidate) { n.Files = true },
		route.Context:    func(_ *route.Need, c *route.Candidate) { c.Prompt = c.Context },
		route.Tier:       func(n *route.Need, _ *route.Candidate) { n.Tier = 9 },
		route.Quality:    func(n *route.Need, _ *route.Candidate) { n.Scores, n.Least = route.Scores{"m": 0.1}, 0.5 },
		route.Resting:    func(_ *route.Need, c *route.Candidate) { c.RestMs = nowMs + 1 },
		route.Out:        func(_ *route.Need, c *route.Candidate) { c.OutMs = nowMs + 1 },
		route.Budget:     func(n *route.Need, _ *route.Candidate) { n.Tokens = 109 },
	} {
		n, c := need(), candidate("m", 1, 10)
		require.Empty(t, n.Refuses(c, nowMs))
		change(&n, &c)
		require.Equal(t, refusal, n.Refuses(c, nowMs))
	}
}

func TestALabelIsReadOnlyWhereBothSidesAllowIt(t *testing.T) {
	for name, row := range map[string]struct {
		rule    route.Rule
		change  func(*catalogue.Model)
		permits bool
	}{
		"any":                     {route.Rule{Label: "hr"}, nil, true},
		"named":                   {route.Rule{Label: "hr", Models: []string{"m"}}, nil, true},
		"another is named":        {route.Rule{Label: "hr", Models: []string{"n"}}, nil, false},
		"there":                   {route.Rule{Label: "hr", Residency: []string{"eu"}}, nil, true},
		"elsewhere":               {route.Rule{Label: "hr", Residency: []string{"us"}}, nil, false},
		"nobody knows where":      {route.Rule{Label: "hr", Residency: []string{"eu"}}, func(m *catalogue.Model) { m.Residency = "" }, false},
		"its own labels":          {route.Rule{Label: "hr"}, func(m *catalogue.Model) { m.Labels = policy.NewLabels("hr") }, true},
		"its own, other labels":   {route.Rule{Label: "hr"}, func(m *catalogue.Model) { m.Labels = policy.NewLabels("it") }, false},
		"plain":                   {route.Rule{Label: "hr"}, func(m *catalogue.Model) { m.Plain = true }, false},
		"nobody knows the label":  {route.Rule{Label: "hr", Unknown: true}, nil, false},
		"named, but not to there": {route.Rule{Label: "hr", Models: []string{"m"}, Residency: []string{"us"}}, nil, false},
	} {
		c := candidate("m", 1, 1)
		if row.change != nil {
			row.change(&c.Model)
		}
		require.Equal(t, row.permits, route.Need{Rules: []route.Rule{row.rule}}.Permits(c), name)
	}
}

func TestTheSecondModelIsAsRightAndStandsElsewhere(t *testing.T) {
	at := func(name, place string, tier int, cost int64) route.Candidate {
		c := candidate(name, tier, cost)
		c.Endpoint = place
		return c
	}
	a := at("a", "one", 2, 10)
	forbidden, out := at("b", "two", 2, 1), at("b", "two", 2, 1)
	forbidden.Granted, out.OutMs = false, nowMs+1
	for name, row := range map[string]struct {
		change func(*route.Need)
		others []route.Candidate
		second string
	}{
		"the cheapest":            {nil, []route.Candidate{at("b", "two", 2, 40), at("c", "three", 2, 20)}, "c"},
		"in order":                {func(n *route.Need) { n.Prefer = route.InOrder }, []route.Candidate{at("b", "two", 1, 40), at("c", "three", 2, 20)}, "b"},
		"at the same place":       {nil, []route.Candidate{at("b", "one", 2, 40)}, ""},
		"worse than the first":    {nil, []route.Candidate{at("b", "two", 1, 5)}, ""},
		"worse, and that is said": {func(n *route.Need) { n.Tier = 1 }, []route.Candidate{at("b", "two", 1, 5)}, "b"},
		"forbidden":               {nil, []route.Candidate{forbidden}, ""},
		"out":                     {nil, []route.Candidate{out}, ""},
		"what is left pays one":   {func(n *route.Need) { n.MicroUSD = 20 + 2*40 - 1 }, []route.Candidate{at("b", "two", 2, 40)}, ""},
		"what is left pays both":  {func(n *route.Need) { n.MicroUSD = 20 + 2*40 }, []route.Candidate{at("b", "two", 2, 40)}, "b"},
		"tokens for one":          {func(n *route.Need) { n.Tokens = 219 }, []route.Candidate{at("b", "two", 2, 40)}, ""},
		"none":                    {nil, nil, ""},
	} {
		n := need()
		if row.change != nil {
			row.change(&n)
		}
		require.Equal(t, row.second, route.Second(n, append([]route.Candidate{a}, row.others...), "a", nowMs), name)
	}
	require.Empty(t, route.Second(need(), []route.Candidate{a}, "x", nowMs))
}

func TestWhatTimeMendsIsToldFromWhatItDoesNot(t *testing.T) {
	out, resting, forbidden, dear := candidate("out", 1, 1), candidate("resting", 1, 1), candidate("forbidden", 1, 1), candidate("dear", 1, 5_000)
	out.OutMs, resting.RestMs, forbidden.Granted = nowMs+900, nowMs+500, false
	choice := route.Choose(need(), []route.Candidate{out, resting, forbidden, dear}, nowMs)
	require.True(t, choice.Outage())
	require.Equal(t, int64(nowMs+500), choice.BackMs, "when the first of them is back")
	choice = route.Choose(need(), []route.Candidate{forbidden}, nowMs)
	require.False(t, choice.Outage())
	require.Empty(t, choice.Model)
	require.Equal(t, "no model is right for the turn: forbidden NOT_GRANTED", choice.Why)
	require.Equal(t, "dear", route.Choose(need(), []route.Candidate{forbidden, dear}, nowMs).Model, "the run's own rules refuse it")
	roomy, cramped := candidate("roomy", 1, 9), candidate("cramped", 1, 1)
	roomy.Prompt, roomy.Context, cramped.Prompt = 5_000, 4_000, 5_000
	require.Equal(t, "roomy", route.Choose(need(), []route.Candidate{cramped, roomy}, nowMs).Model, "the most room there is")
}

// Whatever is asked for, what is forbidden is never taken, and a right model is
// taken where there is one.
func TestFault_D2_WhatIsForbiddenIsNeverTaken(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := need()
		n.MicroUSD = rapid.Int64Range(0, 100).Draw(t, "left")
		n.Tier, n.Prefer = rapid.IntRange(0, 3).Draw(t, "tier"), rapid.SampledFrom([]route.Prefer{"", route.Cheapest, route.InOrder}).Draw(t, "prefer")
		if rapid.Bool().Draw(t, "labelled") {
			n.Rules = []route.Rule{{Label: "hr", Models: rapid.SampledFrom([][]string{nil, {"a"}, {"b", "c"}}).Draw(t, "models"),
				Residency: rapid.SampledFrom([][]string{nil, {"eu"}, {"us"}}).Draw(t, "residency")}}
		}
		var candidates []route.Candidate
		for _, name := range []string{"a", "b", "c"} {
			c := candidate(name, rapid.IntRange(1, 3).Draw(t, "its tier"), rapid.Int64Range(0, 60).Draw(t, "cost"))
			c.Granted, c.Served = rapid.IntRange(0, 4).Draw(t, "granted") > 0, rapid.IntRange(0, 4).Draw(t, "served") > 0
			c.Residency = rapid.SampledFrom([]string{"eu", "us", ""}).Draw(t, "place")
			c.OutMs = rapid.SampledFrom([]int64{0, nowMs + 1}).Draw(t, "out")
			candidates = append(candidates, c)
		}
		choice := route.Choose(n, candidates, nowMs)
		for _, c := range candidates {
			refusal := n.Refuses(c, nowMs)
			if refusal == "" {
				require.NotEmpty(t, choice.Model)
			}
			if c.Name == choice.Model {
				require.True(t, n.Permits(c))
				require.Contains(t, []route.Refusal{"", route.Budget}, refusal)
			}
			if refusal == "" && n.Prefer != route.InOrder && choice.Model != "" {
				taken := candidates[choice.Model[0]-'a']
				require.True(t, taken.MicroUSD <= c.MicroUSD || n.Tier == 0 && c.Tier < candidates[0].Tier, "%s is cheaper than %s", c.Name, taken.Name)
			}
		}
	})
}

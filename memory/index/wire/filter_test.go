package wire_test

import (
	"testing"

	"github.com/qdrant/go-client/qdrant"
	"github.com/stretchr/testify/require"

	"gantry.dev/memory/index/wire"
)

const id = "00000000-0000-0000-0000-000000000001"

func payload() map[string]*qdrant.Value {
	return qdrant.NewValueMap(map[string]any{
		"space": "agent:x",
		"omit":  []any{"hr", "legal"},
		"none":  []any{},
		"null":  nil,
		"at":    int64(1_000),
	})
}

func must(conditions ...*qdrant.Condition) *qdrant.Filter { return &qdrant.Filter{Must: conditions} }

func mustNot(conditions ...*qdrant.Condition) *qdrant.Filter {
	return &qdrant.Filter{MustNot: conditions}
}

func should(conditions ...*qdrant.Condition) *qdrant.Filter {
	return &qdrant.Filter{Should: conditions}
}

// What the server's filters mean, as its own tests and documents have it: the rows
// that decide how the index asks.
func TestFiltersMeanWhatTheServersDo(t *testing.T) {
	yes, no := qdrant.NewMatchKeyword("space", "agent:x"), qdrant.NewMatchKeyword("space", "agent:y")
	for name, row := range map[string]struct {
		filter *qdrant.Filter
		passes bool
	}{
		"no filter is no condition":         {nil, true},
		"an empty filter is no condition":   {&qdrant.Filter{}, true},
		"an empty must is no condition":     {&qdrant.Filter{Must: []*qdrant.Condition{}}, true},
		"an empty should is no condition":   {&qdrant.Filter{Should: []*qdrant.Condition{}, Must: []*qdrant.Condition{yes}}, true},
		"must: all":                         {must(yes, no), false},
		"must_not: none":                    {mustNot(no, yes), false},
		"should: one is enough":             {should(no, yes), true},
		"should: none is not":               {should(no, no), false},
		"must and should: both lists":       {&qdrant.Filter{Must: []*qdrant.Condition{yes}, Should: []*qdrant.Condition{no}}, false},
		"min_should counts":                 {&qdrant.Filter{MinShould: &qdrant.MinShould{Conditions: []*qdrant.Condition{yes, no, yes}, MinCount: 2}}, true},
		"min_should counts too few":         {&qdrant.Filter{MinShould: &qdrant.MinShould{Conditions: []*qdrant.Condition{yes, no}, MinCount: 2}}, false},
		"min_should of nothing":             {&qdrant.Filter{MinShould: &qdrant.MinShould{MinCount: 1}}, false},
		"a filter as a condition":           {must(qdrant.NewFilterAsCondition(should(no, yes))), true},
		"a filter as a condition fails":     {must(qdrant.NewFilterAsCondition(mustNot(yes))), false},
		"match any":                         {must(qdrant.NewMatchKeywords("space", "agent:y", "agent:x")), true},
		"match any of nothing matches none": {must(qdrant.NewMatchKeywords("space")), false},
		"a list: one of its values":         {must(qdrant.NewMatchKeyword("omit", "legal")), true},
		"a list: none of its values":        {must(qdrant.NewMatchKeywords("omit", "x", "y")), false},
		"an empty list holds nothing":       {must(qdrant.NewMatchKeywords("none", "")), false},
		"must_not of a list":                {mustNot(qdrant.NewMatchKeywords("omit", "x", "hr")), false},
		"must_not of an empty list":         {mustNot(qdrant.NewMatchKeywords("none", "hr")), true},
		"a missing field matches nothing":   {must(qdrant.NewMatchKeyword("absent", "x")), false},
		"must_not of a missing field":       {mustNot(qdrant.NewMatchKeyword("absent", "x")), true},
		"except: any other value of a list": {must(qdrant.NewMatchExcept("omit", "hr")), true},
		"except: no other value":            {must(qdrant.NewMatchExcept("omit", "hr", "legal")), false},
		"except fails for a missing field":  {must(qdrant.NewMatchExcept("absent", "hr")), false},
		"must_not except opens what is absent": {
			mustNot(qdrant.NewMatchExcept("absent", "hr")), true,
		},
		"is_empty of what is missing":      {must(qdrant.NewIsEmpty("absent")), true},
		"is_empty of an empty list":        {must(qdrant.NewIsEmpty("none")), true},
		"is_empty of null":                 {must(qdrant.NewIsEmpty("null")), true},
		"is_empty of a value":              {must(qdrant.NewIsEmpty("space")), false},
		"a keyword is no number":           {must(qdrant.NewMatchKeyword("at", "1000")), false},
		"a number is a number":             {must(qdrant.NewMatchInt("at", 1_000)), true},
		"a number is no other":             {must(qdrant.NewMatchInt("at", 1_001)), false},
		"above":                            {must(qdrant.NewRange("at", &qdrant.Range{Gt: new(999.0)})), true},
		"not above itself":                 {must(qdrant.NewRange("at", &qdrant.Range{Gt: new(1_000.0)})), false},
		"from itself to itself":            {must(qdrant.NewRange("at", &qdrant.Range{Gte: new(1_000.0), Lte: new(1_000.0)})), true},
		"below itself":                     {must(qdrant.NewRange("at", &qdrant.Range{Lt: new(1_000.0)})), false},
		"a range of a missing field":       {must(qdrant.NewRange("absent", &qdrant.Range{Gt: new(0.0)})), false},
		"a range of a text":                {must(qdrant.NewRange("space", &qdrant.Range{Gt: new(0.0)})), false},
		"an empty range holds any number":  {must(qdrant.NewRange("at", &qdrant.Range{})), true},
		"an id":                            {must(qdrant.NewHasID(qdrant.NewID(id))), true},
		"not an id":                        {mustNot(qdrant.NewHasID(qdrant.NewID(id))), false},
		"no ids":                           {must(qdrant.NewHasID()), false},
		"two checks in one condition: one": {must(twoChecks("agent:x", 5_000)), true},
		"two checks in one condition: other": {
			must(twoChecks("agent:y", 0)), false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, row.passes, wire.Matches(row.filter, id, payload()))
		})
	}
}

// twoChecks asks for a keyword and for a range of the same field.
func twoChecks(keyword string, above float64) *qdrant.Condition {
	condition := qdrant.NewMatchKeyword("space", keyword)
	condition.GetField().Range = &qdrant.Range{Gt: &above}
	return condition
}

// A filter of a query, and one of its prefetch, become one; so a guard in should
// is undone by any other condition there. In must it stays.
func TestAMergedFilterKeepsOnlyWhatIsInMust(t *testing.T) {
	forbids, anything := qdrant.NewMatchKeyword("space", "agent:y"), qdrant.NewMatchKeyword("omit", "hr")
	require.False(t, wire.Matches(should(forbids), id, payload()))
	require.True(t, wire.Matches(wire.Merged(should(forbids), should(anything)), id, payload()))
	require.False(t, wire.Matches(wire.Merged(must(forbids), should(anything)), id, payload()))
	require.False(t, wire.Matches(wire.Merged(should(anything), must(forbids)), id, payload()))

	one := &qdrant.Filter{MinShould: &qdrant.MinShould{Conditions: []*qdrant.Condition{forbids}, MinCount: 1}}
	two := &qdrant.Filter{MinShould: &qdrant.MinShould{Conditions: []*qdrant.Condition{anything, anything}, MinCount: 2}}
	require.False(t, wire.Matches(one, id, payload()))
	require.True(t, wire.Matches(wire.Merged(one, two), id, payload()), "the larger count, of all conditions")
	require.True(t, wire.Matches(wire.Merged(nil, nil), id, payload()))
}

// The client sends an empty list of keywords as a match of nothing, not as no
// match.
func TestAnEmptyListOfKeywordsArrivesAsOne(t *testing.T) {
	match := qdrant.NewMatchKeywords("space").GetField().GetMatch()
	require.NotNil(t, match.GetMatchValue())
}

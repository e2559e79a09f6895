package wire

import (
	"slices"

	"github.com/qdrant/go-client/qdrant"
)

// Matches says whether the server's filter lets a point through. It has more rules
// than the double answers calls with: they show why the others are not used.
//
//   - Each of must, none of must_not, and one of should must hold, as far as there
//     are any: an empty list, and no filter, is no condition.
//   - A field with several values holds when one of them does; a missing one never.
//   - Of several checks in one field condition one is enough.
func Matches(filter *qdrant.Filter, id string, payload map[string]*qdrant.Value) bool {
	holds := func(condition *qdrant.Condition) bool { return matches(condition, id, payload) }
	if slices.ContainsFunc(filter.GetMust(), func(c *qdrant.Condition) bool { return !holds(c) }) ||
		slices.ContainsFunc(filter.GetMustNot(), holds) {
		return false
	}
	if should := filter.GetShould(); len(should) > 0 && !slices.ContainsFunc(should, holds) {
		return false
	}
	if least := filter.GetMinShould(); least != nil {
		count := uint64(0)
		for _, condition := range least.GetConditions() {
			if holds(condition) {
				count++
			}
		}
		return count >= least.GetMinCount()
	}
	return true
}

func matches(condition *qdrant.Condition, id string, payload map[string]*qdrant.Value) bool {
	switch c := condition.GetConditionOneOf().(type) {
	case *qdrant.Condition_Filter:
		return Matches(c.Filter, id, payload)
	case *qdrant.Condition_HasId:
		return slices.ContainsFunc(c.HasId.GetHasId(), func(one *qdrant.PointId) bool { return one.GetUuid() == id })
	case *qdrant.Condition_IsEmpty:
		return len(values(payload[c.IsEmpty.GetKey()])) == 0
	case *qdrant.Condition_Field:
		return slices.ContainsFunc(values(payload[c.Field.GetKey()]), func(value *qdrant.Value) bool {
			return c.Field.GetMatch() != nil && matchesValue(c.Field.GetMatch(), value) ||
				c.Field.GetRange() != nil && inRange(c.Field.GetRange(), value)
		})
	}
	return false
}

// values are the values of a field: several for a list, none for what is missing.
func values(value *qdrant.Value) []*qdrant.Value {
	switch v := value.GetKind().(type) {
	case nil, *qdrant.Value_NullValue:
		return nil
	case *qdrant.Value_ListValue:
		return v.ListValue.GetValues()
	}
	return []*qdrant.Value{value}
}

func matchesValue(match *qdrant.Match, value *qdrant.Value) bool {
	text, isText := value.GetKind().(*qdrant.Value_StringValue)
	number, isNumber := value.GetKind().(*qdrant.Value_IntegerValue)
	switch m := match.GetMatchValue().(type) {
	case *qdrant.Match_Keyword:
		return isText && text.StringValue == m.Keyword
	case *qdrant.Match_Keywords:
		return isText && slices.Contains(m.Keywords.GetStrings(), text.StringValue)
	case *qdrant.Match_ExceptKeywords:
		return !isText || !slices.Contains(m.ExceptKeywords.GetStrings(), text.StringValue)
	case *qdrant.Match_Integer:
		return isNumber && number.IntegerValue == m.Integer
	}
	return false
}

func inRange(r *qdrant.Range, value *qdrant.Value) bool {
	var number float64
	switch v := value.GetKind().(type) {
	case *qdrant.Value_IntegerValue:
		number = float64(v.IntegerValue)
	case *qdrant.Value_DoubleValue:
		number = v.DoubleValue
	default:
		return false
	}
	return (r.Lt == nil || number < r.GetLt()) && (r.Gt == nil || number > r.GetGt()) &&
		(r.Lte == nil || number <= r.GetLte()) && (r.Gte == nil || number >= r.GetGte())
}

// Merged is what the server makes of the filter of a query and that of one of its
// prefetches: the lists one behind the other. So two lists of should become one
// list of which one condition is enough.
func Merged(root, leaf *qdrant.Filter) *qdrant.Filter {
	merged := &qdrant.Filter{
		Must:    slices.Concat(root.GetMust(), leaf.GetMust()),
		MustNot: slices.Concat(root.GetMustNot(), leaf.GetMustNot()),
		Should:  slices.Concat(root.GetShould(), leaf.GetShould()),
	}
	if a, b := root.GetMinShould(), leaf.GetMinShould(); a != nil || b != nil {
		merged.MinShould = &qdrant.MinShould{
			Conditions: slices.Concat(a.GetConditions(), b.GetConditions()),
			MinCount:   max(a.GetMinCount(), b.GetMinCount()),
		}
	}
	return merged
}

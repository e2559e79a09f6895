package view

import (
	"slices"
	"strings"

	"gantry.dev/orchestrator/policy"
)

// ViewsOf returns the readings of an item: one for each distinct part of it
// that some clearance sees, by Set. The labels of what a clearance sees are a
// union of segments' label sets, and each union sees another part, so the
// unions are the readings. key is the organisation's, for the etags. The error
// is ErrTooManySets.
func ViewsOf(item *Item, key []byte) ([]View, error) {
	unions, err := unionsOf(item.Segments)
	if err != nil {
		return nil, err
	}
	views := make([]View, 0, len(unions))
	for id, union := range unions {
		sees := func(labels policy.Labels) bool { return labels.Within(union) }
		views = append(views, View{
			Set:    id,
			Omit:   omitted(item.Segments, union),
			Labels: union,
			Text:   visibleText(item.Segments, sees),
			Etag:   EtagOf(shown(item, sees, nil), key),
		})
	}
	slices.SortFunc(views, func(a, b View) int { return strings.Compare(a.Set, b.Set) })
	return views, nil
}

// Fits reports whether the view is the one for a reader who is allowed the sets
// for which allowed is true. Of an item that the reader sees exactly one fits:
// the fullest.
func (v View) Fits(allowed func(set string) bool) bool {
	return allowed(v.Set) && !slices.ContainsFunc(v.Omit, allowed)
}

func unionsOf(segments []Segment) (map[string]policy.Labels, error) {
	unions := map[string]policy.Labels{}
	for _, segment := range segments {
		if _, known := unions[SetID(segment.Labels)]; known {
			continue // a union of what came before: every union with it is there
		}
		grown := map[string]policy.Labels{SetID(segment.Labels): segment.Labels}
		for _, union := range unions {
			joined := union.Join(segment.Labels)
			grown[SetID(joined)] = joined
		}
		for id, union := range grown {
			unions[id] = union
		}
		if len(unions) > MaxViews {
			return nil, ErrTooManySets // more segments only add unions
		}
	}
	return unions, nil
}

func omitted(segments []Segment, union policy.Labels) []string {
	var omit []string
	for _, segment := range segments {
		if !segment.Labels.Within(union) {
			omit = append(omit, SetID(segment.Labels))
		}
	}
	slices.Sort(omit)
	return slices.Compact(omit)
}

// visibleText joins what is seen. A gap and the end of the heading part words
// that never stood together.
func visibleText(segments []Segment, sees func(policy.Labels) bool) string {
	var text strings.Builder
	var between string
	inHeading := false
	for _, segment := range segments {
		if !sees(segment.Labels) {
			between = max(between, " ")
			continue
		}
		if inHeading && !segment.Heading {
			between = "\n"
		}
		if text.Len() > 0 {
			text.WriteString(between)
		}
		text.WriteString(segment.Text)
		between, inHeading = "", segment.Heading
	}
	return text.String()
}

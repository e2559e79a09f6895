// Package detect finds what looks like a secret or like a person's number in a
// text. It is pure: the same text gives the same spans.
//
// What it finds is only ever added to what is known of a text, and nothing that
// stands in a text switches a detector off. It does not claim to find names,
// postal addresses, secrets that are encoded or cut by line breaks, or letters
// of other scripts that look like Latin ones.
package detect

import (
	"cmp"
	"slices"
)

// Kind says what sort of thing a span holds.
type Kind string

// The kinds of span.
const (
	Secret     Kind = "SECRET"      // a key, token or password
	Email      Kind = "EMAIL"       // a mail address
	Phone      Kind = "PHONE"       // a telephone number
	Card       Kind = "CARD"        // the number of a payment card
	IBAN       Kind = "IBAN"        // the number of a bank account
	NationalID Kind = "NATIONAL_ID" // a number by which a state knows a person
)

// Span is a part of a text that a rule found. Start and End are bytes of the
// text as it was given.
type Span struct {
	Start, End int
	Kind       Kind
	Rule       string // names the rule, for example "us-ssn"
}

// Find returns what is found in the text, sorted by start, end and kind. Spans
// of one kind neither overlap nor touch; spans of different kinds may overlap,
// so that each may bring its own label. Unite makes them fit for Redact.
//
// Its time grows linearly with the text. A thing that is found in a text is
// found in the same place by a Stream, however the text comes in.
func Find(text string) []Span {
	s := scanner{}
	s.feed(text)
	s.run(true)
	return tidy(s.spans)
}

// Unite returns the spans with all that overlap or touch made one, which keeps
// the kind and the rule of its first.
func Unite(spans []Span) []Span {
	sorted := slices.Clone(spans)
	order(sorted)
	united := sorted[:0]
	for _, span := range sorted {
		if last := len(united) - 1; last >= 0 && span.Start <= united[last].End {
			united[last].End = max(united[last].End, span.End)
			continue
		}
		united = append(united, span)
	}
	return united
}

func order(spans []Span) {
	slices.SortFunc(spans, func(a, b Span) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Rule, b.Rule))
	})
}

// tidy makes one of the spans of a kind that overlap or touch.
func tidy(spans []Span) []Span {
	byKind := map[Kind][]Span{}
	for _, span := range spans {
		byKind[span.Kind] = append(byKind[span.Kind], span)
	}
	var all []Span
	for _, group := range byKind {
		all = append(all, Unite(group)...)
	}
	order(all)
	return all
}

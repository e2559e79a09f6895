package detect

import "strings"

// findIn returns what is in one block, in bytes of the text it was folded from.
func findIn(f *folded) []Span {
	if f.text == "" {
		return nil
	}
	lower := strings.ToLower(f.text)
	if len(lower) != len(f.text) {
		lower = f.text // a rune whose small form is longer; the keywords are ASCII
	}
	secrets := findSecrets(f, lower)
	found := findEmails(f, lower, secrets)
	if strings.ContainsAny(f.text, "0123456789") {
		found = append(found, findNumbers(f, lower, secrets)...)
	}
	return append(found, secrets...)
}

func findSecrets(f *folded, lower string) (found []Span) {
	for i := range issuerRules {
		found = issuerRules[i].find(f, lower, found)
	}
	return findCredentials(f, lower, found)
}

// findNumbers leaves out what lies in a number that says more: the digits of a
// card are no telephone number as well.
func findNumbers(f *folded, lower string, secrets []Span) (found []Span) {
	at := starts(f.text)
	found = findIBANs(f, at, found)
	found = findOutside(found, findCards(f, at))
	found = findOutside(found, findIDs(f, lower, at))
	outside := append(append([]Span(nil), found...), secrets...)
	return append(found, findOutside(outside, findPhones(f, lower, at))[len(outside):]...)
}

// findOutside adds those candidates that lie in none of what is found.
func findOutside(found, candidates []Span) []Span {
	known := found
	for _, candidate := range candidates {
		if !within(candidate, known) {
			found = append(found, candidate)
		}
	}
	return found
}

func within(span Span, outer []Span) bool {
	for _, o := range outer {
		if o.Start <= span.Start && span.End <= o.End {
			return true
		}
	}
	return false
}

// starts returns where numbers may begin: at a letter, digit, plus or bracket
// that neither goes on a word nor stands behind a decimal point.
func starts(text string) (at []int) {
	for i := range len(text) {
		if b := text[i]; !isAlnum(b) && b != '+' && b != '(' {
			continue
		}
		if i > 0 && (isAlnum(text[i-1]) || text[i-1] == '_') {
			continue
		}
		if i > 1 && strings.IndexByte(".,", text[i-1]) >= 0 && isDigit(text[i-2]) {
			continue
		}
		at = append(at, i)
	}
	return at
}

// ends reports whether a number may end before a place.
func ends(text string, at int) bool {
	if at >= len(text) {
		return true
	}
	if isAlnum(text[at]) || text[at] == '_' {
		return false
	}
	return strings.IndexByte(".,-", text[at]) < 0 || at+1 >= len(text) || !isDigit(text[at+1])
}

// piece returns what follows a place, as far as any number goes.
func piece(text string, at int) string { return text[at:min(len(text), at+80)] }

func digitsOf(text string) string {
	out := make([]byte, 0, len(text))
	for i := range len(text) {
		if isDigit(text[i]) {
			out = append(out, text[i])
		}
	}
	return string(out)
}

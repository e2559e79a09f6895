package rank

import (
	_ "embed"
	"sort"
	"strings"
)

// irregulars has a line for each irregular form: its stem, a space, and the
// stem of its base; sorted. It is made by memory/embed/wordnet from the
// exception lists of WordNet 3.0, whose notice is in that folder.
//
//go:embed irregular.txt
var irregulars string

// regular returns the stem of the base of an irregular form's stem: "went" and
// "go" are one word.
func regular(stem string) string {
	line := func(at int) (start int, form, base string) {
		start = strings.LastIndexByte(irregulars[:at], '\n') + 1
		form, rest, _ := strings.Cut(irregulars[start:], " ")
		base, _, _ = strings.Cut(rest, "\n")
		return start, form, base
	}
	at := sort.Search(len(irregulars), func(at int) bool {
		_, form, _ := line(at)
		return form >= stem
	})
	if at == len(irregulars) {
		return stem
	}
	if _, form, base := line(at); form == stem {
		return base
	}
	return stem
}

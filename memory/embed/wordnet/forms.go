package main

import (
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/kljensen/snowball/english"
)

// fewest is how often a base must have been met in texts that were tagged by
// hand: what nobody writes takes room and finds nothing.
const fewest = 3

// irregular returns the stems of what a rule does not find, by the stem of an
// irregular form: "went" for "go". A form whose stem is met more often as that of
// another word ("ground", "leaves") is left alone.
func irregular(folder fs.FS) (map[string]string, error) {
	counts, err := readCounts(folder)
	if err != nil {
		return nil, err
	}
	own := map[string]int{}
	for key, count := range counts {
		own[english.Stem(key[1:], false)] += count
	}
	bases := map[string]string{}
	for _, part := range files[:3] { // adverbs are compared as adjectives are
		pairs, err := readExceptions(folder, part.name)
		if err != nil {
			return nil, err
		}
		for _, pair := range pairs {
			form, base := pair[0], pair[1]
			from, to := english.Stem(form, false), english.Stem(base, false)
			if from == to || bases[from] != "" || english.IsStopWord(form) || english.IsStopWord(from) || english.IsStopWord(base) || strings.ContainsAny(form+base, "_-'. ") {
				continue
			}
			if met := counts[part.letter+base]; met >= fewest && met > own[from] {
				bases[from] = to
			}
		}
	}
	for from, to := range bases { // a base is no form itself
		if further := bases[to]; further != "" {
			bases[from] = further
		}
	}
	return bases, nil
}

// formLines has a line for each irregular form, sorted.
func formLines(bases map[string]string) []byte {
	var out []byte
	for _, from := range slices.Sorted(maps.Keys(bases)) {
		out = append(out, from+" "+bases[from]+"\n"...)
	}
	return out
}

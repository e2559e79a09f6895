package offline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// maxPassage is how many lines are quoted at once.
const maxPassage = 6

// passage is a few lines of a file that belong together.
type passage struct {
	path        string
	heading     string // above it; counts, but is not quoted
	first, last int    // lines, from 1
	lines       []string
	score       float64
}

// passagesOf splits a text at blank lines, headings and after so many lines.
func passagesOf(r reading) []passage {
	var all []passage
	var open *passage
	heading, number := "", 0
	for line := range strings.Lines(r.Text) {
		number++
		line = strings.TrimRightFunc(line, unicode.IsSpace)
		if strings.HasPrefix(line, "#") {
			heading, open = strings.TrimLeft(line, "# "), nil
			continue
		}
		if line == "" {
			open = nil
			continue
		}
		if open == nil || len(open.lines) == maxPassage {
			all = append(all, passage{path: r.Path, heading: heading, first: number})
			open = &all[len(all)-1]
		}
		open.lines, open.last = append(open.lines, line), number
	}
	return all
}

// best returns the passages that say enough about the keywords, best first. A
// keyword counts more the fewer passages have it, and half in a heading.
func best(keywords []string, all []passage) []passage {
	in := make([][2]map[string]bool, len(all)) // in the lines, in the heading
	having := map[string]int{}
	for i, p := range all {
		in[i] = [2]map[string]bool{setOf(hits(keywords, strings.Join(p.lines, "\n"))), setOf(hits(keywords, p.heading))}
		for _, word := range keywords {
			if in[i][0][word] || in[i][1][word] {
				having[word]++
			}
		}
	}
	need := min(2, (len(keywords)+1)/2)
	var kept []passage
	for i, p := range all {
		distinct := 0
		for _, word := range keywords {
			weight := math.Log(1 + float64(len(all))/float64(max(having[word], 1)))
			switch {
			case in[i][0][word]:
				p.score += weight
			case in[i][1][word]:
				p.score += weight / 2
			default:
				continue
			}
			distinct++
		}
		// A heading alone is no passage to quote.
		if distinct >= need && len(in[i][0]) > 0 {
			kept = append(kept, p)
		}
	}
	slices.SortStableFunc(kept, func(a, b passage) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.path, b.path), cmp.Compare(a.first, b.first))
	})
	return kept
}

// quoted cites the passage by file and lines and quotes it.
func (p passage) quoted() string {
	where := fmt.Sprintf("line %d", p.first)
	if p.last > p.first {
		where = fmt.Sprintf("lines %d-%d", p.first, p.last)
	}
	return fmt.Sprintf("\n%s, %s:\n> %s\n", p.path, where, strings.Join(p.lines, "\n> "))
}

// hits returns the keywords that begin a word of the text, in their order.
func hits(keywords []string, text string) []string {
	words := wordsOf(text)
	var found []string
	for _, keyword := range keywords {
		if slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(word, keyword) }) {
			found = append(found, keyword)
		}
	}
	return found
}

// keywordsOf returns the different words of a question that are worth looking
// for, without their endings, in the order in which they come.
func keywordsOf(question string) []string {
	var keywords []string
	ignored := setOf(strings.Fields(stopWords))
	for _, word := range wordsOf(question) {
		if len(word) < 2 || ignored[word] {
			continue
		}
		if word = stem(word); !slices.Contains(keywords, word) {
			keywords = append(keywords, word)
		}
	}
	return keywords
}

// stem cuts the ending off, so that what is left begins the other forms too.
func stem(word string) string {
	for _, ending := range []string{"ies", "ing", "ed", "es", "s", "y", "e"} {
		if rest, cut := strings.CutSuffix(word, ending); cut && len(rest) >= 4 {
			return rest
		}
	}
	if rest, cut := strings.CutSuffix(word, "s"); cut && len(rest) == 3 && !strings.HasSuffix(rest, "s") {
		return rest
	}
	return word
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func setOf(words []string) map[string]bool {
	set := map[string]bool{}
	for _, word := range words {
		set[word] = true
	}
	return set
}

// stopWords say nothing about what is looked for.
const stopWords = ` a about above according after again all also am an and another any are as ask at be because been before being below
 between both but by can cannot could did do does doing don during each either else ever every few file files find for from further
 get give given go had has have having he hello help her here hers hi him his how i if in into is it its itself just know let like look
 ll many may me might mine more most much must my need no nor not now of off ok on once one only or other our ours out over own page
 pages please quote re said same say says search see shall she should show so some such tell than thank thanks that the their theirs
 them then there these they thing this those through to too under until up us use ve very want was we were what when where whether
 which while who whom whose why will with within without would you your yours `

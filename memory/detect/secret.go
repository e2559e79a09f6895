package detect

import (
	"math"
	"regexp"
	"strings"
)

// secretRule finds the tokens of one issuer. Its expression runs only over
// blocks that hold one of its keywords, which are in small letters.
type secretRule struct {
	name     string
	keywords []string
	form     *regexp.Regexp // its first group, or else the whole, is the secret
	entropy  float64        // bits a character that the secret has at least; 0: any
}

func rule(name, form string, keywords ...string) secretRule {
	return secretRule{name: name, keywords: keywords, form: regexp.MustCompile(form)}
}

func (r secretRule) atLeast(bits float64) secretRule {
	r.entropy = bits
	return r
}

// find adds what the rule finds in a folded block; lower is its text in small
// letters.
func (r *secretRule) find(f *folded, lower string, found []Span) []Span {
	if !containsAny(lower, r.keywords) {
		return found
	}
	for _, at := range r.form.FindAllStringSubmatchIndex(f.text, -1) {
		from, to := at[0], at[1]
		if len(at) > 2 && at[2] >= 0 {
			from, to = at[2], at[3]
		}
		if r.entropy > 0 && entropy(f.text[from:to]) < r.entropy || repeats(f.text[from:to]) {
			continue
		}
		found = append(found, r.span(f, from, to))
	}
	return found
}

func (r *secretRule) span(f *folded, from, to int) Span {
	start, end := f.span(from, to)
	return Span{Start: start, End: end, Kind: Secret, Rule: r.name}
}

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// entropy returns the bits that a character of the text tells, by how often
// each occurs in it.
func entropy(text string) float64 {
	var counts [256]int
	for i := range len(text) {
		counts[text[i]]++
	}
	bits := 0.0
	for _, count := range counts {
		if count > 0 {
			p := float64(count) / float64(len(text))
			bits -= p * math.Log2(p)
		}
	}
	return bits
}

// repeats reports whether the end of a token, where its secret part stands, is
// of one or two characters only, as in a token that stands for one.
func repeats(token string) bool {
	if at := strings.LastIndexAny(token, "_-.=:/"); at >= 0 && len(token)-at > 8 {
		token = token[at+1:]
	}
	if len(token) < 8 {
		return false
	}
	tail := token[len(token)-8:]
	distinct := map[byte]bool{}
	for i := range len(tail) {
		distinct[tail[i]] = true
	}
	return len(distinct) <= 2
}

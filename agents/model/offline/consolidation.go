package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gantry.dev/agents/model"
	"gantry.dev/agents/research"
)

// mergedMost is how many findings one consolidation keeps.
const mergedMost = 20

// consolidation makes one finding of what several branches found in the same
// words, and leaves the rest as it is.
type consolidation struct {
	dialogue
	results []research.Result
}

func (c consolidation) next() model.Answer {
	question, _ := research.ReadBrief(c.goal)
	merged := c.merge()
	if len(merged) == 0 {
		return c.given(research.Result{})
	}
	kept, tried := c.last(recordTool)
	if !tried {
		return record(question, merged)
	}
	var done recorded
	if !kept.done || json.Unmarshal([]byte(kept.text), &done) != nil {
		return declined("what the branches found could not be kept")
	}
	return c.given(research.Result{Findings: done.Recorded, Dropped: done.Dropped})
}

// group is what was found in the same words.
type group struct {
	quote     string
	citations []research.Citation
}

// merge finds what stands in more than one document, what stands in most first.
func (c consolidation) merge() (merged []proposal) {
	groups := map[string]*group{}
	var order []string
	for _, result := range c.results {
		for _, finding := range result.Findings {
			for _, citation := range finding.Citations {
				key := letters(citation.Quote)
				if groups[key] == nil {
					groups[key] = &group{quote: citation.Quote}
					order = append(order, key)
				}
				groups[key].add(citation)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(groups[b].citations) - len(groups[a].citations) })
	for _, key := range order {
		g := groups[key]
		if len(g.citations) < 2 || len(merged) == mergedMost {
			break
		}
		cited := g.citations[:min(len(g.citations), research.MaxCitations)]
		merged = append(merged, proposal{Text: fmt.Sprintf("%d documents say: %s", len(g.citations), g.quote), Citations: cited})
	}
	return merged
}

// add takes a citation of a document that the group has not yet.
func (g *group) add(citation research.Citation) {
	if !slices.ContainsFunc(g.citations, func(c research.Citation) bool { return documentOf(c.Passage) == documentOf(citation.Passage) }) {
		g.citations = append(g.citations, citation)
	}
}

// letters is a text without what typesetting changes.
func letters(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}

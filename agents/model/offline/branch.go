package offline

import (
	"encoding/json"
	"slices"
	"strings"

	"gantry.dev/agents/model"
	"gantry.dev/agents/research"
)

const (
	recallLimit   = 20  // hits that are asked for
	quoteBytes    = 360 // of one finding
	freeFindings  = 5   // where no documents are named
	questionBytes = 2000
)

// redacted stands in what is recalled where something is withheld: what has it
// cannot be quoted.
const redacted = "[redacted]"

// branch looks for an answer in memory, keeps what it may quote, and answers
// with what was kept.
type branch struct{ dialogue }

// recalledHit is one hit of memory.recall.
type recalledHit struct {
	ID     string `json:"id"`
	Source string `json:"source"`
	Text   string `json:"text"`
}

func (b branch) next() model.Answer {
	question, inputs := research.ReadBrief(b.goal)
	if !b.offered[recallTool] {
		return declined("I have been given no tool to ask memory with")
	}
	recall, asked := b.last(recallTool)
	if !asked {
		arguments := map[string]any{"query": cut(question, questionBytes), "limit": recallLimit}
		if len(inputs) > 0 {
			arguments["documents"] = inputs
		}
		return calls(recallTool, arguments)
	}
	var found struct {
		Hits []recalledHit `json:"hits"`
	}
	// An outage never looks like a document in which there is nothing.
	if !recall.done || json.Unmarshal([]byte(recall.text), &found) != nil {
		return declined("memory could not be asked")
	}
	chosen := choose(keywordsOf(question), found.Hits, inputs)
	if len(chosen) == 0 {
		return b.given(research.Result{NotFound: inputs})
	}
	kept, tried := b.last(recordTool)
	if !tried {
		proposals := make([]proposal, len(chosen))
		for n, c := range chosen {
			proposals[n] = proposal{Text: c.document + ": " + c.quote, Citations: []research.Citation{{Item: c.item, Quote: c.quote}}}
		}
		return record(question, proposals)
	}
	var done recorded
	if !kept.done || json.Unmarshal([]byte(kept.text), &done) != nil {
		return declined("what I found could not be kept")
	}
	return b.given(research.Result{Findings: done.Recorded, Dropped: done.Dropped, NotFound: without(inputs, done.Recorded)})
}

// without are the inputs that no finding cites.
func without(inputs []string, findings []research.Finding) (missing []string) {
	for _, input := range inputs {
		cites := func(f research.Finding) bool {
			return slices.ContainsFunc(f.Citations, func(c research.Citation) bool { return documentOf(c.Passage) == input })
		}
		if !slices.ContainsFunc(findings, cites) {
			missing = append(missing, input)
		}
	}
	return missing
}

// choice is one sentence of one document.
type choice struct {
	document string
	item     string
	quote    string
}

// choose takes the sentence of each document that says most about the keywords,
// the best first.
func choose(keywords []string, hits []recalledHit, inputs []string) (chosen []choice) {
	var all []passage
	for n, hit := range hits {
		for _, sentence := range sentences(hit.Text) {
			all = append(all, passage{path: documentOf(hit.Source), first: n, lines: []string{sentence}})
		}
	}
	taken := map[string]bool{}
	for _, p := range best(keywords, all) {
		if taken[p.path] || len(inputs) == 0 && len(chosen) == freeFindings {
			continue
		}
		taken[p.path] = true
		chosen = append(chosen, choice{document: p.path, item: hits[p.first].ID, quote: p.lines[0]})
	}
	return chosen
}

// documentOf is a citation without the place in the document.
func documentOf(source string) string {
	if at := strings.LastIndexByte(source, '/'); at > 0 && strings.Trim(source[at+1:], "0123456789") == "" {
		return source[:at]
	}
	return source
}

// sentences are the parts of a text that can be quoted by themselves, with one
// space between their words.
func sentences(text string) (parts []string) {
	var open []string
	flush := func() {
		sentence := strings.Join(open, " ")
		open = nil
		if research.Weight(sentence) >= research.MinQuote && len(sentence) <= quoteBytes && !strings.Contains(sentence, redacted) {
			parts = append(parts, sentence)
		}
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 || len(words) == 1 && strings.Trim(words[0], ".-=*#") == "" {
			flush()
			continue
		}
		for _, word := range words {
			open = append(open, word)
			if ends(word) {
				flush()
			}
		}
	}
	flush()
	return parts
}

// ends reports whether a sentence may end with the word. Short ones are often
// abbreviations or the numbers of a list.
func ends(word string) bool {
	bare := strings.TrimRight(word, `"')`)
	return strings.HasSuffix(bare, ".") && len(bare) > 3 || strings.HasSuffix(bare, ";") || strings.HasSuffix(bare, "?") || strings.HasSuffix(bare, "!")
}

// Package offline is the provider without a key, a network or a language model:
// it searches, reads and quotes.
package offline

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/agents/model"
)

// The tools that the offline model knows, and how far it goes with them.
const (
	listTool    = "files.list"
	readTool    = "files.read"
	searchTool  = "files.search"
	searchLimit = 50
	queryBytes  = 400
	readFiles   = 4 // files that are read
	listRounds  = 3 // turns of listing folders
	listFolders = 8 // folders in one such turn
	quotes      = 3 // passages of an answer

	headingWords = 2 // keywords that make a heading speak for its section
)

const selfDescription = "I am an offline search assistant, not a language model: I find passages and quote them, I do not reason about them."

// Offline is a provider without a key, a network or a language model. It
// searches and reads by the file tools that the run offers it, and answers by
// quoting what it found, with file and lines. It says so, and when it found
// nothing it says that. Asked for findings, it searches memory instead, records
// what it may quote, and answers with what was recorded.
type Offline struct{}

var _ model.Provider = (*Offline)(nil)

// New returns the offline model.
func New() *Offline { return &Offline{} }

// Take proposes the next search, listing or reading, or gives the answer. It
// fails only when ctx has ended. Usage is estimated.
func (o *Offline) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	if ctx.Err() != nil {
		return model.Answer{}, model.Ended(ctx)
	}
	answer := plan(request)
	answer.Model = "offline"
	return model.Give(request, answer, deltas), nil
}

// plan is the next step of whichever work the prompt asks for.
func plan(request model.Request) model.Answer {
	d := read(request)
	switch results := d.results(); {
	case !d.findings:
		return newLookup(request).next()
	case len(results) > 0:
		return consolidation{d, results}.next()
	}
	return branch{d}.next()
}

// lookup is what the prompt tells about the search so far.
type lookup struct {
	request  model.Request
	keywords []string
	offered  map[string]bool
	asked    map[string]int  // calls by tool
	paths    map[string]bool // listed or read already
	rounds   int             // turns with listings
	entries  []listed
	matches  []matched
	readings []reading
}

type listed struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

type matched struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type reading struct {
	Path string `json:"path"`
	Text string `json:"text"`
}

func newLookup(request model.Request) *lookup {
	l := &lookup{request: request, offered: map[string]bool{}, asked: map[string]int{}, paths: map[string]bool{}}
	for _, spec := range request.Tools {
		l.offered[spec.Name] = true
	}
	calls := map[string]model.Call{}
	var question []string
	for _, message := range request.Messages {
		if message.Earlier {
			l.remembered(message)
			continue // what was asked before was answered before
		}
		switch message.Role {
		case model.User:
			question = append(question, model.Unwrap(message.Text)) // who was given the turn is asked by a block
		case model.Assistant:
			l.proposed(message.Calls, calls)
		case model.ToolReply:
			l.reply(calls[message.CallID].Name, model.Unwrap(message.Text))
		case model.System:
		}
	}
	l.keywords = keywordsOf(strings.Join(question, "\n"))
	return l
}

// fromMemory is how the source of a block from memory begins.
var fromMemory = regexp.MustCompile(`^m[0-9]+:`)

// remembered keeps what the platform recalled: it can be quoted as a file can.
func (l *lookup) remembered(message model.Message) {
	if message.Role != model.User {
		return
	}
	for _, block := range model.Blocks(message.Text) {
		if fromMemory.MatchString(block.Source) {
			l.readings = append(l.readings, reading{Path: block.Source, Text: block.Body})
		}
	}
}

func (l *lookup) proposed(made []model.Call, calls map[string]model.Call) {
	listing := false
	for _, call := range made {
		calls[call.ID] = call
		l.asked[call.Name]++
		listing = listing || call.Name == listTool
		var arguments struct {
			Path string `json:"path"`
		}
		if json.Unmarshal(call.Arguments, &arguments) == nil && call.Name != searchTool {
			l.paths[arguments.Path] = true
		}
	}
	if listing {
		l.rounds++
	}
}

// reply keeps what a tool found. A failed call found nothing.
func (l *lookup) reply(tool, text string) {
	switch tool {
	case listTool:
		var found struct{ Entries []listed }
		if json.Unmarshal([]byte(text), &found) == nil {
			l.entries = append(l.entries, found.Entries...)
		}
	case searchTool:
		var found struct{ Matches []matched }
		if json.Unmarshal([]byte(text), &found) == nil {
			l.matches = append(l.matches, found.Matches...)
		}
	case readTool:
		var found reading
		if json.Unmarshal([]byte(text), &found) == nil && found.Path != "" {
			l.readings = append(l.readings, found)
		}
	}
}

// next is the whole plan: search or list, read the best files, answer.
func (l *lookup) next() model.Answer {
	switch {
	case !l.offered[searchTool] && (!l.offered[listTool] || !l.offered[readTool]):
		return said(selfDescription + "\n\nI have been given no tool to search with, so I cannot answer.")
	case len(l.keywords) == 0:
		return said(selfDescription + "\n\nPlease name what I should look for: I found no word to search by in your message.")
	case l.offered[searchTool] && l.asked[searchTool] == 0:
		return calls(searchTool, map[string]any{"query": l.query(), "limit": searchLimit})
	}
	if folders := l.folders(); len(folders) > 0 {
		return calls(listTool, folders...)
	}
	if files := l.files(); len(files) > 0 {
		return calls(readTool, files...)
	}
	return said(l.report())
}

func (l *lookup) query() string {
	query := ""
	for _, word := range l.keywords {
		if len(query)+1+len(word) > queryBytes {
			break
		}
		query = strings.TrimSpace(query + " " + word)
	}
	return query
}

// folders returns what to list next where there is nothing to search with.
func (l *lookup) folders() []map[string]any {
	if l.offered[searchTool] || l.asked[readTool] > 0 || l.rounds >= listRounds {
		return nil
	}
	if l.rounds == 0 {
		return []map[string]any{{}}
	}
	var next []map[string]any
	for _, entry := range l.entries {
		if entry.Kind == "folder" && !l.paths[entry.Path] && len(next) < listFolders {
			next = append(next, map[string]any{"path": entry.Path})
		}
	}
	return next
}

// files returns the best files to read, once.
func (l *lookup) files() []map[string]any {
	if !l.offered[readTool] || l.asked[readTool] > 0 {
		return nil
	}
	scores := map[string]int{}
	for _, entry := range l.entries {
		if entry.Kind == "file" {
			scores[entry.Path] = len(l.hits(path.Base(entry.Path)))
		}
	}
	words := map[string]map[string]bool{}
	for _, match := range l.matches {
		if match.Path == "" {
			continue
		}
		if words[match.Path] == nil {
			words[match.Path] = map[string]bool{}
		}
		for _, word := range l.hits(match.Text + " " + path.Base(match.Path)) {
			words[match.Path][word] = true
		}
		// A file with all words counts most, then one with many lines of some.
		scores[match.Path] = 1000*len(words[match.Path]) + min(scores[match.Path]%1000+1, 999)
	}
	best := make([]string, 0, len(scores))
	for name := range scores {
		best = append(best, name)
	}
	slices.SortFunc(best, func(a, b string) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), strings.Compare(a, b))
	})
	var next []map[string]any
	for _, name := range best[:min(len(best), readFiles)] {
		next = append(next, map[string]any{"path": name})
	}
	return next
}

func (l *lookup) hits(text string) []string { return hits(l.keywords, text) }

// report quotes the best passages that fit into the answer.
func (l *lookup) report() string {
	var found []passage
	seen := map[string]bool{}
	for _, r := range l.readings {
		found = append(found, passagesOf(r)...)
		seen[r.Path] = true
	}
	for _, m := range l.matches {
		if !seen[m.Path] && m.Path != "" {
			found = append(found, passage{path: m.Path, first: m.Line, last: m.Line, lines: []string{m.Text}})
		}
	}
	var out strings.Builder
	out.WriteString(selfDescription + "\n")
	const closing = "\nWhether this answers your question is for you to judge.\n"
	room := int(l.request.MaxTokens)*model.BytesPerToken - out.Len() - len(closing)
	shown := 0
	for _, p := range ranked(l.keywords, found) {
		quoted := p.quoted()
		if l.request.MaxTokens > 0 && len(quoted) > room {
			continue
		}
		out.WriteString(quoted)
		room -= len(quoted)
		if shown++; shown == quotes {
			break
		}
	}
	if shown == 0 {
		return fmt.Sprintf("%s\n\nI found nothing about this in what I may search. I looked for: %s.\n", selfDescription, l.query())
	}
	out.WriteString(closing)
	return out.String()
}

// ranked returns the best passages, first those under the heading that has most
// of the keywords. Such a heading speaks for its whole section, so that a table
// is found by what stands above it: its rows repeat none of that.
func ranked(keywords []string, all []passage) []passage {
	kept := best(keywords, all)
	type place struct {
		path  string
		first int
	}
	known := map[place]bool{}
	for _, p := range kept {
		known[place{p.path, p.first}] = true
	}
	for _, p := range all {
		if under(keywords, p) >= headingWords && !known[place{p.path, p.first}] {
			kept = append(kept, p)
		}
	}
	slices.SortStableFunc(kept, func(a, b passage) int { return cmp.Compare(under(keywords, b), under(keywords, a)) })
	return kept
}

// under counts the keywords in the heading of a passage. One word alone may
// stand there by chance and counts for nothing.
func under(keywords []string, p passage) int {
	if n := len(hits(keywords, p.heading)); n >= headingWords {
		return n
	}
	return 0
}

func said(text string) model.Answer { return model.Answer{Finish: model.FinishStop, Text: text} }

func calls(tool string, arguments ...map[string]any) model.Answer {
	answer := model.Answer{Finish: model.FinishCalls}
	for _, a := range arguments {
		raw, err := json.Marshal(a)
		if err != nil {
			continue // maps of strings and numbers always marshal
		}
		answer.Calls = append(answer.Calls, model.Proposed{Name: tool, Arguments: raw})
	}
	return answer
}

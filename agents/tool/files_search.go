package tool

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gantry.dev/orchestrator/policy"
)

// The limits of one search. What lies beyond them is left out, and the result
// says so.
const (
	maxSearchDepth = 16       // folders below the start
	maxSearchFiles = 2000     // files
	maxSearchBytes = 32 << 20 // bytes of all files
	maxFileBytes   = 2 << 20  // bytes of one file
	maxMatches     = 100
	defaultMatches = 20
	maxLine        = 400 // characters of a line that are shown
)

type match struct {
	Path string `json:"path"`
	Line int    `json:"line"` // from 1
	Text string `json:"text"`

	words int
}

type matches struct {
	Matches []match `json:"matches"`
	Cut     bool    `json:"cut,omitempty"` // not everything was searched or is shown
}

// search ranks lines by how many different words of the query begin a word in
// them. Its result tells of every file that was searched, also where none of
// its lines is shown, and carries the markings of all of them.
func (f *folder) search(ctx context.Context, subject policy.Principal, arguments fileArguments) (any, policy.Marking, error) {
	words := wordsOf(arguments.Query)
	slices.Sort(words)
	marking := f.absence(subject, orRoot(arguments.Path))
	s := &searcher{folder: f, subject: subject, words: slices.Compact(words), marking: marking}
	if err := s.walk(ctx, arguments.Path, 0); err != nil {
		return nil, marking, err
	}
	slices.SortFunc(s.found, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.words, a.words), strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line))
	})
	limit := arguments.Limit
	if limit <= 0 || limit > maxMatches {
		limit = defaultMatches
	}
	out := matches{Matches: s.found[:min(len(s.found), limit)], Cut: s.cut || len(s.found) > limit}
	if out.Matches == nil {
		out.Matches = []match{}
	}
	return out, s.marking, nil
}

type searcher struct {
	folder  *folder
	subject policy.Principal
	words   []string
	found   []match
	files   int
	bytes   int64
	cut     bool
	marking policy.Marking // of everything that was looked at
}

func (s *searcher) walk(ctx context.Context, name string, depth int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := s.folder.entries(s.subject, name)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		of, _ := s.folder.marking(s.subject, entry.Path)
		s.marking = s.marking.Join(of)
		switch {
		case entry.Kind == "file":
			s.file(entry)
		case depth >= maxSearchDepth:
			s.cut = true
		default:
			// A folder that has gone meanwhile is absent like any other.
			if err := s.walk(ctx, entry.Path, depth+1); err != nil && ctx.Err() != nil {
				return err
			}
		}
	}
	return nil
}

func (s *searcher) file(entry fileEntry) {
	if entry.Size > maxFileBytes || s.files >= maxSearchFiles || s.bytes+entry.Size > maxSearchBytes {
		s.cut = true
		return
	}
	s.files++
	s.bytes += entry.Size
	file, stat, err := s.folder.open(entry.Path)
	if err != nil {
		return
	}
	defer func() { _ = file.Close() }()
	if !stat.Mode().IsRegular() {
		return
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFileBytes))
	if err != nil || !isText(text) {
		return
	}
	line := 0
	for content := range bytes.Lines(text) {
		line++
		if n := s.matched(string(content)); n > 0 {
			s.keep(match{Path: entry.Path, Line: line, Text: shortened(strings.TrimSpace(string(content))), words: n})
		}
	}
}

// keep bounds what is held: the best of more than could ever be shown.
func (s *searcher) keep(m match) {
	s.found = append(s.found, m)
	if len(s.found) < 100*maxMatches {
		return
	}
	slices.SortStableFunc(s.found, func(a, b match) int { return cmp.Compare(b.words, a.words) })
	s.found, s.cut = s.found[:2*maxMatches], true
}

// matched returns how many different words of the query are in the line.
func (s *searcher) matched(line string) int {
	n := 0
	present := wordsOf(line)
	for _, word := range s.words {
		if slices.ContainsFunc(present, func(p string) bool { return strings.HasPrefix(p, word) }) {
			n++
		}
	}
	return n
}

func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

func shortened(line string) string {
	if utf8.RuneCountInString(line) <= maxLine {
		return line
	}
	return string([]rune(line)[:maxLine]) + "…"
}

func listDefinition() Definition {
	return Definition{
		Name:        "files.list",
		Description: "Lists the files and folders in one folder. Leave \"path\" out for the top folder.",
		Input:       json.RawMessage(`{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":1024}}}`),
		Output: json.RawMessage(`{"type":"object","required":["entries"],"properties":{"cut":{"type":"boolean"},"entries":{"type":"array","items":{
			"type":"object","required":["path","size","kind"],"properties":{"path":{"type":"string"},"size":{"type":"integer"},"kind":{"enum":["file","folder"]}}}}}}`),
	}
}

func readDefinition() Definition {
	return Definition{
		Name:        "files.read",
		Description: "Reads a text file. A long one comes in parts: where \"cut\" is true, read on with \"offset\" set to \"next\". Offset and limit are bytes.",
		Input: json.RawMessage(`{"type":"object","required":["path"],"properties":{"path":{"type":"string","minLength":1,"maxLength":1024},
			"offset":{"type":"integer","minimum":0},"limit":{"type":"integer","minimum":64,"maximum":65536}}}`),
		Output: json.RawMessage(`{"type":"object","required":["path","text","size","cut"],"properties":{"path":{"type":"string"},"text":{"type":"string"},
			"size":{"type":"integer"},"cut":{"type":"boolean"},"next":{"type":"integer"}}}`),
	}
}

func searchDefinition() Definition {
	return Definition{
		Name:        "files.search",
		Description: "Finds lines of text files that hold words of the query, best match first. \"path\" limits the search to one folder.",
		Input: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string","minLength":1,"maxLength":400},
			"path":{"type":"string","minLength":1,"maxLength":1024},"limit":{"type":"integer","minimum":1,"maximum":100}}}`),
		Output: json.RawMessage(`{"type":"object","required":["matches"],"properties":{"cut":{"type":"boolean"},"matches":{"type":"array","items":{
			"type":"object","required":["path","line","text"],"properties":{"path":{"type":"string"},"line":{"type":"integer"},"text":{"type":"string"}}}}}}`),
	}
}

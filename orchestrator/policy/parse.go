package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	xast "github.com/cedar-policy/cedar-go/x/exp/ast"
)

// Fault is one thing that is wrong in what the organisation wrote.
type Fault struct {
	File    string
	Line    int // from 1; 0 when it concerns no line
	Message string
}

// String returns the fault as "file:line: message".
func (f Fault) String() string {
	if f.Line == 0 {
		return f.File + ": " + f.Message
	}
	return fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Message)
}

// Faults are all faults that were found, in the order of the files and lines.
type Faults []Fault

// Error returns one fault per line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// File is one file that the organisation wrote.
type File struct {
	Name string
	Text []byte
}

// Set is a validated set of policies over the registered tools. It does not
// change, and any number of goroutines may use it.
type Set struct {
	revision string
	rules    rules
	tools    map[string]ToolShape
	policies cedar.PolicyMap
	notes    map[cedar.PolicyID]note
}

// Parse reads policies from *.cedar files and validates every one of them
// strictly against the schema of these tools. Its error is Faults, with all
// that was found. No files at all make a set that forbids everything.
func Parse(files []File, tools []ToolShape) (*Set, error) {
	ready, err := rulesFor(tools)
	if err != nil {
		return nil, err
	}
	files = slices.SortedFunc(slices.Values(files), func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	set := &Set{
		revision: revisionOf(files),
		rules:    ready,
		tools:    map[string]ToolShape{},
		policies: cedar.PolicyMap{},
		notes:    map[cedar.PolicyID]note{},
	}
	for _, tool := range tools {
		set.tools[tool.Name] = tool
	}
	var faults Faults
	for i, file := range files {
		if i > 0 && files[i-1].Name == file.Name {
			faults = append(faults, Fault{File: file.Name, Message: "given twice"})
		}
		faults = append(faults, set.read(file)...)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return set, nil
}

// Revision is the digest of the set: SHA-256, in hexadecimal, over the sorted
// names and texts of its files.
func (s *Set) Revision() string { return s.revision }

func revisionOf(files []File) string {
	digest := sha256.New()
	for _, file := range files {
		for _, part := range [][]byte{[]byte(file.Name), file.Text} {
			// The length first: otherwise a text could move between files unseen.
			digest.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
			digest.Write(part)
		}
	}
	return hex.EncodeToString(digest.Sum(nil))
}

// Source returns where a policy is written, or false for an id that is not in
// the set, such as one of Gantry's own rules.
func (s *Set) Source(id string) (file string, line int, found bool) {
	written, found := s.policies[cedar.PolicyID(id)]
	if !found {
		return "", 0, false
	}
	at := written.Position()
	return at.Filename, at.Line, true
}

// Policies returns the ids of all policies, sorted.
func (s *Set) Policies() []string {
	ids := make([]string, 0, len(s.policies))
	for id := range s.policies {
		ids = append(ids, string(id))
	}
	slices.Sort(ids)
	return ids
}

func (s *Set) read(file File) Faults {
	if !strings.HasSuffix(file.Name, ".cedar") {
		return Faults{{File: file.Name, Message: "not a .cedar file; the schema is Gantry's own and not written here"}}
	}
	var faults Faults
	for _, piece := range statements(file.Text) {
		// One statement at a time, so that one slip does not hide the rest.
		list, err := cedar.NewPolicyListFromBytes(file.Name, piece.padded())
		if err != nil {
			faults = append(faults, syntaxFault(file.Name, piece.line, err))
		}
		for _, written := range list {
			faults = append(faults, s.add(file.Name, written)...)
		}
	}
	return faults
}

// add takes one policy into the set and returns what is wrong with it.
func (s *Set) add(file string, written *cedar.Policy) Faults {
	line := written.Position().Line
	annotations, problems := readNote(written)
	id := cedar.PolicyID(annotations.id)
	if earlier, taken := s.policies[id]; taken {
		at := earlier.Position()
		problems = append(problems, fmt.Sprintf("the id %q is taken by %s:%d", id, at.Filename, at.Line))
	}
	if err := s.rules.validator.Policy("", (*xast.Policy)(written.AST())); err != nil {
		lines := strings.Split(err.Error(), "\n") // one joined error each, in the order of a map
		problems = append(problems, slices.Sorted(slices.Values(lines))...)
	}
	if id != "" && s.policies[id] == nil {
		s.policies[id], s.notes[id] = written, annotations
	}
	var faults Faults
	for _, problem := range problems {
		faults = append(faults, Fault{File: file, Line: line, Message: problem})
	}
	return faults
}

var syntaxPlace = regexp.MustCompile(`^parser error: (?:parse error at )?<input>:(\d+):(\d+):?(?: "(?:[^"\\]|\\.)*":)? ?(.*)$`)

func syntaxFault(file string, line int, err error) Fault {
	message := err.Error()
	if place := syntaxPlace.FindStringSubmatch(message); place != nil {
		line, _ = strconv.Atoi(place[1])
		message = "near column " + place[2] + ": " + place[3]
	}
	return Fault{File: file, Line: line, Message: message}
}

// statement is a piece of a file that ends with a semicolon, or the rest of it.
type statement struct {
	line int // where it begins, from 1
	text []byte
}

// padded returns the text after as many line ends as precede it in its file,
// so that positions come out as in the file.
func (s statement) padded() []byte {
	return append([]byte(strings.Repeat("\n", s.line-1)), s.text...)
}

// token matches what a semicolon may hide in, and the semicolon itself.
var token = regexp.MustCompile(`(?s)"(?:\\.|[^"\\])*"?|//[^\n]*|/\*.*?(?:\*/|$)|;`)

// statements splits a file after each semicolon of its own.
func statements(text []byte) []statement {
	var pieces []statement
	begin, line := 0, 1
	cut := func(end int) {
		piece := text[begin:end]
		pieces = append(pieces, statement{line: line, text: piece})
		line += strings.Count(string(piece), "\n")
		begin = end
	}
	for _, at := range token.FindAllIndex(text, -1) {
		if text[at[0]] == ';' {
			cut(at[1])
		}
	}
	cut(len(text))
	return pieces
}

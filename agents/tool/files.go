package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"gantry.dev/orchestrator/policy"
)

// FolderRule marks what lies in a folder. The rule with the longest prefix
// counts. What lies under no rule is not served.
type FolderRule struct {
	Prefix    string           `json:"prefix"` // slash-separated folder or file below the root; empty for all
	Labels    policy.Labels    `json:"labels,omitempty"`
	Integrity policy.Integrity `json:"integrity"`
}

// The limits of the file tools.
const (
	maxEntries   = 1000 // of one listing
	maxReadBytes = 64 << 10
	codeNotFound = "NOT_FOUND"
)

// folder is a tree of text files, each marked by its rule. It only reads.
// Links are not followed, inside or outside, and names that begin with a dot
// do not exist: both would show a file under the marking of another place.
type folder struct {
	root  *os.Root
	rules []FolderRule // longest prefix first
	reads Definition   // of files.read: how much of an image it keeps
}

var errAbsentFile = errors.New("no such file")

// NewFiles returns files.list, files.read and files.search over a folder. Owner
// (a principal id) and contact answer for them. A file that the subject of an
// invocation may not see is absent to it. A result carries the markings of what
// it tells about: of all that was looked at, found or not. Up to mediaBytes of
// an image or a PDF are kept beside what files.read says of it; 0 for none.
func NewFiles(root *os.Root, rules []FolderRule, mediaBytes int, owner, contact string) ([]Tool, error) {
	f := &folder{root: root}
	for _, rule := range rules {
		rule.Prefix = strings.TrimSuffix(rule.Prefix, "/")
		if rule.Prefix != "" && (!fs.ValidPath(rule.Prefix) || rule.Prefix == ".") {
			return nil, fmt.Errorf("folder rule %q: the prefix must be a path below the root", rule.Prefix)
		}
		rule.Labels = policy.NewLabels(rule.Labels...)
		f.rules = append(f.rules, rule)
	}
	slices.SortStableFunc(f.rules, func(a, b FolderRule) int { return len(b.Prefix) - len(a.Prefix) })
	for i := 1; i < len(f.rules); i++ {
		if f.rules[i].Prefix == f.rules[i-1].Prefix {
			return nil, fmt.Errorf("folder rule %q stands twice", f.rules[i].Prefix)
		}
	}
	f.reads = readDefinition()
	f.reads.MediaBytes = mediaBytes
	tools := []Tool{
		&fileTool{definition: listDefinition(), perform: f.list},
		&fileTool{definition: f.reads, perform: f.read},
		&fileTool{definition: searchDefinition(), perform: f.search},
	}
	for _, t := range tools {
		d := &t.(*fileTool).definition
		d.Impact, d.Class, d.Kind = policy.ImpactRead, policy.ClassRead, KindBuiltin
		d.Owner, d.Contact = owner, contact
		d.Resource, d.Facts = "files:{/path}", map[string]string{"path": "/path"}
		d.Timeout, d.ResultBytes = Duration(10*time.Second), 4<<20
	}
	return tools, nil
}

// fileTool is one of the file tools.
type fileTool struct {
	definition Definition
	perform    func(ctx context.Context, subject policy.Principal, arguments fileArguments) (any, policy.Marking, error)
}

var _ Tool = (*fileTool)(nil)

// fileArguments are the arguments of all file tools.
type fileArguments struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"`
	Limit  int    `json:"limit"`
	Query  string `json:"query"`
}

// Definition returns the contract.
func (t *fileTool) Definition() Definition { return t.definition }

// Invoke reads. To who may not see a file it is absent. That a file is absent
// where the subject could see it is news from there, and marked so.
func (t *fileTool) Invoke(ctx context.Context, invocation Invocation) (Result, error) {
	var arguments fileArguments
	if err := json.Unmarshal(invocation.Arguments, &arguments); err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the recorded arguments are not those of a file tool"}
	}
	output, marking, err := t.perform(ctx, invocation.Subject, arguments)
	if errors.Is(err, errAbsentFile) {
		absent := failed(codeNotFound, "there is no such file or folder", Result{Marking: marking})
		absent.Absent = true
		return absent, nil
	}
	if err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the folder could not be read"}
	}
	content, err := json.Marshal(output)
	if err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the result could not be written"}
	}
	result := Result{Content: content, MediaType: MediaJSON, Size: int64(len(content)), Marking: marking}
	if r, is := output.(reading); is && r.media != nil {
		result.Media = []Media{*r.media}
	}
	return result, nil
}

// absence returns the marking of the answer that nothing is at a path. Who may
// not see what is there gets that answer always: it tells nothing.
func (f *folder) absence(subject policy.Principal, name string) policy.Marking {
	marking, sees := f.marking(subject, name)
	if !sees {
		return policy.Marking{}
	}
	return marking
}

// marking returns the marking of a path, if it is served to the subject.
func (f *folder) marking(subject policy.Principal, name string) (policy.Marking, bool) {
	if !fs.ValidPath(name) {
		return policy.Marking{}, false
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") && name != "." {
			return policy.Marking{}, false
		}
	}
	for _, rule := range f.rules {
		if rule.Prefix == "" || name == rule.Prefix || strings.HasPrefix(name, rule.Prefix+"/") {
			return policy.Marking{Labels: rule.Labels, Integrity: rule.Integrity}, subject.Sees(rule.Labels)
		}
	}
	return policy.Marking{}, false
}

// open opens a path of exactly that spelling without following a link at any
// part of it. A part that is exchanged meanwhile is noticed.
func (f *folder) open(name string) (*os.File, fs.FileInfo, error) {
	if !fs.ValidPath(name) || strings.Contains(name, `\`) {
		return nil, nil, errAbsentFile
	}
	at, err := f.root.OpenRoot(".")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = at.Close() }()
	parts := strings.Split(name, "/")
	for _, part := range parts[:len(parts)-1] {
		next, err := step(at, part)
		if err != nil {
			return nil, nil, err
		}
		_ = at.Close()
		at = next
	}
	last := parts[len(parts)-1]
	expected, err := at.Lstat(last)
	if err != nil || (!expected.IsDir() && !expected.Mode().IsRegular()) {
		return nil, nil, errAbsentFile
	}
	file, err := at.Open(last)
	if err != nil {
		return nil, nil, errAbsentFile
	}
	opened, err := file.Stat()
	if err != nil || !os.SameFile(expected, opened) {
		return nil, nil, errors.Join(errAbsentFile, file.Close())
	}
	return file, opened, nil
}

// step enters a folder that is no link.
func step(at *os.Root, part string) (*os.Root, error) {
	expected, err := at.Lstat(part)
	if err != nil || !expected.IsDir() {
		return nil, errAbsentFile
	}
	next, err := at.OpenRoot(part)
	if err != nil {
		return nil, errAbsentFile
	}
	opened, err := next.Stat(".")
	if err != nil || !os.SameFile(expected, opened) {
		return nil, errors.Join(errAbsentFile, next.Close())
	}
	return next, nil
}

type fileEntry struct {
	Path string `json:"path"`
	Size int64  `json:"size"` // bytes; 0 for a folder
	Kind string `json:"kind"` // "file" or "folder"
}

// entries returns what the subject may see in one folder, by name, and its
// own path. The root itself is always there.
func (f *folder) entries(subject policy.Principal, name string) ([]fileEntry, error) {
	if name == "" {
		name = "."
	}
	if _, sees := f.marking(subject, name); !sees && name != "." {
		return nil, errAbsentFile
	}
	dir, stat, err := f.open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Close() }()
	if !stat.IsDir() {
		return nil, errAbsentFile
	}
	found, err := dir.ReadDir(-1)
	if err != nil {
		return nil, err
	}
	var entries []fileEntry
	for _, item := range found {
		entry := fileEntry{Path: path.Join(name, item.Name()), Kind: "folder"}
		if _, sees := f.marking(subject, entry.Path); !sees || !utf8.ValidString(entry.Path) {
			continue
		}
		if !item.IsDir() {
			stat, err := item.Info()
			if err != nil || !stat.Mode().IsRegular() {
				continue
			}
			entry.Kind, entry.Size = "file", stat.Size()
		}
		entries = append(entries, entry)
	}
	slices.SortFunc(entries, func(a, b fileEntry) int { return strings.Compare(a.Path, b.Path) })
	return entries, nil
}

type listing struct {
	Entries []fileEntry `json:"entries"`
	Cut     bool        `json:"cut,omitempty"`
}

func (f *folder) list(_ context.Context, subject policy.Principal, arguments fileArguments) (any, policy.Marking, error) {
	entries, err := f.entries(subject, arguments.Path)
	if err != nil {
		return nil, f.absence(subject, orRoot(arguments.Path)), err
	}
	out := listing{Entries: entries[:min(len(entries), maxEntries)], Cut: len(entries) > maxEntries}
	if out.Entries == nil {
		out.Entries = []fileEntry{}
	}
	// The empty listing of a folder still tells about the folder, and a cut one
	// of what is not shown.
	marking, _ := f.marking(subject, orRoot(arguments.Path))
	for _, entry := range entries {
		of, _ := f.marking(subject, entry.Path)
		marking = marking.Join(of)
	}
	return out, marking, nil
}

func orRoot(name string) string {
	if name == "" {
		return "."
	}
	return name
}

type reading struct {
	Path string `json:"path"`
	Text string `json:"text"`
	Size int64  `json:"size"`           // bytes of the whole file
	Cut  bool   `json:"cut"`            // there is more after the text
	Next int64  `json:"next,omitempty"` // offset of that

	media *Media // the file itself, where it is an image or a PDF that is kept
}

func (f *folder) read(_ context.Context, subject policy.Principal, arguments fileArguments) (any, policy.Marking, error) {
	marking, sees := f.marking(subject, arguments.Path)
	if !sees {
		return nil, policy.Marking{}, errAbsentFile
	}
	file, stat, err := f.open(arguments.Path)
	if err != nil {
		return nil, marking, err
	}
	defer func() { _ = file.Close() }()
	if stat.IsDir() {
		return nil, marking, errAbsentFile
	}
	out := reading{Path: arguments.Path, Size: stat.Size()}
	limit := int64(arguments.Limit)
	if limit <= 0 || limit > maxReadBytes {
		limit = maxReadBytes
	}
	section := make([]byte, min(limit, max(stat.Size()-arguments.Offset, 0)))
	n, err := file.ReadAt(section, arguments.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, policy.Marking{}, err
	}
	text := section[:n]
	if arguments.Offset == 0 && isMedia(text) {
		return f.show(file, out), marking, nil
	}
	if arguments.Offset > 0 {
		text = fromRune(text)
	}
	start := arguments.Offset + int64(n-len(text))
	more := arguments.Offset+int64(n) < stat.Size()
	if more {
		text = wholeRunes(text)
	}
	if !isText(text) {
		out.Text = fmt.Sprintf("[not text: %d bytes]", stat.Size())
		return out, marking, nil
	}
	out.Text, out.Cut = string(text), more
	if more {
		out.Next = start + int64(len(text))
	}
	return out, marking, nil
}

// isMedia reports whether a file begins like an image or a PDF.
func isMedia(begins []byte) bool {
	return slices.Contains(MediaTypes(), http.DetectContentType(begins))
}

// show gives an image or a PDF as it is, as far as that is allowed.
func (f *folder) show(file *os.File, out reading) reading {
	m := Media{Bytes: make([]byte, min(out.Size, int64(f.reads.MediaBytes)+1))}
	n, err := file.ReadAt(m.Bytes, 0)
	m.Bytes = m.Bytes[:n]
	m.MediaType = http.DetectContentType(m.Bytes)
	why := f.reads.Keeps(nil, m)
	if err != nil && !errors.Is(err, io.EOF) || int64(n) < out.Size && why == "" {
		why = "it could not be read whole"
	}
	if why != "" {
		out.Text = fmt.Sprintf("[not text: %d bytes; %s]", out.Size, why)
		return out
	}
	out.Text, out.media = fmt.Sprintf("[%s: %d bytes, beside this result]", m.MediaType, out.Size), &m
	return out
}

// fromRune drops the rest of a rune that began before the section.
func fromRune(text []byte) []byte {
	for n := 0; n < utf8.UTFMax-1 && len(text) > 0 && !utf8.RuneStart(text[0]); n++ {
		text = text[1:]
	}
	return text
}

func isText(text []byte) bool { return utf8.Valid(text) && !slices.Contains(text, 0) }

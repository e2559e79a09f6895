// Package manifest reads configuration files written in YAML strictly: every
// key must be known and written once, every value must have the type that is
// asked for, and every fault names its file, line and path.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The limits of one file.
const (
	MaxBytes = 1 << 20 // bytes of one file
	MaxDepth = 32      // mappings and lists around a value
)

// Fault is one thing wrong in a file.
type Fault struct {
	File     string // as the caller named it
	Line     int    // from 1; 0 when the whole file or a missing file is meant
	Path     string // for example "tools[1].constraints[0].max"; empty for the whole file
	Sentence string // what is wrong and what to do
}

// String returns "file:line: path: sentence", leaving out what is not set.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		b.WriteString(":" + strconv.Itoa(f.Line))
	}
	if f.File != "" {
		b.WriteString(": ")
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	b.WriteString(f.Sentence)
	return b.String()
}

// Document is one parsed file.
type Document struct {
	File string
	root *yaml.Node
}

// Parse reads one YAML document. It refuses what two readers may take
// differently: repeated keys, aliases, merge keys, more than one document.
func Parse(file string, raw []byte) (*Document, []Fault) {
	if len(raw) > MaxBytes {
		return nil, []Fault{{File: file, Sentence: fmt.Sprintf("the file has more than %d bytes", MaxBytes)}}
	}
	decoder := yaml.NewDecoder(bytes.NewReader(raw))
	var node yaml.Node
	if err := decoder.Decode(&node); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, []Fault{{File: file, Sentence: "the file is empty"}}
		}
		return nil, []Fault{syntaxFault(file, err)}
	}
	doc := &Document{File: file, root: node.Content[0]}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, []Fault{{File: file, Line: max(more.Line, 1), Sentence: "the file holds more than one document; split it"}}
	}
	shape := shapeCheck{doc: doc}
	shape.visit(doc.root, "", 0)
	if len(shape.faults) > 0 {
		return nil, shape.faults
	}
	return doc, nil
}

// Line returns the line of the value at the path, or of the nearest place
// above it that the file has.
func (d *Document) Line(path string) int {
	node, line := d.root, d.root.Line
	for _, step := range steps(path) {
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// Fault returns a fault at the path of this file.
func (d *Document) Fault(path, sentence string) Fault {
	return Fault{File: d.File, Line: d.Line(path), Path: path, Sentence: sentence}
}

// child returns the value under a key or an index, and the line that a person
// would look at for it: that of the key.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	if index, err := strconv.Atoi(step); err == nil && node.Kind == yaml.SequenceNode {
		if index < 0 || index >= len(node.Content) {
			return nil, 0
		}
		return node.Content[index], node.Content[index].Line
	}
	if node.Kind != yaml.MappingNode {
		return nil, 0
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == step {
			return node.Content[i+1], node.Content[i].Line
		}
	}
	return nil, 0
}

func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): (.*)$`)

func syntaxFault(file string, err error) Fault {
	fault := Fault{File: file, Line: 1, Sentence: "not YAML: " + strings.TrimPrefix(err.Error(), "yaml: ")}
	if match := yamlLine.FindStringSubmatch(err.Error()); match != nil {
		fault.Line, _ = strconv.Atoi(match[1])
		fault.Sentence = "not YAML: " + match[2]
	}
	return fault
}

// plainTags are the types of value that JSON has too.
var plainTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq"}

type shapeCheck struct {
	doc    *Document
	faults []Fault
}

func (s *shapeCheck) add(node *yaml.Node, path, sentence string) {
	s.faults = append(s.faults, Fault{File: s.doc.File, Line: node.Line, Path: path, Sentence: sentence})
}

func (s *shapeCheck) visit(node *yaml.Node, path string, depth int) {
	switch {
	case depth > MaxDepth:
		s.add(node, path, fmt.Sprintf("nested more than %d deep", MaxDepth))
	case node.Kind == yaml.AliasNode || node.Anchor != "":
		s.add(node, path, "anchors and aliases are not read; write the value out")
	case node.Kind == yaml.MappingNode:
		s.mapping(node, path, depth)
	case !slices.Contains(plainTags, node.ShortTag()):
		s.add(node, path, "the value reads as "+node.ShortTag()+"; put it in quotes")
	case node.Kind == yaml.SequenceNode:
		for i, item := range node.Content {
			s.visit(item, path+"["+strconv.Itoa(i)+"]", depth+1)
		}
	}
}

func (s *shapeCheck) mapping(node *yaml.Node, path string, depth int) {
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		at := join(path, key.Value)
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			s.add(key, path, "a key must be plain text; put it in quotes")
			continue
		}
		if line, repeated := first[key.Value]; repeated {
			s.add(key, at, fmt.Sprintf("the key stands in line %d already; keep one of them", line))
			continue
		}
		first[key.Value] = key.Line
		s.visit(node.Content[i+1], at, depth+1)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

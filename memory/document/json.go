package document

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
)

const (
	jsonDepth  = 64        // values inside of each other
	jsonValues = 1_000_000 // in one file
)

// value is a JSON value, with the names of what is in it.
type value struct {
	scalar   string // of a leaf
	leaf     bool
	names    []string // of the children: keys, or indexes
	children []*value
	size     int // bytes of its lines, about
}

// valueReader reads values, and no more of them than it may.
type valueReader struct {
	decoder *json.Decoder
	left    int
}

var (
	errDeepJSON = &Unreadable{Code: CodeTooDeep, Detail: "It has values more than 64 deep inside of each other; flatten it."}
	errManyJSON = &Unreadable{Code: CodeTooLarge, Detail: "It has more than a million values; split it."}
	errJSON     = &Unreadable{Code: CodeMalformed, Detail: "It breaks the rules of JSON; correct it."}
)

func (s *source) readJSON(text string, lines bool) error {
	r := valueReader{decoder: json.NewDecoder(strings.NewReader(strings.TrimPrefix(text, "\ufeff"))), left: jsonValues}
	r.decoder.UseNumber()
	for line := 0; ; line++ {
		top, err := r.next(0)
		if errors.Is(err, io.EOF) && (lines || line > 0) {
			return nil
		}
		if err != nil {
			return wrongJSON(err)
		}
		if !lines && line > 0 {
			return errJSON
		}
		if lines {
			top = &value{names: []string{strconv.Itoa(line)}, children: []*value{top}}
		}
		if err := s.addTop(top); err != nil {
			return err
		}
	}
}

func wrongJSON(err error) error {
	var known *Unreadable
	if errors.As(err, &known) {
		return err
	}
	return errJSON
}

// addTop gives each element of the top value a heading of its own.
func (s *source) addTop(top *value) error {
	if top.leaf {
		return s.out.paragraph(clean(top.scalar))
	}
	for i, child := range top.children {
		if err := s.addValue("/"+pointerStep(top.names[i]), child); err != nil {
			return err
		}
	}
	return nil
}

// addValue adds a value as lines of names and values, and gives those parts of
// it that are too long for one passage pointers of their own.
func (s *source) addValue(pointer string, v *value) error {
	s.out.at(pointer)
	if v.leaf || v.size <= most {
		var out strings.Builder
		v.lines(&out, "")
		return s.out.block(clean(out.String()))
	}
	var gathered strings.Builder
	gather := func() error {
		text := gathered.String()
		gathered.Reset()
		s.out.at(pointer)
		return s.out.block(clean(text))
	}
	for i, child := range v.children {
		long := !child.leaf && child.size > most
		if long || gathered.Len()+child.size > most {
			if err := gather(); err != nil {
				return err
			}
		}
		if !long {
			child.lines(&gathered, v.names[i])
			continue
		}
		if err := s.addValue(pointer+"/"+pointerStep(v.names[i]), child); err != nil {
			return err
		}
	}
	return gather()
}

// lines writes a line for each leaf: its name, and what it is.
func (v *value) lines(out *strings.Builder, name string) {
	if v.leaf || len(v.children) == 0 {
		if name != "" {
			out.WriteString(name + ": ")
		}
		out.WriteString(v.scalar + "\n")
		return
	}
	for i, child := range v.children {
		under := v.names[i]
		if name != "" {
			under = name + "." + under
		}
		child.lines(out, under)
	}
}

// pointerStep writes a name as a step of a JSON pointer (RFC 6901).
func pointerStep(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}

// next reads one value that lies in as many others as depth says.
func (r *valueReader) next(depth int) (*value, error) {
	if depth > jsonDepth {
		return nil, errDeepJSON
	}
	if r.left--; r.left < 0 {
		return nil, errManyJSON
	}
	token, err := r.decoder.Token()
	if err != nil {
		return nil, err
	}
	v := &value{leaf: true}
	switch token := token.(type) {
	case json.Delim:
		v.leaf, v.scalar = false, "[]"
		if token == '{' {
			v.scalar = "{}"
		}
		return v, r.fill(v, token == '{', depth)
	case string:
		v.scalar = token
	case json.Number:
		v.scalar = token.String()
	case bool:
		v.scalar = strconv.FormatBool(token)
	default:
		v.scalar = "null"
	}
	v.size = len(v.scalar) + 1
	return v, nil
}

// fill reads what is in an array or object, up to its end.
func (r *valueReader) fill(v *value, named bool, depth int) error {
	for i := 0; r.decoder.More(); i++ {
		name := strconv.Itoa(i)
		if named {
			token, err := r.decoder.Token()
			if err != nil {
				return err
			}
			name, _ = token.(string)
		}
		child, err := r.next(depth + 1)
		if err != nil {
			return err
		}
		v.names, v.children = append(v.names, name), append(v.children, child)
		v.size += child.size + len(name) + 3
	}
	_, err := r.decoder.Token()
	return err
}

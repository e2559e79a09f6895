// Package bounded says which values are so small that they may leave a private
// side: a yes or no, one of a few words, a whole number of a range, and a
// sentence with gaps for such values that was written in advance. Nothing else
// conforms, so how much a value can tell is known before anybody asks.
package bounded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/orchestrator/canon"
)

// What a bounded type may have at most.
const (
	MaxWords    = 20        // of an enum
	MaxWord     = 32        // bytes of one word
	MaxRange    = 1_000_000 // values of an integer
	MaxFields   = 6         // of a template
	MaxTemplate = 400       // bytes of a template's text
	maxSchema   = 8 << 10
)

// Type is a bounded type. Its zero value has no values.
type Type struct {
	scalar   *scalar
	fields   map[string]scalar
	template string
	schema   string // canonical
}

// scalar is a type without fields.
type scalar struct {
	boolean    bool
	words      []string
	least      int64
	most       int64
	isInteger  bool
	valueCount uint64
}

// ErrNotBounded is the error of a schema that allows more than a bounded type
// may, or says it in a way that is not known here.
var ErrNotBounded = errors.New("this is no bounded type: give a boolean, an enum of at most 20 short words, an integer with minimum and maximum, or an object of such fields with a template")

// ErrNotConforming is the error of a value that is not of its type. It quotes
// nothing.
var ErrNotConforming = errors.New("the value is not of the declared type")

var (
	aWord  = regexp.MustCompile(`^[A-Za-z0-9]+([ _.-][A-Za-z0-9]+)*$`)
	aField = regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,31}$`)
	aGap   = regexp.MustCompile(`\{[^{}]*\}`)
)

// declared is every keyword of JSON Schema that a bounded type may use. Any
// other one is refused: what it would allow is not known here.
type declared struct {
	Type       string                     `json:"type"`
	Enum       []string                   `json:"enum"`
	Minimum    *json.Number               `json:"minimum"`
	Maximum    *json.Number               `json:"maximum"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Additional *bool                      `json:"additionalProperties"`
}

// Compile returns the bounded type that a JSON Schema describes. An object
// needs a template that names each of its fields once, as "{field}"; nothing else
// may have one. Errors: ErrNotBounded.
func Compile(schema json.RawMessage, template string) (Type, error) {
	if len(schema) > maxSchema {
		return Type{}, refused("the schema is too long")
	}
	canonical, err := canon.JSON(schema)
	if err != nil {
		return Type{}, refused("the schema is not JSON that has one form")
	}
	d, err := read(canonical)
	if err != nil {
		return Type{}, err
	}
	t := Type{schema: string(canonical)}
	if d.Type != "object" {
		if template != "" {
			return Type{}, refused("only an object has a template")
		}
		one, err := d.scalar()
		t.scalar = &one
		return orNone(t, err)
	}
	t.template = template
	t.fields, err = d.object()
	if err == nil {
		err = fits(template, t.fields)
	}
	return orNone(t, err)
}

func orNone(t Type, err error) (Type, error) {
	if err != nil {
		return Type{}, err
	}
	return t, nil
}

func refused(why string) error { return fmt.Errorf("%w (%s)", ErrNotBounded, why) }

func read(raw []byte) (declared, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	var d declared
	if err := decoder.Decode(&d); err != nil || !exactKeys(raw) {
		return declared{}, refused("it has a keyword that is not known here")
	}
	return d, nil
}

// exactKeys requires the keywords as they are written: the decoder would take
// them in any case.
func exactKeys(raw []byte) bool {
	var keys map[string]json.RawMessage
	if json.Unmarshal(raw, &keys) != nil {
		return false
	}
	known := []string{"type", "enum", "minimum", "maximum", "properties", "required", "additionalProperties"}
	for key, value := range keys {
		if !slices.Contains(known, key) || string(value) == "null" {
			return false
		}
	}
	return keys != nil
}

func (d declared) scalar() (scalar, error) {
	if d.Properties != nil || d.Required != nil || d.Additional != nil {
		return scalar{}, refused("only an object has fields")
	}
	hasRange, hasWords := d.Minimum != nil || d.Maximum != nil, d.Enum != nil
	switch {
	case d.Type == "boolean" && !hasRange && !hasWords:
		return scalar{boolean: true, valueCount: 2}, nil
	case d.Type == "string" && !hasRange && hasWords:
		return words(d.Enum)
	case d.Type == "integer" && !hasWords && d.Minimum != nil && d.Maximum != nil:
		return integers(*d.Minimum, *d.Maximum)
	}
	return scalar{}, refused("its type or its bounds")
}

func words(list []string) (scalar, error) {
	if len(list) == 0 || len(list) > MaxWords {
		return scalar{}, refused("an enum has 1 to 20 words")
	}
	seen := map[string]bool{}
	for _, word := range list {
		if len(word) > MaxWord || !aWord.MatchString(word) || seen[word] {
			return scalar{}, refused("a word of an enum has up to 32 letters and digits and stands once")
		}
		seen[word] = true
	}
	return scalar{words: slices.Clone(list), valueCount: uint64(len(list))}, nil
}

func integers(low, high json.Number) (scalar, error) {
	least, errLow := low.Int64()
	most, errHigh := high.Int64()
	const exact = 1 << 53
	if errLow != nil || errHigh != nil || least > most || least < -exact || most > exact || most-least >= MaxRange {
		return scalar{}, refused("an integer has whole bounds with at most a million values between them")
	}
	return scalar{isInteger: true, least: least, most: most, valueCount: uint64(most-least) + 1}, nil
}

func (d declared) object() (map[string]scalar, error) {
	if d.Enum != nil || d.Minimum != nil || d.Maximum != nil || d.Additional == nil || *d.Additional {
		return nil, refused("an object says additionalProperties: false and has no bounds of its own")
	}
	if len(d.Properties) == 0 || len(d.Properties) > MaxFields {
		return nil, refused("an object has 1 to 6 fields")
	}
	if !slices.Equal(slices.Sorted(slices.Values(d.Required)), slices.Sorted(maps.Keys(d.Properties))) {
		return nil, refused("all fields of an object are required")
	}
	fields := map[string]scalar{}
	for name, raw := range d.Properties {
		inner, err := read(raw)
		if err != nil {
			return nil, err
		}
		one, err := inner.scalar()
		if err != nil {
			return nil, err
		}
		if !aField.MatchString(name) {
			return nil, refused("a field is named by letters and digits")
		}
		fields[name] = one
	}
	return fields, nil
}

// fits requires a template with a gap for each field, and no other one.
func fits(template string, fields map[string]scalar) error {
	if template == "" || len(template) > MaxTemplate || strings.ContainsFunc(template, func(r rune) bool { return r < ' ' || r == '\u007f' }) {
		return refused("an object needs a template of up to 400 bytes on one line")
	}
	if _, err := canon.Marshal(template); err != nil {
		return refused("the template is not text")
	}
	seen := map[string]bool{}
	for _, gap := range aGap.FindAllString(template, -1) {
		name := gap[1 : len(gap)-1]
		if _, known := fields[name]; !known {
			return refused("the template has a gap for no field")
		}
		if seen[name] {
			return refused("the template names a field twice")
		}
		seen[name] = true
	}
	if len(seen) != len(fields) || strings.ContainsAny(aGap.ReplaceAllString(template, ""), "{}") {
		return refused("the template names every field as {field}")
	}
	return nil
}

// Schema returns the canonical JSON Schema that the type was made of.
func (t Type) Schema() string { return t.schema }

// Is reports whether a JSON Schema is the one that the type was made of,
// however it is written.
func (t Type) Is(schema json.RawMessage) bool {
	canonical, err := canon.JSON(schema)
	return err == nil && t.schema != "" && string(canonical) == t.schema
}

// Bits is how much one value can tell at most, rounded up.
func (t Type) Bits() int {
	if t.scalar != nil {
		return t.scalar.bits()
	}
	sum := 0
	for _, field := range t.fields {
		sum += field.bits()
	}
	return sum
}

func (s scalar) bits() int { return bits.Len64(s.valueCount - 1) }

// Value returns what may pass of a result: the canonical JSON of a boolean, a
// word or a number that is of the type; for an object the template as a JSON
// text, its gaps filled. Errors: ErrNotConforming, which quotes nothing.
func (t Type) Value(raw []byte) ([]byte, error) {
	if len(raw) > maxSchema {
		return nil, ErrNotConforming
	}
	canonical, err := canon.JSON(raw)
	if err != nil {
		return nil, ErrNotConforming
	}
	if t.scalar != nil {
		return t.scalar.value(canonical)
	}
	var fields map[string]json.RawMessage
	if t.fields == nil || json.Unmarshal(canonical, &fields) != nil || len(fields) != len(t.fields) {
		return nil, ErrNotConforming
	}
	said := make(map[string]string, len(fields))
	for name, field := range t.fields {
		value, err := field.value(fields[name])
		if err != nil {
			return nil, err
		}
		said["{"+name+"}"] = strings.Trim(string(value), `"`)
	}
	text := aGap.ReplaceAllStringFunc(t.template, func(gap string) string { return said[gap] })
	return canon.Marshal(text)
}

// value returns the value as it is declared, never as it came.
func (s scalar) value(canonical []byte) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(canonical))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil || !ended(decoder) {
		return nil, ErrNotConforming
	}
	switch at := value.(type) {
	case bool:
		if s.boolean {
			return strconv.AppendBool(nil, at), nil
		}
	case string:
		if i := slices.Index(s.words, at); i >= 0 {
			return []byte(strconv.Quote(s.words[i])), nil
		}
	case json.Number:
		if n, err := at.Int64(); s.isInteger && err == nil && n >= s.least && n <= s.most {
			return strconv.AppendInt(nil, n, 10), nil
		}
	}
	return nil, ErrNotConforming
}

func ended(decoder *json.Decoder) bool {
	_, err := decoder.Token()
	return errors.Is(err, io.EOF)
}

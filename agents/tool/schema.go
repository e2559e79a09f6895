package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"sort"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"gantry.dev/orchestrator/canon"
)

const schemaAddress = "https://gantry.invalid/schema.json"

// Schema checks JSON against a JSON Schema 2020-12 that is closed: a key that
// it does not declare is refused, except where it says additionalProperties
// itself. Formats are checked. It loads nothing from elsewhere.
type Schema struct {
	compiled *jsonschema.Schema
	document map[string]any
}

// Complaint is one way in which a value does not meet a schema. It holds
// nothing of the value but keys.
type Complaint struct {
	Pointer string // JSON pointer of the value that is wrong
	Text    string // what it should be
}

// CompileSchema reads a schema. Its errors are for the schema's author.
func CompileSchema(raw []byte) (*Schema, error) {
	canonical, err := canon.JSON(raw)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	document, err := decodeJSON(canonical)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	object, ok := document.(map[string]any)
	if !ok {
		return nil, errors.New("schema: must be a JSON object")
	}
	closer := &closer{positions: map[string]bool{}}
	closer.whole(object, nil)
	if err := closer.verdict(); err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(noLoader{})
	if err := compiler.AddResource(schemaAddress, document); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	compiled, err := compiler.Compile(schemaAddress)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return &Schema{compiled: compiled, document: object}, nil
}

// noLoader refuses references to other documents.
type noLoader struct{}

func (noLoader) Load(string) (any, error) {
	return nil, errors.New("references to other documents are not followed")
}

// Check returns all complaints about a JSON value, sorted by pointer; none
// means that it meets the schema.
func (s *Schema) Check(raw []byte) []Complaint {
	value, err := decodeJSON(raw)
	if err != nil {
		return []Complaint{{Text: "must be JSON"}}
	}
	return s.check(value)
}

func (s *Schema) check(value any) []Complaint {
	err := s.compiled.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []Complaint{{Text: "could not be checked"}}
	}
	complaints := leaves(invalid, nil)
	sort.SliceStable(complaints, func(i, j int) bool {
		a, b := complaints[i], complaints[j]
		return a.Pointer < b.Pointer || a.Pointer == b.Pointer && a.Text < b.Text
	})
	return complaints
}

func leaves(err *jsonschema.ValidationError, complaints []Complaint) []Complaint {
	for _, cause := range err.Causes {
		complaints = leaves(cause, complaints)
	}
	if len(err.Causes) > 0 {
		return complaints
	}
	at := joinPointer(err.InstanceLocation)
	if extra, ok := err.ErrorKind.(*kind.AdditionalProperties); ok {
		for _, key := range extra.Properties {
			complaints = append(complaints, Complaint{at + joinPointer([]string{key}), undeclared})
		}
		return complaints
	}
	return append(complaints, Complaint{at, complaint(err.ErrorKind)})
}

const undeclared = "is no declared key: leave it out"

// complaint says what a value should be. The library's own texts quote the
// value, which may be long, secret or hostile.
func complaint(of jsonschema.ErrorKind) string {
	switch of := of.(type) {
	case *kind.FalseSchema:
		return undeclared
	case *kind.Type:
		return fmt.Sprintf("must be of type %s, is %s", listed(of.Want), of.Got)
	case *kind.Required:
		return "must have the required " + listed(of.Missing)
	case *kind.Enum:
		return "must be one of " + jsonText(of.Want)
	case *kind.Const:
		return "must be " + jsonText(of.Want)
	case *kind.Format:
		return "must be in the format " + of.Want
	case *kind.Pattern:
		return "must match the pattern " + of.Want
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", of.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", of.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items", of.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items", of.Want)
	case *kind.Minimum:
		return "must be at least " + of.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + of.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be more than " + of.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + of.Want.RatString()
	case *kind.MultipleOf:
		return "must be a multiple of " + of.Want.RatString()
	}
	return "does not meet the schema's " + listed(of.KeywordPath())
}

func listed(names []string) string {
	var out bytes.Buffer
	for i, name := range names {
		if i > 0 {
			out.WriteString(", ")
		}
		out.WriteString(name)
	}
	return out.String()
}

func jsonText(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return "what the schema says"
	}
	return string(raw)
}

// decodeJSON decodes one JSON value and keeps numbers as they are written.
func decodeJSON(raw []byte) (any, error) {
	return jsonschema.UnmarshalJSON(bytes.NewReader(raw))
}

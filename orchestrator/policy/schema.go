package policy

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	"github.com/cedar-policy/cedar-go/x/exp/schema/resolved"
	"github.com/cedar-policy/cedar-go/x/exp/schema/validate"
)

// fixedSchema is the part of the Cedar schema that does not depend on tools.
//
//go:embed gantry.cedarschema
var fixedSchema string

// FactType is the type of one fact. With a question mark behind it the fact
// may be absent, and policies must ask `context.facts has name` first.
type FactType string

// The types of facts, and the Go types of their values.
const (
	Long      FactType = "Long"      // int64
	String    FactType = "String"    // string
	Bool      FactType = "Bool"      // bool
	StringSet FactType = "StringSet" // []string
)

// OrAbsent returns the same type for a fact that need not be there.
func (f FactType) OrAbsent() FactType { return f.always() + "?" }

func (f FactType) mayBeAbsent() bool { return strings.HasSuffix(string(f), "?") }

func (f FactType) always() FactType { return FactType(strings.TrimSuffix(string(f), "?")) }

var cedarTypes = map[FactType]string{Long: "Long", String: "String", Bool: "Bool", StringSet: "Set<String>"}

// ToolShape is what policies may rely on about one registered tool.
type ToolShape struct {
	Name     string              `json:"name"` // qualified: server.tool
	Revision string              `json:"revision"`
	Owner    string              `json:"owner"` // principal id
	Impact   Impact              `json:"impact"`
	Class    EffectClass         `json:"class"`
	Facts    map[string]FactType `json:"facts,omitempty"`
}

// ToolFacts returns the shape as a request states it.
func (s ToolShape) ToolFacts() ToolFacts {
	return ToolFacts{Name: s.Name, Revision: s.Revision, Owner: s.Owner, Impact: s.Impact, Class: s.Class}
}

// Names that can stand in a schema without being quoted in a way that reads as
// something else.
var (
	toolName = regexp.MustCompile(`^[A-Za-z0-9_]+([./-][A-Za-z0-9_]+)*$`)
	factName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

var impactGroups = map[Impact]string{
	ImpactRead: "read", Draft: "draft", Reversible: "reversible", Irreversible: "irreversible",
}

// Schema returns the Cedar schema that policies over these tools are validated
// against, as text that editors with Cedar support can read. Its error is
// Faults: a tool or fact with a name or type that no policy could speak of.
func Schema(tools []ToolShape) ([]byte, error) {
	var faults Faults
	text := strings.Builder{}
	text.WriteString(fixedSchema)
	seen := map[string]bool{}
	for _, tool := range slices.SortedFunc(slices.Values(tools), byName) {
		faults = append(faults, tool.faults(seen[tool.Name])...)
		seen[tool.Name] = true
		tool.writeAction(&text)
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return []byte(text.String()), nil
}

func byName(a, b ToolShape) int { return strings.Compare(a.Name, b.Name) }

func (s ToolShape) faults(repeated bool) Faults {
	var faults Faults
	add := func(format string, args ...any) {
		faults = append(faults, Fault{File: fmt.Sprintf("tool %q", s.Name), Message: fmt.Sprintf(format, args...)})
	}
	isGroup := slices.Contains(slices.Collect(maps.Values(impactGroups)), s.Name)
	switch {
	case !toolName.MatchString(s.Name):
		add("a tool's name is letters, digits and underscores, with single dots, dashes or slashes between")
	case isGroup:
		add("this name is the name of a group of actions")
	case repeated:
		add("two tools have this name")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Facts)) {
		if !factName.MatchString(name) {
			add("fact %q: a fact's name is a letter, then letters, digits and underscores", name)
		}
		if _, known := cedarTypes[s.Facts[name].always()]; !known {
			add("fact %q: unknown type %q; known are Long, String, Bool and StringSet", name, string(s.Facts[name]))
		}
	}
	return faults
}

func (s ToolShape) writeAction(text *strings.Builder) {
	fmt.Fprintf(text, "\naction %q in [Action::%q] appliesTo {\n", s.Name, impactGroups[s.Impact.OrWorst()])
	text.WriteString("  principal: [Agent],\n  resource: [Resource],\n  context: {\n    facts: {\n")
	for _, name := range slices.Sorted(maps.Keys(s.Facts)) {
		mark := ""
		if s.Facts[name].mayBeAbsent() {
			mark = "?"
		}
		fmt.Fprintf(text, "      %q%s: %s,\n", name, mark, cedarTypes[s.Facts[name].always()])
	}
	text.WriteString(`    },
    impact: String,          // "READ", "DRAFT", "REVERSIBLE" or "IRREVERSIBLE"
    stage: String,           // "OBSERVE", "CONSTRAIN", "APPROVE" or "AUTOMATE"
    costBound: Long,         // micro-dollars the call may cost at most
    labels: Set<String>,     // of everything that influenced the arguments
    integrity: String,       // of the same: "TRUSTED", "TOOL" or "UNTRUSTED"
    untrustedControl: Bool,  // untrusted text influenced a control argument
    atMs: Long,              // UTC, milliseconds since 1970
    at: datetime,            // the same instant
  },
};
`)
}

// rules is a resolved schema with its validator.
type rules struct {
	actions   map[cedar.EntityUID]resolved.Action
	validator *validate.Validator
}

func rulesFor(tools []ToolShape) (rules, error) {
	text, err := Schema(tools)
	if err != nil {
		return rules{}, err
	}
	return resolveSchema(text)
}

// resolveSchema reads what Schema wrote.
func resolveSchema(text []byte) (rules, error) {
	var parsed schema.Schema
	if err := parsed.UnmarshalCedar(text); err != nil {
		return rules{}, fmt.Errorf("schema: %w", err)
	}
	ready, err := parsed.Resolve()
	if err != nil {
		return rules{}, fmt.Errorf("schema: %w", err)
	}
	return rules{actions: ready.Actions, validator: validate.New(ready)}, nil
}

package agents

import (
	"encoding/json"
	"slices"
	"strings"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

// Directory answers who somebody is and who answers for what, agents included.
func (o Organisation) Directory() policy.Directory {
	roster := policy.Roster{
		People:       make(map[string]policy.Principal, len(o.Principals)+len(o.Agents)),
		BudgetOwners: make(map[string]string, len(o.Departments)),
		LabelOwners:  make(map[policy.Label]string, len(o.Labels)),
		Deputies:     o.StandIns(),
	}
	for _, p := range o.Principals {
		roster.People[p.ID] = p
	}
	for _, revision := range o.Agents {
		p := revision.Principal(o.Name)
		roster.People[p.ID] = p
	}
	for _, d := range o.Departments {
		roster.BudgetOwners[d.Name] = d.BudgetOwner
	}
	for _, l := range o.Labels {
		roster.LabelOwners[l.Name] = l.Owner
	}
	return roster
}

// PolicySet returns the organisation's policies, validated against its tools.
// Its error is policy.Faults.
func (o Organisation) PolicySet() (*policy.Set, error) {
	return policy.Parse(o.PolicyFiles(), o.Shapes())
}

// PolicyFiles returns the organisation's policies as files.
func (o Organisation) PolicyFiles() []policy.File {
	files := make([]policy.File, len(o.Policies))
	for i, source := range o.Policies {
		files[i] = policy.File{Name: source.Name + ".cedar", Text: []byte(source.Text)}
	}
	return files
}

// Shapes returns what policies may rely on about the tools.
func (o Organisation) Shapes() []policy.ToolShape {
	shapes := make([]policy.ToolShape, len(o.Tools))
	for i, d := range o.Tools {
		shapes[i] = policy.ToolShape{
			Name: d.Name, Revision: d.Digest(), Owner: d.Owner, Impact: d.Impact, Class: d.Class,
			Facts: factTypes(d),
		}
	}
	return shapes
}

// factTypes reads the types of a tool's facts from its input schema. A fact
// whose type the schema leaves open has none, which policy refuses.
func factTypes(d tool.Definition) map[string]policy.FactType {
	var schema inputSchema
	if err := json.Unmarshal(d.Input, &schema); err != nil {
		return nil
	}
	facts := make(map[string]policy.FactType, len(d.Facts))
	for name, pointer := range d.Facts {
		facts[name] = schema.factType(pointer)
	}
	return facts
}

// inputSchema is the part of a JSON Schema that gives an argument its type.
type inputSchema struct {
	Type       any                    `json:"type"`
	Properties map[string]inputSchema `json:"properties"`
	Required   []string               `json:"required"`
}

func (s inputSchema) factType(pointer string) policy.FactType {
	at, present, _ := s.follow(pointer)
	known := map[string]policy.FactType{
		"string": policy.String, "integer": policy.Long, "boolean": policy.Bool, "array": policy.StringSet,
	}
	kind, _ := at.Type.(string)
	switch {
	case known[kind] == "":
		return policy.FactType("type of " + pointer)
	case !present:
		return known[kind].OrAbsent()
	}
	return known[kind]
}

// has reports whether the schema declares the argument at the pointer.
func (s inputSchema) has(pointer string) bool {
	_, _, found := s.follow(pointer)
	return found
}

// follow returns the schema of the argument at the pointer, whether it is
// always present, and whether it is declared at all.
func (s inputSchema) follow(pointer string) (at inputSchema, present, found bool) {
	at, present = s, true
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		present = present && slices.Contains(at.Required, token)
		if at, found = at.Properties[token]; !found {
			return inputSchema{}, false, false
		}
	}
	return at, present, true
}

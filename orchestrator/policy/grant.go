package policy

import (
	"cmp"
	"slices"

	"gantry.dev/orchestrator/canon"
)

// Allows reports whether arguments meet every constraint of the grant. args is
// canonical JSON; what has no canonical form is not allowed. When the answer is
// no, path is the JSON pointer of the first constraint that failed, empty when
// the grant allows nothing or the arguments cannot be read.
func (g ToolGrant) Allows(args []byte) (ok bool, path string) {
	normal, allows := g.normal()
	if !allows {
		return false, ""
	}
	args, err := canon.JSON(args)
	if err != nil {
		return false, ""
	}
	for _, constraint := range normal.Constraints {
		value, found := resolvePointer(args, constraint.Path)
		if !found || !constraint.admits(value) {
			return false, constraint.Path
		}
	}
	return true, ""
}

// normal returns the grant in normal form, or false when it allows no call.
func (g ToolGrant) normal() (ToolGrant, bool) {
	if !g.allows() {
		return ToolGrant{}, false
	}
	if g.plain() {
		return g, true
	}
	constraints, satisfiable := normalConstraints(g.Constraints)
	g.Constraints = constraints
	return g, satisfiable
}

// normalConstraints merges the constraints on each path into one, sorted by
// path, or returns false when no arguments can meet them all.
func normalConstraints(constraints []Constraint) ([]Constraint, bool) {
	sorted := slices.Clone(constraints)
	slices.SortStableFunc(sorted, func(a, b Constraint) int { return cmp.Compare(a.Path, b.Path) })
	var merged []Constraint
	for _, constraint := range sorted {
		next, satisfiable := constraint.normal()
		if last := len(merged) - 1; satisfiable && last >= 0 && merged[last].Path == next.Path {
			merged[last], satisfiable = merged[last].meet(next)
		} else {
			merged = append(merged, next)
		}
		if !satisfiable {
			return nil, false
		}
	}
	return merged, true
}

func normalTools(tools map[string]ToolGrant) map[string]ToolGrant {
	if len(tools) > 0 && allPlain(tools) {
		return tools
	}
	var normal map[string]ToolGrant
	for name, grant := range tools {
		normal = withGrant(normal, name, grant)
	}
	return normal
}

// allPlain reports whether every grant allows something and bounds no argument:
// it is its own normal form.
func allPlain(tools map[string]ToolGrant) bool {
	for _, grant := range tools {
		if !grant.plain() {
			return false
		}
	}
	return true
}

func (g ToolGrant) plain() bool { return g.allows() && g.Constraints == nil }

// allows reports whether a grant allows any call, whatever its arguments.
func (g ToolGrant) allows() bool {
	return g.Calls > 0 && g.Impact != ImpactUnset && g.Impact <= Irreversible
}

// withGrant adds a grant in normal form unless it allows nothing. The map is
// made only when it is needed: an empty one and none mean the same, and normal
// forms must be equal.
func withGrant(tools map[string]ToolGrant, name string, grant ToolGrant) map[string]ToolGrant {
	normal, allows := grant.normal()
	if !allows {
		return tools
	}
	if tools == nil {
		tools = map[string]ToolGrant{}
	}
	tools[name] = normal
	return tools
}

func meetTools(a, b map[string]ToolGrant) map[string]ToolGrant {
	both := make(map[string]ToolGrant, min(len(a), len(b)))
	for name, left := range a {
		right, found := b[name]
		if !found || left.Revision != right.Revision {
			continue // another definition is another tool
		}
		both = withGrant(both, name, ToolGrant{
			Revision:    left.Revision,
			Impact:      min(left.Impact, right.Impact),
			Calls:       min(left.Calls, right.Calls),
			Constraints: slices.Concat(left.Constraints, right.Constraints),
		})
	}
	if len(both) == 0 {
		return nil
	}
	return both
}

func toolsBelow(a, b map[string]ToolGrant) bool {
	for name, left := range a {
		right, found := b[name]
		if !found || !left.below(right) {
			return false
		}
	}
	return true
}

// below compares grants in normal form.
func (g ToolGrant) below(other ToolGrant) bool {
	if g.Revision != other.Revision || g.Impact > other.Impact || g.Calls > other.Calls {
		return false
	}
	for _, outer := range other.Constraints {
		at, found := slices.BinarySearchFunc(g.Constraints, outer.Path, func(c Constraint, path string) int {
			return cmp.Compare(c.Path, path)
		})
		if !found || !g.Constraints[at].below(outer) {
			return false
		}
	}
	return true
}

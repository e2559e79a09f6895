package agents

import (
	"slices"
	"strings"

	"gantry.dev/orchestrator/canon"
)

// ChangeKind says what happened to a part of the configuration.
type ChangeKind string

// The kinds of change.
const (
	Added   ChangeKind = "ADDED"
	Changed ChangeKind = "CHANGED"
	Removed ChangeKind = "REMOVED"
)

// Change is one part of a configuration that differs from another one.
type Change struct {
	Object string     `json:"object"` // "agents/NAME", "tools/NAME", … or "organisation"
	Kind   ChangeKind `json:"kind"`
	Before string     `json:"before,omitempty"` // digest
	After  string     `json:"after,omitempty"`  // digest
}

// Changes returns what differs between two organisations, sorted by object.
// Equal organisations have none. Its errors are those of canon.Marshal.
func Changes(before, after Organisation) ([]Change, error) {
	old, err := before.parts()
	if err != nil {
		return nil, err
	}
	fresh, err := after.parts()
	if err != nil {
		return nil, err
	}
	var changes []Change
	for object, digest := range fresh {
		switch earlier, existed := old[object]; {
		case !existed:
			changes = append(changes, Change{Object: object, Kind: Added, After: digest})
		case earlier != digest:
			changes = append(changes, Change{Object: object, Kind: Changed, Before: earlier, After: digest})
		}
	}
	for object, digest := range old {
		if _, stays := fresh[object]; !stays {
			changes = append(changes, Change{Object: object, Kind: Removed, Before: digest})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Object, b.Object) })
	return changes, nil
}

// parts returns the digest of every object that people think of as one thing.
func (o Organisation) parts() (map[string]string, error) {
	objects := map[string]any{}
	for _, r := range o.Agents {
		objects["agents/"+r.Name] = r
	}
	for _, d := range o.Tools {
		objects["tools/"+d.Name] = d
	}
	for _, s := range o.Servers {
		objects["servers/"+s.Name] = s
	}
	for _, q := range o.Quarantines {
		objects["quarantines/"+q.Tool] = q
	}
	for _, p := range o.Personas {
		objects["personas/"+p.Name] = p
	}
	for _, p := range o.Principals {
		objects["principals/"+p.ID] = p
	}
	for _, m := range o.Models {
		objects["models/"+m.Name] = m
	}
	for _, s := range o.Policies {
		objects["policies/"+s.Name] = s
	}
	for _, s := range o.Scripts {
		objects["scripts/"+s.Name] = s
	}
	for _, g := range o.Grants {
		objects["grants/"+g.ID] = g
	}
	rest := o
	rest.Agents, rest.Tools, rest.Personas, rest.Principals = nil, nil, nil, nil
	rest.Models, rest.Policies, rest.Scripts, rest.Grants = nil, nil, nil, nil
	rest.Servers, rest.Quarantines, rest.Pins = nil, nil, nil
	if rest.Name != "" {
		objects["organisation"] = rest
	}
	digests := make(map[string]string, len(objects))
	for object, value := range objects {
		digest, err := canon.DigestOf(value)
		if err != nil {
			return nil, err
		}
		digests[object] = digest
	}
	return digests, nil
}

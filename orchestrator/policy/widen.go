package policy

import "slices"

// Widen returns an authority that has, besides its own, the tools, labels,
// spaces and models of a delegation grant. Everything that is counted or lasts
// (money, tokens, time, turns, depth, children, stage) stays as it is: a grant
// never adds to it. Where both have a tool, the wider of the two bounds holds;
// where neither is wider, those of the grant.
func Widen(a, grant Authority) Authority {
	a, grant = a.Normal(), grant.Normal()
	for name, wider := range grant.Tools {
		own, has := a.Tools[name]
		if has && wider.below(own) {
			continue
		}
		tools := make(map[string]ToolGrant, len(a.Tools)+1)
		for known, bounds := range a.Tools {
			tools[known] = bounds
		}
		tools[name] = wider
		a.Tools = tools
	}
	a.Labels = normalSet(slices.Concat(a.Labels, grant.Labels))
	a.ReadSpaces = normalSet(slices.Concat(a.ReadSpaces, grant.ReadSpaces))
	a.WriteSpaces = normalSet(slices.Concat(a.WriteSpaces, grant.WriteSpaces))
	a.Models = normalSet(slices.Concat(a.Models, grant.Models))
	return a
}

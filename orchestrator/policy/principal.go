// Package policy says who may do what and who may see what. It is pure: it
// reads no clock, no file and no network, so every verdict can be computed
// again from the same inputs.
package policy

// PrincipalKind says what kind of actor a principal is.
type PrincipalKind string

// The kinds of principal.
const (
	Person  PrincipalKind = "PERSON"
	Service PrincipalKind = "SERVICE"
	Agent   PrincipalKind = "AGENT"
)

// Principal is somebody or something that can act inside one organisation.
// Its fields come from the organisation's directory, never from a request.
type Principal struct {
	ID           string        `json:"id"` // unique within the organisation
	Kind         PrincipalKind `json:"kind"`
	Organisation string        `json:"organisation"`
	Department   string        `json:"department"`
	Name         string        `json:"name"`
	Roles        []string      `json:"roles,omitempty"`   // sorted
	Manager      string        `json:"manager,omitempty"` // principal id, empty for none
	Clearance    Labels        `json:"clearance,omitempty"`
}

// HasRole reports whether the principal holds the role.
func (p Principal) HasRole(role string) bool {
	for _, r := range p.Roles {
		if r == role {
			return true
		}
	}
	return false
}

// Sees reports whether the principal is cleared for a text with these labels.
func (p Principal) Sees(labels Labels) bool { return labels.Within(p.Clearance) }

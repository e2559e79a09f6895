package policy

import (
	"cmp"
	"slices"
	"strings"
)

// A hold waits for one approver or for several, each in a group of its own.

// holders finds who a hold is waiting for. It returns false when that is
// nobody, or nobody who could decide this request.
func holders(n note, request Request, dir Directory) ([]Approver, bool) {
	if role, isRole := strings.CutPrefix(n.hold, holdRole); isRole {
		approver := Approver{Role: role, Why: "role " + role, Quorum: n.quorum}
		return []Approver{approver}, enough(approver, request, dir)
	}
	named := namedBy(n.hold, request, dir)
	for _, approver := range named {
		if !enough(approver, request, dir) {
			return nil, false
		}
	}
	return named, len(named) > 0
}

// namedBy resolves a hold to principals. One that is not known stays in the
// list without an id, so that the request waits for nobody instead of for
// fewer people.
func namedBy(hold string, request Request, dir Directory) []Approver {
	one := func(id, why string) Approver { return Approver{Principal: id, Why: why, Quorum: 1} }
	switch hold {
	case holdBudgetOwner:
		owner, _ := dir.BudgetOwner(request.Subject.Department)
		return []Approver{one(owner, "budget owner of "+request.Subject.Department)}
	case holdManager:
		subject, _ := dir.Principal(request.Subject.ID)
		return []Approver{one(subject.Manager, "manager of "+request.Subject.ID)}
	case holdLabelOwner:
		var owners []Approver
		for _, label := range request.Marking.Labels {
			owner, _ := dir.LabelOwner(label)
			owners = append(owners, one(owner, "owner of label "+string(label)))
		}
		return owners
	}
	return []Approver{one(request.Tool.Owner, "tool owner")}
}

// enough reports whether as many people as the approver needs may decide.
func enough(approver Approver, request Request, dir Directory) bool {
	candidates := []string{approver.Principal}
	if approver.Role != "" {
		candidates = dir.Holders(approver.Role)
	}
	people := map[string]bool{}
	for _, id := range candidates {
		if Entitled([]Approver{approver}, Principal{ID: id}, request.Chain, dir) == nil {
			people[id] = true
		}
	}
	return len(people) >= approver.Quorum
}

// held turns a verdict into one that waits for these approvers too.
func (v Verdict) held(more []Approver, expiresMs int64) Verdict {
	v.Answer = Hold
	v.Approvers = grouped(append(slices.Clone(v.Approvers), more...))
	v.Quorum = leastPeople(v.Approvers)
	if v.ExpiresMs == 0 || expiresMs != 0 && expiresMs < v.ExpiresMs {
		v.ExpiresMs = expiresMs
	}
	return v
}

// grouped sorts approvers, makes one of those that are the same, and gives each
// its group: all of them must be satisfied.
func grouped(approvers []Approver) []Approver {
	slices.SortStableFunc(approvers, func(a, b Approver) int {
		return cmp.Or(
			cmp.Compare(a.Principal, b.Principal), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Why, b.Why))
	})
	var merged []Approver
	for _, approver := range approvers {
		last := len(merged) - 1
		if last < 0 || merged[last].Principal != approver.Principal || merged[last].Role != approver.Role {
			approver.Group = len(merged)
			merged = append(merged, approver)
			continue
		}
		merged[last].Quorum = max(merged[last].Quorum, approver.Quorum)
		if !slices.Contains(strings.Split(merged[last].Why, ", "), approver.Why) {
			merged[last].Why += ", " + approver.Why
		}
	}
	return merged
}

// leastPeople returns how many distinct people it takes at least to satisfy
// every group: each named principal is one, and holders of roles may be among
// them.
func leastPeople(approvers []Approver) int {
	named, most := 0, 0
	for _, approver := range approvers {
		if approver.Principal != "" {
			named++
		}
		most = max(most, approver.Quorum)
	}
	return max(named, most)
}

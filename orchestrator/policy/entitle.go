package policy

import (
	"errors"
	"fmt"
)

// Why somebody may not decide a held call. Entitled wraps one of them.
var (
	ErrNotAPerson   = errors.New("only a person decides")
	ErrUnknown      = errors.New("not in the organisation's directory")
	ErrRequester    = errors.New("who asks does not decide, nor who is asked for")
	ErrNotNamed     = errors.New("not one of those who may decide")
	ErrNoRequester  = errors.New("nobody knows who asks, so nobody can decide")
	ErrOrganisation = errors.New("of another organisation")
)

// Entitled returns nil when a principal may decide what the approvers are
// named for. Only its id is taken from the argument: kind, roles and all else
// are what the directory says now, so the answer can change between the
// decision and the moment it is spent, and both must ask.
//
// chain is who asks, subject first, then everyone who acts between it and the
// call. Nobody in it may decide, nor anybody on whose behalf one of them acts,
// nor anybody who acts on behalf of one of all these, however long that
// delegation is.
func Entitled(approvers []Approver, who Principal, chain []Principal, dir Directory) error {
	person, err := eligible(who.ID, chain, dir)
	if err != nil {
		return err
	}
	for _, approver := range approvers {
		if approver.Names(person) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", who.ID, ErrNotNamed)
}

// Voices returns on whose behalf a principal may decide at atMs (UTC ms): its
// own id where it is Entitled by itself, else the ids of those whom it is the
// deputy of and who are Entitled themselves, sorted. A deputy's deputy speaks
// for nobody but the deputy. Who is the deputy of somebody who asks decides
// nothing of it, not even by itself.
func Voices(approvers []Approver, who Principal, chain []Principal, dir Directory, atMs int64) ([]string, error) {
	if _, err := eligible(who.ID, chain, dir); err != nil {
		return nil, err
	}
	asking := requesters(chain, dir)
	principals := dir.StandsFor(who.ID, atMs)
	for _, id := range principals {
		if meet(requesters([]Principal{{ID: id}}, dir), asking) {
			return nil, fmt.Errorf("%s: %w", who.ID, ErrRequester)
		}
	}
	own := Entitled(approvers, who, chain, dir)
	if own == nil {
		return []string{who.ID}, nil
	}
	var voices []string
	for _, id := range principals {
		if id != who.ID && Entitled(approvers, Principal{ID: id}, chain, dir) == nil {
			voices = append(voices, id)
		}
	}
	if len(voices) == 0 {
		return nil, own
	}
	return voices, nil
}

// eligible returns the person with this id if it may decide anything at all
// that the chain asks for.
func eligible(id string, chain []Principal, dir Directory) (Principal, error) {
	if len(chain) == 0 || chain[0].ID == "" {
		return Principal{}, ErrNoRequester
	}
	person, found := dir.Principal(id)
	switch {
	case !found || id == "" || person.ID != id:
		return Principal{}, fmt.Errorf("%s: %w", id, ErrUnknown)
	case person.Kind != Person:
		return Principal{}, fmt.Errorf("%s: %w", id, ErrNotAPerson)
	case person.Organisation != chain[0].Organisation:
		return Principal{}, fmt.Errorf("%s: %w", id, ErrOrganisation)
	case meet(requesters([]Principal{person}, dir), requesters(chain, dir)):
		return Principal{}, fmt.Errorf("%s: %w", id, ErrRequester)
	}
	return person, nil
}

// requesters returns the ids of the chain and of all on whose behalf it acts,
// by what the chain itself says and by what the directory says.
func requesters(chain []Principal, dir Directory) map[string]bool {
	all := map[string]bool{}
	for queue := chain; len(queue) > 0; queue = queue[1:] {
		next := queue[0]
		if known, found := dir.Principal(next.ID); found && !all[next.ID] {
			queue = append(queue, behind(known, all)...)
		}
		all[next.ID] = true
		queue = append(queue, behind(next, all)...)
	}
	return all
}

func meet(some, others map[string]bool) bool {
	for id := range some {
		if others[id] {
			return true
		}
	}
	return false
}

// behind returns on whose behalf a principal acts, unless it was seen before.
func behind(principal Principal, seen map[string]bool) []Principal {
	if principal.ActsFor == "" || seen[principal.ActsFor] {
		return nil
	}
	return []Principal{{ID: principal.ActsFor}}
}

// Names reports whether the approver is this principal or a role it holds.
func (a Approver) Names(principal Principal) bool {
	if a.Principal != "" && a.Role != "" {
		return a.Principal == principal.ID && principal.HasRole(a.Role)
	}
	return a.Principal != "" && a.Principal == principal.ID ||
		a.Role != "" && principal.HasRole(a.Role)
}

// Settled reports whether these grants suffice: in every group of approvers as
// many distinct people as it needs, each of them Entitled. One person's grant
// counts in every group that names it. No approvers means that nobody can.
func Settled(approvers []Approver, granted []Principal, chain []Principal, dir Directory) bool {
	groups := map[int][]Approver{}
	for _, approver := range approvers {
		groups[approver.Group] = append(groups[approver.Group], approver)
	}
	for _, group := range groups {
		people, need := map[string]bool{}, 1
		for _, approver := range group {
			need = max(need, approver.Quorum)
		}
		for _, person := range granted {
			if Entitled(group, person, chain, dir) == nil {
				people[person.ID] = true
			}
		}
		if len(people) < need {
			return false
		}
	}
	return len(groups) > 0
}

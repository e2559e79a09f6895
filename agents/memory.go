package agents

import (
	"fmt"
	"slices"
	"strings"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Memory says how the organisation remembers.
type Memory struct {
	// Detectors name the label that what a detector finds gets, by the
	// detector's kind ("SECRET", "EMAIL", "IBAN", …). What has none is not looked for.
	Detectors map[string]policy.Label `json:"detectors,omitempty"`
	Grants    []SpaceGrant            `json:"grants,omitempty"`
	Folders   []FolderRule            `json:"folders,omitempty"`  // the longest prefix that fits holds
	Curators  []string                `json:"curators,omitempty"` // principal ids: may erase what they see in part
}

// completed puts sets into their one order.
func (m Memory) completed() Memory {
	m.Folders = slices.Clone(m.Folders)
	for i := range m.Folders {
		m.Folders[i].Labels = policy.NewLabels(m.Folders[i].Labels...)
	}
	return m
}

// SpaceGrant lets principals into a space besides those whose it is.
type SpaceGrant struct {
	Space   view.Space `json:"space"`
	Readers []string   `json:"readers,omitempty"` // principal ids, or "role:NAME"
	Writers []string   `json:"writers,omitempty"` // they read, too
}

// FolderRule says where documents of a folder are remembered, and with what.
type FolderRule struct {
	Prefix    string           `json:"prefix"` // whole elements of the document's path; "" fits all
	Space     view.Space       `json:"space,omitempty"`
	Labels    policy.Labels    `json:"labels,omitempty"`
	Integrity policy.Integrity `json:"integrity"` // at best; who writes must vouch for it
}

// Reader is what a principal may read and write in memory: the organisation's
// space, that of their department, their own, those of the agents that they
// answer for, and what was granted. Conversations that they take part in are
// the caller's to know.
func (o Organisation) Reader(p policy.Principal, conversations ...string) view.Reader {
	if p.Organisation != o.Name {
		return view.Reader{Organisation: o.Name, Principal: p.ID}
	}
	own := []view.Space{view.SpaceOf(view.SpacePerson, p.ID)}
	if _, known := o.Department(p.Department); known {
		own = append(own, view.SpaceOf(view.SpaceDepartment, p.Department))
	}
	for _, revision := range o.Agents {
		if o.Answers(p, revision.Name) {
			own = append(own, view.SpaceOf(view.SpaceAgent, revision.Name))
		}
	}
	for _, id := range conversations {
		own = append(own, view.SpaceOf(view.SpaceConversation, id))
	}
	r := view.Reader{Organisation: o.Name, Principal: p.ID, Clearance: p.Clearance, Write: slices.Clone(own),
		Read: append(own, view.Organisation), Knows: o.knownLabels(p), Whole: slices.Contains(o.Memory.Curators, p.ID)}
	for _, grant := range o.Memory.Grants {
		if grant.names(grant.Writers, p) {
			r.Write, r.Read = append(r.Write, grant.Space), append(r.Read, grant.Space)
		} else if grant.names(grant.Readers, p) {
			r.Read = append(r.Read, grant.Space)
		}
	}
	r.Read, r.Write = ordered(r.Read), ordered(r.Write)
	return r
}

func (g SpaceGrant) names(list []string, p policy.Principal) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		role, isRole := strings.CutPrefix(entry, "role:")
		return isRole && p.HasRole(role) || entry == p.ID
	})
}

// knownLabels are those that a principal may be told of: what everybody may
// know to exist, what they are cleared for, and what is theirs.
func (o Organisation) knownLabels(p policy.Principal) policy.Labels {
	known := slices.Clone(p.Clearance)
	for _, rule := range o.Labels {
		if rule.Open || rule.Owner == p.ID {
			known = append(known, rule.Name)
		}
	}
	return policy.NewLabels(known...)
}

// RunReader is what a run may read and write: what its subject may, and no
// more than its authority, whose spaces may say "subject", "agent" and
// "conversation". It acts as the agent.
func (o Organisation) RunReader(subject policy.Principal, agent, conversation string, authority policy.Authority) view.Reader {
	var conversations []string
	if conversation != "" {
		conversations = append(conversations, conversation)
	}
	r := o.Reader(subject, conversations...)
	resolve := func(names []string) []view.Space { return spacesOf(names, subject.ID, agent, conversation) }
	r.Principal, r.Whole, r.Knows = AgentID(agent), false, nil
	r.Clearance = r.Clearance.Meet(authority.Labels)
	r.Read = both(r.Read, resolve(authority.ReadSpaces))
	r.Write = both(r.Write, resolve(authority.WriteSpaces))
	r.Subject = subject.ID
	if own := view.SpaceOf(view.SpaceAgent, agent); slices.Contains(authority.WriteSpaces, "agent") {
		r.Write = ordered(append(r.Write, own)) // what it learns is a proposal to those who answer for it
	}
	return r
}

// GrantedReader is what a run may read and write that works under a grant: what
// the grant gives, whether or not its subject may.
func (o Organisation) GrantedReader(subject policy.Principal, agent, conversation string, authority policy.Authority) view.Reader {
	r := o.RunReader(subject, agent, conversation, authority)
	r.Clearance, r.Read = authority.Labels, ordered(spacesOf(authority.ReadSpaces, subject.ID, agent, conversation))
	return r
}

// spacesOf are the spaces that names in a revision stand for.
func spacesOf(names []string, subject, agent, conversation string) (spaces []view.Space) {
	for _, name := range names {
		switch name {
		case "subject":
			spaces = append(spaces, view.SpaceOf(view.SpacePerson, subject))
		case "agent":
			spaces = append(spaces, view.SpaceOf(view.SpaceAgent, agent))
		case "conversation":
			spaces = append(spaces, view.SpaceOf(view.SpaceConversation, conversation))
		default:
			spaces = append(spaces, view.Space(name))
		}
	}
	return spaces
}

// TraitReader reads the traits of an agent's persona as its runs do: whoever
// speaks with the agent hears them, so nothing labelled is among them. It reads
// nothing where the authority does not let the run read the agent's space.
func (o Organisation) TraitReader(agent string, authority policy.Authority) view.Reader {
	r := view.Reader{Organisation: o.Name, Principal: AgentID(agent)}
	if slices.Contains(authority.ReadSpaces, "agent") {
		r.Read = []view.Space{view.SpaceOf(view.SpaceAgent, agent)}
	}
	return r
}

// both are the members of a sorted set that a list names, too.
func both(sorted, list []view.Space) []view.Space {
	return slices.DeleteFunc(slices.Clone(sorted), func(s view.Space) bool { return !slices.Contains(list, s) })
}

// Folder returns the rule for a document's path; the zero rule, which leaves
// everything to who writes, for one that no rule fits.
func (o Organisation) Folder(path string) FolderRule {
	best, found := FolderRule{}, -1
	for _, rule := range o.Memory.Folders {
		rest, fits := strings.CutPrefix(path, rule.Prefix)
		fits = fits && (rest == "" || rest[0] == '/' || rule.Prefix == "" || strings.HasSuffix(rule.Prefix, "/"))
		if fits && len(rule.Prefix) > found {
			best, found = rule, len(rule.Prefix)
		}
	}
	return best
}

// memory finds what does not fit in what is said about memory.
func (v *validation) memory() {
	file, m := organisationFile, v.o.Memory
	for kind, label := range m.Detectors {
		v.knownLabels(file, "memory.detectors."+kind, policy.Labels{label})
	}
	for i, grant := range m.Grants {
		at := fmt.Sprintf("memory.grants[%d].", i)
		v.space(file, at+"space", grant.Space)
		v.granted(at+"readers", grant.Readers)
		v.granted(at+"writers", grant.Writers)
	}
	unique(v, file, "memory.folders[%d].prefix", m.Folders, func(f FolderRule) string { return f.Prefix })
	for i, folder := range m.Folders {
		at := fmt.Sprintf("memory.folders[%d].", i)
		v.knownLabels(file, at+"labels", folder.Labels)
		if folder.Space != "" {
			v.space(file, at+"space", folder.Space)
		}
	}
	for i, id := range m.Curators {
		v.person(file, fmt.Sprintf("memory.curators[%d]", i), id)
	}
}

func (v *validation) space(file, at string, space view.Space) {
	kind, name, ok := space.Split()
	known := ok && kind != view.SpaceConversation
	switch kind {
	case view.SpaceDepartment:
		_, known = v.o.Department(name)
	case view.SpacePerson:
		_, known = v.o.Principal(name)
	case view.SpaceAgent:
		_, known = v.o.Agent(name)
	}
	v.require(known, file, at, "must be organisation, or department:NAME, person:ID or agent:NAME of one that exists")
}

func (v *validation) granted(at string, list []string) {
	for i, entry := range list {
		role, isRole := strings.CutPrefix(entry, "role:")
		_, known := v.o.Principal(entry)
		v.require(known && !isRole || isRole && slices.Contains(v.o.Roles, role), organisationFile, fmt.Sprintf("%s[%d]", at, i),
			"must be a principal's id, or role:NAME of a role that exists")
	}
}

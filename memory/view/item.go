// Package view says what each reader gets of what is remembered. It is pure:
// the same items and the same reader give the same bytes, and nothing that a
// reader may not see moves any of them.
package view

import (
	"strings"

	"gantry.dev/orchestrator/policy"
)

// Space says where a thing is remembered: "organisation", or a kind and a name,
// for example "person:ruth.abelson".
type Space string

// Organisation is the space that everybody in the organisation shares.
const Organisation Space = "organisation"

// The kinds of the other spaces, before the colon.
const (
	SpacePerson       = "person"
	SpaceAgent        = "agent"
	SpaceDepartment   = "department"
	SpaceConversation = "conversation"
)

// SpaceOf names a space of a kind.
func SpaceOf(kind, name string) Space { return Space(kind + ":" + name) }

// Split returns the kind and the name; the name of Organisation is empty. ok is
// false for what is no space.
func (s Space) Split() (kind, name string, ok bool) {
	kind, name, _ = strings.Cut(string(s), ":")
	switch kind {
	case string(Organisation):
		return kind, "", s == Organisation
	case SpacePerson, SpaceAgent, SpaceDepartment, SpaceConversation:
		return kind, name, name != ""
	}
	return "", "", false
}

// Kind says what sort of thing is remembered.
type Kind string

// The kinds of item.
const (
	Fact       Kind = "FACT"
	Preference Kind = "PREFERENCE"
	Episode    Kind = "EPISODE"
	Passage    Kind = "PASSAGE" // of a document
	Procedure  Kind = "PROCEDURE"
	Finding    Kind = "FINDING"
	Trait      Kind = "TRAIT" // of an agent's persona, in the agent's space: a proposal until a person promotes it
)

// Kinds lists them all.
func Kinds() []Kind { return []Kind{Fact, Preference, Episode, Passage, Procedure, Finding, Trait} }

// SourceKind says where an item came from.
type SourceKind string

// The kinds of source.
const (
	FromPerson    SourceKind = "PERSON"
	FromRun       SourceKind = "RUN"
	FromDocument  SourceKind = "DOCUMENT"
	FromSeveral   SourceKind = "CONSOLIDATION" // derived from other items
	FromElsewhere SourceKind = "IMPORT"
)

// Source is the provenance of an item.
type Source struct {
	Kind      SourceKind `json:"kind"`
	Ref       string     `json:"ref,omitempty"`      // what it is a part of: a document's name, a conversation's session
	Position  int        `json:"position,omitempty"` // its place there, from 1; those beside it are its neighbours. 0: none
	Offset    int        `json:"offset,omitempty"`   // where it begins there, in bytes of the normal form; in a Rendering for its writer alone
	Length    int        `json:"length,omitempty"`   // bytes; likewise
	Principal string     `json:"principal"`          // who wrote it
	Run       string     `json:"run,omitempty"`      // run id
	Model     string     `json:"model,omitempty"`
}

// Segment is a part of an item's text with its own labels.
type Segment struct {
	Text     string        `json:"text"`
	Labels   policy.Labels `json:"labels,omitempty"`
	Heading  bool          `json:"heading,omitempty"`  // belongs to the heading above the text
	Detector string        `json:"detector,omitempty"` // which detector cut it out, empty for none
}

// Item is a thing remembered, whole. Only the store and what decides over it
// see one; readers get a Rendering.
type Item struct {
	ID           string           `json:"id"`
	Organisation string           `json:"organisation"`
	Space        Space            `json:"space"`
	Kind         Kind             `json:"kind"`
	Subject      string           `json:"subject,omitempty"` // what it is about: who or what, and which of its properties; items that supersede each other share it
	Integrity    policy.Integrity `json:"integrity"`
	Source       Source           `json:"source"`
	Segments     []Segment        `json:"segments"`
	ValidFromMs  int64            `json:"validFromMs"`           // UTC, when it began to be true
	ValidToMs    int64            `json:"validToMs,omitempty"`   // when it ceased to, as the source said; 0: open
	RecordedMs   int64            `json:"recordedMs"`            // when we learnt it
	ExpiresMs    int64            `json:"expiresMs,omitempty"`   // when it is erased; 0: never
	Version      uint64           `json:"version"`               // of the whole item; never shown to readers
	Archived     bool             `json:"archived,omitempty"`    // kept, but recalled only when asked for
	Supersedes   []string         `json:"supersedes,omitempty"`  // item ids; see Hidden
	DerivedFrom  []string         `json:"derivedFrom,omitempty"` // item ids
}

// Labels is the join of all segments: who reads the whole item is cleared for it.
func (i *Item) Labels() (labels policy.Labels) {
	for _, s := range i.Segments {
		labels = labels.Join(s.Labels)
	}
	return labels
}

// Reader is an identity as memory knows it: the meet over its acting chain of
// what each may read and write. It comes from verified credentials and the
// configuration in force, never from a request.
type Reader struct {
	Organisation string
	Principal    string         // who acts: the last of the chain
	Clearance    policy.Labels  // labels that it may read
	Read         []Space        // sorted
	Write        []Space        // sorted
	Knows        policy.Labels  // labels of whose being somewhere it may be told, without reading them
	Run          string         // run id where a run reads or writes, empty for none
	Subject      string         // principal id for whom the run works, whose own space hears what it heard; empty for none
	Context      policy.Marking // what the run has read so far: what it writes carries at least this
	Heard        []Space        // where the run has read: what it writes goes only where all who read may hear that
	Whole        bool           // may erase what it sees in part: whoever answers for the organisation's memory
}

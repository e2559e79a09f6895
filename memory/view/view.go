package view

import (
	"errors"

	"gantry.dev/orchestrator/policy"
)

// Redacted stands in place of what a reader may not see. It is the same
// whatever it stands for.
const Redacted = "[redacted]"

// MaxViews bounds the different readings of one item.
const MaxViews = 8

// ErrTooManySets means that an item has more readings than MaxViews; merging
// some would change what others see, so it is refused.
var ErrTooManySets = errors.New("the text has too many combinations of labels")

// View is one reading of an item: what all who are cleared for Set, and for
// none of Omit, get of it.
type View struct {
	Set    string   // SetID of the labels of what is in it
	Omit   []string // SetIDs of the segments that are left out; sorted
	Labels policy.Labels
	Text   string // headings and text that is in it, without marks for what is not: what is indexed
	Etag   string // keyed digest of what all its readers get alike; that of a Rendering is also of the relations and reasons that only some get
}

// Rendering is what one reader gets of an item.
type Rendering struct {
	ID          string         `json:"id"`
	Etag        string         `json:"etag"` // changes exactly when something changes that this reader sees
	Space       Space          `json:"space"`
	Kind        Kind           `json:"kind"`
	Subject     string         `json:"subject,omitempty"`
	Marking     policy.Marking `json:"marking"` // of what is shown
	Heading     string         `json:"heading,omitempty"`
	Text        string         `json:"text"` // Redacted in place of each run of hidden segments
	Withheld    []Withheld     `json:"withheld,omitempty"`
	Source      Source         `json:"source"`
	ValidFromMs int64          `json:"validFromMs"`
	ValidToMs   int64          `json:"validToMs,omitempty"` // also closed by what supersedes it, where this reader sees that
	RecordedMs  int64          `json:"recordedMs"`
	ExpiresMs   int64          `json:"expiresMs,omitempty"`
	Archived    bool           `json:"archived,omitempty"`
	Supersedes  []string       `json:"supersedes,omitempty"`  // those that the reader sees
	DerivedFrom []string       `json:"derivedFrom,omitempty"` // those that the reader sees
	// Elsewhere are the spaces of those in Supersedes and DerivedFrom that stand in
	// another space than the item, by id.
	Elsewhere map[string]Space `json:"elsewhere,omitempty"`
}

// Withheld is one mark in a Rendering.
type Withheld struct {
	Offset int           `json:"offset"`           // of the mark in Heading+Text, in bytes
	Labels policy.Labels `json:"labels,omitempty"` // why, where the reader may know all of it; else nil
}

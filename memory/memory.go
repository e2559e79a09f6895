// Package memory is the brain that an organisation shares: it remembers with
// provenance and labels, gives each reader its own view, forgets with a receipt,
// and answers nobody by anything that they may not see.
//
// The store is the truth. An index suggests, and every suggestion is looked up
// under the reader's rights before it counts.
package memory

import (
	"context"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Draft is what somebody wants remembered.
type Draft struct {
	Space       view.Space
	Kind        view.Kind
	Subject     string // see view.Item
	Heading     string // for passages: the headings above, joined by " › "
	Text        string
	Labels      policy.Labels    // detectors, and what a run has read, add to them
	Marks       []Mark           // parts of Text with labels of their own
	Integrity   policy.Integrity // as far as the writer may vouch for it; what a run writes is Untrusted
	Source      view.Source      // Principal and Run are set by the service
	ValidFromMs int64            // 0: now
	ValidToMs   int64            // 0: open
	ExpiresMs   int64            // 0: never
	DerivedFrom []string         // item ids that the writer sees
	Key         string           // makes a repeat the same command; empty for none
}

// Mark gives a part of a text labels of its own.
type Mark struct {
	Start, End int // bytes of the text as it was given
	Labels     policy.Labels
	Quote      string // what stands there; a mark that does not match it refuses the whole draft. Empty: not checked
}

// Remembered is the answer to a Draft.
type Remembered struct {
	Item  view.Rendering // as its writer sees it; without text where the writer may not read it
	Known bool           // the same was there already, and the writer sees it
	// Replayed: the Key was used before, for the same draft; this is its first answer.
	Replayed bool
}

// Question asks what is remembered.
type Question struct {
	Text     string
	Spaces   []view.Space // narrows; empty: all that the reader may read
	Kinds    []view.Kind  // narrows; empty: all
	Refs     []string     // narrows to what is from one of these sources, as view.Source.Ref; empty: all
	Limit    int          // hits; 0: 10, at most 100
	Tokens   int          // stops before the hits exceed this many tokens (bytes/4); 0: no bound
	AsOfMs   int64        // what was true then; 0: now
	KnownMs  int64        // only what had been learnt by then; 0: everything
	Archived bool         // also what is archived
}

// Hit is one thing found.
type Hit struct {
	view.Rendering
	Score float64 // of this reader's own ranking; comparable within one answer
}

// Recollection is the answer to a Question.
type Recollection struct {
	Hits     []Hit
	Marking  policy.Marking // of all hits together
	Degraded []string       // which parts could not be asked, for example "DENSE"; empty when whole
}

// Filter narrows a list.
type Filter struct {
	Spaces    []view.Space
	Kinds     []view.Kind
	Subject   string
	Ref       string // view.Source.Ref
	Principal string // whose words they are
	Archived  bool
}

// Page is a part of a list, newest first.
type Page struct {
	Items []view.Rendering
	Next  string // cursor; empty at the end
}

// Selector says what to forget. Exactly one of its fields besides Key is set.
type Selector struct {
	Items   []string // ids
	Ref     string   // everything from this source
	Subject string   // everything about this
	Space   view.Space
	// Key makes a repeat the same command, which gets the first receipt: what it
	// names is gone by then. Empty for none.
	Key string
}

// Receipt proves a forgetting. It holds ids, counts and digests, and no text.
type Receipt struct {
	ID         string         `json:"id"`
	By         string         `json:"by"`
	AtMs       int64          `json:"atMs"`
	Items      []string       `json:"items"`      // erased, with the derived and the superseded ones
	Stores     map[string]int `json:"stores"`     // what was taken out, by store: items, segments, views, vectors, terms, index points, run texts, …
	Runs       []string       `json:"runs"`       // that had recalled some of it and are visible to who forgot
	VerifiedMs int64          `json:"verifiedMs"` // when every path was asked again and gave nothing; 0: not yet
	Digest     string         `json:"digest"`     // over the fields above except VerifiedMs
	Replayed   bool           `json:"-"`          // Selector.Key was used before, for the same; this is its first answer
}

// Refusal says why memory does not do something. Absent and forbidden look
// alike.
type Refusal struct {
	Code   string // stable: "NOT_FOUND", "NOT_WHOLE", "UNKNOWN_LABEL", "SPACE", "TOO_MANY_LABEL_SETS", "TOO_LARGE", "SUBJECT_DIFFERS", "NOT_ENTITLED", "QUOTA", …
	Detail string // one sentence and what to do; quotes no remembered text
}

// Error returns the code and the detail.
func (r *Refusal) Error() string { return r.Code + ": " + r.Detail }

// Brain is what a process offers of memory; *Service is it. Errors: *Refusal,
// index.ErrUnavailable and embed.ErrUnavailable wrapped, else the store failed.
type Brain interface {
	Writing
	Reading
}

// Writing changes what is remembered. Each is whole or not at all.
type Writing interface {
	// Remember keeps a draft, or says that the reader sees the same already.
	Remember(ctx context.Context, reader view.Reader, draft Draft) (Remembered, error)
	// Supersede remembers what takes an item's place, for all who see both.
	Supersede(ctx context.Context, reader view.Reader, id string, draft Draft) (Remembered, error)
	// Forget erases items with everything derived from them, everywhere.
	Forget(ctx context.Context, reader view.Reader, selector Selector) (Receipt, error)
	// Promote lets an untrusted item be trusted, on a person's word.
	Promote(ctx context.Context, reader view.Reader, id, reason string) (view.Rendering, error)
	// Declassify takes labels from an item; the owner of each must be the reader.
	Declassify(ctx context.Context, reader view.Reader, id string, labels policy.Labels, reason string) (view.Rendering, error)
	// Consolidate keeps one text in place of several, for those who see all of them.
	Consolidate(ctx context.Context, reader view.Reader, sources []string, draft Draft) (Remembered, error)
}

// Reading answers a reader by what it may see, and by nothing else.
type Reading interface {
	Recall(ctx context.Context, reader view.Reader, question Question) (Recollection, error)
	// Item returns one item; *Refusal NOT_FOUND for one that is not there or not for this reader.
	Item(ctx context.Context, reader view.Reader, id string) (view.Rendering, error)
	// Items returns those of the ids that the reader sees, by id: what renders sealed references again.
	Items(ctx context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error)
	List(ctx context.Context, reader view.Reader, filter Filter, after string, limit int) (Page, error)
	// Export writes everything that the reader sees, one JSON line for each item.
	Export(ctx context.Context, reader view.Reader, filter Filter, write func(view.Rendering) error) error
	// Receipt returns the receipt of a forgetting to who asked for it.
	Receipt(ctx context.Context, reader view.Reader, id string) (Receipt, error)
}

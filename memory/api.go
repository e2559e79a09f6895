package memory

import (
	"context"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

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

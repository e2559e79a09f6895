// Package memorytest holds a memory that is kept in plain maps and decides
// everything anew from the pure functions: what the service is compared with,
// and what stands for it in the tests of its callers. Check plays whole worlds
// through any memory and holds it to showing nobody what they may not see.
//
// It is for tests only; no binary is linked with it.
package memorytest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"sync"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Config is what a Brain works with. NowMs and NewID are required.
type Config struct {
	NowMs    func() int64                                       // UTC
	NewID    func() string                                      // a new id for an item or a receipt
	Rules    func(organisation string) memory.Rules             // nil: no labels, no detectors, no owners
	Key      func(organisation, purpose string) []byte          // for "etag", "same" and "terms"; nil: made of the two
	Embedder embed.Embedder                                     // nil: words alone
	Recalled func(organisation string, items []string) []string // runs that recalled some of these items; nil: none
	Wrong    Design                                             // a planted fault; 0: none
}

// Brain is a memory in maps. Its methods may be called at once.
type Brain struct {
	config   Config
	mu       sync.Mutex
	items    map[string]*kept // by id
	commands map[commandID]command
	receipts map[string]receiptOf           // by id
	terms    map[string]rank.Terms          // by purpose key and text: they depend on nothing else
	cache    map[string]memory.Recollection // for a planted fault alone
}

var _ memory.Brain = (*Brain)(nil)

// kept is an item with what is made of it.
type kept struct {
	item    *view.Item
	views   []view.View
	vectors map[string][]float32 // by view.View.Set
}

// receiptOf is a receipt with whose organisation's it is.
type receiptOf struct {
	memory.Receipt
	organisation string
}

type commandID struct{ organisation, principal, key string }

// command is what was done under a key, and the digest of what was asked.
type command struct {
	asked         [sha256.Size]byte
	item, receipt string
	known         bool
}

// NewBrain returns an empty Brain.
func NewBrain(config Config) *Brain {
	if config.Rules == nil {
		config.Rules = func(string) memory.Rules { return memory.Rules{} }
	}
	if config.Key == nil {
		config.Key = func(organisation, purpose string) []byte { return []byte(purpose + "\x00" + organisation) }
	}
	return &Brain{
		config: config, items: map[string]*kept{}, commands: map[commandID]command{},
		receipts: map[string]receiptOf{}, terms: map[string]rank.Terms{}, cache: map[string]memory.Recollection{},
	}
}

// enter locks the brain, takes out what has expired, and returns the time.
func (b *Brain) enter(ctx context.Context) (nowMs int64, leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return 0, nil, err
	}
	b.mu.Lock()
	nowMs = b.config.NowMs()
	now := view.Moment{NowMs: nowMs}
	for id, kept := range b.items {
		if !now.Keeps(kept.item) {
			delete(b.items, id)
		}
	}
	return nowMs, b.mu.Unlock, nil
}

// find returns an item that the reader sees. What is not there and what is not
// for the reader are one refusal.
func (b *Brain) find(reader *view.Reader, id string) (*view.Item, error) {
	kept, there := b.items[id]
	if there && reader.Sees(kept.item) {
		return kept.item, nil
	}
	if there && b.config.Wrong == ErrorTells {
		return nil, &memory.Refusal{Code: "FORBIDDEN", Detail: "You may not read it."}
	}
	return nil, memory.RefusalOf(view.ErrAbsent)
}

func (b *Brain) findAll(reader *view.Reader, ids []string) ([]*view.Item, error) {
	found := make([]*view.Item, 0, len(ids))
	for _, id := range ids {
		item, err := b.find(reader, id)
		if err != nil {
			return nil, err
		}
		found = append(found, item)
	}
	return found, nil
}

// visible returns what the reader sees, the newest first.
func (b *Brain) visible(reader *view.Reader) []*view.Item {
	var seen []*view.Item
	for _, kept := range b.items {
		if reader.Sees(kept.item) {
			seen = append(seen, kept.item)
		}
	}
	slices.SortFunc(seen, newestFirst)
	return seen
}

func newestFirst(a, b *view.Item) int {
	return cmp.Or(cmp.Compare(b.RecordedMs, a.RecordedMs), cmp.Compare(b.ID, a.ID))
}

// successors returns what supersedes an item and is seen by the reader.
func (b *Brain) successors(reader *view.Reader) func(id string) []view.Successor {
	return func(id string) []view.Successor {
		var next []view.Successor
		for _, kept := range b.items {
			if slices.Contains(kept.item.Supersedes, id) && (reader.Sees(kept.item) || b.config.Wrong == RetiredUnseen) {
				next = append(next, view.SuccessorOf(kept.item))
			}
		}
		slices.SortFunc(next, func(a, b view.Successor) int { return cmp.Compare(a.ID, b.ID) })
		return next
	}
}

// render gives the reader what it gets of an item that it sees.
func (b *Brain) render(reader *view.Reader, item *view.Item, moment view.Moment) view.Rendering {
	related := view.Related{Successors: moment.Known(b.successors(reader)(item.ID))}
	for _, id := range slices.Concat(item.Supersedes, item.DerivedFrom) {
		if kept, there := b.items[id]; there && reader.Sees(kept.item) {
			related.Note(item, id, kept.item.Space)
		}
	}
	rendering, _ := view.Render(item, reader, b.config.Key(item.Organisation, "etag"), related)
	return b.spoil(rendering, item, reader)
}

// put keeps an item with everything that is made of it.
func (b *Brain) put(ctx context.Context, item *view.Item) error {
	views, err := view.ViewsOf(item, b.config.Key(item.Organisation, "etag"))
	if err != nil {
		return memory.RefusalOf(err)
	}
	made := &kept{item: item, views: views, vectors: map[string][]float32{}}
	for _, v := range views {
		text := v.Text
		if b.config.Wrong == WholeEmbedding {
			text = wholeText(item)
		}
		if b.config.Embedder == nil || !b.config.Embedder.May(v.Labels) {
			continue
		}
		vectors, err := b.config.Embedder.Embed(ctx, []string{text})
		if errors.Is(err, embed.ErrUnavailable) {
			continue // found by its words until it is remembered again
		}
		if err != nil {
			return err
		}
		made.vectors[v.Set] = vectors[0]
	}
	item.Version++
	b.items[item.ID] = made
	return nil
}

func (b *Brain) termsOf(organisation, text string) rank.Terms {
	at := organisation + "\x00" + text
	terms, known := b.terms[at]
	if !known {
		terms = rank.DocumentTerms(b.config.Key(organisation, "terms"), text)
		b.terms[at] = terms
	}
	return terms
}

// allowed reports which label sets a reader is cleared for.
func (b *Brain) allowed(reader *view.Reader) func(set string) bool {
	sets := map[string]policy.Labels{}
	for _, kept := range b.items {
		for _, v := range kept.views {
			sets[v.Set] = v.Labels
		}
		for _, segment := range kept.item.Segments {
			sets[view.SetID(segment.Labels)] = segment.Labels
		}
	}
	ids := view.Allowed(sets, reader.Clearance)
	return func(set string) bool {
		_, found := slices.BinarySearch(ids, set)
		return found
	}
}

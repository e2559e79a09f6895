package graph

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"time"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/legible"
	"gantry.dev/graph/opaque"
	"gantry.dev/graph/remembered"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
)

// remembering is one caller who meets memory.
type remembering struct {
	brain  memory.Brain
	caller Caller
	reader view.Reader
	names  remembered.Names
}

// remembering returns the caller as memory knows it, in its own spaces and in
// those of the conversations it takes part in that are named.
func (r root) remembering(ctx context.Context, conversations ...string) (remembering, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return remembering{}, err
	}
	return r.rememberingAs(ctx, caller, conversations...)
}

func (r root) rememberingAs(ctx context.Context, caller Caller, conversations ...string) (remembering, error) {
	if r.config.Brain == nil || r.config.Readers == nil {
		return remembering{}, errMemory
	}
	reader, err := r.config.Readers.Reader(ctx, caller, conversations...)
	if err != nil {
		return remembering{}, err
	}
	v, err := newViewer(ctx, r.config, caller, nil)
	if err != nil {
		return remembering{}, err
	}
	return remembering{brain: r.config.Brain, caller: caller, reader: reader, names: remembered.Names{
		Item:    func(parts ...string) string { return v.id(opaque.Memory, parts...) },
		Run:     func(id string) string { return v.id(opaque.Run, id) },
		Receipt: func(id string) string { return v.id(opaque.Forgetting, id) },
		Actor:   v.actor, Display: legible.Text}}, nil
}

// conversationsIn are the conversations among spaces.
func conversationsIn(spaces ...string) (ids []string) {
	for _, space := range spaces {
		if kind, name, ok := view.Space(space).Split(); ok && kind == view.SpaceConversation {
			ids = append(ids, name)
		}
	}
	return ids
}

// readItems returns what memory calls the items of these ids, and the
// conversations to look in. Whatever is wrong with one of them, it is
// engine.ErrNotFound.
func readItems(ids []string, organisation string) (items, conversations []string, err error) {
	items = make([]string, 0, len(ids))
	for _, id := range ids {
		parts, err := opaque.ReadID(id, organisation, opaque.Memory, 1)
		if err != nil {
			if parts, err = opaque.ReadID(id, organisation, opaque.Memory, 2); err != nil {
				return nil, nil, err
			}
			conversations = append(conversations, parts[0])
		}
		items = append(items, parts[len(parts)-1])
	}
	slices.Sort(conversations)
	return items, slices.Compact(conversations), nil
}

// Recall returns what fits a question.
func (r queries) Recall(ctx context.Context, query string, spaces []string, kinds []generated.MemoryKind, first int, tokens *int, asOf, knownAt *time.Time, archived bool) (*generated.Recollection, error) {
	if err := opaque.CheckFirst(first); err != nil {
		return nil, err
	}
	question, err := remembered.Question(query, spaces, kinds, first, tokens, asOf, knownAt, archived)
	if err != nil {
		return nil, err
	}
	m, err := r.remembering(ctx, conversationsIn(spaces...)...)
	if err != nil {
		return nil, err
	}
	if first == 0 { // to memory that is its own measure
		return m.names.Recollection(memory.Recollection{}), nil
	}
	found, err := m.brain.Recall(ctx, m.reader, question)
	if err != nil {
		return nil, err
	}
	return m.names.Recollection(found), nil
}

// MemoryItem returns one item.
func (r queries) MemoryItem(ctx context.Context, id string) (*generated.MemoryItem, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return nil, err
	}
	items, conversations, err := readItems([]string{id}, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	m, err := r.remembering(ctx, conversations...)
	if err != nil {
		return nil, err
	}
	found, err := m.brain.Item(ctx, m.reader, items[0])
	var refusal *memory.Refusal
	if errors.As(err, &refusal) && refusal.Code == edge.CodeNotFound {
		return nil, engine.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return m.names.Show(found), nil
}

// MemoryItems lists items. A cursor belongs to the filter that it was given for.
func (r queries) MemoryItems(ctx context.Context, in *generated.MemoryFilter, first int, after *string) (*generated.MemoryConnection, error) {
	filter, err := remembered.Filter(in)
	if err != nil {
		return nil, err
	}
	m, err := r.remembering(ctx, conversationsIn(words(filter.Spaces)...)...)
	if err != nil {
		return nil, err
	}
	digest, err := canon.DigestOf(filter)
	if err != nil {
		return nil, err
	}
	list, err := opaque.ReadList("memory "+digest, first, after, func(after string, first int) ([]view.Rendering, string, error) {
		return m.list(ctx, filter, after, first)
	})
	if err != nil {
		return nil, err
	}
	out := &generated.MemoryConnection{Edges: []*generated.MemoryEdge{}, PageInfo: pageInfo(list.Cursors, list.More)}
	for i, item := range list.Items {
		out.Edges = append(out.Edges, &generated.MemoryEdge{Cursor: list.Cursors[i], Node: m.names.Show(item)})
	}
	return out, nil
}

// list reads up to first items in as many pages as memory gives.
func (m remembering) list(ctx context.Context, filter memory.Filter, after string, first int) (items []view.Rendering, next string, err error) {
	for next = after; len(items) < first; {
		page, err := m.brain.List(ctx, m.reader, filter, next, min(first-len(items), edge.MaxFirst))
		if err != nil {
			return nil, "", err
		}
		items, next = append(items, page.Items...), page.Next
		if next == "" {
			break
		}
	}
	return items, next, nil
}

// MemorySpaces lists where the viewer may read or write.
func (r queries) MemorySpaces(ctx context.Context) ([]*generated.MemorySpace, error) {
	m, err := r.remembering(ctx)
	return remembered.Spaces(m.reader), err
}

// ForgetReceipt returns the receipt of a forgetting.
func (r queries) ForgetReceipt(ctx context.Context, id string) (*generated.ForgetReceipt, error) {
	m, err := r.remembering(ctx)
	if err != nil {
		return nil, err
	}
	parts, err := opaque.ReadID(id, m.caller.Principal.Organisation, opaque.Forgetting, 1)
	if err != nil {
		return nil, err
	}
	found, err := m.brain.Receipt(ctx, m.reader, parts[0])
	if err != nil {
		return nil, err
	}
	return m.names.Proof(found), nil
}

// remembers is a command to memory: who gives it, and under which id.
type remembers struct {
	remembering
	key string
}

// memoryCommand returns the command of a caller about the items of these ids,
// in these spaces, and what memory calls the items. What is wrong with the
// rest of an input is said before anything is said of an id.
func (r root) memoryCommand(ctx context.Context, id *string, check error, ids []string, spaces ...string) (remembers, []string, error) {
	c, err := r.command(ctx, id)
	if err == nil {
		err = check
	}
	if err != nil {
		return remembers{}, nil, err
	}
	if len(ids) > edge.MaxFirst {
		return remembers{}, nil, &inputError{"INVALID", "input", "Name at most 100 items."}
	}
	items, conversations, err := readItems(ids, c.caller.Principal.Organisation)
	if err != nil {
		return remembers{}, nil, err
	}
	m, err := r.remembering(ctx, append(conversations, conversationsIn(spaces...)...)...)
	return remembers{m, c.id}, items, err
}

// drafted is a command with a draft. About are the ids of the items it concerns.
func (r root) drafted(ctx context.Context, id *string, about []string, in *generated.MemoryDraft) (m remembers, draft memory.Draft, items []string, err error) {
	draft, check := remembered.Draft(in)
	m, all, err := r.memoryCommand(ctx, id, check, slices.Concat(about, in.DerivedFrom), optional(in.Space)...)
	if err != nil {
		return m, draft, nil, err
	}
	if draft.Space == "" {
		draft.Space = view.SpaceOf(view.SpacePerson, m.caller.Principal.ID)
	}
	draft.Key, draft.DerivedFrom = m.key, all[len(about):]
	return m, draft, all[:len(about)], nil
}

// optional is a list of the one value, or of none.
func optional(value *string) []string {
	if value == nil {
		return nil
	}
	return []string{*value}
}

// Remember remembers something.
func (r mutations) Remember(ctx context.Context, in generated.RememberInput) (*generated.MemoryPayload, error) {
	m, draft, _, err := r.drafted(ctx, in.CommandID, nil, in.Draft)
	var done memory.Remembered
	if err == nil {
		done, err = m.brain.Remember(ctx, m.reader, draft)
	}
	return m.payload(done, err, in.ClientMutationID)
}

// Supersede remembers what takes an item's place.
func (r mutations) Supersede(ctx context.Context, in generated.SupersedeInput) (*generated.MemoryPayload, error) {
	m, draft, items, err := r.drafted(ctx, in.CommandID, []string{in.ID}, in.Draft)
	var done memory.Remembered
	if err == nil {
		done, err = m.brain.Supersede(ctx, m.reader, items[0], draft)
	}
	return m.payload(done, err, in.ClientMutationID)
}

// Consolidate keeps one text in place of several.
func (r mutations) Consolidate(ctx context.Context, in generated.ConsolidateInput) (*generated.MemoryPayload, error) {
	few := &inputError{"INVALID", "sources", "Name at least two items."}
	if len(in.Sources) < 2 {
		return remembers{}.payload(memory.Remembered{}, few, in.ClientMutationID)
	}
	m, draft, items, err := r.drafted(ctx, in.CommandID, in.Sources, in.Draft)
	if err == nil && len(slices.Compact(slices.Sorted(slices.Values(items)))) < 2 {
		err = few // one item may be named twice
	}
	var done memory.Remembered
	if err == nil {
		done, err = m.brain.Consolidate(ctx, m.reader, items, draft)
	}
	return m.payload(done, err, in.ClientMutationID)
}

// Promote lets an item be trusted.
func (r mutations) Promote(ctx context.Context, in generated.PromoteInput) (*generated.MemoryPayload, error) {
	m, items, err := r.memoryCommand(ctx, in.CommandID, remembered.Reason(in.Reason), []string{in.ID})
	var done memory.Remembered
	if err == nil {
		done.Item, err = m.brain.Promote(ctx, m.reader, items[0], in.Reason)
	}
	return m.payload(done, err, in.ClientMutationID)
}

// Declassify takes labels from an item.
func (r mutations) Declassify(ctx context.Context, in generated.DeclassifyInput) (*generated.MemoryPayload, error) {
	labels, check := remembered.LabelSet(in.Labels, in.Reason)
	m, items, err := r.memoryCommand(ctx, in.CommandID, check, []string{in.ID})
	var done memory.Remembered
	if err == nil {
		done.Item, err = m.brain.Declassify(ctx, m.reader, items[0], labels, in.Reason)
	}
	return m.payload(done, err, in.ClientMutationID)
}

func (m remembers) payload(done memory.Remembered, err error, client *string) (*generated.MemoryPayload, error) {
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	out := &generated.MemoryPayload{UserErrors: refusals, ClientMutationID: client}
	if len(refusals) > 0 {
		return out, nil
	}
	out.Known, out.Outcome = done.Known, mutationOutcome(done.Replayed)
	if done.Item.ID != "" { // what a repeated command made may have been forgotten since
		out.Item = m.names.Show(done.Item)
	}
	return out, nil
}

// RememberDocument remembers a document.
func (r mutations) RememberDocument(ctx context.Context, in generated.RememberDocumentInput) (*generated.DocumentPayload, error) {
	document, check := remembered.DocumentOf(in)
	m, _, err := r.memoryCommand(ctx, in.CommandID, check, nil, optional(in.Space)...)
	if err == nil && r.config.Documents == nil {
		err = errMemory
	}
	var done DocumentOutcome
	if err == nil {
		document.Key = m.key
		done, err = r.config.Documents.Document(ctx, m.reader, document)
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	out := &generated.DocumentPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) > 0 {
		return out, nil
	}
	out.Outcome = mutationOutcome(false)
	out.Document = &generated.MemoryDocument{Ref: in.Name, Title: maybe(done.Title), Space: string(done.Space), Passages: done.Passages,
		Added: done.Added, Known: done.Known, Unseen: done.Unseen, Changed: done.Changed, Gone: done.Gone}
	if done.Receipt != nil {
		out.Document.Receipt = m.names.Proof(*done.Receipt)
	}
	return out, nil
}

// Forget erases items.
func (r mutations) Forget(ctx context.Context, in generated.ForgetInput) (*generated.ForgetPayload, error) {
	selector, check := remembered.Selector(in)
	m, items, err := r.memoryCommand(ctx, in.CommandID, check, in.Items, optional(in.Space)...)
	var done memory.Receipt
	if err == nil {
		selector.Items, selector.Key = items, m.key
		done, err = m.brain.Forget(ctx, m.reader, selector)
	}
	refusals, err := userErrors(err)
	if err != nil {
		return nil, err
	}
	out := &generated.ForgetPayload{UserErrors: refusals, ClientMutationID: in.ClientMutationID}
	if len(refusals) == 0 {
		out.Receipt, out.Outcome = m.names.Proof(done), mutationOutcome(done.Replayed)
	}
	return out, nil
}

// maxFollowed is how many items of memory one stream may watch.
const maxFollowed = 10_000

// follower is somebody who follows memory.
type follower struct {
	*watch
	filter memory.Filter
	reader view.Reader
	seen   *remembered.Seen // nil before the first look
}

// look returns what looks different to the follower, of the items that changed.
func (f *follower) look(ctx context.Context, changed []string) ([]*generated.MemoryChange, error) {
	m, err := f.rememberingAs(ctx, f.caller, conversationsIn(words(f.filter.Spaces)...)...)
	if err != nil {
		return nil, err
	}
	first, same := f.seen == nil, reflect.DeepEqual(f.reader, m.reader)
	f.reader = m.reader
	if first || !same {
		// Whoever may see something else than before may see anything else.
		found, err := f.all(ctx, m)
		if err != nil {
			return nil, err
		}
		if first {
			f.seen = remembered.NewSeen(m.names, found)
			return []*generated.MemoryChange{}, nil
		}
		return f.seen.Changes(f.seen.IDs(), found), nil
	}
	told, replaced, err := f.some(ctx, m, changed)
	if err != nil {
		return nil, err
	}
	// What is replaced looks different too, and nothing of its own changed.
	more, _, err := f.some(ctx, m, replaced)
	return append(told, more...), err
}

// some looks at the items of these ids, and returns what of those that the
// follower knows of they have replaced.
func (f *follower) some(ctx context.Context, m remembering, ids []string) (told []*generated.MemoryChange, replaced []string, err error) {
	found := map[string]view.Rendering{}
	for part := range slices.Chunk(ids, edge.MaxFirst) {
		some, err := m.brain.Items(ctx, m.reader, part)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(found, some)
	}
	maps.DeleteFunc(found, func(_ string, r view.Rendering) bool {
		return len(f.filter.Spaces) > 0 && !slices.Contains(f.filter.Spaces, r.Space)
	})
	for _, item := range found {
		replaced = append(replaced, slices.DeleteFunc(slices.Clone(item.Supersedes), func(id string) bool { return !f.seen.Holds(id) })...)
	}
	told = f.seen.Changes(ids, found)
	if f.seen.Len() > maxFollowed {
		return nil, nil, edge.OverLimit("items followed", f.seen.Len(), maxFollowed)
	}
	return told, replaced, nil
}

// all looks at everything.
func (f *follower) all(ctx context.Context, m remembering) (map[string]view.Rendering, error) {
	found := map[string]view.Rendering{}
	return found, m.brain.Export(ctx, m.reader, f.filter, func(item view.Rendering) error {
		if found[item.ID] = item; len(found) > maxFollowed {
			return edge.OverLimit("items followed", len(found), maxFollowed)
		}
		return nil
	})
}

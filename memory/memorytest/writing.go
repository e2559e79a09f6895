package memorytest

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Remember keeps a draft, or says that the reader sees the same already.
func (b *Brain) Remember(ctx context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error) {
	return b.write(ctx, reader, "remember", draft, nil, func(item *view.Item) (string, error) {
		return b.same(&reader, item), nil
	})
}

// Supersede remembers what takes an item's place, for all who see both.
func (b *Brain) Supersede(ctx context.Context, reader view.Reader, id string, draft memory.Draft) (memory.Remembered, error) {
	return b.write(ctx, reader, "supersede", draft, []string{id}, func(item *view.Item) (string, error) {
		old, err := b.find(&reader, id)
		if err != nil {
			return "", err
		}
		if err := view.MaySupersede(old, item, &reader); err != nil {
			return "", memory.RefusalOf(err)
		}
		item.Supersedes = []string{id}
		return "", nil
	})
}

// Consolidate keeps one text in place of several, for those who see all of
// them. What the draft says that it is derived from does not count: it is the
// sources.
func (b *Brain) Consolidate(ctx context.Context, reader view.Reader, sources []string, draft memory.Draft) (memory.Remembered, error) {
	if len(sources) == 0 || len(sources) > memory.MaxSources {
		return memory.Remembered{}, &memory.Refusal{Code: "SOURCES", Detail: "Name the items that become one, at most 256."}
	}
	sources = slices.Compact(slices.Sorted(slices.Values(sources)))
	draft.DerivedFrom, draft.Source.Kind = sources, view.FromSeveral
	return b.write(ctx, reader, "consolidate", draft, sources, func(item *view.Item) (string, error) {
		found, err := b.findAll(&reader, sources)
		if err != nil {
			return "", err
		}
		if err := view.MayConsolidate(found, item, &reader); err != nil {
			return "", memory.RefusalOf(err)
		}
		item.Supersedes = sources
		return "", nil
	})
}

// write prepares a draft and keeps it, unless place names an item that stands
// for it.
func (b *Brain) write(ctx context.Context, reader view.Reader, what string, draft memory.Draft, over []string, place func(*view.Item) (string, error)) (memory.Remembered, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return memory.Remembered{}, err
	}
	defer leave()
	asked := digest(draft.Key, what, draft, over)
	if done, replayed, err := b.replay(&reader, draft.Key, asked); replayed || err != nil {
		if err != nil {
			return memory.Remembered{}, err
		}
		remembered, err := b.remembered(&reader, done, nowMs)
		remembered.Replayed = true
		return remembered, err
	}
	item, err := memory.Prepare(draft, reader, b.config.Rules(reader.Organisation), nowMs)
	if err != nil {
		return memory.Remembered{}, err
	}
	if err := b.derive(&reader, &item); err != nil {
		return memory.Remembered{}, err
	}
	id, err := place(&item)
	if err != nil {
		return memory.Remembered{}, err
	}
	known := id != ""
	if !known {
		item.ID = b.config.NewID()
		if err := b.put(ctx, &item); err != nil {
			return memory.Remembered{}, err
		}
		id = item.ID
	}
	done := command{asked: asked, item: id, known: known}
	b.done(&reader, draft.Key, done)
	return b.remembered(&reader, done, nowMs)
}

// derive puts on an item what its sources ask for.
func (b *Brain) derive(reader *view.Reader, item *view.Item) error {
	if len(item.DerivedFrom) == 0 {
		return nil
	}
	sources, err := b.findAll(reader, item.DerivedFrom)
	if err != nil {
		return err
	}
	derived, err := view.Derive(sources, reader, item.Space)
	if err != nil {
		return memory.RefusalOf(err)
	}
	*item = derived.Onto(*item)
	return nil
}

// same returns the id of an item that says the same, "" for none. It looks only
// among what the reader sees whole, and what is in force for it. Of several it
// is the newest.
func (b *Brain) same(reader *view.Reader, next *view.Item) string {
	moment := view.Moment{NowMs: b.config.NowMs()}
	if b.config.Wrong == KnownUnseen {
		for _, id := range slices.Sorted(maps.Keys(b.items)) {
			if wholeText(b.items[id].item) == wholeText(next) {
				return id
			}
		}
	}
	for _, item := range b.visible(reader) {
		if reader.SeesWhole(item) && !item.Archived && view.Same(item, next) && !view.Hidden(item, moment, b.successors(reader)) {
			return item.ID
		}
	}
	return ""
}

// remembered is the answer to a command that is done. What it kept may be gone,
// or be somebody else's and no longer for the reader.
func (b *Brain) remembered(reader *view.Reader, done command, nowMs int64) (memory.Remembered, error) {
	kept, there := b.items[done.item]
	switch {
	case there && reader.Sees(kept.item):
		return memory.Remembered{Item: b.render(reader, kept.item, view.Moment{NowMs: nowMs}), Known: done.known}, nil
	case there && (kept.item.Source.Principal == reader.Principal || b.config.Wrong == KnownUnseen):
		key := b.config.Key(kept.item.Organisation, "etag")
		return memory.Remembered{Item: view.Acknowledged(kept.item, key), Known: done.known}, nil
	}
	return memory.Remembered{}, memory.RefusalOf(view.ErrAbsent)
}

// Promote lets an untrusted item be trusted, on a person's word.
func (b *Brain) Promote(ctx context.Context, reader view.Reader, id, reason string) (view.Rendering, error) {
	may := func(item *view.Item) error {
		if !reader.Writes(item.Space) {
			return memory.RefusalOf(view.ErrReadOnly)
		}
		return nil
	}
	return b.change(ctx, reader, id, reason, may, func(item *view.Item) error {
		if item.Integrity == policy.Trusted {
			return &memory.Refusal{Code: "TRUSTED", Detail: "The item is trusted already; nothing is to be done."}
		}
		item.Integrity = policy.Trusted
		return nil
	})
}

// Declassify takes labels from an item; the owner of each must be the reader.
func (b *Brain) Declassify(ctx context.Context, reader view.Reader, id string, labels policy.Labels, reason string) (view.Rendering, error) {
	labels = policy.NewLabels(labels...)
	may := func(*view.Item) error {
		rules := b.config.Rules(reader.Organisation)
		for _, label := range labels {
			if rules.Owns == nil || !rules.Owns(reader.Principal, label) {
				return &memory.Refusal{Code: "NOT_ENTITLED", Detail: "A label is not yours to take away; ask its owner."}
			}
		}
		return nil
	}
	return b.change(ctx, reader, id, reason, may, func(item *view.Item) error {
		if len(labels) == 0 || !labels.Within(item.Labels()) {
			return &memory.Refusal{Code: "LABELS", Detail: "The item has no such labels; name those that it has."}
		}
		item.Segments = view.Unlabelled(item.Segments, labels)
		return nil
	})
}

// change lets a person who sees an item whole change it, for a reason.
func (b *Brain) change(ctx context.Context, reader view.Reader, id, reason string, may, apply func(*view.Item) error) (view.Rendering, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return view.Rendering{}, err
	}
	defer leave()
	if strings.TrimSpace(reason) == "" || len(reason) > memory.MaxReason {
		return view.Rendering{}, &memory.Refusal{Code: "REASON", Detail: "It is kept why that was done; say why, in at most 1,024 bytes."}
	}
	old, err := b.find(&reader, id)
	if err != nil {
		return view.Rendering{}, err
	}
	if reader.Run != "" {
		return view.Rendering{}, &memory.Refusal{Code: "NOT_ENTITLED", Detail: "Only a person may do that, and no run; ask somebody."}
	}
	if err := may(old); err != nil {
		return view.Rendering{}, err
	}
	if !reader.SeesWhole(old) {
		return view.Rendering{}, memory.RefusalOf(view.ErrNotWhole)
	}
	changed := *old
	if err := apply(&changed); err != nil {
		return view.Rendering{}, err
	}
	if err := b.put(ctx, &changed); err != nil {
		return view.Rendering{}, err
	}
	return b.render(&reader, &changed, view.Moment{NowMs: nowMs}), nil
}

// replay returns what was done under a key, and refuses a key that was used for
// something else. Of what was erased it does not say what it was.
func (b *Brain) replay(reader *view.Reader, key string, asked [sha256.Size]byte) (done command, replayed bool, err error) {
	if key == "" {
		return command{}, false, nil
	}
	done, replayed = b.commands[commandID{reader.Organisation, reader.Principal, key}]
	_, there := b.items[done.item]
	if replayed && done.asked != asked && (there || done.item == "") {
		return command{}, false, &memory.Refusal{Code: "COMMAND_REUSED", Detail: "The key was used for something else; choose a new one."}
	}
	return done, replayed, nil
}

func (b *Brain) done(reader *view.Reader, key string, done command) {
	if key != "" {
		b.commands[commandID{reader.Organisation, reader.Principal, key}] = done
	}
}

// digest is of what was asked under a key; nothing is kept without one.
func digest(key string, asked ...any) [sha256.Size]byte {
	if key == "" {
		return [sha256.Size]byte{}
	}
	written, err := json.Marshal(asked)
	if err != nil {
		panic(err) // drafts and selectors hold strings and numbers
	}
	return sha256.Sum256(written)
}

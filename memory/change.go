package memory

import (
	"context"
	"errors"
	"strings"

	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// MaxReason bounds the reason that a person gives for a change, in bytes.
const MaxReason = 1 << 10

// Promote lets an item be trusted, on the word of a person who sees all of it.
func (s *Service) Promote(ctx context.Context, reader view.Reader, id, reason string) (view.Rendering, error) {
	return s.change(ctx, reader, changing{act: actPromote, id: id, reason: reason, apply: func(item *view.Item) error {
		if item.Integrity == policy.Trusted {
			return refuse("TRUSTED", "The item is trusted already; nothing is to be done.")
		}
		item.Integrity = policy.Trusted
		return nil
	}})
}

// Declassify takes labels from an item, on the word of the person who owns each
// of them.
func (s *Service) Declassify(ctx context.Context, reader view.Reader, id string, labels policy.Labels, reason string) (view.Rendering, error) {
	labels = policy.NewLabels(labels...)
	return s.change(ctx, reader, changing{act: actDeclassify, id: id, reason: reason, labels: labels, apply: func(item *view.Item) error {
		if len(labels) == 0 || !labels.Within(item.Labels()) {
			return refuse("LABELS", "The item has no such labels; name those that it has.")
		}
		item.Segments = view.Unlabelled(item.Segments, labels)
		return nil
	}})
}

// changing is one decision about an item.
type changing struct {
	act, id, reason string
	labels          policy.Labels // that are taken away
	apply           func(item *view.Item) error
}

func (s *Service) change(ctx context.Context, reader view.Reader, c changing) (view.Rendering, error) {
	if strings.TrimSpace(c.reason) == "" || len(c.reason) > MaxReason {
		return view.Rendering{}, refuse("REASON", "It is kept why that was done; say why, in at most 1,024 bytes.")
	}
	for try := 1; ; try++ {
		rendering, err := s.changeOnce(ctx, reader, c)
		if !errors.Is(err, errMoved) || try == mostTries {
			return rendering, err
		}
	}
}

func (s *Service) changeOnce(ctx context.Context, reader view.Reader, c changing) (view.Rendering, error) {
	a, err := s.ask(ctx, reader)
	if err != nil {
		return view.Rendering{}, err
	}
	items, err := s.store.Load(ctx, reader.Organisation, []string{c.id})
	if err != nil {
		return view.Rendering{}, err
	}
	item := items[c.id]
	if err := s.mayChange(ctx, a, item, c); err != nil {
		return view.Rendering{}, err
	}
	before := *item
	if err := c.apply(item); err != nil {
		return view.Rendering{}, err
	}
	item.Version++
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return view.Rendering{}, err
	}
	readings, err := s.readings(ctx, spaces, item)
	if err != nil {
		return view.Rendering{}, err
	}
	err = s.store.Write(ctx, a.moment.NowMs, func(ctx context.Context, tx *store.Tx) error {
		there, err := tx.Lock(ctx, reader.Organisation, []string{c.id}, true)
		if err != nil {
			return err
		}
		if len(there) == 0 {
			return absent()
		}
		versions, err := tx.Versions(ctx, reader.Organisation, there)
		if err != nil {
			return err
		}
		if versions[c.id] != before.Version {
			return errMoved
		}
		if err := spaces.unmoved(ctx, tx); err != nil {
			return err
		}
		if err := tx.Replace(ctx, item, readings); err != nil {
			return err
		}
		return tx.Note(ctx, store.Audit{Organisation: reader.Organisation, Principal: reader.Principal, Run: reader.Run, Act: c.act, Items: there,
			Digest: s.store.Digest(reader.Organisation, "audit", c.act, c.reason, c.labels.String(), s.digestOf(&before), s.digestOf(item))})
	})
	if err != nil {
		return view.Rendering{}, err
	}
	return s.Item(ctx, reader, c.id)
}

// digestOf is of what the item is made of: equal before and after exactly where
// nothing changed.
func (s *Service) digestOf(item *view.Item) string {
	return view.EtagOf(view.Rendering{ID: item.ID, Marking: policy.Marking{Labels: item.Labels(), Integrity: item.Integrity},
		Text: view.SameKey(item, s.store.Key(item.Organisation, "same"))}, s.etagKey(item.Organisation))
}

// mayChange says whether the reader may decide about an item: a person, by
// themselves, who sees all of it.
func (s *Service) mayChange(ctx context.Context, a *asking, item *view.Item, c changing) error {
	switch {
	case !a.sees(item):
		return absent()
	case a.Run != "":
		return refuse("NOT_ENTITLED", "Only a person may do that, and no run; ask somebody.")
	case c.act == actPromote && !a.Writes(item.Space):
		return RefusalOf(view.ErrReadOnly)
	}
	rules, err := s.rules(ctx, a.Organisation)
	if err != nil {
		return err
	}
	for _, label := range c.labels {
		if rules.Owns == nil || !rules.Owns(a.Principal, label) {
			return refuse("NOT_ENTITLED", "A label is not yours to take away; ask its owner.")
		}
	}
	if !a.SeesWhole(item) {
		return RefusalOf(view.ErrNotWhole)
	}
	return nil
}

package memory

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/rank"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

// What audit entries and commands call what was done.
const (
	actRemember    = "REMEMBER"
	actSupersede   = "SUPERSEDE"
	actConsolidate = "CONSOLIDATE"
	actPromote     = "PROMOTE"
	actDeclassify  = "DECLASSIFY"
	actForget      = "FORGET"
	actExpire      = "EXPIRE"
)

// Remember keeps a draft, or says that the writer sees the same already.
func (s *Service) Remember(ctx context.Context, reader view.Reader, draft Draft) (Remembered, error) {
	return s.keep(ctx, keeping{Reader: reader, act: actRemember, draft: draft})
}

// Supersede remembers what takes an item's place.
func (s *Service) Supersede(ctx context.Context, reader view.Reader, id string, draft Draft) (Remembered, error) {
	return s.keep(ctx, keeping{Reader: reader, act: actSupersede, draft: draft, replaces: []string{id}})
}

// Consolidate keeps one text in place of several. What the draft says that it is
// derived from does not count: it is the sources.
func (s *Service) Consolidate(ctx context.Context, reader view.Reader, sources []string, draft Draft) (Remembered, error) {
	if len(sources) == 0 || len(sources) > MaxSources {
		return Remembered{}, refuse("SOURCES", "Name the items that become one, at most 256.")
	}
	draft.DerivedFrom, draft.Source.Kind = sortedIDs(sources), view.FromSeveral
	return s.keep(ctx, keeping{Reader: reader, act: actConsolidate, draft: draft, replaces: draft.DerivedFrom})
}

// keeping is one command that keeps a new item.
type keeping struct {
	view.Reader
	act      string
	draft    Draft
	replaces []string // ids of what it takes the place of
}

// errMoved means that an item changed while its successor was made ready.
var errMoved = errors.New("an item changed meanwhile")

func (s *Service) keep(ctx context.Context, k keeping) (Remembered, error) {
	for try := 1; ; try++ {
		remembered, err := s.keepOnce(ctx, k)
		if !errors.Is(err, errMoved) || try == mostTries {
			return remembered, err
		}
	}
}

func (s *Service) keepOnce(ctx context.Context, k keeping) (Remembered, error) {
	a, err := s.ask(ctx, k.Reader)
	if err != nil {
		return Remembered{}, err
	}
	command, err := s.command(k)
	if err != nil {
		return Remembered{}, err
	}
	// What is refused now may have been admitted the first time.
	if done, met, err := s.store.Command(ctx, command); err != nil || met {
		return s.replay(ctx, a, command, done, err)
	}
	item, sources, err := s.ready(ctx, a, k)
	if err != nil {
		return Remembered{}, err
	}
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return Remembered{}, err
	}
	readings, err := s.readings(ctx, spaces, &item)
	if err != nil {
		return Remembered{}, err
	}
	var replayed *store.Command
	err = s.store.Write(ctx, a.moment.NowMs, func(ctx context.Context, tx *store.Tx) error {
		done, met, err := tx.Begin(ctx, command)
		if err != nil {
			return err
		}
		if met {
			replayed = &done
			return nil
		}
		if err := spaces.unmoved(ctx, tx); err != nil {
			return err
		}
		if err := unmoved(ctx, tx, a, sources); err != nil {
			return err
		}
		return s.keepOrKnow(ctx, tx, a, k, &command, &item, readings)
	})
	if err != nil {
		return Remembered{}, err
	}
	if replayed != nil {
		return s.replay(ctx, a, command, *replayed, nil)
	}
	if !command.Known && len(item.Supersedes) == 0 && len(item.DerivedFrom) == 0 {
		if rendering, sees := view.Render(&item, &a.Reader, a.key, view.Related{}); sees {
			return Remembered{Item: rendering}, nil // nothing is around it yet
		}
	}
	return s.remembered(ctx, a, command)
}

// keepOrKnow keeps the item, or notes what says the same already, and says in the
// command which it was.
func (s *Service) keepOrKnow(ctx context.Context, tx *store.Tx, a *asking, k keeping, command *store.Command, item *view.Item, readings []store.Reading) error {
	known, err := s.same(ctx, tx, a, k, item)
	if err != nil {
		return err
	}
	if known != "" {
		command.Item, command.Known = known, true
		return tx.Keep(ctx, *command)
	}
	item.ID, item.Supersedes = s.store.NewID(), k.replaces
	command.Item, command.Known = item.ID, false
	return s.insert(ctx, tx, k, *command, item, readings)
}

// command is what a repeat is known by.
func (s *Service) command(k keeping) (store.Command, error) {
	request, err := json.Marshal([]any{k.act, k.replaces, k.draft})
	return store.Command{Organisation: k.Organisation, Principal: k.Principal, ID: k.draft.Key,
		Request: s.store.Digest(k.Organisation, "command", string(request))}, err
}

// replay answers a repeat. What the command kept may have been erased since: it
// does not come back.
func (s *Service) replay(ctx context.Context, a *asking, command, done store.Command, err error) (Remembered, error) {
	if err != nil {
		return Remembered{}, err
	}
	if done.Request != "" && done.Request != command.Request {
		return Remembered{}, reused()
	}
	remembered, err := s.remembered(ctx, a, done)
	remembered.Replayed = true
	return remembered, err
}

// remembered is the answer to a command that is done.
func (s *Service) remembered(ctx context.Context, a *asking, done store.Command) (Remembered, error) {
	fresh, err := s.ask(ctx, a.Reader) // with the label sets that it brought
	if err != nil {
		return Remembered{}, err
	}
	rendered, err := s.render(ctx, fresh, []string{done.Item})
	if err != nil {
		return Remembered{}, err
	}
	if rendering, sees := rendered[done.Item]; sees {
		return Remembered{Item: rendering, Known: done.Known}, nil
	}
	items, err := s.store.Load(ctx, a.Organisation, []string{done.Item})
	if err != nil {
		return Remembered{}, err
	}
	item := items[done.Item]
	if item == nil || !fresh.moment.Keeps(item) || item.Source.Principal != a.Principal {
		return Remembered{}, absent()
	}
	return Remembered{Item: view.Acknowledged(item, a.key), Known: done.Known}, nil
}

// ready turns a draft into the item that would be kept, with everything that it
// takes over from what it comes from.
func (s *Service) ready(ctx context.Context, a *asking, k keeping) (view.Item, map[string]*view.Item, error) {
	rules, err := s.rules(ctx, k.Organisation)
	if err != nil {
		return view.Item{}, nil, err
	}
	item, err := Prepare(k.draft, k.Reader, rules, a.moment.NowMs)
	if err != nil {
		return item, nil, err
	}
	item.Version = 1
	loaded, err := s.store.Load(ctx, k.Organisation, slices.Concat(item.DerivedFrom, k.replaces))
	if err != nil {
		return item, nil, err
	}
	if len(item.DerivedFrom) > 0 {
		sources, err := a.all(loaded, item.DerivedFrom)
		if err != nil {
			return item, nil, err
		}
		derived, err := view.Derive(sources, &k.Reader, item.Space)
		if err != nil {
			return item, nil, RefusalOf(err)
		}
		item = derived.Onto(item)
	}
	replaced, err := a.all(loaded, k.replaces)
	if err != nil {
		return item, nil, err
	}
	switch k.act {
	case actConsolidate:
		err = view.MayConsolidate(replaced, &item, &k.Reader)
	case actSupersede:
		err = view.MaySupersede(replaced[0], &item, &k.Reader)
	}
	return item, loaded, RefusalOf(err)
}

// all returns the items with the ids, where the reader sees each of them.
func (a *asking) all(loaded map[string]*view.Item, ids []string) ([]*view.Item, error) {
	items := make([]*view.Item, len(ids))
	for n, id := range ids {
		if items[n] = loaded[id]; !a.sees(items[n]) {
			return nil, absent()
		}
	}
	return items, nil
}

// readings makes the views of an item with their words and vectors.
func (s *Service) readings(ctx context.Context, spaces *spaces, item *view.Item) ([]store.Reading, error) {
	views, err := view.ViewsOf(item, s.etagKey(item.Organisation))
	if err != nil {
		return nil, RefusalOf(err)
	}
	readings := make([]store.Reading, len(views))
	for n, v := range views {
		readings[n] = store.Reading{View: v, Terms: rank.DocumentTerms(s.termsKey(item.Organisation), v.Text), Vectors: map[string][]float32{}}
	}
	for _, part := range spaces.all() {
		if err := part.embed(ctx, readings); err != nil {
			return nil, err
		}
	}
	return readings, nil
}

// embed fills in the vectors of those readings that the embedder may be given.
func (p part) embed(ctx context.Context, readings []store.Reading) error {
	var texts []string
	var to []int
	for n, reading := range readings {
		if p.may(reading.Labels) {
			texts, to = append(texts, reading.Text), append(to, n)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	vectors, err := embed.Now(ctx, p.embedder, texts)
	if errors.Is(err, embed.ErrUnavailable) {
		return nil // found by its words until it is embedded again
	}
	if err != nil {
		return err
	}
	for n, vector := range vectors {
		readings[to[n]].Vectors[p.space.ID] = vector
	}
	return nil
}

// unmoved makes sure that what an item takes over from is what it was, and
// stays until the transaction ends.
func unmoved(ctx context.Context, tx *store.Tx, a *asking, sources map[string]*view.Item) error {
	ids := make([]string, 0, len(sources))
	for id := range sources {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil
	}
	there, err := tx.Lock(ctx, a.Organisation, ids, false)
	if err != nil {
		return err
	}
	if len(there) < len(ids) {
		return absent()
	}
	versions, err := tx.Versions(ctx, a.Organisation, ids)
	if err != nil {
		return err
	}
	for id, source := range sources {
		if versions[id] != source.Version {
			return errMoved
		}
	}
	return nil
}

// same returns the id of what says the same already, as far as the writer may
// know: it sees all of it, and nothing that it sees has taken its place. Of
// several it is the newest.
func (s *Service) same(ctx context.Context, tx *store.Tx, a *asking, k keeping, item *view.Item) (string, error) {
	if k.act != actRemember {
		return "", nil
	}
	key := view.SameKey(item, s.store.Key(item.Organisation, "same"))
	if err := tx.Alone(ctx, key); err != nil {
		return "", err
	}
	ids, err := tx.Same(ctx, a.Organisation, key)
	if err != nil {
		return "", err
	}
	items, err := tx.Load(ctx, a.Organisation, ids)
	if err != nil {
		return "", err
	}
	outlines, after, err := tx.Succession(ctx, a.Organisation, ids)
	if err != nil {
		return "", err
	}
	g := sight{a, outlines, after}
	for _, id := range ids {
		if one := items[id]; a.sees(one) && a.SeesWhole(one) && !one.Archived && !g.hidden(id) && view.Same(one, item) {
			return id, nil
		}
	}
	return "", nil
}

func (s *Service) insert(ctx context.Context, tx *store.Tx, k keeping, command store.Command, item *view.Item, readings []store.Reading) error {
	own, err := tx.Own(ctx, k.Organisation, k.Principal)
	if err != nil {
		return err
	}
	if own >= s.config.Quota {
		return refuse("QUOTA", "You have as many items in memory as one may have; forget some, or ask for more.")
	}
	if err := tx.Insert(ctx, item, readings); err != nil {
		return err
	}
	if err := tx.Keep(ctx, command); err != nil {
		return err
	}
	return tx.Note(ctx, store.Audit{Organisation: k.Organisation, Principal: k.Principal, Run: k.Run, Act: k.act,
		Items: slices.Concat([]string{item.ID}, k.replaces)})
}

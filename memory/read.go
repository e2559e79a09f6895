package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"

	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

// Item returns one item as the reader sees it.
func (s *Service) Item(ctx context.Context, reader view.Reader, id string) (view.Rendering, error) {
	items, err := s.Items(ctx, reader, []string{id})
	if err != nil {
		return view.Rendering{}, err
	}
	item, sees := items[id]
	if !sees {
		return view.Rendering{}, absent()
	}
	return item, nil
}

// Items returns those of the ids that the reader sees, by id.
func (s *Service) Items(ctx context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error) {
	a, err := s.ask(ctx, reader)
	if err != nil {
		return nil, err
	}
	return s.render(ctx, a, ids)
}

// The sizes of pages.
const (
	defaultPage = 50
	mostPage    = 500
)

// List returns what the reader sees and nothing else has taken the place of,
// newest first.
func (s *Service) List(ctx context.Context, reader view.Reader, filter Filter, after string, limit int) (Page, error) {
	if limit < 0 || limit > mostPage {
		return Page{}, refuse("LIMIT", "At most 500 items can be listed at once; ask for fewer.")
	}
	limit = cmp.Or(limit, defaultPage)
	from, err := placeOf(after)
	if err != nil {
		return Page{}, err
	}
	a, err := s.ask(ctx, reader)
	if err != nil {
		return Page{}, err
	}
	page := Page{Items: []view.Rendering{}}
	for {
		some, last, err := s.listSome(ctx, a, filter, from, limit+1)
		if err != nil {
			return Page{}, err
		}
		for _, rendering := range some {
			if len(page.Items) == limit {
				page.Next = cursorOf(page.Items[limit-1])
				return page, nil
			}
			page.Items = append(page.Items, rendering)
		}
		if last == nil {
			return page, nil
		}
		from = *last
	}
}

// listSome lists the next items, of which some may be out of date for the
// reader. last is where to go on; nil at the end.
func (s *Service) listSome(ctx context.Context, a *asking, filter Filter, from store.Place, limit int) (some []view.Rendering, last *store.Place, err error) {
	places, err := s.store.List(ctx, a.scope, s.filter(a, filter), from, limit)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]string, len(places))
	for n, place := range places {
		ids[n] = place.ID
	}
	g, err := s.look(ctx, a, ids)
	if err != nil {
		return nil, nil, err
	}
	rendered, err := s.render(ctx, a, ids)
	if err != nil {
		return nil, nil, err
	}
	for _, id := range ids {
		if rendering, sees := rendered[id]; sees && !g.hidden(id) {
			some = append(some, rendering)
		}
	}
	if len(places) == limit {
		last = &places[limit-1]
	}
	return some, last, nil
}

func (s *Service) filter(a *asking, f Filter) store.Filter {
	return store.Filter{Spaces: f.Spaces, Kinds: f.Kinds, Principal: f.Principal, Archived: f.Archived,
		Subject: s.store.SubjectKey(a.Organisation, strings.TrimSpace(Normal(f.Subject))), Ref: s.store.RefKey(a.Organisation, Normal(f.Ref))}
}

// cursorOf names the place after an item, by what its reader knows of it.
func cursorOf(last view.Rendering) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.RecordedMs, 10) + ":" + last.ID))
}

func placeOf(cursor string) (place store.Place, err error) {
	if cursor == "" {
		return place, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	before, id, found := strings.Cut(string(text), ":")
	place.RecordedMs, place.ID = 0, id
	if err == nil && found && id != "" {
		place.RecordedMs, err = strconv.ParseInt(before, 10, 64)
	}
	if err != nil || !found || id == "" {
		return store.Place{}, refuse("CURSOR", "That is no place in a list; begin without one.")
	}
	return place, nil
}

// Export writes everything that the reader sees, newest first.
func (s *Service) Export(ctx context.Context, reader view.Reader, filter Filter, write func(view.Rendering) error) error {
	for after := ""; ; {
		page, err := s.List(ctx, reader, filter, after, mostPage)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			if err := write(item); err != nil {
				return err
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// Receipt returns the receipt of a forgetting to who asked for it.
func (s *Service) Receipt(ctx context.Context, reader view.Reader, id string) (Receipt, error) {
	kept, found, err := s.store.Receipt(ctx, reader.Organisation, id)
	if err != nil {
		return Receipt{}, err
	}
	if !found || kept.Principal != reader.Principal {
		return Receipt{}, refuse("NOT_FOUND", "There is no such receipt for you; check the id.")
	}
	var receipt Receipt
	err = json.Unmarshal(kept.Body, &receipt)
	return receipt, err
}

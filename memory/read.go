package memory

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

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

// List returns what the reader sees and nothing that it sees has taken the place
// of, newest first.
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
	for len(page.Items) <= limit {
		places, err := s.store.List(ctx, a.scope, s.filter(a, filter), from, limit+1)
		if err != nil {
			return Page{}, err
		}
		some, err := s.renderAt(ctx, a, places)
		if err != nil {
			return Page{}, err
		}
		page.Items = append(page.Items, some...)
		if len(places) <= limit {
			break
		}
		from = places[limit] // what is out of date left room
	}
	if len(page.Items) > limit {
		page.Items = page.Items[:limit]
		page.Next = cursorOf(page.Items[limit-1])
	}
	return page, nil
}

// renderAt renders what stands at places of a list and is not out of date, in
// the list's order.
func (s *Service) renderAt(ctx context.Context, a *asking, places []store.Place) (some []view.Rendering, _ error) {
	ids := make([]string, len(places))
	for n, place := range places {
		ids[n] = place.ID
	}
	g, err := s.look(ctx, a, ids)
	if err != nil {
		return nil, err
	}
	rendered, err := s.render(ctx, a, ids)
	for _, id := range ids {
		if rendering, sees := rendered[id]; sees && !g.hidden(id) {
			some = append(some, rendering)
		}
	}
	return some, err
}

func (s *Service) filter(a *asking, f Filter) store.Filter {
	return store.Filter{Spaces: f.Spaces, Kinds: f.Kinds, Principal: f.Principal, Archived: f.Archived,
		Subject: s.store.SubjectKey(a.Organisation, strings.TrimSpace(Normal(f.Subject))), Ref: s.store.RefKey(a.Organisation, Normal(f.Ref))}
}

// cursorOf names the place after an item, by what its reader knows of it.
func cursorOf(last view.Rendering) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(last.RecordedMs, 10) + ":" + last.ID))
}

func placeOf(cursor string) (store.Place, error) {
	if cursor == "" {
		return store.Place{}, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	before, id, _ := strings.Cut(string(text), ":")
	recordedMs, failed := strconv.ParseInt(before, 10, 64)
	if err != nil || failed != nil || id == "" || !utf8.ValidString(id) || strings.ContainsRune(id, 0) {
		return store.Place{}, refuse("CURSOR", "That is no place in a list; begin without one.")
	}
	return store.Place{RecordedMs: recordedMs, ID: id}, nil
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

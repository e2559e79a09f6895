package store

import (
	"context"
	"strings"

	"gantry.dev/memory/view"
)

// Filter narrows a list. Empty fields do not.
type Filter struct {
	Spaces    []view.Space // besides the scope's
	Kinds     []view.Kind
	Subject   string // SubjectKey
	Ref       string // RefKey
	Principal string
	Archived  bool // also what is archived
}

// Place is where a list goes on: after the item that was listed last.
type Place struct {
	RecordedMs int64
	ID         string // empty: from the beginning
}

// List returns the ids of items of which a reader may see something, the newest
// first.
func (s *Store) List(ctx context.Context, scope Scope, filter Filter, after Place, limit int) (places []Place, _ error) {
	c := s.read
	if scope.empty() {
		return nil, nil
	}
	var b strings.Builder
	b.WriteString("SELECT i.recorded_ms, i.id FROM memory_items i WHERE i.organisation = ? AND " + c.among("i.space") +
		" AND (i.expires_ms = 0 OR i.expires_ms > ?)")
	args := []any{scope.Organisation, list(c, scope.Spaces), scope.NowMs}
	also := func(condition string, values ...any) {
		b.WriteString(" AND " + condition)
		args = append(args, values...)
	}
	if len(filter.Spaces) > 0 {
		also(c.among("i.space"), list(c, filter.Spaces))
	}
	if len(filter.Kinds) > 0 {
		also(c.among("i.kind"), list(c, filter.Kinds))
	}
	for column, value := range map[string]string{"i.subject_key": filter.Subject, "i.ref_key": filter.Ref, "i.principal": filter.Principal} {
		if value != "" {
			also(column+" = ? AND "+column+" <> ''", value)
		}
	}
	if !filter.Archived {
		also("i.archived = 0")
	}
	if after.ID != "" {
		also("(i.recorded_ms, i.id) < (?, ?)", after.RecordedMs, after.ID)
	}
	also("EXISTS (SELECT 1 FROM memory_views v WHERE v.item = i.id AND "+c.among("v.set_id")+")", list(c, scope.Sets))
	newest := "i.recorded_ms"
	if filter.Subject != "" || filter.Ref != "" {
		newest = c.unled(newest) // few are of one subject or source
	}
	b.WriteString(" ORDER BY " + newest + " DESC, i.id DESC LIMIT ?")
	rows, err := c.query(ctx, b.String(), append(args, limit)...)
	err = each(rows, err, func(scan func(...any) error) error {
		var place Place
		err := scan(&place.RecordedMs, &place.ID)
		places = append(places, place)
		return err
	})
	return places, err
}

// Package opaque writes and reads what clients carry about without looking into
// it: ids that work only in their organisation, and cursors.
package opaque

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gantry.dev/graph/edge"
	"gantry.dev/orchestrator/engine"
)

// ErrCursor means that a cursor is not one of the list.
var ErrCursor = &edge.Fault{Code: edge.CodeCursorInvalid, Message: "The cursor is not one of this list; begin without one."}

// Kind is what a global id names.
type Kind string

// The kinds of nodes.
const (
	Run          Kind = "run"
	Agent        Kind = "agent"
	Conversation Kind = "conversation"
	Schedule     Kind = "schedule"
	Approval     Kind = "approval"
	Question     Kind = "question"
	Access       Kind = "access"
	Memory       Kind = "memory"
	Forgetting   Kind = "forgetting"
)

// maxIDBytes bounds what is decoded as an id or a cursor.
const maxIDBytes = 1024

// ID writes an id that works only in its organisation.
func ID(organisation string, kind Kind, parts ...string) string {
	return Write(append([]string{string(kind), organisation}, parts...))
}

// ReadID returns the parts of an id. Whatever is wrong with it, also when it is
// of another organisation, it is engine.ErrNotFound.
func ReadID(id, organisation string, kind Kind, parts int) ([]string, error) {
	all, ok := Read(id)
	if !ok || len(all) != parts+2 || all[0] != string(kind) || all[1] != organisation {
		return nil, fmt.Errorf("%w: %s", engine.ErrNotFound, kind)
	}
	return all[2:], nil
}

// KindOf returns what an id claims to name; empty for what is no id.
func KindOf(id string) Kind {
	parts, ok := Read(id)
	if !ok || len(parts) == 0 {
		return ""
	}
	return Kind(parts[0])
}

// Write writes strings as one token without structure for its reader.
func Write(parts []string) string {
	raw, err := json.Marshal(parts)
	if err != nil {
		return "" // strings always marshal
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Read returns the strings that Write wrote; false for any other token.
func Read(token string) ([]string, bool) { return readUpTo(token, maxIDBytes) }

func readUpTo(token string, most int) ([]string, bool) {
	if len(token) > most {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !utf8.Valid(raw) {
		return nil, false
	}
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil || Write(parts) != token || slices.ContainsFunc(parts, hasNUL) {
		return nil, false
	}
	return parts, true
}

// hasNUL reports whether a text has the character U+0000, which no id has.
func hasNUL(text string) bool { return strings.ContainsRune(text, 0) }

// Position is a place in the numbered stream of one run or conversation.
func Position(stream string, number uint64) string {
	return Write([]string{"at", stream, strconv.FormatUint(number, 10)})
}

// ReadPosition returns the number in a cursor of this stream; 0 for none.
// Errors: ErrCursor.
func ReadPosition(after *string, stream string) (uint64, error) {
	if after == nil {
		return 0, nil
	}
	parts, ok := Read(*after)
	if !ok || len(parts) != 3 || parts[0] != "at" || parts[1] != stream {
		return 0, ErrCursor
	}
	number, err := strconv.ParseUint(parts[2], 10, 63)
	if err != nil || Position(stream, number) != *after {
		return 0, ErrCursor
	}
	return number, nil
}

// PageCursor is a place in a list: the cursor of the page that the item is on,
// and the item's index there, so that every edge has a cursor of its own.
func PageCursor(list, page string, index int) string {
	return Write([]string{"page", list, page, strconv.Itoa(index)})
}

// ReadPage returns the underlying cursor and how many items to skip after it.
// Errors: ErrCursor.
func ReadPage(after *string, list string) (page string, skip int, err error) {
	if after == nil {
		return "", 0, nil
	}
	parts, ok := Read(*after)
	if ok && len(parts) == 3 && parts[0] == "next" && parts[1] == list {
		return parts[2], 0, nil
	}
	if !ok || len(parts) != 4 || parts[0] != "page" || parts[1] != list {
		return "", 0, ErrCursor
	}
	skip, err = strconv.Atoi(parts[3])
	if err != nil || skip < 0 || skip >= edge.MaxFirst || PageCursor(list, parts[2], skip) != *after {
		return "", 0, ErrCursor
	}
	return parts[2], skip + 1, nil
}

// CheckFirst returns an error for a page that nobody may ask for.
func CheckFirst(first int) error {
	if first < 0 {
		below := edge.OverLimit("first", first, edge.MaxFirst)
		below.Message = fmt.Sprintf("first is %d, it must be 0 to %d.", first, edge.MaxFirst)
		return below
	}
	if first > edge.MaxFirst {
		return edge.OverLimit("first", first, edge.MaxFirst)
	}
	return nil
}

// Page is one page of a list, each item with its cursor.
type Page[T any] struct {
	Items   []T
	Cursors []string
	More    bool // there are later ones
}

// ReadList takes one page through fetch, which pages by opaque cursors of its
// own. A fetch may be for up to twice edge.MaxFirst items.
func ReadList[T any](list string, first int, after *string, fetch func(after string, first int) ([]T, string, error)) (Page[T], error) {
	var out Page[T]
	if err := CheckFirst(first); err != nil {
		return out, err
	}
	at, skip, err := ReadPage(after, list)
	if err != nil {
		return out, err
	}
	if first == 0 {
		return out, nil
	}
	// Ask for the same page again, longer by what was skipped, so that the
	// cursor of every item stays valid however pages are cut.
	items, next, err := fetch(at, skip+first)
	if err != nil {
		return out, err
	}
	if skip > len(items) {
		skip = len(items)
	}
	for index := skip; index < len(items) && len(out.Items) < first; index++ {
		out.Items = append(out.Items, items[index])
		out.Cursors = append(out.Cursors, PageCursor(list, at, index))
	}
	out.More = next != "" || len(items) > skip+len(out.Items)
	// The last item carries the list's own cursor, so pages do not grow.
	if last := len(out.Cursors) - 1; next != "" && last >= 0 && skip+last == len(items)-1 {
		out.Cursors[last] = Write([]string{"next", list, next})
	}
	return out, nil
}

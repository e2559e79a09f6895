package graph

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

// nodeKind is what a global id names.
type nodeKind string

const (
	runNode          nodeKind = "run"
	agentNode        nodeKind = "agent"
	conversationNode nodeKind = "conversation"
	approvalNode     nodeKind = "approval"
	questionNode     nodeKind = "question"
	memoryNode       nodeKind = "memory"
	forgettingNode   nodeKind = "forgetting"
)

// maxIDBytes bounds what is decoded as an id or a cursor.
const maxIDBytes = 1024

// globalID writes an id that works only in its organisation.
func globalID(organisation string, kind nodeKind, parts ...string) string {
	return opaque(append([]string{string(kind), organisation}, parts...))
}

// readID returns the parts of an id. Whatever is wrong with it, also when it is
// of another organisation, it is engine.ErrNotFound.
func readID(id, organisation string, kind nodeKind, parts int) ([]string, error) {
	all, ok := transparent(id)
	if !ok || len(all) != parts+2 || all[0] != string(kind) || all[1] != organisation {
		return nil, fmt.Errorf("%w: %s", engine.ErrNotFound, kind)
	}
	return all[2:], nil
}

func kindOf(id string) nodeKind {
	parts, ok := transparent(id)
	if !ok || len(parts) == 0 {
		return ""
	}
	return nodeKind(parts[0])
}

// opaque writes strings as one token without structure for its reader.
func opaque(parts []string) string {
	raw, err := json.Marshal(parts)
	if err != nil {
		return "" // strings always marshal
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func transparent(token string) ([]string, bool) {
	if len(token) > maxIDBytes {
		return nil, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || !utf8.Valid(raw) {
		return nil, false
	}
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil || opaque(parts) != token || slices.ContainsFunc(parts, hasNUL) {
		return nil, false
	}
	return parts, true
}

// hasNUL reports whether a text has the character U+0000, which no id has.
func hasNUL(text string) bool { return strings.ContainsRune(text, 0) }

// positionCursor is a place in the numbered stream of one run or conversation.
func positionCursor(stream string, number uint64) string {
	return opaque([]string{"at", stream, strconv.FormatUint(number, 10)})
}

// readPosition returns the number in a cursor of this stream; 0 for none.
// Errors: errCursor.
func readPosition(after *string, stream string) (uint64, error) {
	if after == nil {
		return 0, nil
	}
	parts, ok := transparent(*after)
	if !ok || len(parts) != 3 || parts[0] != "at" || parts[1] != stream {
		return 0, errCursor
	}
	number, err := strconv.ParseUint(parts[2], 10, 63)
	if err != nil || positionCursor(stream, number) != *after {
		return 0, errCursor
	}
	return number, nil
}

// pageCursor is a place in a list: the cursor of the page that the item is on,
// and the item's index there, so that every edge has a cursor of its own.
func pageCursor(list, page string, index int) string {
	return opaque([]string{"page", list, page, strconv.Itoa(index)})
}

// readPage returns the underlying cursor and how many items to skip after it.
// Errors: errCursor.
func readPage(after *string, list string) (page string, skip int, err error) {
	if after == nil {
		return "", 0, nil
	}
	parts, ok := transparent(*after)
	if ok && len(parts) == 3 && parts[0] == "next" && parts[1] == list {
		return parts[2], 0, nil
	}
	if !ok || len(parts) != 4 || parts[0] != "page" || parts[1] != list {
		return "", 0, errCursor
	}
	skip, err = strconv.Atoi(parts[3])
	if err != nil || skip < 0 || skip >= edge.MaxFirst || pageCursor(list, parts[2], skip) != *after {
		return "", 0, errCursor
	}
	return parts[2], skip + 1, nil
}

func checkFirst(first int) error {
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

// page is one page of a list, each item with its cursor.
type page[T any] struct {
	items   []T
	cursors []string
	more    bool
}

// readList takes one page through fetch, which pages by opaque cursors of its
// own. A fetch may be for up to twice edge.MaxFirst items.
func readList[T any](list string, first int, after *string, fetch func(after string, first int) ([]T, string, error)) (page[T], error) {
	var out page[T]
	if err := checkFirst(first); err != nil {
		return out, err
	}
	at, skip, err := readPage(after, list)
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
	for index := skip; index < len(items) && len(out.items) < first; index++ {
		out.items = append(out.items, items[index])
		out.cursors = append(out.cursors, pageCursor(list, at, index))
	}
	out.more = next != "" || len(items) > skip+len(out.items)
	// The last item carries the list's own cursor, so pages do not grow.
	if last := len(out.cursors) - 1; next != "" && last >= 0 && skip+last == len(items)-1 {
		out.cursors[last] = opaque([]string{"next", list, next})
	}
	return out, nil
}

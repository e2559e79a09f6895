package view

import (
	"encoding/hex"
	"strings"

	"gantry.dev/orchestrator/policy"
)

// Related is what a reader sees around an item.
type Related struct {
	Seen       map[string]bool  // of the ids in Supersedes and DerivedFrom, those that the reader sees
	Elsewhere  map[string]Space // spaces of those in Seen that stand in another than the item
	Successors []Successor      // items that supersede it directly and that the reader sees
}

// Note adds an item that it supersedes or is derived from and that the reader
// sees, in the space where that stands.
func (r *Related) Note(item *Item, id string, space Space) {
	if r.Seen == nil {
		r.Seen = map[string]bool{}
	}
	r.Seen[id] = true
	if space == item.Space {
		return
	}
	if r.Elsewhere == nil {
		r.Elsewhere = map[string]Space{}
	}
	r.Elsewhere[id] = space
}

// Render returns what the reader gets of an item, and false where it gets
// nothing: the item does not exist for it. key is the organisation's, for the
// etag.
func Render(item *Item, reader *Reader, key []byte, related Related) (Rendering, bool) {
	if !reader.Sees(item) {
		return Rendering{}, false
	}
	sees := func(labels policy.Labels) bool { return labels.Within(reader.Clearance) }
	rendering := shown(item, sees, func(hidden policy.Labels) policy.Labels {
		if why := without(hidden, reader.Clearance); why.Within(reader.Knows) {
			return why
		}
		return nil
	})
	rendering.Supersedes = only(item.Supersedes, related.Seen)
	rendering.DerivedFrom = only(item.DerivedFrom, related.Seen)
	rendering.Elsewhere = related.Elsewhere
	rendering.ValidToMs = closed(item, related.Successors)
	if reader.Run != "" || reader.Principal != item.Source.Principal {
		// Bytes count what is hidden, too: here, and in all that stands before.
		rendering.Source.Offset, rendering.Source.Length = 0, 0
	}
	rendering.Etag = EtagOf(rendering, key)
	return rendering, true
}

// Acknowledged is what a writer gets of an item that it may not read: what it
// said itself about it, and none of the text.
func Acknowledged(item *Item, key []byte) Rendering {
	rendering := shown(item, func(policy.Labels) bool { return false }, nil)
	rendering.Heading, rendering.Text = "", Redacted
	rendering.Withheld = []Withheld{{}}
	rendering.Etag = EtagOf(rendering, key)
	return rendering
}

// EtagOf is the keyed digest of everything in a rendering but its etag: it
// changes exactly when something changes that its reader sees, and tells nobody
// without the key what it was made of.
func EtagOf(rendering Rendering, key []byte) string {
	rendering.Etag = ""
	return hex.EncodeToString(digest(key, "memory-etag", rendering)[:16])
}

// shown is an item without what is not seen. why says what may be told of a
// mark's labels; nil tells nothing.
func shown(item *Item, sees func(policy.Labels) bool, why func(policy.Labels) policy.Labels) Rendering {
	rendering := Rendering{
		ID: item.ID, Space: item.Space, Kind: item.Kind, Subject: item.Subject,
		Marking: policy.Marking{Integrity: item.Integrity}, Source: item.Source,
		ValidFromMs: item.ValidFromMs, ValidToMs: item.ValidToMs,
		RecordedMs: item.RecordedMs, ExpiresMs: item.ExpiresMs, Archived: item.Archived,
	}
	heading := part{sees: sees, why: why}
	body := part{sees: sees, why: why}
	for _, segment := range item.Segments {
		if segment.Heading {
			heading.add(segment)
		} else {
			body.add(segment)
		}
	}
	rendering.Heading = heading.close()
	body.before = len(rendering.Heading)
	rendering.Text = body.close()
	rendering.Marking.Labels = heading.labels.Join(body.labels)
	for _, p := range []part{heading, body} {
		for _, mark := range p.marks {
			mark.Offset += p.before
			rendering.Withheld = append(rendering.Withheld, mark)
		}
	}
	return rendering
}

// part is the heading or the body of an item as it is put together.
type part struct {
	sees   func(policy.Labels) bool
	why    func(policy.Labels) policy.Labels
	before int // bytes that stand before it
	text   strings.Builder
	labels policy.Labels // of what is shown
	marks  []Withheld
	hidden bool          // the last segment was
	behind policy.Labels // labels behind the open mark
}

func (p *part) add(segment Segment) {
	if p.sees(segment.Labels) {
		p.endMark()
		p.labels = p.labels.Join(segment.Labels)
		p.text.WriteString(segment.Text)
		return
	}
	if !p.hidden {
		p.marks = append(p.marks, Withheld{Offset: p.text.Len()})
		p.text.WriteString(Redacted)
	}
	p.hidden, p.behind = true, p.behind.Join(segment.Labels)
}

func (p *part) endMark() {
	if p.hidden && p.why != nil {
		p.marks[len(p.marks)-1].Labels = p.why(p.behind)
	}
	p.hidden, p.behind = false, nil
}

func (p *part) close() string {
	p.endMark()
	return p.text.String()
}

func without(labels, others policy.Labels) (rest policy.Labels) {
	for _, label := range labels {
		if !others.Has(label) {
			rest = append(rest, label)
		}
	}
	return rest
}

func only(ids []string, seen map[string]bool) (kept []string) {
	for _, id := range ids {
		if seen[id] {
			kept = append(kept, id)
		}
	}
	return kept
}

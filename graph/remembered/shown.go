// Package remembered maps what memory answers onto the schema, and what the
// schema asks for onto memory. It is pure: who may see what was decided before.
package remembered

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"gantry.dev/graph/generated"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Names writes what stands for somebody or something towards one viewer.
type Names struct {
	Item    func(parts ...string) string // global id of an item; the parts are those of Parts
	Run     func(id string) string       // global id of a run
	Receipt func(id string) string       // global id of a receipt
	Actor   func(principal string) *generated.Actor
	Display func(text string) string // with every character visible
}

// Parts are what a global id of an item is made of: its own id, and before it
// the conversation where it is remembered. Whoever opens it knows by that where
// to look, for nobody's conversations are all looked through.
func Parts(space view.Space, item string) []string {
	if kind, name, ok := space.Split(); ok && kind == view.SpaceConversation {
		return []string{name, item}
	}
	return []string{item}
}

// Show shows an item.
func (n Names) Show(r view.Rendering) *generated.MemoryItem {
	related := func(ids []string) []string {
		return each(ids, func(id string) string { return n.Item(Parts(cmp.Or(r.Elsewhere[id], r.Space), id)...) })
	}
	return &generated.MemoryItem{ID: n.Item(Parts(r.Space, r.ID)...), Etag: r.Etag, Space: string(r.Space), Kind: generated.MemoryKind(r.Kind),
		Subject: maybe(r.Subject), Heading: maybe(r.Heading), Text: r.Text, Display: n.display(r), Labels: Labels(r.Marking.Labels),
		Withheld: each(r.Withheld, func(w view.Withheld) *generated.WithheldPart {
			return &generated.WithheldPart{Offset: w.Offset, Labels: Labels(w.Labels)}
		}),
		Integrity: generated.Integrity(r.Marking.Integrity.String()), Source: n.source(r.Source),
		ValidFrom: at(r.ValidFromMs), ValidTo: maybeAt(r.ValidToMs), RecordedAt: at(r.RecordedMs), ExpiresAt: maybeAt(r.ExpiresMs),
		Archived: r.Archived, Supersedes: related(r.Supersedes), DerivedFrom: related(r.DerivedFrom)}
}

func (n Names) display(r view.Rendering) string {
	if r.Heading == "" {
		return n.Display(r.Text)
	}
	return n.Display(r.Heading) + "\n" + n.Display(r.Text)
}

func (n Names) source(s view.Source) *generated.MemorySource {
	out := &generated.MemorySource{Kind: generated.MemorySourceKind(s.Kind), Ref: maybe(s.Ref), Position: maybe(s.Position), Offset: s.Offset,
		Length: s.Length, By: n.Actor(s.Principal), Model: maybe(s.Model)}
	if s.Run != "" {
		out.Run = maybe(n.Run(s.Run))
	}
	return out
}

// Recollection shows the answer to a question.
func (n Names) Recollection(r memory.Recollection) *generated.Recollection {
	return &generated.Recollection{Labels: Labels(r.Marking.Labels), Integrity: generated.Integrity(r.Marking.Integrity.String()),
		Degraded: append([]string{}, r.Degraded...), Hits: each(r.Hits, func(h memory.Hit) *generated.RecallHit {
			return &generated.RecallHit{Item: n.Show(h.Rendering), Score: h.Score, Citation: n.citation(h.Rendering)}
		})}
}

// citation says where an item stands, in one line.
func (n Names) citation(r view.Rendering) string {
	var parts []string
	if s := r.Source; s.Ref != "" {
		place := s.Ref
		switch {
		case s.Length > 0:
			place += fmt.Sprintf(", bytes %d to %d", s.Offset, s.Offset+s.Length)
		case s.Position > 0:
			place += fmt.Sprintf(", no. %d", s.Position)
		}
		parts = append(parts, place)
	}
	if r.Heading != "" {
		parts = append(parts, r.Heading)
	}
	said := n.Actor(r.Source.Principal).Name + ", " + at(r.RecordedMs).Format(time.DateOnly)
	return oneLine(n.Display(strings.Join(append(parts, said), "; ")))
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// Proof shows the receipt of a forgetting.
func (n Names) Proof(r memory.Receipt) *generated.ForgetReceipt {
	return &generated.ForgetReceipt{ID: n.Receipt(r.ID), By: n.Actor(r.By), At: at(r.AtMs), Digest: r.Digest, VerifiedAt: maybeAt(r.VerifiedMs),
		Items: each(r.Items, func(id string) string { return n.Item(id) }), Runs: each(r.Runs, n.Run),
		Stores: each(slices.Sorted(maps.Keys(r.Stores)), func(name string) *generated.ForgetStore {
			return &generated.ForgetStore{Name: name, Count: r.Stores[name]}
		})}
}

// Spaces shows where a reader may read or write, sorted.
func Spaces(reader view.Reader) []*generated.MemorySpace {
	all := slices.Concat(reader.Read, reader.Write)
	slices.Sort(all)
	return each(slices.Compact(all), func(space view.Space) *generated.MemorySpace {
		return &generated.MemorySpace{Name: string(space), Readable: slices.Contains(reader.Read, space), Writable: slices.Contains(reader.Write, space)}
	})
}

// Labels writes labels as the schema has them.
func Labels(labels policy.Labels) []string {
	return each(labels, func(label policy.Label) string { return string(label) })
}

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func maybeAt(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	moment := at(ms)
	return &moment
}

// maybe is nil for the zero value.
func maybe[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

func each[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, one := range list {
		out = append(out, convert(one))
	}
	return out
}

package remembered

import (
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"gantry.dev/graph/generated"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// What a caller may ask with, in bytes and in entries of a list.
const (
	maxQuestion = 8 << 10
	maxList     = 100 // entries of a list
	maxReason   = 4 << 10
)

// Invalid is a fault of one input field.
type Invalid struct{ Field, Message string }

// Error returns the field and the message.
func (i *Invalid) Error() string { return i.Field + ": " + i.Message }

// Question reads what recall asks.
func Question(query string, spaces []string, kinds []generated.MemoryKind, first int, tokens *int, asOf, knownAt *time.Time, archived bool) (memory.Question, error) {
	out := memory.Question{Text: query, Limit: first, AsOfMs: milliseconds(asOf), KnownMs: milliseconds(knownAt), Archived: archived}
	if tokens != nil {
		out.Tokens = *tokens
	}
	c := &check{}
	c.text("query", query, maxQuestion)
	c.that(out.Tokens >= 0, "tokens", "A bound is not negative.")
	out.Spaces, out.Kinds = c.spaces("spaces", spaces), c.kinds("kinds", kinds)
	return out, c.fault
}

// Filter reads which items are to be listed.
func Filter(in *generated.MemoryFilter) (memory.Filter, error) {
	if in == nil {
		return memory.Filter{}, nil
	}
	c := &check{}
	out := memory.Filter{Spaces: c.spaces("spaces", in.Spaces), Kinds: c.kinds("kinds", in.Kinds), Archived: in.Archived,
		Subject: c.name("subject", in.Subject), Ref: c.name("ref", in.Ref), Principal: c.name("principal", in.Principal)}
	return out, c.fault
}

// Draft reads what is to be remembered, without its key, the ids that it is made
// of, and a space where none is named.
func Draft(in *generated.MemoryDraft) (memory.Draft, error) {
	c := &check{}
	c.text("text", in.Text, memory.MaxText)
	out := memory.Draft{Kind: view.Kind(in.Kind), Text: in.Text, Subject: c.name("subject", in.Subject),
		Labels: c.labels("labels", in.Labels), Marks: c.marks(in.Marks), Integrity: c.integrity(in.Integrity),
		ValidFromMs: milliseconds(in.ValidFrom), ValidToMs: milliseconds(in.ValidTo), ExpiresMs: milliseconds(in.ExpiresAt), Source: c.source(in.Source)}
	if in.Space != nil {
		out.Space = c.space("space", *in.Space)
	}
	if in.Heading != nil {
		c.optional("heading", *in.Heading, memory.MaxHeading)
		out.Heading = *in.Heading
	}
	c.that(in.ValidTo == nil || in.ValidFrom == nil || in.ValidTo.After(*in.ValidFrom), "validTo", "It ends after it begins.")
	return out, c.fault
}

// Reason checks why something is to be done.
func Reason(reason string) error {
	c := &check{}
	c.text("reason", reason, maxReason)
	return c.fault
}

// LabelSet reads labels, at least one, and checks why they are to be taken away.
func LabelSet(labels []string, reason string) (policy.Labels, error) {
	c := &check{}
	c.text("reason", reason, maxReason)
	c.that(len(labels) > 0, "labels", "Name at least one label.")
	out := c.labels("labels", labels)
	return out, c.fault
}

// Selector reads what is to be forgotten, without its key and the ids of items.
func Selector(in generated.ForgetInput) (memory.Selector, error) {
	c := &check{}
	given := 0
	for _, set := range []bool{in.Items != nil, in.Ref != nil, in.Subject != nil, in.Space != nil} {
		if set {
			given++
		}
	}
	c.that(given == 1, "input", "Give exactly one of items, ref, subject and space.")
	c.that(in.Items == nil || len(in.Items) > 0, "items", "Name at least one item.")
	out := memory.Selector{}
	for _, named := range []struct {
		field string
		value *string
		into  *string
	}{{"ref", in.Ref, &out.Ref}, {"subject", in.Subject, &out.Subject}} {
		if named.value != nil {
			c.text(named.field, *named.value, memory.MaxRef)
			*named.into = *named.value
		}
	}
	if in.Space != nil {
		out.Space = c.space("space", *in.Space)
	}
	return out, c.fault
}

// Document is a document as a caller brings it.
type Document struct {
	Name      string
	Content   []byte
	Space     view.Space // empty for where its folder says, then the caller's own
	Kind      view.Kind
	Subject   string
	Labels    policy.Labels
	Integrity policy.Integrity
	ExpiresMs int64
	Key       string // makes a repeat the same command
}

// DocumentOf reads a document, without its key.
func DocumentOf(in generated.RememberDocumentInput) (Document, error) {
	c := &check{}
	c.text("name", in.Name, memory.MaxRef)
	c.that((in.Text == nil) != (in.Content == nil), "input", "Give either text or content.")
	out := Document{Name: in.Name, Kind: view.Kind(in.Kind), Subject: c.name("subject", in.Subject), Labels: c.labels("labels", in.Labels),
		Integrity: c.integrity(in.Integrity), ExpiresMs: milliseconds(in.ExpiresAt)}
	if in.Space != nil {
		out.Space = c.space("space", *in.Space)
	}
	if in.Text != nil {
		out.Content = []byte(*in.Text)
	}
	if in.Content != nil {
		var err error
		out.Content, err = base64.StdEncoding.DecodeString(*in.Content)
		c.that(err == nil, "content", "It must be base64 with padding.")
	}
	c.that(len(out.Content) > 0, "input", "The document is empty.")
	return out, c.fault
}

// check finds the first fault of an input.
type check struct{ fault error }

func (c *check) that(fine bool, field, message string) {
	if !fine && c.fault == nil {
		c.fault = &Invalid{field, message}
	}
}

func (c *check) text(field, text string, limit int) {
	c.that(text != "", field, "It must not be empty.")
	c.optional(field, text, limit)
}

func (c *check) optional(field, text string, limit int) {
	c.that(len(text) <= limit && utf8.ValidString(text), field, fmt.Sprintf("It must be UTF-8 text of at most %d bytes.", limit))
}

func (c *check) name(field string, given *string) string {
	if given == nil {
		return ""
	}
	c.optional(field, *given, memory.MaxRef)
	return *given
}

func (c *check) list(field string, count int) {
	c.that(count <= maxList, field, fmt.Sprintf("It has at most %d entries.", maxList))
}

func (c *check) space(field, given string) view.Space {
	space := view.Space(given)
	_, _, ok := space.Split()
	c.that(ok && len(given) <= memory.MaxRef, field, "A space is organisation, or person:, agent:, department: or conversation: and a name.")
	return space
}

func (c *check) spaces(field string, given []string) []view.Space {
	c.list(field, len(given))
	return each(given, func(one string) view.Space { return c.space(field, one) })
}

func (c *check) kinds(field string, given []generated.MemoryKind) []view.Kind {
	c.list(field, len(given))
	return each(given, func(one generated.MemoryKind) view.Kind { return view.Kind(one) })
}

func (c *check) labels(field string, given []string) policy.Labels {
	c.list(field, len(given))
	for _, label := range given {
		c.text(field, label, memory.MaxRef)
	}
	return policy.NewLabels(each(given, func(one string) policy.Label { return policy.Label(one) })...)
}

func (c *check) marks(given []*generated.MemoryMark) []memory.Mark {
	c.that(len(given) <= memory.MaxMarks, "marks", fmt.Sprintf("A text has at most %d marks.", memory.MaxMarks))
	return each(given, func(one *generated.MemoryMark) memory.Mark {
		c.that(len(one.Labels) > 0, "marks", "A mark has at least one label.")
		out := memory.Mark{Start: one.Start, End: one.End, Labels: c.labels("marks", one.Labels)}
		if one.Quote != nil {
			c.text("marks", *one.Quote, memory.MaxText)
			out.Quote = *one.Quote
		}
		return out
	})
}

func (c *check) integrity(given generated.Integrity) (level policy.Integrity) {
	c.that(level.UnmarshalText([]byte(given)) == nil, "integrity", "It is none of the levels.")
	return level
}

func (c *check) source(in *generated.MemorySourceInput) view.Source {
	if in == nil {
		return view.Source{Kind: view.FromPerson}
	}
	out := view.Source{Kind: view.SourceKind(in.Kind), Ref: c.name("ref", in.Ref)}
	c.that(out.Kind != view.FromRun && out.Kind != view.FromSeveral, "source", "Only PERSON, DOCUMENT and IMPORT can be claimed; the others are found out.")
	for _, number := range []struct {
		field string
		given *int
		into  *int
	}{{"position", in.Position, &out.Position}, {"offset", in.Offset, &out.Offset}, {"length", in.Length, &out.Length}} {
		if number.given != nil {
			c.that(*number.given >= 0, number.field, "It is not negative.")
			*number.into = *number.given
		}
	}
	return out
}

func milliseconds(moment *time.Time) int64 {
	if moment == nil {
		return 0
	}
	return moment.UnixMilli()
}

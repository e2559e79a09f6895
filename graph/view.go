package graph

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"gantry.dev/graph/generated"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// redacted stands where a text is not shown.
const redacted = "[redacted]"

// viewer maps the domain onto the schema for one caller.
type viewer struct {
	config Config
	caller Caller
	texts  map[string]View
	lookUp func(id string) (policy.Principal, bool)
}

// newViewer opens the given texts for the caller at once.
func newViewer(ctx context.Context, config Config, caller Caller, texts []run.Text) (*viewer, error) {
	v := &viewer{config: config, caller: caller, lookUp: func(id string) (policy.Principal, bool) {
		principal, err := config.Directory.Principal(ctx, caller.Principal.Organisation, id)
		return principal, err == nil
	}}
	seen := map[string]bool{}
	var ids []string
	for _, text := range texts {
		if text.ID != "" && !seen[text.ID] {
			seen[text.ID] = true
			ids = append(ids, text.ID)
		}
	}
	if len(ids) == 0 {
		return v, nil
	}
	var err error
	v.texts, err = config.Runs.Texts(ctx, caller, ids)
	return v, err
}

// text shows a text, or that it is withheld. Where the caller is not cleared by
// the text's own marking it stays withheld whatever was opened.
func (v *viewer) text(text run.Text) *generated.Text {
	out := &generated.Text{Value: redacted, Display: redacted, Withheld: []*generated.Withheld{},
		Integrity: generated.Integrity(text.Marking.Integrity.String()), Labels: v.labels(text.Marking.Labels)}
	view, found := v.texts[text.ID]
	switch {
	case !v.caller.Principal.Sees(text.Marking.Labels) || view.Withheld:
		out.Withheld = append(out.Withheld, &generated.Withheld{Reason: generated.WithheldReasonNotCleared})
	case !found:
		out.Withheld = append(out.Withheld, &generated.Withheld{Reason: generated.WithheldReasonErased})
	default:
		out.Value, out.Display = view.Text, display(view.Text)
	}
	return out
}

func (v *viewer) optional(text *run.Text) *generated.Text {
	if text == nil {
		return nil
	}
	return v.text(*text)
}

// labels are those that the caller may know of.
func (v *viewer) labels(labels policy.Labels) []string {
	known := []string{}
	for _, label := range labels.Meet(v.caller.Principal.Clearance) {
		known = append(known, string(label))
	}
	return known
}

func (v *viewer) actor(id string) *generated.Actor {
	actor := &generated.Actor{Principal: id, Name: id}
	if principal, known := v.lookUp(id); known {
		kind := generated.ActorKind(principal.Kind)
		actor.Kind, actor.Name = &kind, principal.Name
	}
	return actor
}

func (v *viewer) actors(ids []string) []*generated.Actor {
	return each(ids, v.actor)
}

func (v *viewer) approvers(approvers []policy.Approver) []*generated.Approver {
	return each(approvers, func(a policy.Approver) *generated.Approver {
		out := &generated.Approver{Role: maybe(a.Role), Why: a.Why}
		if a.Principal != "" {
			out.Principal = v.actor(a.Principal)
		}
		return out
	})
}

func (v *viewer) id(kind nodeKind, parts ...string) string {
	return globalID(v.caller.Principal.Organisation, kind, parts...)
}

// display writes every character that is not seen as what it is as \u{...},
// and so the backslash of a text that has such an escape itself: what is shown
// stands for one text only.
func display(text string) string {
	var out strings.Builder
	for at, r := range text {
		if r == '\n' || r == '\t' || !hidden(r) && !strings.HasPrefix(text[at:], `\u{`) {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u{%04X}`, r)
	}
	return out.String()
}

// blanks are letters and symbols that look like nothing.
var blanks = map[rune]bool{0x034F: true, 0x115F: true, 0x1160: true, 0x17B4: true, 0x17B5: true, 0x2800: true, 0x3164: true, 0xFFA0: true, unicode.ReplacementChar: true}

func hidden(r rune) bool {
	if r == ' ' {
		return false
	}
	return blanks[r] || unicode.Is(unicode.Variation_Selector, r) || !unicode.IsPrint(r)
}

func amount(a run.Amount) *generated.Amount {
	return &generated.Amount{Money: a.MicroUSD, Tokens: a.Tokens}
}

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func maybeAt(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := at(ms)
	return &t
}

// maybe is nil for the zero value.
func maybe[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// enum casts a word of the domain to the schema's enum; nil for none.
func enum[T ~string, S ~string](word S) *T {
	if word == "" {
		return nil
	}
	value := T(word)
	return &value
}

func each[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, item := range list {
		out = append(out, convert(item))
	}
	return out
}

func words[T ~string](list []T) []string {
	return each(list, func(word T) string { return string(word) })
}

package brain

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/graph/remembered"
	"gantry.dev/memory"
	"gantry.dev/memory/document"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// Documents takes documents into memory.
type Documents struct {
	*service.Service
	Files *document.Reader
}

// Document remembers a document as it is now: see upkeep. Whoever keeps one
// must be cleared for all of it, for what they cannot read they would remember
// again each time.
func (d Documents) Document(ctx context.Context, reader view.Reader, in remembered.Document) (graph.DocumentOutcome, error) {
	read, err := d.Files.Read(ctx, in.Name, in.Content)
	var unreadable *document.Unreadable
	if errors.As(err, &unreadable) {
		return graph.DocumentOutcome{}, &memory.Refusal{Code: unreadable.Code, Detail: unreadable.Detail}
	}
	if err != nil {
		return graph.DocumentOutcome{}, err
	}
	o, err := d.Organisation(ctx, reader.Organisation)
	if err != nil {
		return graph.DocumentOutcome{}, err
	}
	folder := o.Folder(in.Name)
	common := memory.Draft{
		Space:       cmp.Or(in.Space, read.Front.Space, folder.Space, view.SpaceOf(view.SpacePerson, reader.Principal)),
		Kind:        in.Kind,
		Subject:     subjectOf(cmp.Or(in.Subject, read.Front.Subject, in.Name)),
		Labels:      policy.NewLabels(in.Labels...).Join(read.Front.Labels).Join(folder.Labels),
		Integrity:   max(in.Integrity, folder.Integrity),
		Source:      view.Source{Kind: view.FromDocument, Ref: memory.Normal(in.Name)},
		ValidFromMs: read.Front.ValidFromMs,
		ValidToMs:   read.Front.ValidToMs,
		ExpiresMs:   earlier(in.ExpiresMs, read.Front.ExpiresMs),
	}
	if in.Kind == view.Passage && read.Front.Kind != "" {
		common.Kind = read.Front.Kind
	}
	if !common.Labels.Within(reader.Clearance) {
		return graph.DocumentOutcome{}, &memory.Refusal{Code: "NOT_CLEARED", Detail: "The document gets labels that you are not cleared for; have somebody remember it who may read it."}
	}
	keeping := upkeep{brain: d.Brain, reader: reader, space: common.Space, ref: common.Source.Ref, key: in.Key, drafts: passages(common, read.Passages)}
	out, err := keeping.keep(ctx)
	out.Title = read.Title
	return out, err
}

// passages are the drafts of a document's passages, in the form in which memory
// keeps them.
func passages(common memory.Draft, of []document.Passage) []memory.Draft {
	drafts := make([]memory.Draft, 0, len(of))
	for _, passage := range of {
		draft := common
		draft.Heading, draft.Text = headingOf(passage.Heading), memory.Normal(passage.Text)
		draft.Source.Position, draft.Source.Offset, draft.Source.Length = passage.Position, passage.Offset, passage.Length
		drafts = append(drafts, draft)
	}
	return drafts
}

// headingOf keeps the nearest headings, as many as an item may have.
func headingOf(headings string) string {
	headings = memory.Normal(headings)
	for len(headings) > memory.MaxHeading {
		_, nearer, several := strings.Cut(headings, " › ")
		if !several {
			return beginning(headings, memory.MaxHeading)
		}
		headings = nearer
	}
	return headings
}

// subjectOf is a subject as memory keeps it.
func subjectOf(text string) string {
	return strings.TrimSpace(beginning(strings.TrimSpace(memory.Normal(text)), memory.MaxSubject))
}

// beginning is as much of a text as has at most this many bytes, without a
// character that is cut.
func beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}

// earlier is the earlier of two moments, of which 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

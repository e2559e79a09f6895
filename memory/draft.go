package memory

import (
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// The limits of a draft, in bytes as it was given.
const (
	MaxText    = 64 << 10
	MaxHeading = 1 << 10
	MaxSubject = 256
	MaxRef     = 1 << 10 // also of a model's name and a space
	MaxMarks   = 1024    // marks of one draft
	MaxSources = 256     // ids in DerivedFrom
)

// latestMs is the end of the year 9999: later times have no usual form.
const latestMs = 253402300799999

// Found is a part of a text that a detector recognised.
type Found struct {
	Start, End int           // bytes of the text that was looked at
	Labels     policy.Labels // what it is confidential for
	Detector   string        // which detector it was
}

// Rules are what an organisation says about what is remembered. They must
// answer the same as long as one write lasts.
type Rules struct {
	// Known reports whether the organisation has such a label.
	Known func(label policy.Label) bool
	// Detect finds what is confidential by itself; nil finds nothing.
	Detect func(text string) []Found
	// Owns reports whether the principal may let texts with this label go further.
	Owns func(principal string, label policy.Label) bool
}

// Prepare turns a draft into the item that would be remembered, without an id,
// or says in a *Refusal why it may not be. Detectors add labels to what they
// find and take none away; what they find in the subject or the source's name,
// which every reader of the item sees, labels the whole item. What a run writes
// is untrusted and carries every label that the run has read.
//
// Text, heading, subject and source are kept in Normal form, and marks with
// them: a mark that ends inside of what becomes one character takes in all of
// it.
func Prepare(draft Draft, reader view.Reader, rules Rules, nowMs int64) (view.Item, error) {
	if err := admissible(draft, reader, rules); err != nil {
		return view.Item{}, err
	}
	marked, err := marksOf(draft)
	if err != nil {
		return view.Item{}, err
	}
	text, at := normalForm(draft.Text)
	for i := range marked {
		marked[i].Start, marked[i].End = at.start(marked[i].Start), at.end(marked[i].End)
	}
	heading := Normal(draft.Heading)
	item := view.Item{
		Organisation: reader.Organisation,
		Space:        draft.Space,
		Kind:         draft.Kind,
		Subject:      strings.TrimSpace(Normal(draft.Subject)),
		Integrity:    max(draft.Integrity, reader.Context.Integrity),
		Source:       sourceOf(draft.Source, reader),
		ValidFromMs:  draft.ValidFromMs,
		ValidToMs:    draft.ValidToMs,
		RecordedMs:   nowMs,
		ExpiresMs:    draft.ExpiresMs,
		DerivedFrom:  sortedIDs(draft.DerivedFrom),
	}
	if reader.Run != "" {
		item.Integrity = policy.Untrusted
	}
	if item.ValidFromMs == 0 {
		item.ValidFromMs = nowMs
	}
	if err := lasting(&item, nowMs); err != nil {
		return view.Item{}, err
	}
	if strings.TrimSpace(text) == "" {
		return view.Item{}, &Refusal{Code: "EMPTY", Detail: "There is no text to remember; give some."}
	}
	whole := policy.NewLabels(draft.Labels...).Join(reader.Context.Labels)
	for _, said := range []string{item.Subject, item.Source.Ref, item.Source.Model} {
		for _, found := range rules.find(said) {
			whole = whole.Join(found.Labels)
		}
	}
	for _, segment := range cut(heading, whole, rules.find(heading)) {
		segment.Heading = true
		item.Segments = view.Append(item.Segments, segment)
	}
	for _, segment := range cut(text, whole, append(marked, rules.find(text)...)) {
		item.Segments = view.Append(item.Segments, segment)
	}
	return item, nil
}

// RefusalOf returns the *Refusal for an error of package view, and any other
// error as it is.
func RefusalOf(err error) error {
	for _, known := range []struct {
		err          error
		code, detail string
	}{
		{view.ErrAbsent, "NOT_FOUND", "There is no such item for you; check the id."},
		{view.ErrNotWhole, "NOT_WHOLE", "You see only a part of the item; ask somebody who sees all of it."},
		{view.ErrSubject, "SUBJECT_DIFFERS", "Only what has the same subject can take an item's place; give its subject, or remember it beside the item."},
		{view.ErrAudience, "AUDIENCE", "The space has readers who may not read a source; remember it in the source's space or in your own."},
		{view.ErrGroup, "GROUP_DIFFERS", "Only items of one space with the same labels can become one; consolidate each group by itself."},
		{view.ErrReadOnly, "NOT_ENTITLED", "You may not write where the item stands; ask somebody who may."},
		{view.ErrOutlived, "EXPIRES", "It would expire before what it replaces; let it not expire earlier, or say until when it is true instead."},
		{view.ErrTooManySets, "TOO_MANY_LABEL_SETS", "The text has too many combinations of labels; split it into several."},
	} {
		if errors.Is(err, known.err) {
			return &Refusal{Code: known.code, Detail: known.detail}
		}
	}
	return err
}

func admissible(draft Draft, reader view.Reader, rules Rules) error {
	if _, _, ok := draft.Space.Split(); !ok || len(draft.Space) > MaxRef || !reader.Writes(draft.Space) {
		return &Refusal{Code: "SPACE", Detail: "You cannot write in that space; choose one of yours."}
	}
	if err := view.MayTell(&reader, draft.Space); err != nil {
		return RefusalOf(err)
	}
	if !slices.Contains(view.Kinds(), draft.Kind) {
		return &Refusal{Code: "KIND", Detail: "That is no kind of item; choose FACT, PREFERENCE, EPISODE, PASSAGE, PROCEDURE, FINDING or TRAIT."}
	}
	if kind, _, _ := draft.Space.Split(); draft.Kind == view.Trait && kind != view.SpaceAgent {
		return &Refusal{Code: "SPACE", Detail: "A trait is an agent's; put it into the agent's space."}
	}
	for _, part := range []struct {
		text string
		most int
	}{
		{draft.Text, MaxText}, {draft.Heading, MaxHeading}, {draft.Subject, MaxSubject},
		{draft.Source.Ref, MaxRef}, {draft.Source.Model, MaxRef},
	} {
		if len(part.text) > part.most {
			return &Refusal{Code: "TOO_LARGE", Detail: "A part of it is too long; split it, and keep the heading, the subject and the source short."}
		}
		if !utf8.ValidString(part.text) {
			return &Refusal{Code: "TEXT", Detail: "It is not valid UTF-8; convert it first."}
		}
	}
	if len(draft.Marks) > MaxMarks || len(draft.DerivedFrom) > MaxSources {
		return &Refusal{Code: "TOO_LARGE", Detail: "It has too many marks or sources; split it."}
	}
	if draft.Integrity > policy.Untrusted || draft.Source.Position < 0 || draft.Source.Offset < 0 || draft.Source.Length < 0 {
		return &Refusal{Code: "SOURCE", Detail: "Its integrity or its place in the source is out of range; correct it."}
	}
	if !slices.Contains([]view.SourceKind{"", view.FromPerson, view.FromRun, view.FromDocument, view.FromSeveral, view.FromElsewhere}, draft.Source.Kind) {
		return &Refusal{Code: "SOURCE", Detail: "That is no kind of source; choose PERSON, RUN, DOCUMENT, CONSOLIDATION or IMPORT."}
	}
	said := slices.Clone(draft.Labels)
	for _, mark := range draft.Marks {
		said = append(said, mark.Labels...)
	}
	for _, label := range policy.NewLabels(said...) {
		if rules.Known == nil || !rules.Known(label) {
			return &Refusal{Code: "UNKNOWN_LABEL", Detail: "The organisation has no such label; use one that it has."}
		}
	}
	return nil
}

// lasting checks the times of an item.
func lasting(item *view.Item, nowMs int64) error {
	ends := item.ValidToMs != 0 && item.ValidToMs <= item.ValidFromMs
	gone := item.ExpiresMs != 0 && item.ExpiresMs <= nowMs
	far := max(item.ValidFromMs, item.ValidToMs, item.ExpiresMs) > latestMs || min(item.ValidFromMs, item.ValidToMs) < -latestMs
	if ends || gone || far {
		return &Refusal{Code: "VALIDITY", Detail: "It would end before it begins, be gone already, or last beyond the year 9999; correct its times."}
	}
	return nil
}

// sourceOf completes what the writer said about the source with who it is.
func sourceOf(source view.Source, reader view.Reader) view.Source {
	source.Ref, source.Model = Normal(source.Ref), Normal(source.Model)
	source.Principal, source.Run = reader.Principal, reader.Run
	switch {
	case reader.Run != "" && source.Kind != view.FromSeveral:
		source.Kind = view.FromRun
	case source.Kind == "" || reader.Run == "" && source.Kind == view.FromRun:
		source.Kind = view.FromPerson
	}
	return source
}

func sortedIDs(ids []string) []string {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return slices.Compact(ids)
}

// marksOf checks the marks against the text as it was given.
func marksOf(draft Draft) ([]Found, error) {
	var found []Found
	for _, mark := range draft.Marks {
		inside := 0 <= mark.Start && mark.Start < mark.End && mark.End <= len(draft.Text)
		if !inside || len(mark.Labels) == 0 || !runeAt(draft.Text, mark.Start) || !runeAt(draft.Text, mark.End) {
			return nil, &Refusal{Code: "MARK", Detail: "A mark does not fit the text, or has no labels; give byte offsets between whole characters, and labels."}
		}
		if mark.Quote != "" && mark.Quote != draft.Text[mark.Start:mark.End] {
			return nil, &Refusal{Code: "MARK", Detail: "A mark does not stand where its quote stands; count its offsets again, in bytes."}
		}
		found = append(found, Found{Start: mark.Start, End: mark.End, Labels: policy.NewLabels(mark.Labels...)})
	}
	return found, nil
}

// runeAt reports whether a character begins or the text ends at the offset.
func runeAt(text string, offset int) bool {
	return offset == len(text) || utf8.RuneStart(text[offset])
}

// find asks the detectors. What does not fit the text labels all of it: a
// detector that has lost its place has still seen something.
func (r Rules) find(text string) []Found {
	if r.Detect == nil || text == "" {
		return nil
	}
	var fitting []Found
	for _, found := range r.Detect(text) {
		if found.Start < 0 || found.End > len(text) || found.Start >= found.End {
			found.Start, found.End = 0, len(text)
		}
		for !runeAt(text, found.Start) {
			found.Start--
		}
		for !runeAt(text, found.End) {
			found.End++
		}
		found.Labels = policy.NewLabels(found.Labels...)
		fitting = append(fitting, found)
	}
	return fitting
}

// cut parts a text where its labels change.
func cut(text string, whole policy.Labels, spans []Found) []view.Segment {
	borders := []int{0, len(text)}
	for _, span := range spans {
		borders = append(borders, span.Start, span.End)
	}
	slices.Sort(borders)
	borders = slices.Compact(borders)
	slices.SortStableFunc(spans, func(a, b Found) int { return a.Start - b.Start })
	var segments []view.Segment
	var open []Found
	for i := 1; i < len(borders); i++ {
		from, to := borders[i-1], borders[i]
		for len(spans) > 0 && spans[0].Start <= from {
			open, spans = append(open, spans[0]), spans[1:]
		}
		open = slices.DeleteFunc(open, func(span Found) bool { return span.End <= from })
		segment := view.Segment{Text: text[from:to], Labels: whole}
		var detectors []string
		for _, span := range open {
			segment.Labels = segment.Labels.Join(span.Labels)
			if span.Detector != "" {
				detectors = append(detectors, span.Detector)
			}
		}
		segment.Detector = strings.Join(sortedIDs(detectors), ",")
		segments = append(segments, segment)
	}
	return segments
}

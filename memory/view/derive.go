package view

import (
	"errors"
	"slices"

	"gantry.dev/orchestrator/policy"
)

// Why an item may not take its place.
var (
	ErrAbsent   = errors.New("no such item for this reader")
	ErrNotWhole = errors.New("the reader sees only a part of the item")
	ErrReadOnly = errors.New("the reader may not write where the item stands")
	ErrSubject  = errors.New("the two items are not about the same subject")
	ErrAudience = errors.New("the space has readers who may not read a source")
	ErrGroup    = errors.New("the items are not of one space and one label set")
	ErrOutlived = errors.New("it would expire before what it replaces")
)

// Derived is what an item made from others carries at least.
type Derived struct {
	Marking   policy.Marking // of all that the deriving reader saw of them
	ValidToMs int64          // when the first of them ceased to be true; 0: open
	ExpiresMs int64          // when the first of them is erased; 0: never
	From      []string       // their ids, sorted
}

// Derive returns what the reader must put on an item in the target space that
// it makes from the sources: every label of what it sees of them, and the trust
// of the least trusted. Nobody reads the derived item who may not read in the
// space of each source, unless the reader keeps it to itself. The errors are
// ErrAbsent and ErrAudience.
func Derive(sources []*Item, reader *Reader, target Space) (Derived, error) {
	var derived Derived
	for _, source := range sources {
		if !reader.Sees(source) {
			return Derived{}, ErrAbsent
		}
		if !heard(source.Space, target, reader) {
			return Derived{}, ErrAudience
		}
		derived.Marking.Integrity = max(derived.Marking.Integrity, source.Integrity)
		for _, segment := range source.Segments {
			if segment.Labels.Within(reader.Clearance) {
				derived.Marking.Labels = derived.Marking.Labels.Join(segment.Labels)
			}
		}
		derived.ValidToMs = earlier(derived.ValidToMs, source.ValidToMs)
		derived.ExpiresMs = earlier(derived.ExpiresMs, source.ExpiresMs)
		derived.From = append(derived.From, source.ID)
	}
	slices.Sort(derived.From)
	derived.From = slices.Compact(derived.From)
	return derived, nil
}

// Onto puts what was derived on an item. An item that does not say until when
// it is true is true no longer than its sources, unless they had ceased before
// it began.
func (d Derived) Onto(item Item) Item {
	item.Segments = Labelled(item.Segments, d.Marking.Labels)
	item.Integrity = max(item.Integrity, d.Marking.Integrity)
	if item.ValidToMs == 0 && d.ValidToMs > item.ValidFromMs {
		item.ValidToMs = d.ValidToMs
	}
	item.ExpiresMs = earlier(item.ExpiresMs, d.ExpiresMs)
	item.DerivedFrom = d.From
	return item
}

// heard reports whether everybody who reads in the target may hear what stands
// in the source's space.
func heard(source, target Space, reader *Reader) bool {
	own := reader.Principal
	if reader.Run != "" {
		own = reader.Subject
	}
	return target == source || source == Organisation || own != "" && target == SpaceOf(SpacePerson, own)
}

// MayTell reports with nil whether everybody who reads in the target may hear
// what the run has heard so far. The error is ErrAudience.
func MayTell(reader *Reader, target Space) error {
	for _, source := range reader.Heard {
		if !heard(source, target, reader) {
			return ErrAudience
		}
	}
	return nil
}

func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Labelled returns the segments, each with these labels too, merged where
// nothing tells them apart any more.
func Labelled(segments []Segment, labels policy.Labels) []Segment {
	var out []Segment
	for _, segment := range segments {
		segment.Labels = segment.Labels.Join(labels)
		out = Append(out, segment)
	}
	return out
}

// Unlabelled returns the segments, each without these labels, merged likewise.
func Unlabelled(segments []Segment, labels policy.Labels) []Segment {
	var out []Segment
	for _, segment := range segments {
		segment.Labels = without(segment.Labels, labels)
		out = Append(out, segment)
	}
	return out
}

// Append adds a segment to others, or to the last of them where nothing tells
// the two apart. An empty one adds nothing. Like append it may write into what it
// is given.
func Append(segments []Segment, next Segment) []Segment {
	if next.Text == "" {
		return segments
	}
	if n := len(segments); n > 0 {
		last := &segments[n-1]
		if last.Heading == next.Heading && last.Detector == next.Detector && slices.Equal(last.Labels, next.Labels) {
			last.Text += next.Text
			return segments
		}
	}
	return append(segments, next)
}

// MaySupersede reports with nil whether the reader may put next in the place of
// old: it sees all of old and may write where it stands, and both are about the
// same subject. The errors are ErrAbsent, ErrNotWhole, ErrReadOnly, ErrSubject
// and ErrOutlived.
func MaySupersede(old, next *Item, reader *Reader) error {
	if next.Organisation != old.Organisation {
		return ErrAbsent
	}
	if err := mayReplace(old, reader); err != nil {
		return err
	}
	if old.Subject == "" || old.Subject != next.Subject {
		return ErrSubject
	}
	return outlives(old, next)
}

// MayConsolidate reports with nil whether the reader may put next in the place
// of the sources: it may replace each, and they stand in one space, which is
// next's, under one label set, so that no label creeps from one to another. The
// errors are ErrAbsent, ErrNotWhole, ErrReadOnly, ErrGroup and ErrOutlived.
func MayConsolidate(sources []*Item, next *Item, reader *Reader) error {
	for _, source := range sources {
		if err := mayReplace(source, reader); err != nil {
			return err
		}
	}
	for _, source := range sources {
		if source.Space != next.Space || SetID(source.Labels()) != SetID(sources[0].Labels()) {
			return ErrGroup
		}
		if err := outlives(source, next); err != nil {
			return err
		}
	}
	return nil
}

// MayErase reports with nil whether the reader may erase an item: it may write
// where the item stands, and sees all of it or wrote it in person. What a
// detector found in somebody's own words leaves them the right to withdraw
// these; what is in their own space, nobody else could. Who answers for the
// organisation's memory may erase whatever they see a part of. The errors are
// ErrAbsent, ErrNotWhole and ErrReadOnly.
func MayErase(item *Item, reader *Reader) error {
	switch {
	case !reader.Sees(item):
		return ErrAbsent
	case reader.Whole:
		return nil
	case !reader.SeesWhole(item) && !wrote(reader, item):
		return ErrNotWhole
	case !reader.Writes(item.Space):
		return ErrReadOnly
	}
	return nil
}

// wrote reports whether the reader said the item itself: neither of them is a
// run, which may have put there what it had from elsewhere.
func wrote(reader *Reader, item *Item) bool {
	return reader.Run == "" && item.Source.Run == "" && reader.Principal != "" && item.Source.Principal == reader.Principal
}

// mayReplace asks to see all of what is replaced, because an erasure takes with
// an item what it superseded.
func mayReplace(old *Item, reader *Reader) error {
	switch {
	case !reader.Sees(old):
		return ErrAbsent
	case !reader.SeesWhole(old):
		return ErrNotWhole
	case !reader.Writes(old.Space):
		return ErrReadOnly
	}
	return nil
}

// outlives refuses what would be gone before what it replaces. So whatever
// expires, its older versions have gone before it: none comes back, and none
// has to be taken from readers who never saw the newer one.
func outlives(old, next *Item) error {
	if next.ExpiresMs != 0 && (old.ExpiresMs == 0 || next.ExpiresMs < old.ExpiresMs) {
		return ErrOutlived
	}
	return nil
}

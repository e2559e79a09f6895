package view

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Same reports whether next says nothing new beside known: the same words with
// the same labels, in the same space, about the same subject, from the same
// place of the same source, and known is trusted at least as far, is true at
// least while next is, and is kept at least as long. Only what the writer sees
// whole, and what is not out of date for it, may be compared with what it
// writes: another answer would tell it of what it does not see.
func Same(known, next *Item) bool {
	return known.Integrity <= next.Integrity && asEarly(known, next) && asLate(known.ValidToMs, next.ValidToMs) &&
		asLate(known.ExpiresMs, next.ExpiresMs) && slices.Equal(sameness(known), sameness(next))
}

// asEarly reports whether an item began to be true no later than another. Of two
// that were written at once and are true from then on, either may be first.
func asEarly(item, other *Item) bool {
	return item.ValidFromMs <= other.ValidFromMs || item.ValidFromMs == item.RecordedMs && other.ValidFromMs == other.RecordedMs
}

// asLate reports whether an end is not before another; 0 is never.
func asLate(end, other int64) bool { return end == 0 || other != 0 && other <= end }

// SameKey is the keyed digest of what Same compares but trust and times: what
// finds the few items that may be the same.
func SameKey(item *Item, key []byte) string {
	return hex.EncodeToString(digest(key, "memory-same", sameness(item)))
}

// sameness is what Same compares.
func sameness(item *Item) []any {
	of := []any{
		item.Organisation, item.Space, item.Kind, item.Subject,
		item.Source.Ref, item.Source.Position, item.Source.Offset,
	}
	var segments []Segment
	for _, segment := range item.Segments {
		segment.Detector = ""
		segments = Append(segments, segment)
	}
	for _, segment := range segments {
		of = append(of, segment.Text, SetID(segment.Labels), segment.Heading)
	}
	return of
}

// digest is a keyed digest of a value for one purpose.
func digest(key []byte, purpose string, value any) []byte {
	written, err := json.Marshal(value)
	if err != nil {
		panic(err) // what is digested here is made of strings, numbers and names
	}
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte(purpose + "\x00"))
	sum.Write(written)
	return sum.Sum(nil)
}

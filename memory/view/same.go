package view

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Same reports whether next says nothing new beside known: the same words with
// the same labels, in the same space, about the same subject, from the same
// place of the same source, and known is trusted at least as far. Only what the
// writer sees whole, and what is not out of date for it, may be compared with
// what it writes: another answer would tell it of what it does not see.
func Same(known, next *Item) bool {
	return known.Integrity <= next.Integrity && bytes.Equal(sameness(known), sameness(next))
}

// SameKey is the keyed digest of what Same compares but trust: what finds the
// few items that may be the same.
func SameKey(item *Item, key []byte) string {
	sum := hmac.New(sha256.New, key)
	sum.Write([]byte("memory-same\x00"))
	sum.Write(sameness(item))
	return hex.EncodeToString(sum.Sum(nil))
}

func sameness(item *Item) []byte {
	var segments []Segment
	for _, segment := range item.Segments {
		segment.Detector = ""
		segments = Append(segments, segment)
	}
	written, err := json.Marshal([]any{
		item.Organisation, item.Space, item.Kind, item.Subject,
		item.Source.Ref, item.Source.Position, item.Source.Offset, segments,
	})
	if err != nil {
		panic(err) // strings and numbers always have a form
	}
	return written
}

package detect

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// ErrSpan means that spans do not fit their text: nothing of it is shown.
var ErrSpan = errors.New("the spans do not fit the text")

// ErrChanged means that a text is not the one that its spans were recorded for.
var ErrChanged = errors.New("the text is not the one that was recorded")

// Redact returns the text with the mark in place of each span. Spans are given
// in order, apart from each other, each with something in it and at the borders
// of runes; else it is ErrSpan and shows nothing. See Unite.
func Redact(text string, spans []Span, mark string) (string, error) {
	var out strings.Builder
	at := 0
	for i, span := range spans {
		switch {
		case span.Start < 0 || span.End > len(text):
			return "", fmt.Errorf("%w: span %d lies outside of its %d bytes", ErrSpan, i, len(text))
		case span.Start >= span.End:
			return "", fmt.Errorf("%w: span %d is empty", ErrSpan, i)
		case i > 0 && span.Start <= at:
			return "", fmt.Errorf("%w: span %d overlaps or touches the one before", ErrSpan, i)
		case cutsRune(text, span.Start) || cutsRune(text, span.End):
			return "", fmt.Errorf("%w: span %d cuts a character", ErrSpan, i)
		}
		out.WriteString(text[at:span.Start])
		out.WriteString(mark)
		at = span.End
	}
	out.WriteString(text[at:])
	return out.String(), nil
}

// Expected is a span with a keyed digest of what stood there, so that it can be
// told when the text is another one. The key belongs to whoever keeps the text,
// and goes with it: without it the digest confirms no guess.
type Expected struct {
	Span
	Digest string
}

// Expect records what stands in a span; ErrSpan for a span that does not fit.
func Expect(key []byte, text string, span Span) (Expected, error) {
	if _, err := Redact(text, []Span{span}, ""); err != nil {
		return Expected{}, err
	}
	return Expected{Span: span, Digest: digest(key, text[span.Start:span.End])}, nil
}

// RedactExpected is Redact for recorded spans. When one holds another text than
// was recorded it is ErrChanged and shows nothing.
func RedactExpected(key []byte, text string, recorded []Expected, mark string) (string, error) {
	spans := make([]Span, len(recorded))
	for i, expected := range recorded {
		spans[i] = expected.Span
	}
	redacted, err := Redact(text, spans, mark)
	if err != nil {
		return "", err
	}
	for i, expected := range recorded {
		if !hmac.Equal([]byte(expected.Digest), []byte(digest(key, text[expected.Start:expected.End]))) {
			return "", fmt.Errorf("%w: span %d", ErrChanged, i)
		}
	}
	return redacted, nil
}

func digest(key []byte, text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

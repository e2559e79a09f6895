package rank_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/memory/rank"
)

// A Wednesday.
var now = time.Date(2031, time.October, 15, 12, 0, 0, 0, time.UTC)

func spans(text string) string {
	var all []string
	for _, span := range rank.Spans(text, now.UnixMilli()) {
		const form = "2006-01-02"
		all = append(all, time.UnixMilli(span.FromMs).UTC().Format(form)+"/"+time.UnixMilli(span.UntilMs).UTC().Format(form))
	}
	return strings.Join(all, " ")
}

func TestSpans(t *testing.T) {
	for text, want := range map[string]string{
		"What did she paint on October 13, 2029?": "2029-10-13/2029-10-14",
		"on the 2nd of March":                     "2031-03-02/2031-03-03",
		"on 1 February, 2030":                     "2030-02-01/2030-02-02",
		"on December 24th":                        "2030-12-24/2030-12-25",
		"in October":                              "2031-10-01/2031-11-01",
		"in November":                             "2030-11-01/2030-12-01",
		"last August 2029":                        "2029-08-01/2029-09-01",
		"it may march on":                         "",
		"in May, since March":                     "2031-05-01/2031-06-01 2031-03-01/2031-04-01",
		"from 2031-01-31 to 2030-02":              "2031-01-31/2031-02-01 2030-02-01/2030-03-01",
		"in 2029 or room 4711, or 12":             "2029-01-01/2030-01-01",
		"yesterday and today":                     "2031-10-14/2031-10-15 2031-10-15/2031-10-16",
		"last week, this week":                    "2031-10-06/2031-10-13 2031-10-13/2031-10-20",
		"last month, this month":                  "2031-09-01/2031-10-01 2031-10-01/2031-11-01",
		"last year, at last":                      "2030-01-01/2031-01-01",
		"":                                        "",
	} {
		require.Equal(t, want, spans(text), text)
	}
}

func TestSpansOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{"last", "week", "31", "of", "february", "2031", "may", "in", "the", "2031-13-99", "today"})).Draw(t, "words")
		for _, span := range rank.Spans(strings.Join(words, " "), rapid.Int64Range(-1e12, 1e14).Draw(t, "now")) {
			require.Less(t, span.FromMs, span.UntilMs)
		}
	})
}

package graph

import (
	"regexp"
	"strconv"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph/legible"
)

// unseen are the characters that people do not see, or that change how others
// are seen, by the tables of Unicode.
var unseen = []*unicode.RangeTable{unicode.C, unicode.Zl, unicode.Zp, unicode.Bidi_Control, unicode.Join_Control,
	unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

var written = regexp.MustCompile(`\\u\{([0-9A-F]+)\}`)

// Reveal is the way back from display.
func Reveal(t require.TestingT, shown string) string {
	return written.ReplaceAllStringFunc(shown, func(escape string) string {
		code, err := strconv.ParseUint(written.FindStringSubmatch(escape)[1], 16, 32)
		require.NoError(t, err)
		return string(rune(code))
	})
}

// What is shown for display holds nothing unseen, and stands for one text only.
func FuzzDisplay(f *testing.F) {
	for _, seed := range []string{"plain", "a\u202eb", `a\u{202E}b`, `\\u{202E}`, "\\\u202e", `\u{`, "\u200d\ufeff\u2066", "\u00a0\u3000", "\x00\x1b[2J", "a\tb\n", "\U000e0041", "\u180b\ufe0f", "\u115f\u3164\u2800", `\u{5C}`, "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		shown := legible.Text(text)
		require.True(t, utf8.ValidString(shown))
		for _, r := range shown {
			require.False(t, r != '\n' && r != '\t' && unicode.In(r, unseen...), "%q shows %U", text, r)
			require.False(t, r != ' ' && unicode.Is(unicode.Zs, r), "%q shows %U", text, r)
		}
		if utf8.ValidString(text) {
			require.Equal(t, text, Reveal(t, shown))
			require.Equal(t, text, Reveal(t, legible.Outside(text)))
		}
	})
}

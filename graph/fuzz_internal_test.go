package graph

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph/edge"
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
		shown := display(text)
		require.True(t, utf8.ValidString(shown))
		for _, r := range shown {
			require.False(t, r != '\n' && r != '\t' && unicode.In(r, unseen...), "%q shows %U", text, r)
			require.False(t, r != ' ' && unicode.Is(unicode.Zs, r), "%q shows %U", text, r)
		}
		if utf8.ValidString(text) {
			require.Equal(t, text, Reveal(t, shown))
		}
	})
}

// A cursor or an id is read only in the one form in which it is written.
func FuzzCursor(f *testing.F) {
	f.Add(positionCursor("r1", 7))
	f.Add(pageCursor("runs", "at", 3))
	f.Add(opaque([]string{"next", "runs", "at"}))
	f.Add(globalID("acme", runNode, "r1"))
	for _, raw := range []string{`["at","r1","07"]`, `["at","r1","+7"]`, `["page","runs","","+3"]`, `["page","runs","","003"]`, `["page","runs","","-0"]`, `["at", "r1","7"]`, `null`, `[null]`} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(raw)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		if number, err := readPosition(&token, "r1"); err == nil {
			require.Equal(t, positionCursor("r1", number), token)
		}
		if page, skip, err := readPage(&token, "runs"); err == nil {
			require.True(t, skip >= 0 && skip <= edge.MaxFirst)
			if skip == 0 {
				require.Equal(t, opaque([]string{"next", "runs", page}), token)
			} else {
				require.Equal(t, pageCursor("runs", page, skip-1), token)
			}
		}
		if parts, err := readID(token, "acme", runNode, 1); err == nil {
			require.Equal(t, globalID("acme", runNode, parts...), token)
		}
		if parts, ok := transparent(token); ok {
			raw, err := json.Marshal(parts)
			require.NoError(t, err)
			require.Equal(t, base64.RawURLEncoding.EncodeToString(raw), token)
		}
		kindOf(token)
	})
}

package detect_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/detect"
)

const mark = "[redacted]"

// awkward texts: runes of several bytes and of several parts, line ends of both
// kinds, and bytes that are no text.
var awkward = []string{
	"", "a", "é", "e\u0301", "👩‍👩‍👧‍👦 family", "🇩🇪🇫🇷", "a\r\nb\r\n", "\ufeffbom", "\u202eabc\u202c", "x\u200by", "日本語の文章。次", "क्षि", "\xff\xfe", "a\x80\x80b", "\xe2\x82", "ﬁﬂ", "𝟏𝟐𝟑", "1️⃣2️⃣",
}

func apply(t *testing.T, text string, spans []detect.Span) (string, bool) {
	out, err := detect.Redact(text, spans, mark)
	if err != nil {
		require.ErrorIs(t, err, detect.ErrSpan)
		require.Empty(t, out, "what fails shows nothing")
		return "", false
	}
	return out, true
}

// Whatever the spans: either nothing is shown, or what is shown is the text
// outside of them, whole runes of it, with a mark in each place.
func TestFault_K12_NoByteOfASpanSurvives(t *testing.T) {
	random := rand.New(rand.NewPCG(12, 12))
	shown := 0
	for range 20_000 {
		text := ""
		for range 1 + random.IntN(4) {
			text += awkward[random.IntN(len(awkward))]
		}
		spans := make([]detect.Span, random.IntN(4))
		for i := range spans {
			start := random.IntN(len(text)+3) - 1
			spans[i] = detect.Span{Start: start, End: start + random.IntN(8) - 1}
		}
		if random.IntN(2) == 0 {
			slices.SortFunc(spans, func(a, b detect.Span) int { return a.Start - b.Start })
		}
		if survives(t, text, spans) {
			shown++
		}
	}
	require.Greater(t, shown, 1000)
}

// survives checks one redaction by a second way to it: byte by byte.
func survives(t *testing.T, text string, spans []detect.Span) bool {
	hidden := make([]bool, len(text))
	for i, span := range spans {
		if span.Start < 0 || span.End > len(text) || span.Start >= span.End || i > 0 && span.Start <= spans[i-1].End {
			_, ok := apply(t, text, spans)
			require.False(t, ok, "%q %v", text, spans)
			return false
		}
		for at := span.Start; at < span.End; at++ {
			hidden[at] = true
		}
	}
	whole := true
	for at, r := range text {
		size := utf8.RuneLen(r)
		if r == utf8.RuneError && !strings.HasPrefix(text[at:], "\ufffd") {
			size = 1
		}
		for i := range size {
			whole = whole && hidden[at+i] == hidden[at]
		}
	}
	out, ok := apply(t, text, spans)
	require.Equal(t, whole, ok, "%q %v", text, spans)
	if !ok {
		return false
	}
	want := ""
	for at := range len(text) {
		if !hidden[at] {
			want += text[at : at+1]
		} else if at == 0 || !hidden[at-1] {
			want += mark
		}
	}
	require.Equal(t, want, out)
	return true
}

func TestRefusesSpansThatDoNotFit(t *testing.T) {
	for name, spans := range map[string][]detect.Span{
		"overlap": {{Start: 0, End: 4}, {Start: 3, End: 5}}, "adjacent": {{Start: 0, End: 2}, {Start: 2, End: 4}}, "out of order": {{Start: 4, End: 5}, {Start: 0, End: 1}},
		"empty": {{Start: 2, End: 2}}, "backwards": {{Start: 3, End: 2}}, "before": {{Start: -1, End: 2}}, "behind": {{Start: 2, End: 99}}, "cuts": {{Start: 0, End: 8}}, "cut open": {{Start: 8, End: 10}},
	} {
		_, ok := apply(t, "abcdefg€hij", spans)
		require.False(t, ok, name)
	}
	out, ok := apply(t, "abcdefg€hij", []detect.Span{{Start: 0, End: 7}, {Start: 10, End: 13}})
	require.True(t, ok)
	require.Equal(t, mark+"€"+mark, out)
}

func TestRefusesATextThatIsNotTheRecordedOne(t *testing.T) {
	key := []byte("key of this text")
	text := "pay ruth 1200 now"
	expected, err := detect.Expect(key, text, detect.Span{Start: 9, End: 13, Kind: detect.Card})
	require.NoError(t, err)
	require.NotContains(t, expected.Digest, "1200")
	out, err := detect.RedactExpected(key, text, []detect.Expected{expected}, mark)
	require.NoError(t, err)
	require.Equal(t, "pay ruth [redacted] now", out)
	for _, other := range []string{"pay ruth 1201 now", "pay  ruth 1200 now", "pay"} {
		out, err := detect.RedactExpected(key, other, []detect.Expected{expected}, mark)
		require.Error(t, err)
		require.Empty(t, out)
		require.NotContains(t, err.Error(), "120")
	}
	_, err = detect.RedactExpected([]byte("another key"), text, []detect.Expected{expected}, mark)
	require.ErrorIs(t, err, detect.ErrChanged)
	_, err = detect.Expect(key, text, detect.Span{Start: 9, End: 99})
	require.ErrorIs(t, err, detect.ErrSpan)
}

// everything is all samples in one text, so that long that windows end in it.
func everything(t testing.TB, separator string) string {
	var parts []string
	for _, row := range slices.Concat(read(t, "found.txt"), read(t, "not-found.txt")) {
		parts = append(parts, row.text)
	}
	return strings.Join(parts, separator)
}

func streamed(text string, cut func(rest int) int) string {
	s := detect.NewStream(mark)
	var out strings.Builder
	for len(text) > 0 {
		size := min(max(1, cut(len(text))), len(text))
		out.WriteString(s.Write(text[:size]))
		text = text[size:]
	}
	out.WriteString(s.Flush())
	return out.String()
}

func whole(t testing.TB, text string) string {
	out, err := detect.Redact(text, detect.Unite(detect.Find(text)), mark)
	require.NoError(t, err)
	return out
}

// However a text is cut into pieces, a stream says what the whole text redacted
// says, and has not said more at any moment.
func TestFault_K13_AStreamHoldsBackUntilDecided(t *testing.T) {
	random := rand.New(rand.NewPCG(13, 13))
	for _, row := range slices.Concat(read(t, "found.txt"), read(t, "not-found.txt")) {
		text := "Before it. " + row.text + "\nand after"
		want := whole(t, text)
		require.Equal(t, want, streamed(text, func(int) int { return 1 }), row.text)
		require.Equal(t, want, streamed(text, func(int) int { return random.IntN(9) }), row.text)
		s := detect.NewStream(mark)
		said := ""
		for i := range len(text) {
			said += s.Write(text[i : i+1])
			require.True(t, strings.HasPrefix(want, said), "said %q of %q", said, want)
		}
	}
	for _, separator := range []string{" ", "\n", "\n\n", ". ", ",", "", "👩‍👩‍👧"} {
		text := everything(t, separator)
		want := whole(t, text)
		for _, most := range []int{1, 7, 100, 3000, 9000} {
			require.Equal(t, want, streamed(text, func(int) int { return 1 + random.IntN(most) }), "separator %q", separator)
		}
	}
}

// A secret that is longer than what is looked at together is withheld to its
// end, wherever it begins; and what waits is bounded.
func TestFault_K13_LongSecretsAreWithheldToTheirEnd(t *testing.T) {
	token := "eyJhbGciOiJIUzI1NiJ9.eyJ" + strings.Repeat("bG9uZyB0b2tlbg", 3000) + ".c2lnbmF0dXJl"
	block := "-----BEGIN PRI" + "VATE KEY-----\n" + strings.Repeat(strings.Repeat("MIIEvQIB", 8)+"\n", 400) + "-----END PRI" + "VATE KEY-----"
	for ahead := 0; ahead < 17_000; ahead += 307 {
		for _, secret := range []string{token, block} {
			filler := strings.Repeat("word ", ahead/5+1)[:ahead]
			text := filler + " " + secret + " and on"
			s := detect.NewStream(mark)
			got, written, out := "", 0, 0
			for written < len(text) {
				size := min(500, len(text)-written)
				part := s.Write(text[written : written+size])
				written += size
				out += len(part)
				got += part
			}
			got += s.Flush()
			require.Equal(t, filler+" "+mark+" and on", got, "%d", ahead)
		}
	}
	for ahead := 4000; ahead < 10_300; ahead++ {
		if ahead%2048 < 1990 && ahead%2048 > 20 {
			continue // far from where windows begin and end
		}
		for _, sample := range []string{"DE89 3704 0044 0532 0130 00", "SSN: 123456789", `password = "hunter2hunter2"`} {
			text := strings.Repeat("word ", ahead/5+1)[:ahead] + " " + sample + strings.Repeat(" and on", 1300)
			require.Len(t, detect.Unite(detect.Find(text)), 1, "%d %s", ahead, sample)
		}
	}
	s := detect.NewStream(mark)
	waiting := 0
	for range 100_000 {
		waiting += 1 - len(s.Write("x"))
		require.LessOrEqual(t, waiting, detect.HoldBack)
	}
}

func TestFindingOnlyAdds(t *testing.T) {
	for _, row := range read(t, "found.txt") {
		for _, allow := range []string{" gitleaks:allow", " # nosec", " // pragma: allowlist secret", "\n<!-- detect:ignore -->"} {
			had := detect.Find(row.text)
			has := detect.Find(row.text + allow)
			for _, span := range had {
				require.True(t, slices.ContainsFunc(has, func(s detect.Span) bool {
					return s.Kind == span.Kind && s.Start <= span.Start && s.End >= span.End
				}), "%q lost %v to %q", row.text, span, allow)
			}
		}
	}
}

// A text made to be slow takes no longer than its length allows.
func TestHostileTextsTakeLinearTime(t *testing.T) {
	pieces := []string{
		"a@", "1 ", "1-", "4", "4111 ", "DE89 ", "+49 ", "(0", "password=", "password", `password="`, "eyJ", "-----BEGIN ", "-----BEGIN PRI" + "VATE KEY-----\n", "://a:", "postgres://a:b", "\u200b", "aws secret key ",
		"sk-", "0", "tel ", "host=a ", "user=a;", "a.", "a-", "<", "at ", " at a dot ", "[at]", "1\n", "\n", "pin ", "curl -u ", "SK1", "é", "\xff", "curl ", "login a password ", "a_password.", "Authorization: Bearer ", "12 345 678 901 ", "123-45-6789 ", "A1",
	}
	for _, piece := range pieces {
		text := strings.Repeat(piece, 64<<10/len(piece))
		start := time.Now()
		detect.Find(text)
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("%q: %v", piece, took)
		}
	}
}

func FuzzRedact(f *testing.F) {
	for _, text := range awkward {
		f.Add(text, 0, 1, 2, 3)
	}
	f.Add("ruth@example.com 4111111111111111", 0, 16, 17, 33)
	f.Fuzz(func(t *testing.T, text string, a, b, c, d int) {
		if len(text) > 10_000 {
			return
		}
		survives(t, text, []detect.Span{{Start: a, End: b}, {Start: c, End: d}})
		spans := detect.Find(text)
		require.True(t, slices.IsSortedFunc(spans, func(x, y detect.Span) int { return x.Start - y.Start }))
		survives(t, text, detect.Unite(spans))
	})
}

func FuzzStream(f *testing.F) {
	for _, row := range read(f, "found.txt") {
		f.Add(row.text, 3)
	}
	f.Add(everything(f, " "), 700)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		size := cut % (len(text) + 1)
		require.Equal(t, whole(t, text), streamed(text, func(int) int { return size }), fmt.Sprint(size))
	})
}

func BenchmarkFind(b *testing.B) {
	text := everything(b, "\nSome words of a letter that nobody needs to hide, and that go on for a while.\n")
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		detect.Find(text)
	}
}

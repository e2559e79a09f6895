package detect_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/detect"
)

type truth struct {
	line int
	kind detect.Kind
	text string
	want []string // what must be found
}

func read(t testing.TB, file string) (rows []truth) {
	content, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	for i, line := range strings.Split(string(content), "\n") {
		kind, text, ok := strings.Cut(line, "\t")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		text = strings.NewReplacer("␤", "\n", "¦", "").Replace(text)
		row := truth{line: i + 1, kind: detect.Kind(kind)}
		for rest := text; ; {
			ahead, after, found := strings.Cut(rest, "⟦")
			row.text += ahead
			if !found {
				break
			}
			inside, after, found := strings.Cut(after, "⟧")
			require.True(t, found, line)
			row.want = append(row.want, inside)
			row.text += inside
			rest = after
		}
		rows = append(rows, row)
	}
	return rows
}

func TestFindsWhatIsThere(t *testing.T) {
	rows := read(t, "found.txt")
	require.GreaterOrEqual(t, len(rows), 150)
	for _, row := range rows {
		var got []string
		for _, span := range detect.Find(row.text) {
			if span.Kind == row.kind {
				got = append(got, row.text[span.Start:span.End])
			}
		}
		if strings.Join(got, "|") != strings.Join(row.want, "|") {
			t.Errorf("found.txt:%d: %s: want %q, found %q", row.line, row.text, row.want, got)
		}
	}
}

func TestFindsNothingInNearMisses(t *testing.T) {
	rows := read(t, "not-found.txt")
	require.GreaterOrEqual(t, len(rows), 150)
	for _, row := range rows {
		for _, span := range detect.Find(row.text) {
			if span.Kind == row.kind {
				t.Errorf("not-found.txt:%d: %s: found %q by %s", row.line, row.text, row.text[span.Start:span.End], span.Rule)
			}
		}
	}
}

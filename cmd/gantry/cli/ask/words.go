package ask

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Program is how the person at the terminal began this command line.
func Program() string { return programOf(os.Args[0]) }

// cached names the folder in which the go command keeps what it built to run.
var cached = regexp.MustCompile(`^([0-9a-f]{64}-d|go-build\d*)$`)

func programOf(started string) string {
	for part := range strings.SplitSeq(filepath.ToSlash(started), "/") {
		if cached.MatchString(part) {
			return "go run ./cmd/gantry"
		}
	}
	return started
}

// Counted is a number of things, for example "1 case" or "2 cases".
func Counted[N int | uint64](number N, one string) string {
	if number == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", number, one)
}

// OneOf reads a word that must be one of several, in any case.
func OneOf(what, word string, valid []string) (string, error) {
	if upper := strings.ToUpper(word); slices.Contains(valid, upper) {
		return upper, nil
	}
	return "", fmt.Errorf("%s must be one of %s, not %q", what, strings.Join(valid, ", "), word)
}

// Say prints lines with every character that is not seen written out: a model or
// a stranger may have chosen it.
func Say(out io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintln(out, Visible(fmt.Sprintf(format, args...)))
	return err
}

// Visible writes out every character that is not seen.
func Visible(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			out.WriteRune(r)
			continue
		}
		fmt.Fprintf(&out, `\u{%04X}`, r)
	}
	return out.String()
}

// Dollars writes an amount of micro-dollars, for example "$0.000150".
func Dollars(micro int64) string { return fmt.Sprintf("$%d.%06d", micro/1_000_000, micro%1_000_000) }

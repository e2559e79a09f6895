package group_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/group"
)

func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                      "",
		"no mention at all":                     "",
		"@policy-librarian what holds?":         "policy-librarian",
		"Well, @a.b-c1, and (@second) [@third]": "a.b-c1 second third",
		"@one @two @one":                        "one two",
		"Ask @one.":                             "one",
		"Ask @one...":                           "one",
		"Ask\n@one\n@two!":                      "one two",
		"@one: yes; @two? @three!":              "one two three",

		"mail a@one.example":          "",
		"@one@two":                    "",
		"@One":                        "",
		"@onE":                        "",
		"@one_two":                    "",
		"@":                           "",
		"@ one":                       "",
		"@.one":                       "",
		"@-one":                       "",
		"@one--two":                   "",
		"@one-":                       "",
		"@one..two":                   "",
		"\"@one\"":                    "",
		"\\@one":                      "",
		"@one's word":                 "",
		"@o\u200bne":                  "",
		"\u200b@one":                  "",
		"@ｏne":                        "",
		"x\u00a0@one":                 "",
		"`@one`":                      "",
		"`` a ` @one `` @two":         "two",
		"a ` @one":                    "one", // a single tick opens nothing
		"`a`@one":                     "",
		"`a\n@one` @two":              "two",
		"`a\n\n@one`":                 "", // the tick stands beside it
		"`a\n\n@one `":                "one",
		"```\n@one\n```\n@two":        "two",
		"```go\n@one\n``\n@three":     "", // the fence is not closed
		"~~~\n@one\n```\n~~~\n@two\n": "two",
		"````\n```\n@one\n````\n@two": "two",
		"```x``` @one":                "one", // a span, not a fence
		"```\n@one\n``` x\n@two":      "",    // that does not close it
		"    @one":                    "",
		"\t@one":                      "",
		"  \t@one":                    "",
		"    ```\n@one":               "one",
		"   @one":                     "one",
		"> @one\n@two":                "two",
		"  > @one":                    "",
		"a > @one":                    "one",
		"```\r\n@one\r\n```\r\n@two":  "two",
	} {
		require.Equal(t, want, strings.Join(group.Mentions(text), " "), "%q", text)
	}
}

var name = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// Whatever comes: a mention is a name that the text holds behind an @, each
// once, and never one from within a fence or a quote that is put around it.
func FuzzMentions(f *testing.F) {
	for _, seed := range []string{"@one", "`@one`", "```\n@one\n```", "> @one", "a@b", "@one.", "``` `` @x", "\t@y", "~~~", "@a--b", "(@a)"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names := group.Mentions(text)
		seen := map[string]bool{}
		for _, mentioned := range names {
			if !name.MatchString(mentioned) || seen[mentioned] || !strings.Contains(text, "@"+mentioned) {
				t.Fatalf("%q mentions %q", text, names)
			}
			seen[mentioned] = true
		}
		quoted := "> " + strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\n> ")
		if found := group.Mentions(quoted); len(found) > 0 {
			t.Fatalf("quoted %q mentions %q", quoted, found)
		}
		if !strings.Contains(text, "~~~") {
			if found := group.Mentions("~~~\n" + text + "\n~~~\n"); len(found) > 0 {
				t.Fatalf("fenced %q mentions %q", text, found)
			}
		}
	})
}

package legible_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph/legible"
)

// What somebody outside wrote is a link, an image or a tag nowhere, however it
// is written.
func TestWhatIsFromOutsideLeadsNowhere(t *testing.T) {
	t.Parallel()
	for text, shown := range map[string]string{
		"![](https://a.example/p.png?d=1)": `![\u{005D}(https\u{003A}\u{002F}/a.example/p.png?d=1)`,
		"[a](//a.example)":                 `[a\u{005D}(\u{002F}/a.example)`,
		"[a][1]\n[1]: /\\a.example":        "[a\\u{005D}[1]\n[1\\u{005D}: \\u{002F}\\a.example",
		"<img src=x>":                      `\u{003C}img src=x>`,
		"<https://a.example>":              `\u{003C}https\u{003A}\u{002F}/a.example>`,
		"javascript:alert(1)":              `javascript\u{003A}alert(1)`,
		"http:a.example":                   `http\u{003A}a.example`,
		"see www.a.example":                `see www\u{002E}a.example`,
		`{"a":1} at 10:30, key: value`:     `{"a":1} at 10:30, key: value`,
		"1 < 2 and a/b":                    "1 < 2 and a/b",
	} {
		require.Equal(t, shown, legible.Outside(text), text)
	}
	require.Equal(t, "[a](https://a.example)", legible.Text("[a](https://a.example)"), "what people wrote stays as it is")
}

// No run of slashes is left that begins with two of them.
func TestSlashesDoNotJoin(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"//", "///", "////", `/\/\`, `\\\`, "a:///b"} {
		require.NotRegexp(t, regexp.MustCompile(`(^|[^}])[/\\]{2}[^u]`), legible.Outside(text)+" ", text)
	}
}

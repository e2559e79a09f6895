package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

var (
	everyone = policy.Principal{ID: "person:eve", Kind: policy.Person}
	hrPerson = policy.Principal{ID: "person:ada", Kind: policy.Person, Clearance: policy.NewLabels("hr")}
)

// office is a folder with a public part, a confidential one and an unmarked one.
func office(t *testing.T) (dir string, box *tool.Box) {
	t.Helper()
	dir = t.TempDir()
	write := func(name, text string) {
		full := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(full), 0o755))
		require.NoError(t, os.WriteFile(full, []byte(text), 0o600))
	}
	write("public/handbook.md", "# Handbook\nRefunds need a receipt.\nA refund above 100 EUR needs approval.\n")
	write("public/sub/faq.md", "How do refunds work?\n")
	write("public/logo.png", "\x89PNG\x00")
	write("public/.env", "refund secret")
	write("hr/salaries.md", "Refunds of salaries: Ada 100\n")
	write("hr/public/holidays.md", "Refund no holidays\n")
	write("inbox/mail.txt", "please refund me\n")
	write("unmarked/notes.md", "refund notes\n")
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	tools, err := tool.NewFiles(root, []tool.FolderRule{
		{Prefix: "public", Integrity: policy.Trusted},
		{Prefix: "hr", Labels: policy.NewLabels("hr"), Integrity: policy.Trusted},
		{Prefix: "hr/public", Integrity: policy.Trusted},
		{Prefix: "inbox/", Integrity: policy.Untrusted},
		{Prefix: "short"},
		{Prefix: "short.md"},
	}, 0, "person:ada", "ops@example.org")
	require.NoError(t, err)
	box, err = tool.NewBox(tools...)
	require.NoError(t, err)
	return dir, box
}

// call checks and invokes, as a run does.
func call(t *testing.T, box *tool.Box, subject policy.Principal, name string, arguments any) tool.Result {
	t.Helper()
	raw, err := canon.Marshal(arguments)
	require.NoError(t, err)
	return callRaw(t, box, subject, name, raw)
}

// callRaw invokes without the check of the arguments.
func callRaw(t *testing.T, box *tool.Box, subject policy.Principal, name string, raw []byte) tool.Result {
	t.Helper()
	_, digest, ok := box.Definition(name)
	require.True(t, ok)
	found, ok := box.Find(name, digest)
	require.True(t, ok)
	result, err := tool.Invoke(context.Background(), found, tool.Invocation{Arguments: raw, Subject: subject})
	require.NoError(t, err)
	return result
}

type arguments map[string]any

func TestFilesListShowsWhatTheSubjectMaySee(t *testing.T) {
	_, box := office(t)
	result := call(t, box, everyone, "files.list", arguments{"path": "public"})
	require.False(t, result.Failed, string(result.Content))
	require.JSONEq(t, `{"entries":[{"path":"public/handbook.md","size":74,"kind":"file"},{"path":"public/logo.png","size":5,"kind":"file"},{"path":"public/sub","size":0,"kind":"folder"}]}`, string(result.Content))
	require.Equal(t, policy.Marking{}, result.Marking)

	result = call(t, box, everyone, "files.list", arguments{})
	require.JSONEq(t, `{"entries":[{"path":"inbox","size":0,"kind":"folder"},{"path":"public","size":0,"kind":"folder"}]}`, string(result.Content))
	require.Equal(t, policy.Marking{Integrity: policy.Untrusted}, result.Marking)

	result = call(t, box, hrPerson, "files.list", arguments{})
	require.Contains(t, string(result.Content), `"hr"`)
	require.NotContains(t, string(result.Content), "unmarked")
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}, result.Marking)
}

func TestFilesReadCarriesTheFoldersMarking(t *testing.T) {
	_, box := office(t)
	result := call(t, box, hrPerson, "files.read", arguments{"path": "hr/salaries.md"})
	require.JSONEq(t, `{"path":"hr/salaries.md","text":"Refunds of salaries: Ada 100\n","size":29,"cut":false}`, string(result.Content))
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("hr")}, result.Marking)

	result = call(t, box, everyone, "files.read", arguments{"path": "hr/public/holidays.md"})
	require.False(t, result.Failed, "the longest prefix counts")
	require.Equal(t, policy.Marking{}, result.Marking)

	result = call(t, box, everyone, "files.read", arguments{"path": "inbox/mail.txt"})
	require.Equal(t, policy.Untrusted, result.Marking.Integrity)

	result = call(t, box, everyone, "files.read", arguments{"path": "public/logo.png"})
	require.Contains(t, string(result.Content), "[not text: 5 bytes]")
}

func TestFilesForbiddenLooksLikeAbsent(t *testing.T) {
	dir, box := office(t)
	outside := filepath.Join(t.TempDir(), "secret.txt")
	require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o600))
	require.NoError(t, os.Symlink(outside, filepath.Join(dir, "public", "out.txt")))
	require.NoError(t, os.Symlink("../hr/salaries.md", filepath.Join(dir, "public", "alias.md")))
	require.NoError(t, os.Symlink("../hr", filepath.Join(dir, "public", "people")))
	require.NoError(t, os.Symlink("hr", filepath.Join(dir, "short")))
	require.NoError(t, os.Symlink("hr/salaries.md", filepath.Join(dir, "short.md")))

	absent := call(t, box, everyone, "files.read", arguments{"path": "public/nothing.md"})
	require.True(t, absent.Failed)
	require.Contains(t, string(absent.Content), `"NOT_FOUND"`)
	for _, subject := range []policy.Principal{everyone, hrPerson} {
		for _, name := range []string{
			"unmarked/notes.md", "public/out.txt", "public/alias.md", "public/people/salaries.md", "public/.env", "short/salaries.md", "short.md",
			"public", "../secret.txt", "public/../hr/salaries.md", "/etc/passwd", "hr//salaries.md", "./hr/salaries.md", "", ".", `public\handbook.md`, "public/handbook.md/",
			"PUBLIC/handbook.md", "public/\x00",
		} {
			raw, err := json.Marshal(arguments{"path": name})
			require.NoError(t, err)
			require.Equal(t, absent, callRaw(t, box, subject, "files.read", raw), name)
		}
	}
	for _, name := range []string{"hr/salaries.md", "hr/nothing.md", "hr"} {
		require.Equal(t, absent, call(t, box, everyone, "files.read", arguments{"path": name}), name)
	}
	for _, name := range []string{"hr", "unmarked", "nothing", "public/people", "short", "public/handbook.md"} {
		require.Equal(t, absent, call(t, box, everyone, "files.list", arguments{"path": name}), name)
		require.Equal(t, absent, call(t, box, everyone, "files.search", arguments{"path": name, "query": "refund"}), name)
	}
	require.NotContains(t, string(call(t, box, hrPerson, "files.list", arguments{"path": "public"}).Content), "alias")
}

// What is absent where the subject could see it is news from that place.
func TestFilesAbsenceCarriesTheFoldersMarking(t *testing.T) {
	_, box := office(t)
	hr := policy.Marking{Labels: policy.NewLabels("hr")}
	for name, input := range map[string]arguments{
		"files.read": {"path": "hr/dismissed-ada.md"}, "files.list": {"path": "hr/dismissed"}, "files.search": {"path": "hr/dismissed", "query": "ada"},
	} {
		result := call(t, box, hrPerson, name, input)
		require.True(t, result.Failed, name)
		require.Equal(t, hr, result.Marking, name)
		result = call(t, box, everyone, name, input)
		require.True(t, result.Failed, name)
		require.Equal(t, policy.Marking{}, result.Marking, "%s: who is not cleared is told nothing", name)
	}
	require.Equal(t, hr, call(t, box, hrPerson, "files.read", arguments{"path": "hr"}).Marking, "a folder is no file")
}

// A search tells of every file that it read, also of those without a match.
func TestFilesSearchCarriesTheMarkingOfAllThatWasSearched(t *testing.T) {
	dir, box := office(t)
	hr := policy.Marking{Labels: policy.NewLabels("hr")}
	result := call(t, box, hrPerson, "files.search", arguments{"path": "hr", "query": "dismissed"})
	require.JSONEq(t, `{"matches":[]}`, string(result.Content))
	require.Equal(t, hr, result.Marking, "nothing found is news")
	result = call(t, box, hrPerson, "files.search", arguments{"query": "approval", "limit": 1})
	require.NotContains(t, string(result.Content), "hr/")
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}, result.Marking)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "hr", "empty"), 0o755))
	require.Equal(t, hr, call(t, box, hrPerson, "files.search", arguments{"path": "hr/empty", "query": "x"}).Marking)
	require.Equal(t, policy.Marking{}, call(t, box, everyone, "files.search", arguments{"path": "public", "query": "x"}).Marking)
}

// A listing that is cut tells that there is more.
func TestFilesListCutCarriesTheMarkingOfWhatIsNotShown(t *testing.T) {
	dir := t.TempDir()
	for i := range 1000 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "secret"), 0o755))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	tools, err := tool.NewFiles(root, []tool.FolderRule{{}, {Prefix: "secret", Labels: policy.NewLabels("hr")}}, 0, "person:ada", "ops@example.org")
	require.NoError(t, err)
	box, err := tool.NewBox(tools...)
	require.NoError(t, err)
	result := call(t, box, hrPerson, "files.list", arguments{})
	require.Contains(t, string(result.Content), `"cut":true`)
	require.NotContains(t, string(result.Content), "secret")
	require.Equal(t, policy.NewLabels("hr"), result.Marking.Labels)
	require.Empty(t, call(t, box, everyone, "files.list", arguments{}).Marking.Labels)
}

func TestFilesReadInParts(t *testing.T) {
	dir, box := office(t)
	text := strings.Repeat("äö€😀x", 1000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "public", "long.txt"), []byte(text), 0o600))
	var whole strings.Builder
	for offset, parts := int64(0), 0; ; parts++ {
		require.Less(t, parts, 1000)
		result := call(t, box, everyone, "files.read", arguments{"path": "public/long.txt", "offset": offset, "limit": 67})
		var part struct {
			Text string
			Size int64
			Cut  bool
			Next int64
		}
		require.NoError(t, json.Unmarshal(result.Content, &part))
		require.EqualValues(t, len(text), part.Size)
		whole.WriteString(part.Text)
		if !part.Cut {
			break
		}
		offset = part.Next
	}
	require.Equal(t, text, whole.String())

	result := call(t, box, everyone, "files.read", arguments{"path": "public/long.txt", "offset": 1})
	require.Contains(t, string(result.Content), `"text":"ö€`, "an offset inside a character skips the rest of it")
	result = call(t, box, everyone, "files.read", arguments{"path": "public/long.txt", "offset": 1 << 40})
	require.Contains(t, string(result.Content), `"text":""`)
}

func TestFilesSearchRanksByDistinctWords(t *testing.T) {
	_, box := office(t)
	result := call(t, box, everyone, "files.search", arguments{"query": "REFUND approval refund"})
	require.JSONEq(t, `{"matches":[
		{"path":"public/handbook.md","line":3,"text":"A refund above 100 EUR needs approval."},
		{"path":"inbox/mail.txt","line":1,"text":"please refund me"},
		{"path":"public/handbook.md","line":2,"text":"Refunds need a receipt."},
		{"path":"public/sub/faq.md","line":1,"text":"How do refunds work?"}]}`,
		string(result.Content), "what lies below a folder that is not seen is found by its own path only")
	require.Equal(t, policy.Untrusted, result.Marking.Integrity)

	result = call(t, box, everyone, "files.search", arguments{"query": "refund", "path": "public", "limit": 1})
	require.JSONEq(t, `{"matches":[{"path":"public/handbook.md","line":2,"text":"Refunds need a receipt."}],"cut":true}`, string(result.Content))
	require.Equal(t, policy.Marking{}, result.Marking)

	result = call(t, box, hrPerson, "files.search", arguments{"query": "salaries"})
	require.Contains(t, string(result.Content), "hr/salaries.md")
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}, result.Marking, "of all that was searched")

	require.JSONEq(t, `{"matches":[]}`, string(call(t, box, everyone, "files.search", arguments{"query": "salaries"}).Content))
	require.JSONEq(t, `{"matches":[]}`, string(call(t, box, everyone, "files.search", arguments{"query": "!?"}).Content))
}

func TestFilesRulesMustBePlain(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	for _, rules := range [][]tool.FolderRule{
		{{Prefix: "../x"}}, {{Prefix: "/x"}}, {{Prefix: "."}}, {{Prefix: "a//b"}}, {{Prefix: "a"}, {Prefix: "a/"}},
	} {
		_, err := tool.NewFiles(root, rules, 0, "person:ada", "ops@example.org")
		require.Error(t, err)
	}
}

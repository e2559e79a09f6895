package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
)

// said runs a command line that reads a text.
func said(t *testing.T, text string, args ...string) string {
	var out bytes.Buffer
	root := Root()
	root.SetIn(strings.NewReader(text))
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	require.NoError(t, root.ExecuteContext(t.Context()), out.String())
	return out.String()
}

// idIn is the id of the item that a line is about.
func idIn(t *testing.T, line string) string {
	for word := range strings.FieldsSeq(line) {
		if len(word) == 36 && strings.Count(word, "-") == 4 {
			return word
		}
	}
	require.Fail(t, "no id", line)
	return ""
}

func TestWhatIsSaidIsRememberedRecalledAndForgotten(t *testing.T) {
	atHome(t)
	const text = "Kestrel Bearings wants invoices in March only\u202e."
	out := said(t, text+"\n", "remember", "-", "--kind", "preference", "--subject", "Kestrel Bearings, invoices", "--space", "department:finance", "--label", "finance", "--trusted", "--as", sampleAsker)
	require.Regexp(t, `^remembered [0-9a-f-]{36}  department:finance  PREFERENCE  about Kestrel Bearings, invoices  \[finance\]\n  Kestrel Bearings wants invoices in March only\\u\{202E\}\.\n$`, out)
	id := idIn(t, out)
	require.Contains(t, said(t, text, "remember", "-", "--kind", "PREFERENCE", "--subject", "Kestrel Bearings, invoices", "--space", "department:finance", "--label", "finance", "--trusted", "--as", sampleAsker), "known already: "+id)

	found := must(t, "recall", "When does Kestrel want its invoices?", "--as", sampleDecider)
	require.True(t, strings.HasPrefix(found, "1. "), found)
	require.Contains(t, found, id+"  department:finance  PREFERENCE")
	require.Contains(t, found, "— Amara Diallo, 20")
	var recalled client.Recollection
	mustJSON(t, &recalled, "recall", "When does Kestrel want its invoices?", "--json", "--first", "1", "--kind", "preference", "--space", "department:finance", "--as", sampleDecider)
	require.Len(t, recalled.Hits, 1)
	require.Equal(t, text, recalled.Hits[0].Item.Text)
	require.NotContains(t, must(t, "recall", "When does Kestrel want its invoices?", "--as", "liam.byrne"), "Kestrel", "who may not read it does not hear of it")

	shown := must(t, "memory", "show", id, "--as", sampleDecider)
	for _, line := range []string{"id           " + id, "about        Kestrel Bearings, invoices", "integrity    TRUSTED", "source       PERSON by " + sampleAsker} {
		require.Contains(t, shown, line+"\n")
	}
	require.Equal(t, shown, must(t, "memory", "show", recalled.Hits[0].Item.ID, "--as", sampleDecider), "either id names it")
	absent, err := gantry(t, "memory", "show", "00000000-0000-4000-8000-000000000000", "--as", "liam.byrne")
	require.ErrorContains(t, err, "NOT_FOUND")
	hidden, hiddenErr := gantry(t, "memory", "show", id, "--as", "liam.byrne")
	require.Equal(t, err, hiddenErr)
	require.Equal(t, absent, hidden)

	out = must(t, "memory", "supersede", id, "Kestrel Bearings wants invoices in April only.", "--label", "finance", "--trusted", "--as", sampleAsker)
	newer := idIn(t, out)
	require.Contains(t, must(t, "memory", "show", newer, "--as", sampleAsker), "supersedes   "+id)
	require.NotContains(t, must(t, "memory", "list", "--as", sampleAsker), id+" ")
	require.Contains(t, must(t, "memory", "list", "--kind", "preference", "--by", sampleAsker, "--subject", "Kestrel Bearings, invoices", "--as", sampleAsker), newer)
	require.Empty(t, must(t, "memory", "list", "--by", sampleDecider, "--as", sampleAsker))

	path := filepath.Join(t.TempDir(), "memory.jsonl")
	must(t, "memory", "export", "--space", "department:finance", "-o", path, "--as", sampleAsker)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	var exported client.MemoryItem
	require.NoError(t, json.NewDecoder(bytes.NewReader(raw)).Decode(&exported))
	require.Equal(t, newer, exported.Name())
	about, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), about.Mode().Perm(), "it is for who asked")

	forgotten := must(t, "memory", "forget", newer, "--as", sampleAsker)
	require.Contains(t, forgotten, "item         "+newer)
	require.Contains(t, forgotten, "forgotten    20")
	receipt := idIn(t, forgotten)
	require.Equal(t, forgotten, must(t, "memory", "receipt", receipt, "--as", sampleAsker))
	_, err = gantry(t, "memory", "receipt", receipt, "--as", sampleDecider)
	require.ErrorContains(t, err, "NOT_FOUND")
	require.NotContains(t, must(t, "recall", "When does Kestrel want its invoices?", "--as", sampleDecider), "April")
}

func TestMemoryIsPromotedDeclassifiedAndConsolidated(t *testing.T) {
	atHome(t)
	first := idIn(t, said(t, "It rains in Ghent on Monday.", "remember", "-", "--label", "hr-salary", "--as", "ruth.abelson"))
	require.Contains(t, must(t, "memory", "promote", first, "--reason", "I saw it.", "--as", "ruth.abelson"), "TRUSTED "+first)
	require.NotContains(t, must(t, "memory", "declassify", first, "hr-salary", "--reason", "Everybody knows.", "--as", "ruth.abelson"), "hr-salary")
	second := idIn(t, said(t, "It rains in Ghent on Tuesday.", "remember", "-", "--trusted", "--as", "ruth.abelson"))
	one := must(t, "memory", "consolidate", "It rains in Ghent early in the week.", first, second, "--as", "ruth.abelson")
	require.Contains(t, must(t, "memory", "show", idIn(t, one), "--as", "ruth.abelson"), "made of      "+first)
	for _, wrong := range []struct {
		say  string
		args []string
	}{
		{"required flag(s) \"reason\" not set", []string{"memory", "promote", first}},
		{"name the items, or give one of", []string{"memory", "forget"}},
		{"name the items, or give one of", []string{"memory", "forget", first, "--ref", "a"}},
		{"it must be a day", []string{"recall", "x", "--as-of", "yesterday"}},
		{"must be at least 1", []string{"memory", "list", "--last", "0"}},
		{"SPACE", []string{"memory", "supersede", first, "x", "--space", "person:" + sampleAsker, "--as", "ruth.abelson"}},
		{"NOT_FOUND", []string{"memory", "declassify", first, "hr-salary", "--reason", "r", "--as", "liam.byrne"}},
		{"OVER_LIMIT", []string{"recall", "x", "--first", "101", "--as", "ruth.abelson"}},
	} {
		_, err := gantry(t, wrong.args...)
		require.ErrorContains(t, err, wrong.say, wrong.args)
	}
	spaces := must(t, "memory", "spaces", "--as", "ruth.abelson")
	require.Contains(t, spaces, "read, write  person:ruth.abelson\n")
	require.Contains(t, spaces, "read, write  organisation\n")
}

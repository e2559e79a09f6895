package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
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
	require.Equal(t, "nothing that you may see fits\n", must(t, "memory", "list", "--by", sampleDecider, "--as", sampleAsker))

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
	shared := func(text string) string {
		return idIn(t, said(t, text, "remember", "-", "--space", "organisation", "--subject", "lift", "--as", "ruth.abelson"))
	}
	one = must(t, "memory", "consolidate", "The lift broke and was mended.", shared("The lift is broken."), shared("The lift is mended."), "--as", "ruth.abelson")
	require.Contains(t, one, "  organisation  FACT  about lift", "where the items were, about what they were")
	for _, wrong := range []struct {
		say  string
		args []string
	}{
		{"required flag(s) \"reason\" not set", []string{"memory", "promote", first}},
		{"name the items, or give one of", []string{"memory", "forget"}},
		{"name the items, or give one of", []string{"memory", "forget", first, "--ref", "a"}},
		{"given exactly as", []string{"memory", "forget", "--subject", "Lift", "--as", "ruth.abelson"}},
		{"it must be a day", []string{"recall", "x", "--as-of", "yesterday"}},
		{"must be at least 1", []string{"memory", "list", "--last", "0"}},
		{"SPACE", []string{"memory", "supersede", first, "x", "--space", "person:" + sampleAsker, "--as", "ruth.abelson"}},
		{"NOT_FOUND", []string{"memory", "declassify", first, "hr-salary", "--reason", "r", "--as", "liam.byrne"}},
		{"OVER_LIMIT", []string{"recall", "x", "--first", "101", "--as", "ruth.abelson"}},
	} {
		_, err := gantry(t, wrong.args...)
		require.ErrorContains(t, err, wrong.say, wrong.args)
	}
	require.Equal(t, "nothing that you may see fits\n", must(t, "memory", "list", "--subject", "Lift", "--as", "ruth.abelson"))
	own := idIn(t, said(t, "Call +49 421 5550 1883.", "remember", "-", "--as", sampleAsker))
	require.Contains(t, must(t, "memory", "show", own, "--as", sampleAsker), "withheld     at byte 5: personal")
	require.Contains(t, must(t, "memory", "forget", own, "--as", sampleAsker), "verified", "one's own words, though a part is withheld")
	spaces := must(t, "memory", "spaces", "--as", "ruth.abelson")
	require.Contains(t, spaces, "read, write  person:ruth.abelson\n")
	require.Contains(t, spaces, "read, write  organisation\n")
}

// write lays a file in a folder, whose path it returns.
func write(t *testing.T, folder, name, text string) string {
	path := filepath.Join(folder, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o750))
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestDocumentsAreRememberedAsTheyAre(t *testing.T) {
	atHome(t)
	outside := t.TempDir()
	folder := filepath.Join(outside, "handbook")
	long := strings.Repeat("Whoever travels keeps the receipts of everything that was paid on the way. ", 12)
	travel := "# Travel\n\n" + long + "\n\n## Hotels\n\nA hotel costs at most 140 EUR a night. " + long + "\n\n## Trains\n\nSecond class is the rule. " + long + "\n"
	path := write(t, folder, "travel.md", travel)
	write(t, folder, "more/leave.txt", "Leave is asked for two weeks before.\n")
	write(t, folder, "more/scan.bin", "\x00\x01\x02")
	write(t, folder, ".hidden.md", "Nobody asked for this.\n")
	require.NoError(t, os.Symlink(path, filepath.Join(folder, "link.md")))

	out, err := gantry(t, "remember", folder, "--as", sampleAsker)
	require.ErrorContains(t, err, "1 of 3 files were skipped")
	require.Regexp(t, `(?m)^1/3 handbook/more/leave.txt: 1 new, 0 known, 0 changed, 0 gone in person:`+sampleAsker+`$`, out)
	require.Regexp(t, `(?m)^2/3 handbook/more/scan.bin: skipped: .*\(UNSUPPORTED\)$`, out)
	require.Regexp(t, `(?m)^3/3 handbook/travel.md: [3-9] new, 0 known, 0 changed, 0 gone`, out)
	require.NotContains(t, out, "hidden")
	require.NotContains(t, out, "link")
	require.NotContains(t, out, outside, "where the folder is here is nobody's concern")

	require.Regexp(t, `^1/1 travel.md: [3-9] new`, must(t, "remember", path, "--as", sampleAsker), "a file that lies elsewhere is known by its name alone")
	require.Regexp(t, `(?m)^taken out    \d+ of items$`, must(t, "memory", "forget", "--ref", "travel.md", "--as", sampleAsker))
	t.Chdir(outside)
	require.Regexp(t, `^1/1 handbook/travel.md: nothing changed, [3-9] known in person:`+sampleAsker+`\n$`, must(t, "remember", "handbook/travel.md", "--as", sampleAsker))
	write(t, folder, "travel.md", strings.Replace(travel, "140 EUR", "160 EUR", 1))
	require.Regexp(t, `^1/1 handbook/travel.md: 0 new, [2-9] known, 1 changed, 0 gone`, must(t, "remember", "handbook/travel.md", "--as", sampleAsker))
	found := must(t, "recall", "What may a hotel cost?", "--as", sampleAsker, "--first", "1", "--kind", "passage")
	require.Contains(t, found, "160 EUR")
	require.Regexp(t, `— handbook/travel.md, bytes \d+ to \d+; Travel › Hotels; Amara Diallo, 20`, found)

	beginning, _, _ := strings.Cut(travel, "## Hotels")
	write(t, folder, "travel.md", beginning)
	out = must(t, "remember", "handbook/travel.md", "--as", sampleAsker)
	require.Regexp(t, `^1/1 handbook/travel.md: 0 new, [1-9] known, 0 changed, [2-9] gone in person:\S+, receipt [0-9a-f-]{36}\n$`, out)
	require.NotContains(t, must(t, "memory", "list", "--ref", "handbook/travel.md", "--as", sampleAsker), "160 EUR")
	_, receipt, _ := strings.Cut(out, "receipt ")
	must(t, "memory", "receipt", idIn(t, receipt), "--as", sampleAsker)

	_, err = gantry(t, "remember", "handbook/none.md")
	require.ErrorContains(t, err, "no such file")
	_, err = gantry(t, "remember", "/dev/null")
	require.ErrorContains(t, err, "neither a file nor a folder")
	require.NoError(t, os.Symlink(folder, "alias"))
	out, err = gantry(t, "remember", "alias", "--as", sampleAsker)
	require.ErrorContains(t, err, "1 of 3 files were skipped")
	require.Contains(t, out, "3/3 alias/travel.md: ", "the link that is named is followed")
	require.NoError(t, os.Mkdir("empty", 0o750))
	_, err = gantry(t, "remember", "empty")
	require.ErrorContains(t, err, "there is no file in empty")
	out, err = gantry(t, "remember", "handbook", "--label", "hr-case", "--as", sampleAsker)
	require.ErrorContains(t, err, "3 of 3 files were skipped")
	require.Contains(t, out, "(NOT_CLEARED)")
	_, err = gantry(t, "remember", "handbook", "--space", "person:"+sampleDecider, "--as", sampleAsker)
	require.ErrorContains(t, err, "(SPACE)", "what no file could mend ends it")
	require.ErrorContains(t, err, "handbook/more/leave.txt: ", "and says at which it did")
}

// A file that asks for what its reader may not have, or is too large, holds up no
// other, and says what it is.
func TestOneFileHoldsUpNoOther(t *testing.T) {
	atHome(t)
	t.Chdir(t.TempDir())
	write(t, ".", "notes/a.md", "---\nspace: person:"+sampleDecider+"\n---\nNot mine to write.\n")
	write(t, ".", "notes/b.md", "---\nkind: TRAIT\n---\nI am brief.\n")
	write(t, ".", "notes/c.txt", strings.Repeat("There is much to say. ", 40_000))
	write(t, ".", "notes/d\n9/9 e.txt", "The last one is read.\n")
	out, err := gantry(t, "remember", "notes", "--as", sampleAsker)
	require.ErrorContains(t, err, "3 of 4 files were skipped")
	require.Regexp(t, `(?m)^1/4 notes/a.md: skipped: .*\(SPACE\)$`, out)
	require.Regexp(t, `(?m)^2/4 notes/b.md: skipped: .*\(SPACE\)$`, out)
	require.Regexp(t, `(?m)^3/4 notes/c.txt: skipped: the file has more than 750 KiB; split it$`, out)
	require.Regexp(t, `(?m)^4/4 notes/d 9/9 e.txt: 1 new`, out, "a name stays in its line")
}

func TestTheOperatorSweepsMemory(t *testing.T) {
	h := atHome(t)
	said(t, "Gone in a moment.", "remember", "-", "--as", sampleAsker)
	forgotten := must(t, "memory", "forget", idIn(t, must(t, "memory", "list", "--as", sampleAsker)), "--as", sampleAsker)
	require.Contains(t, forgotten, "receipt")
	_, err := gantry(t, "memory", "sweep", "--folder", h.folder)
	require.ErrorContains(t, err, "another gantry process uses")
	require.NoError(t, h.close())
	require.Regexp(t, `^0 items erased, \d receipts? verified, \d still open, 0 items embedded, 0 items mended\n$`, must(t, "memory", "sweep", "--folder", h.folder))
}

// Two people follow memory while a third writes: each is told of what it sees.
func TestWhoFollowsMemoryIsToldOfWhatTheySee(t *testing.T) {
	h := atHome(t)
	ruth, err := h.as("ruth.abelson")
	require.NoError(t, err)
	heard := func(who string, until string, then func()) (texts []string) {
		c, err := h.as(who)
		require.NoError(t, err)
		require.NoError(t, c.MemoryChanges(t.Context(), []string{"organisation"}, func(changes []client.MemoryChange) (bool, error) {
			if len(changes) == 0 {
				then()
			}
			for _, change := range changes {
				require.Equal(t, "REMEMBERED", change.Kind)
				texts = append(texts, change.Item.Text)
			}
			return !slices.Contains(texts, until), nil
		}))
		return texts
	}
	remember := func(text string, labels ...string) {
		_, err := ruth.Remember(t.Context(), client.MemoryDraft{Space: "organisation", Text: text, Labels: labels})
		require.NoError(t, err)
	}
	require.Equal(t, []string{"The canteen is closed."}, heard("liam.byrne", "The canteen is closed.", func() {
		remember("Band D begins at 4,000 EUR.", "hr-salary")
		remember("The canteen is closed.")
	}))
	require.ElementsMatch(t, []string{"Band E begins at 5,000 EUR.", "The canteen is open."}, heard("dario.conti", "The canteen is open.", func() {
		remember("Band E begins at 5,000 EUR.", "hr-salary")
		remember("The canteen is open.")
	}))
}

// What the organisation says of a folder holds whatever its writer says.
func TestAFoldersRulesHoldForItsDocuments(t *testing.T) {
	atHome(t)
	t.Chdir(t.TempDir())
	write(t, ".", "finance/notes.md", "# Notes\n\nKestrel pays late.\n")
	write(t, ".", "hr/pay-bands.md", "# Bands\n\nBand C begins at 3,100 EUR.\n")
	require.Contains(t, must(t, "remember", "finance", "--trusted", "--as", sampleAsker), "1 new, 0 known, 0 changed, 0 gone in department:finance")
	require.Contains(t, must(t, "memory", "list", "--ref", "finance/notes.md", "--as", sampleAsker), "[finance]")
	out, err := gantry(t, "remember", "hr", "--as", sampleAsker)
	require.ErrorContains(t, err, "1 of 1 files were skipped")
	require.Contains(t, out, "NOT_CLEARED")
	require.Contains(t, must(t, "remember", "hr", "--trusted", "--as", "ruth.abelson"), "1 new, 0 known, 0 changed, 0 gone in organisation")
	require.Contains(t, must(t, "memory", "list", "--ref", "hr/pay-bands.md", "--as", "ruth.abelson"), "[hr-salary]")
	require.NotContains(t, must(t, "memory", "list", "--ref", "hr/pay-bands.md", "--as", sampleAsker), "Band C")
}

// A part of what somebody says has labels of its own.
func TestAPartOfWhatIsSaidIsMarked(t *testing.T) {
	atHome(t)
	const text = "The raise is 3 % in April, and the site in Brno closes."
	out := said(t, text, "remember", "-", "--space", "department:finance", "--mark", "the site in Brno closes=hr-salary,finance", "--as", "marta.lindqvist")
	require.Contains(t, must(t, "memory", "show", idIn(t, out), "--as", "marta.lindqvist"), "Brno")
	shown := must(t, "memory", "show", idIn(t, out), "--as", sampleAsker)
	require.Contains(t, shown, "The raise is 3 % in April, and [redacted].")
	for _, mark := range []string{"nowhere=finance", "no label", "e=finance"} {
		root := Root()
		root.SetIn(strings.NewReader(text))
		root.SetArgs([]string{"remember", "-", "--mark", mark, "--as", "marta.lindqvist"})
		root.SetOut(&bytes.Buffer{})
		root.SetErr(&bytes.Buffer{})
		require.ErrorContains(t, root.ExecuteContext(t.Context()), "--mark", mark)
	}
}

func TestVoicesAreListedAndLent(t *testing.T) {
	atHome(t)
	require.Contains(t, must(t, "voice", "list", "--as", sampleAsker), "plain            nobody's own: Speak plainly")
	_, err := gantry(t, "voice", "lend", "plain", "--as", sampleAsker)
	require.ErrorContains(t, err, "NOT_FOUND")
}

package main_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/embed/table"
)

// made runs the program.
func made(t *testing.T, args ...string) ([]byte, error) {
	command := exec.CommandContext(t.Context(), "go", append([]string{"run", "."}, args...)...)
	var out, failed bytes.Buffer
	command.Stdout, command.Stderr = &out, &failed
	err := command.Run()
	if err != nil {
		t.Log(failed.String())
	}
	return out.Bytes(), err
}

// few is a WordNet of a few meanings, in the form of wndb(5WN).
func few(t *testing.T) string {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"data.noun": "  1 a licence\n" +
			"00000001 05 n 02 boat 0 small_craft 0 001 @ 00000002 n 0000 | a vessel that floats on water; \"the boat sank\"  \n" +
			"00000002 06 n 01 vessel 0 001 ~ 00000001 n 0000 | a craft for travel on water  \n" +
			"00000003 13 n 01 bread 0 000 | food of flour and yeast, baked in an oven  \n" +
			"00000004 13 n 01 loaf 0 001 @ 00000003 n 0000 | bread baked in an oven  \n",
		"data.verb":   "00000005 38 v 01 sail 0 001 + 00000001 n 0101 01 + 08 00 | travel on water in a boat  \n",
		"data.adj":    "00000006 00 s 01 afloat(p) 0 001 & 00000006 a 0000 | floating on water  \n",
		"data.adv":    "",
		"noun.exc":    "loaves loaf\n",
		"verb.exc":    "went go\nground grind\nsank sink\n",
		"adj.exc":     "better good\n",
		"cntlist.rev": "loaf%1:13:00:: 1 7\ngo%2:38:00:: 1 90\ngrind%2:30:00:: 1 5\nground%1:17:00:: 1 60\nsink%2:38:00:: 1 2\ngood%3:00:01:: 1 99\nbetter%3:00:00:: 1 3\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

// An irregular form leads to its base, unless it is more often a word of its
// own, or its base is hardly ever met.
func TestForms(t *testing.T) {
	lines, err := made(t, "-from", few(t), "forms")
	require.NoError(t, err)
	require.Equal(t, "better good\nloav loaf\nwent go\n", string(lines))
}

func TestTable(t *testing.T) {
	folder := few(t)
	encoded, err := made(t, "-from", folder, "-dimensions", "2", "table")
	require.NoError(t, err)
	again, err := made(t, "-from", folder, "-dimensions", "2", "table")
	require.NoError(t, err)
	require.Equal(t, encoded, again)
	words, err := table.Decode(string(encoded))
	require.NoError(t, err)
	require.True(t, slices.IsSorted(words.Stems))
	like := func(a, b string) float64 {
		x, y := vector(t, words, a), vector(t, words, b)
		return product(x, y) / math.Sqrt(product(x, x)*product(y, y))
	}
	require.Greater(t, like("boat", "vessel"), like("boat", "bread"))
	require.Greater(t, like("bread", "loaf"), like("bread", "sail"))
	require.NotContains(t, words.Stems, "the", "words of grammar mean nothing")
}

func product(a, b []int8) (sum float64) {
	for k := range a {
		sum += float64(a[k]) * float64(b[k])
	}
	return sum
}

func vector(t *testing.T, of table.Table, stem string) []int8 {
	at, found := slices.BinarySearch(of.Stems, stem)
	require.True(t, found, stem)
	return of.Vectors[at*of.Dim : (at+1)*of.Dim]
}

func TestWhatIsNoWordNet(t *testing.T) {
	folder := few(t)
	for name, text := range map[string]string{
		"data.verb":   "00000005 38 v zz sail 0 000 | travel\n",
		"data.adj":    "00000005 38 a 01 sail 0 999 | travel\n",
		"data.noun":   "no gloss\n",
		"cntlist.rev": "go%2:38:00:: 1 many\n",
	} {
		broken := filepath.Join(t.TempDir(), "wordnet")
		require.NoError(t, os.CopyFS(broken, os.DirFS(folder)))
		require.NoError(t, os.WriteFile(filepath.Join(broken, name), []byte(text), 0o600))
		_, err := made(t, "-from", broken, "table")
		require.Error(t, err, name)
	}
	_, err := made(t, "-from", folder, "poem")
	require.Error(t, err)
	_, err = made(t, "-from", t.TempDir(), "forms")
	require.Error(t, err)
}

// The files in the repository are those that the program makes of WordNet 3.0,
// where GANTRY_TEST_WORDNET names the folder of Debian's package wordnet-base.
// The table takes a minute, and is the same on one kind of processor.
func TestWhatIsCommittedIsWhatIsMade(t *testing.T) {
	folder := os.Getenv("GANTRY_TEST_WORDNET")
	if folder == "" {
		t.Skip("GANTRY_TEST_WORDNET names no folder")
	}
	forms, err := made(t, "-from", folder, "forms")
	require.NoError(t, err)
	committed, err := os.ReadFile("../../rank/irregular.txt")
	require.NoError(t, err)
	require.Equal(t, string(committed), string(forms))
	encoded, err := made(t, "-from", folder, "table")
	require.NoError(t, err)
	line, err := os.ReadFile("../words.sha256")
	require.NoError(t, err)
	sum := sha256.Sum256(encoded)
	require.Equal(t, hex.EncodeToString(sum[:])+"  words.bin", strings.TrimSpace(string(line)))
}

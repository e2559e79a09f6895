package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/policy/cases"
)

// corpus is the organisation that testdata/corpus speaks of.
type corpus struct {
	files []policy.File
	tools []policy.ToolShape
	dir   policy.Roster
	set   *policy.Set
}

func readCorpus(t testing.TB) corpus {
	t.Helper()
	var c corpus
	readJSON(t, "testdata/corpus/directory.json", &c.dir)
	readJSON(t, "testdata/corpus/tools.json", &c.tools)
	c.files = readFiles(t, "testdata/corpus/policies/*.cedar")
	set, err := policy.Parse(c.files, c.tools)
	require.NoError(t, err)
	c.set = set
	return c
}

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, into))
}

func readFiles(t testing.TB, pattern string) []policy.File {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	var files []policy.File
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files = append(files, policy.File{Name: filepath.Base(name), Text: text})
	}
	require.NotEmpty(t, files)
	return files
}

func TestCorpus(t *testing.T) {
	c := readCorpus(t)
	ran := 0
	for _, file := range readFiles(t, "testdata/corpus/*.txt") {
		list, err := cases.Parse(file, c.tools, c.dir)
		require.NoError(t, err)
		for _, each := range list {
			ran++
			t.Run(file.Name+"/"+each.Name, func(t *testing.T) {
				for _, wrong := range each.Run(c.set, c.dir) {
					t.Errorf("%s:%d: %s", each.File, each.Line, wrong)
				}
			})
		}
	}
	require.GreaterOrEqual(t, ran, 75, "a file of cases was not read")
}

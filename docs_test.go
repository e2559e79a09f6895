package gantry_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	namedTest   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	quotedTest  = regexp.MustCompile("`(Test\\w+)`")
	faultOrCase = regexp.MustCompile(`^Test(Fault|Case)_`)
)

// testsOfTheTree are the names of all tests, and where they stand.
func testsOfTheTree(t *testing.T) map[string]bool {
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range namedTest.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
		return err
	}))
	return names
}

// The documents name tests that exist, and no test of a fault or case is
// missing among the faults.
func TestDocumentsNameTheirTests(t *testing.T) {
	tests := testsOfTheTree(t)
	for _, document := range []string{"docs/faults.md", "docs/guarantees.md", "docs/security.md"} {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, match := range quotedTest.FindAllStringSubmatch(string(text), -1) {
			require.True(t, tests[match[1]], "%s names %s, which is no test", document, match[1])
		}
	}
	faults, err := os.ReadFile("docs/faults.md")
	require.NoError(t, err)
	for name := range tests {
		if faultOrCase.MatchString(name) {
			require.Contains(t, string(faults), "`"+name+"`", "docs/faults.md has no line for it")
		}
	}
}

package gantry_test

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the tests into docs/faults.md")

var (
	namedTest  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	quotedTest = regexp.MustCompile("`(Test\\w+)`")
	faultTest  = regexp.MustCompile(`^TestFault((?:_[A-Z]\d+)+)_`)
	caseTest   = regexp.MustCompile(`^TestCase_(?:(Loop|Line)_)?(\d+)_`)
	leftRow    = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \|$`)
	leftID     = regexp.MustCompile(`^([A-Z]|(?:case|loop|line) )(\d+)(?:–[A-Z]?(\d+))?$`)
	faultRow   = regexp.MustCompile(`(?m)^\| ((?:(?:case|loop|line) \d+)|[A-Z]\d+) \| ([^|]+) \| ?(.*) ?\|$`)
)

// testsOfTheTree are the names of all tests, and the folders where they stand.
func testsOfTheTree(t *testing.T) map[string][]string {
	names := map[string][]string{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range namedTest.FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = append(names[match[1]], filepath.ToSlash(filepath.Dir(path)))
		}
		return err
	}))
	return names
}

// The documents name tests that exist.
func TestDocumentsNameTheirTests(t *testing.T) {
	tests := testsOfTheTree(t)
	for _, document := range []string{"docs/faults.md", "docs/guarantees.md", "docs/security.md"} {
		text, err := os.ReadFile(document)
		require.NoError(t, err)
		for _, match := range quotedTest.FindAllStringSubmatch(string(text), -1) {
			require.NotEmpty(t, tests[match[1]], "%s names a test that does not exist: %s", document, match[1])
		}
	}
}

// Each fault and case of docs/faults.md has its tests beside it, and each test
// of a fault or case has its row. What is left has neither.
func TestFaultRows(t *testing.T) {
	byID := testsByID(testsOfTheTree(t))
	text, err := os.ReadFile("docs/faults.md")
	require.NoError(t, err)
	rows := map[string]bool{}
	cases := 0
	written := faultRow.ReplaceAllStringFunc(string(text), func(row string) string {
		match := faultRow.FindStringSubmatch(row)
		require.NotEmpty(t, byID[match[1]], "%s has no test: write it, or say under what is left why there is none", match[1])
		require.False(t, rows[match[1]], "two rows for %s", match[1])
		rows[match[1]] = true
		cases += len(byID[match[1]])
		return strings.ReplaceAll(fmt.Sprintf("| %s | %s | %s |", match[1], match[2], strings.Join(byID[match[1]], ", ")), "|  |", "| |")
	})
	for id, tests := range byID {
		require.True(t, rows[id], "docs/faults.md has no row %q for %v", id, tests)
	}
	_, left, found := strings.Cut(string(text), "\n## Left, and why\n")
	require.True(t, found)
	for _, id := range leftIDs(left) {
		require.Empty(t, byID[id], "%s is left, it says", id)
		require.False(t, rows[id], "%s is left, and has a row", id)
	}
	if *update {
		require.NoError(t, os.WriteFile("docs/faults.md", []byte(written), 0o600))
		return
	}
	require.True(t, written == string(text), "stale: go test . -run TestFaultRows -update")
	fmt.Printf("level: L0 rows of faults and cases %d, tests of rows %d\n", len(rows), cases)
}

// leftIDs are the ids in the first column of what is left: "A9, G4–G6, case 2".
func leftIDs(table string) (ids []string) {
	for _, row := range leftRow.FindAllStringSubmatch(table, -1) {
		for _, part := range strings.Split(row[1], ", ") {
			match := leftID.FindStringSubmatch(part)
			if match == nil {
				continue // in words
			}
			first, _ := strconv.Atoi(match[2])
			last := first
			if match[3] != "" {
				last, _ = strconv.Atoi(match[3])
			}
			for n := first; n <= last; n++ {
				if strings.HasSuffix(match[1], " ") {
					ids = append(ids, fmt.Sprintf("%s%02d", match[1], n))
				} else {
					ids = append(ids, fmt.Sprintf("%s%d", match[1], n))
				}
			}
		}
	}
	return ids
}

func TestWhatIsLeftIsRead(t *testing.T) {
	require.Equal(t, []string{"A9", "G4", "G5", "G6", "case 02", "line 17"},
		leftIDs("| id | why |\n|---|---|\n| A9, G4–G6, case 2, line 17 | no |\n| another model | in words |\n"))
}

// testsByID are the tests of each row, quoted, with their folders.
func testsByID(tests map[string][]string) map[string][]string {
	byID := map[string][]string{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		for _, id := range idsOf(name) {
			for _, folder := range tests[name] {
				byID[id] = append(byID[id], fmt.Sprintf("`%s` (%s)", name, folder))
			}
		}
	}
	return byID
}

// idsOf are the rows that a test is named for: TestFault_C9_C10_… has two.
func idsOf(name string) []string {
	if match := faultTest.FindStringSubmatch(name); match != nil {
		return strings.Split(strings.TrimPrefix(match[1], "_"), "_")
	}
	if match := caseTest.FindStringSubmatch(name); match != nil {
		kind := strings.ToLower(match[1])
		if kind == "" {
			kind = "case"
		}
		return []string{kind + " " + match[2]}
	}
	return nil
}

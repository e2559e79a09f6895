package document_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/document"
)

// Whatever is in a file of whatever format, it is read into what holds of every
// document, or said to be unreadable with a code.
func FuzzRead(f *testing.F) {
	names := []string{"a.md", "a.txt", "a.html", "a.csv", "a.json", "a.jsonl", "a.eml", "a.pdf", "a"}
	files, err := filepath.Glob("testdata/*.*")
	require.NoError(f, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(f, err)
		for i, name := range names {
			if filepath.Ext(name) == filepath.Ext(file) {
				f.Add(byte(i), content)
			}
		}
	}
	f.Add(byte(7), pages("", shown("Some text.", "More of it.")))
	f.Fuzz(func(t *testing.T, format byte, content []byte) {
		doc, err := shared().Read(t.Context(), names[int(format)%len(names)], content)
		if err == nil {
			holds(t, doc)
			return
		}
		var why *document.Unreadable
		require.ErrorAs(t, err, &why)
		require.NotEmpty(t, why.Code)
	})
}

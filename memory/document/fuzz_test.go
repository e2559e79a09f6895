package document_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/document"
)

// Whatever is in a file of whatever format, it is read into what holds of every
// document, or said to be unreadable with a code.
func FuzzRead(f *testing.F) {
	names := []string{"a.md", "a.txt", "a.html", "a.csv", "a.json", "a.jsonl", "a.eml", "a"}
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
	f.Fuzz(func(t *testing.T, format byte, content []byte) {
		if bytes.Contains(bytes.ToLower(content), []byte("pdf")) {
			return // see below
		}
		doc, err := shared().Read(t.Context(), names[int(format)%len(names)], content)
		readOrRefused(t, doc, err)
	})
}

func readOrRefused(t *testing.T, doc document.Document, err error) {
	if err == nil {
		holds(t, doc)
		return
	}
	var why *document.Unreadable
	require.ErrorAs(t, err, &why)
	require.NotEmpty(t, why.Code)
}

// PDF files are damaged at random and not by the fuzzer: it sees nothing of what
// PDFium does, and gives an input less time than PDFium takes to start.
func TestDamagedPDFIsReadOrRefused(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	whole := pages("/Info 4 0 R", shown("Some text.", "More of it."), shown("A second page."))
	parts := []string{"obj", "endobj", "stream", "<<", ">>", "[", "(", "/Kids [2 0 R]", "/Filter /FlateDecode", "/Length -1", "99999999999", "R", "/Count 1000000", "/Parent", "xref", "\x00", "BT", "Tj"}
	read := 0
	for range 400 {
		damaged := slices.Clone(whole)
		for range 1 + random.IntN(6) {
			at := random.IntN(len(damaged))
			switch random.IntN(4) {
			case 0:
				damaged[at] = byte(random.IntN(256))
			case 1:
				damaged = slices.Delete(damaged, at, min(len(damaged), at+random.IntN(40)))
			case 2:
				damaged = slices.Insert(damaged, at, []byte(parts[random.IntN(len(parts))])...)
			default:
				from := random.IntN(len(damaged))
				damaged = slices.Insert(damaged, at, slices.Clone(damaged[from:min(len(damaged), from+random.IntN(200))])...)
			}
		}
		doc, err := shared().Read(t.Context(), "a.pdf", damaged)
		readOrRefused(t, doc, err)
		if err == nil {
			read++
		}
	}
	require.Positive(t, read)
}

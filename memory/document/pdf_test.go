package document_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory/document"
)

// pdf writes a PDF file of objects, whose numbers begin at 1, with its table of
// where each stands.
func pdf(trailer string, objects ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	var at []int
	for i, object := range objects {
		at = append(at, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, object)
	}
	table := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(objects)+1)
	for _, offset := range at {
		fmt.Fprintf(&out, "%010d 00000 n \n", offset)
	}
	fmt.Fprintf(&out, "trailer\n<< /Size %d /Root 1 0 R %s >>\nstartxref\n%d\n%%%%EOF\n", len(objects)+1, trailer, table)
	return out.Bytes()
}

// pages writes a PDF file with a page for each content.
func pages(trailer string, contents ...string) []byte {
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>", "<< /Title (Terms of the workshop) >>"}
	kids := ""
	for _, content := range contents {
		kids += fmt.Sprintf("%d 0 R ", len(objects)+1)
		objects = append(objects,
			fmt.Sprintf("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>", len(objects)+2),
			fmt.Sprintf("<< /Length %d >>\nstream\n%s\nendstream", len(content), content))
	}
	objects[1] = fmt.Sprintf("<< /Type /Pages /Count %d /Kids [%s] >>", len(contents), kids)
	return pdf(trailer, objects...)
}

func shown(lines ...string) string {
	out := "BT /F1 12 Tf 14 TL 72 720 Td "
	for _, line := range lines {
		out += "(" + line + ") Tj T* "
	}
	return out + "ET"
}

func TestReadsPDF(t *testing.T) {
	content := pages("/Info 4 0 R", shown("The first line of the terms,", "and the second one."), "0 0 100 100 re f", shown("Price: 12 \\200 for ruth@example.org"))
	doc, err := shared().Read(t.Context(), "terms.pdf", content)
	require.NoError(t, err)
	holds(t, doc)
	require.Equal(t, "Terms of the workshop", doc.Title)
	require.Equal(t, []string{"Page 1 = The first line of the terms,\nand the second one.", "Page 3 = Price: 12 € for ruth@example.org"}, texts(doc))
	same, err := shared().Read(t.Context(), "no ending", content)
	require.NoError(t, err)
	require.Equal(t, doc.Passages, same.Passages, "known by how it begins")
}

func deflated(content []byte) string {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	_, _ = w.Write(content)
	_ = w.Close()
	return out.String()
}

func TestRefusesPDFThatCannotBeRead(t *testing.T) {
	whole := pages("", shown("Some text."))
	encrypted := pages("/ID [<00112233445566778899aabbccddeeff> <00112233445566778899aabbccddeeff>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -44 /O <"+
		strings.Repeat("ab", 32)+"> /U <"+strings.Repeat("cd", 32)+"> >>", shown("Some text."))
	bomb := deflated(bytes.Repeat([]byte("0"), 32<<20))
	for name, c := range map[string]struct {
		content []byte
		code    string
	}{
		"encrypted":       {encrypted, document.CodeEncrypted},
		"scanned":         {pages("", "0 0 100 100 re f", "q Q"), document.CodeNoText},
		"no pages":        {pages(""), document.CodeNoText},
		"cut off":         {whole[:40], document.CodeMalformed},
		"nothing in it":   {[]byte("%PDF-1.7\n"), document.CodeMalformed},
		"no PDF":          {[]byte("just words"), document.CodeMalformed},
		"empty":           {nil, document.CodeMalformed},
		"pages in a ring": {pdf("", "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 9 /Kids [2 0 R 2 0 R] >>"), ""},
		"a bomb": {pdf("", "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [3 0 R] >>", "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] /Contents 4 0 R >>",
			fmt.Sprintf("<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", len(bomb), bomb)), ""},
		"nested arrays": {pdf("", "<< /Type /Catalog /Pages "+strings.Repeat("[", 100_000)+" >>"), ""},
		"many pages":    {pdf("", "<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 2000000000 /Kids [] >>"), ""},
	} {
		_, err := shared().Read(t.Context(), "a.pdf", c.content)
		var why *document.Unreadable
		require.ErrorAs(t, err, &why, name)
		if c.code != "" {
			require.Equal(t, c.code, why.Code, name)
		}
	}
}

// endlessPDF has one page whose text takes PDFium very long.
func endlessPDF() []byte {
	endless := deflated([]byte(strings.Repeat(shown("Words upon words upon words."), 2_000_000)))
	objects := []string{"<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Count 1 /Kids [4 0 R] >>", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
		"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents 5 0 R >>",
		fmt.Sprintf("<< /Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream", len(endless), endless)}
	return pdf("", objects...)
}

// A reader that is no longer waited for stops, in the middle of a page, and the
// next file is read as ever.
func TestPDFStopsWithItsContext(t *testing.T) {
	_, err := shared().Read(t.Context(), "a.pdf", pages("", shown("Some text.")))
	require.NoError(t, err)
	endless := endlessPDF()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err = shared().Read(ctx, "a.pdf", endless)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Less(t, time.Since(start), 10*time.Second, "to its end it takes longer")
	_, err = shared().Read(t.Context(), "a.pdf", pages("", shown("Some text.")))
	require.NoError(t, err)
	hurried := document.NewReader()
	hurried.Limit = 200 * time.Millisecond
	_, err = hurried.Read(t.Context(), "a.pdf", endless)
	var why *document.Unreadable
	require.ErrorAs(t, err, &why)
	require.Equal(t, document.CodeTimeout, why.Code)
	require.NoError(t, hurried.Close())
	cancelled, stop := context.WithCancel(t.Context())
	stop()
	_, err = shared().Read(cancelled, "a.pdf", pages("", shown("Some text.")))
	require.ErrorIs(t, err, context.Canceled)
}

// Several files are read at once, each in a memory of its own.
func TestPDFsAreReadTogether(t *testing.T) {
	var group sync.WaitGroup
	docs, errs := make([]document.Document, 8), make([]error, 8)
	for i := range docs {
		group.Go(func() {
			docs[i], errs[i] = shared().Read(t.Context(), "a.pdf", pages("", shown(fmt.Sprint("Text of file ", i))))
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	for i, doc := range docs {
		require.Equal(t, fmt.Sprint("Text of file ", i), doc.Normal)
	}
}

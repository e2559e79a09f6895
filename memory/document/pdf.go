package document

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klippa-app/go-pdfium"
	wrong "github.com/klippa-app/go-pdfium/errors"
	"github.com/klippa-app/go-pdfium/references"
	"github.com/klippa-app/go-pdfium/requests"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

const (
	pdfPages    = 10_000
	pdfMemory   = 512 << 20 // bytes that one file may make PDFium use
	pdfTogether = 2         // files that are read at once
)

// pdfReader holds PDFium, compiled to WebAssembly: each file gets a memory of
// its own that ends with it, no files, no network, and can be stopped.
type pdfReader struct {
	lock sync.Mutex
	pool pdfium.Pool
}

var (
	errPDF       = &Unreadable{Code: CodeMalformed, Detail: "It breaks the rules of PDF; save or print it again."}
	errManyPages = &Unreadable{Code: CodeTooLarge, Detail: "It has more than 10,000 pages; split it."}
	errEncrypted = &Unreadable{Code: CodeEncrypted, Detail: "It asks for a password; save it without one."}
	errSlow      = &Unreadable{Code: CodeTimeout, Detail: "It takes longer to read than a minute; split it."}
	errScanned   = &Unreadable{Code: CodeNoText, Detail: "None of its pages has text, as after scanning; have its text recognised first."}
)

// start compiles PDFium, once for each Reader, which takes a few seconds.
func (r *pdfReader) start() (pdfium.Pool, error) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.pool != nil {
		return r.pool, nil
	}
	config := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling).
		WithMemoryLimitPages(pdfMemory / (64 << 10)).
		WithCloseOnContextDone(true)
	pool, err := webassembly.Init(webassembly.Config{
		MaxTotal: pdfTogether, FSConfig: wazero.NewFSConfig(), RuntimeConfig: config, Stdout: io.Discard, Stderr: io.Discard,
	})
	if err != nil {
		return nil, err
	}
	r.pool = pool
	return pool, nil
}

func (r *pdfReader) close() error {
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.pool == nil {
		return nil
	}
	pool := r.pool
	r.pool = nil
	return pool.Close()
}

func (s *source) readPDF(ctx context.Context, content []byte) error {
	pool, err := s.reader.pdf.start()
	if err != nil {
		return err
	}
	instance, err := pool.GetInstanceWithContext(ctx)
	if err != nil {
		return errors.Join(ctx.Err(), err)
	}
	within, cancel := context.WithTimeout(ctx, s.left)
	defer cancel()
	start := time.Now()
	defer func() { s.left -= time.Since(start) }()
	stop := context.AfterFunc(within, func() { _ = instance.Kill() })
	defer func() {
		if stop() {
			_ = instance.Close()
		}
	}()
	err = s.readPages(within, instance, content)
	if within.Err() != nil && ctx.Err() == nil {
		return errSlow
	}
	return err
}

// readPages reads the text of each page. A fault that PDFium does not tell, as
// when its memory is used up, is one of the file.
func (s *source) readPages(ctx context.Context, instance pdfium.Pdfium, content []byte) (err error) {
	opened, err := instance.OpenDocument(&requests.OpenDocument{File: &content})
	if errors.Is(err, wrong.ErrPassword) || errors.Is(err, wrong.ErrSecurity) {
		return errEncrypted
	}
	if err != nil {
		return errPDF
	}
	count, err := instance.FPDF_GetPageCount(&requests.FPDF_GetPageCount{Document: opened.Document})
	if err != nil {
		return errPDF
	}
	if count.PageCount > pdfPages {
		return errManyPages
	}
	if title, err := instance.FPDF_GetMetaText(&requests.FPDF_GetMetaText{Document: opened.Document, Tag: "Title"}); err == nil && s.depth == 0 {
		s.out.title = shorten(oneLine(clean(title.Value)))
	}
	empty := true
	for page := range count.PageCount {
		if err := ctx.Err(); err != nil {
			return err
		}
		text, ok := pageText(instance, opened.Document, page)
		if !ok {
			return errPDF
		}
		if text == "" {
			continue
		}
		empty = false
		s.out.at("Page " + strconv.Itoa(page+1))
		if err := s.readPlain(text); err != nil {
			return err
		}
	}
	if empty {
		return errScanned
	}
	return nil
}

func pageText(instance pdfium.Pdfium, document references.FPDF_DOCUMENT, page int) (string, bool) {
	got, err := instance.GetPageText(&requests.GetPageText{
		Page: requests.Page{ByIndex: &requests.PageByIndex{Document: document, Index: page}},
	})
	if err != nil {
		return "", false
	}
	// PDFium tells a hyphen at a line's end by a mark of its own.
	text := strings.NewReplacer("\ufffe\r\n", "", "\u0002\r\n", "", "\ufffe", "", "\u0002", "").Replace(got.Text)
	return strings.TrimSpace(clean(text)), true
}

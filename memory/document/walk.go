package document

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
)

// Walk reads the files of a folder and of those in it, in the order of their
// paths, and gives each to a function: a document, or why it is not read. It
// leaves out what is hidden by a dot before its name, and follows no links. It
// ends early only when the context does, or the folder itself cannot be read.
func (r *Reader) Walk(ctx context.Context, root fs.FS, dir string, each func(path string, doc Document, err error)) error {
	return fs.WalkDir(root, dir, func(path string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			if path == dir {
				return err
			}
			each(path, Document{}, errOpen)
			return nil
		}
		if path != dir && strings.HasPrefix(entry.Name(), ".") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		doc, err := r.open(ctx, root, path)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		each(path, doc, err)
		return nil
	})
}

// Walk reads a folder with a Reader of its own; see Reader.Walk.
func Walk(root fs.FS, dir string, each func(path string, doc Document, err error)) error {
	r := NewReader()
	return errors.Join(r.Walk(context.Background(), root, dir, each), r.Close())
}

var errOpen = &Unreadable{Code: CodeNotOpened, Detail: "It cannot be opened; see that it may be read."}

func (r *Reader) open(ctx context.Context, root fs.FS, path string) (Document, error) {
	file, err := root.Open(path)
	if err != nil {
		return Document{}, errOpen
	}
	defer file.Close() //nolint:errcheck // it was only read
	content, err := io.ReadAll(io.LimitReader(file, MaxBytes+1))
	if err != nil {
		return Document{}, errOpen
	}
	return r.Read(ctx, path, content)
}

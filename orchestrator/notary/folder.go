package notary

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Folder holds one file of heads for each organisation, a line for each head.
// Lines are only ever added.
type Folder struct{ path string }

// NewFolder names a folder; Append makes it where it is not.
func NewFolder(path string) Folder { return Folder{path: path} }

const suffix = ".jsonl"

// mostLine bounds a line, in bytes.
const mostLine = 8 << 20

var fileName = regexp.MustCompile(`^[a-z0-9]+([._-][a-z0-9]+)*$`)

// file is where an organisation's heads are. A name that could leave the folder
// is refused.
func (f Folder) file(organisation string) (string, error) {
	if !fileName.MatchString(organisation) {
		return "", errors.New("heads: the organisation's name is no file name")
	}
	return filepath.Join(f.path, organisation+suffix), nil
}

// Organisations lists those that have a file, by name.
func (f Folder) Organisations() ([]string, error) {
	entries, err := os.ReadDir(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("heads: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if name, is := strings.CutSuffix(entry.Name(), suffix); is && fileName.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Read visits every whole line. A line that a crash cut short is no line.
func (f Folder) Read(organisation string, visit func(line []byte) error) error {
	path, err := f.file(organisation)
	if err != nil {
		return err
	}
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	defer func() { _ = file.Close() }() // only read
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, mostLine)
	scanner.Split(wholeLines)
	for scanner.Scan() {
		if err := visit(scanner.Bytes()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	return nil
}

// wholeLines splits at newlines and leaves out what has none.
func wholeLines(text []byte, atEnd bool) (int, []byte, error) {
	if end := bytes.IndexByte(text, '\n'); end >= 0 {
		return end + 1, text[:end], nil
	}
	if atEnd {
		return len(text), nil, nil
	}
	return 0, nil, nil
}

// Append adds lines and returns when they are on the disk. What a crash left of
// a line is taken away first: it was never a line.
func (f Folder) Append(organisation string, lines [][]byte) (err error) {
	path, err := f.file(organisation)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	end, err := endOfLines(file)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	if err := file.Truncate(end); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	text := bytes.Join(append(slices.Clone(lines), nil), []byte("\n"))
	if _, err := file.WriteAt(text, end); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	if err := file.Sync(); err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	return f.sync()
}

// endOfLines is where the last whole line ends.
func endOfLines(file *os.File) (int64, error) {
	end, err := file.Seek(0, io.SeekEnd)
	block := make([]byte, 64<<10)
	for err == nil && end > 0 {
		size := min(end, int64(len(block)))
		if _, err := file.ReadAt(block[:size], end-size); err != nil {
			return 0, err
		}
		if at := bytes.LastIndexByte(block[:size], '\n'); at >= 0 {
			return end - size + int64(at) + 1, nil
		}
		end -= size
	}
	return end, err
}

// sync makes a new file's name last. Where a folder cannot be synced the file's
// own sync is all there is.
func (f Folder) sync() error {
	folder, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("heads: %w", err)
	}
	_ = folder.Sync() // some systems cannot
	return folder.Close()
}

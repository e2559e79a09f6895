package brain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/client"
)

func (h House) remember() *cobra.Command {
	var draft client.MemoryDraft
	var expires moment
	var trusted bool
	var marks []string
	command := h.Ask("remember FILE|DIR|-", "Remember documents, or what you say", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		complete(&draft, expires, trusted)
		if args[0] == "-" {
			return h.rememberText(command, c, draft, marks)
		}
		if len(marks) > 0 {
			return errors.New("--mark is for a text from the standard input; documents have labels from their front matter and their folder")
		}
		return h.rememberFiles(command, c, args[0], draft)
	})
	command.Long = "Remembers a document, or all documents of a folder, passage by passage: Markdown, text, HTML, PDF, CSV, JSON and e-mail.\n" +
		"Each is known by its path as you give it (by its name alone where the path leads out of here). Remembered again, what it still says\n" +
		"stays as it is, what changed takes the place of what was, and what it no longer says is forgotten, as far as you remembered it.\n" +
		"A file that cannot be read is said and skipped; hidden files and links are passed over.\n\n" +
		"With \"-\" it remembers one text from the standard input, for example:\n\n" +
		"  echo \"Anna prefers meetings after ten.\" | gantry remember - --kind PREFERENCE --subject \"anna, meetings\""
	draftFlags(command, &draft, &expires, &trusted, "")
	command.Flags().StringArrayVar(&marks, "mark", nil, "WORDS=LABEL[,LABEL]: labels of a part of what you say; may be given again")
	command.Flag("kind").Usage += " (default PASSAGE for documents, FACT for what you say)"
	return command
}

func (h House) rememberText(command *cobra.Command, c *client.Client, draft client.MemoryDraft, marks []string) error {
	text, err := textOf(command, "-")
	if err != nil {
		return err
	}
	draft.Text = text
	for _, given := range marks {
		at := strings.LastIndex(given, "=")
		if at < 0 {
			return fmt.Errorf("--mark %q: say WORDS=LABEL", given)
		}
		mark, err := client.MarkOf(text, given[:at], strings.Split(given[at+1:], ","))
		if err != nil {
			return fmt.Errorf("--mark: %w", err)
		}
		draft.Marks = append(draft.Marks, mark)
	}
	done, err := c.Remember(command.Context(), draft)
	return h.sayRemembered(command, done, err)
}

// sayRemembered says what became of a draft.
func (h House) sayRemembered(command *cobra.Command, done client.Remembered, err error) error {
	if err != nil {
		return err
	}
	word := "remembered"
	if done.Known {
		word = "known already:"
	}
	return h.sayItem(command.OutOrStdout(), done.Item, word, "")
}

// found is a file to be remembered.
type found struct {
	name  string // what its passages bear as their ref
	path  string // where it is here
	fault error  // why it cannot be looked at
}

// tally counts what became of files.
type tally struct{ files, skipped, added, known, changed, gone int }

func (h House) rememberFiles(command *cobra.Command, c *client.Client, given string, draft client.MemoryDraft) error {
	_, err := h.Documents(command, c, given, draft)
	return err
}

// Documents remembers a file, or every file of a folder, and tells of each. It
// returns the names of those that are remembered, also beside an error that
// says how many were skipped.
func (h House) Documents(command *cobra.Command, c *client.Client, given string, draft client.MemoryDraft) (names []string, err error) {
	files, err := filesOf(given)
	if err != nil {
		return nil, err
	}
	sum := tally{files: len(files)}
	for i, file := range files {
		before := fmt.Sprintf("%d/%d %s: ", i+1, len(files), oneLine(file.name))
		done, err := rememberFile(command.Context(), c, file, draft)
		if fatal(err, draft) {
			return names, fmt.Errorf("%s: %w", oneLine(file.name), err)
		}
		if err != nil {
			sum.skipped++
			if err := h.Say(command.ErrOrStderr(), "%sskipped: %v", before, err); err != nil {
				return names, err
			}
			continue
		}
		names = append(names, done.Ref)
		sum.added, sum.known, sum.changed, sum.gone = sum.added+done.Added, sum.known+done.Known, sum.changed+done.Changed, sum.gone+done.Gone
		if err := h.Say(command.OutOrStdout(), "%s%s", before, told(done)); err != nil {
			return names, err
		}
	}
	if len(files) > 1 {
		if err := h.Say(command.OutOrStdout(), "%d of %d files: %d passages new, %d known, %d changed, %d gone", sum.files-sum.skipped, sum.files, sum.added, sum.known, sum.changed, sum.gone); err != nil {
			return names, err
		}
	}
	if sum.skipped > 0 {
		return names, &SkippedError{sum.skipped, sum.files}
	}
	return names, nil
}

// SkippedError means that some files were not remembered.
type SkippedError struct{ Files, Of int }

// Error says how many.
func (e *SkippedError) Error() string {
	return fmt.Sprintf("%d of %d files were skipped", e.Files, e.Of)
}

// told says what became of a document, in words.
func told(done client.MemoryDocument) string {
	if done.Known == done.Passages && done.Gone == 0 {
		return fmt.Sprintf("nothing changed, %d known in %s", done.Known, done.Space)
	}
	words := fmt.Sprintf("%d new, %d known, %d changed, %d gone in %s", done.Added, done.Known, done.Changed, done.Gone, done.Space)
	if done.Receipt != nil {
		words += ", receipt " + client.ShortID(done.Receipt.ID)
	}
	return words
}

// maxFile bounds a file, in bytes: what fits into one request, in which three
// bytes take four, beside a name and a draft of the largest size.
const maxFile = 750 << 10

func rememberFile(ctx context.Context, c *client.Client, file found, draft client.MemoryDraft) (client.MemoryDocument, error) {
	if file.fault != nil {
		return client.MemoryDocument{}, file.fault
	}
	opened, err := os.Open(file.path)
	if err != nil {
		return client.MemoryDocument{}, err
	}
	defer func() { _ = opened.Close() }() // only read
	content, err := io.ReadAll(io.LimitReader(opened, maxFile+1))
	switch {
	case err != nil:
		return client.MemoryDocument{}, err
	case len(content) == 0:
		return client.MemoryDocument{}, errors.New("the file is empty")
	case len(content) > maxFile:
		return client.MemoryDocument{}, fmt.Errorf("the file has more than %d KiB; split it", maxFile>>10)
	}
	return c.RememberDocument(ctx, client.Document{Name: file.name, Content: content, Draft: draft})
}

// fatal reports whether an error would come again with every other file: a space
// or a label may be the file's own, where the command names none.
func fatal(err error, draft client.MemoryDraft) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	codes := []string{client.CodeUnreachable, client.CodeUnexpected, "UNAUTHENTICATED", "MEMORY_UNAVAILABLE", "STORE_UNAVAILABLE", "INTERNAL", "QUOTA"}
	if draft.Space != "" {
		codes = append(codes, "SPACE")
	}
	if len(draft.Labels) > 0 {
		codes = append(codes, "UNKNOWN_LABEL")
	}
	return slices.ContainsFunc(codes, func(code string) bool { return client.IsCode(err, code) })
}

// filesOf lists a file, or the files of a folder in order, without hidden ones
// and links.
func filesOf(given string) ([]found, error) {
	about, err := os.Stat(given)
	if err != nil {
		return nil, err
	}
	name := nameOf(given)
	if about.Mode().IsRegular() {
		return []found{{name: name, path: given}}, nil
	}
	if !about.IsDir() {
		return nil, fmt.Errorf("%s is neither a file nor a folder; \"-\" is the standard input", given)
	}
	root, err := filepath.EvalSymlinks(given) // the one link that was named is followed
	if err != nil {
		return nil, err
	}
	var files []found
	err = filepath.WalkDir(root, func(at string, entry fs.DirEntry, err error) error {
		rest, outside := filepath.Rel(root, at)
		if outside != nil {
			return outside
		}
		file := found{name: path.Join(name, filepath.ToSlash(rest)), path: at, fault: err}
		switch {
		case err != nil && at == root:
			return err
		case err != nil: // a folder that cannot be read is said, as a file is
			files = append(files, file)
		case at != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.Type().IsRegular():
			files = append(files, file)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is no file in %s", given)
	}
	return files, err
}

// nameOf is what a path is known by: as it was given, but nothing of where that
// is when it leads out of here.
func nameOf(given string) string {
	clean := filepath.Clean(given)
	if clean == "." {
		return ""
	}
	if filepath.IsLocal(clean) {
		return filepath.ToSlash(clean)
	}
	whole, err := filepath.Abs(clean)
	if err != nil {
		return filepath.Base(clean)
	}
	return filepath.Base(whole)
}

// Package brain holds the commands by which a person remembers, recalls and
// forgets.
package brain

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// House is how every command of the binary asks a server and prints.
type House struct {
	// Ask returns a command that asks a server.
	Ask func(use, short string, args cobra.PositionalArgs, do ask.Do) *cobra.Command
	// Say prints lines with every character that is not seen written out.
	Say func(out io.Writer, format string, args ...any) error
	// JSON prints a value for programs, when the flag that JSONFlag declares is set.
	JSON     func(command *cobra.Command, value any) error
	JSONFlag func(command *cobra.Command, asJSON *bool, what string)
}

// Commands returns remember, recall, voice and memory, which also has those of
// the operator.
func Commands(h House, operator ...*cobra.Command) []*cobra.Command {
	memory := &cobra.Command{Use: "memory", Short: "Look at what is remembered, and change it"}
	memory.AddCommand(h.list(), h.show(), h.spaces(), h.export(), h.supersede(), h.consolidate(), h.promote(), h.declassify(), h.forget(), h.receipt())
	memory.AddCommand(operator...)
	return []*cobra.Command{h.remember(), h.recall(), h.voice(), memory}
}

// kinds are all that an item may have.
var kinds = []string{"FACT", "PREFERENCE", "EPISODE", "PASSAGE", "PROCEDURE", "FINDING", "TRAIT"}

// upper writes words as the interface has them.
func upper(words []string) []string {
	out := make([]string, 0, len(words))
	for _, word := range words {
		out = append(out, strings.ToUpper(word))
	}
	return out
}

// moment is a flag's time: RFC 3339, or a day, which is its first moment in UTC.
type moment struct{ at *time.Time }

// String writes the moment.
func (m *moment) String() string {
	if m.at == nil {
		return ""
	}
	return m.at.Format(time.RFC3339)
}

// Set reads a moment.
func (m *moment) Set(text string) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, text); err == nil {
			m.at = &at
			return nil
		}
	}
	return errors.New("it must be a day, for example 2026-01-31, or a moment, for example 2026-01-31T09:30:00Z")
}

// Type names the kind of value in the help.
func (m *moment) Type() string { return "time" }

// textOf returns what a person gave as text: the argument, or for "-" all of
// the standard input.
func textOf(command *cobra.Command, argument string) (string, error) {
	if argument != "-" {
		return argument, nil
	}
	raw, err := io.ReadAll(io.LimitReader(command.InOrStdin(), maxInput+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(raw) > maxInput {
		return "", fmt.Errorf("the standard input has more than %d bytes; remember it as a file", maxInput)
	}
	return strings.TrimRight(string(raw), "\n"), nil
}

// maxInput bounds a text from the standard input, in bytes; the server takes as
// much as one item's text.
const maxInput = 64 << 10

// sayItem prints an item in short: a line about it, and what of it can be seen.
func (h House) sayItem(out io.Writer, item client.MemoryItem, before, after string) error {
	line := strings.TrimSpace(before + " " + item.Name() + "  " + item.Space + "  " + item.Kind)
	if item.Subject != "" {
		line += "  about " + oneLine(item.Subject)
	}
	if len(item.Labels) > 0 {
		line += "  [" + strings.Join(item.Labels, ",") + "]"
	}
	if item.Integrity == "UNTRUSTED" {
		line += "  untrusted"
	}
	if item.Archived {
		line += "  archived"
	}
	if err := h.Say(out, "%s", line); err != nil {
		return err
	}
	if err := h.Say(out, "  %s", short(item.Display)); err != nil || after == "" {
		return err
	}
	return h.Say(out, "  — %s", after)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// shown is how many characters of a text a list has.
const shown = 240

// short is a text on one line, cut where it is long.
func short(text string) string {
	line := []rune(oneLine(text))
	if len(line) <= shown {
		return string(line)
	}
	return string(line[:shown]) + "…"
}

func (h House) recall() *cobra.Command {
	var asJSON bool
	var q client.MemoryQuestion
	var asOf, knownAt moment
	command := h.Ask("recall QUESTION", "Ask what is remembered, of what you may see", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		q.Query, q.Kinds, q.AsOf, q.KnownAt = args[0], upper(q.Kinds), asOf.at, knownAt.at
		found, err := c.Recall(command.Context(), q)
		if err != nil {
			return err
		}
		if asJSON {
			return h.JSON(command, found)
		}
		return h.sayFound(command, found)
	})
	flags := command.Flags()
	flags.StringSliceVar(&q.Spaces, "space", nil, "only in these spaces, for example organisation,department:finance")
	flags.StringSliceVar(&q.Kinds, "kind", nil, "only of these kinds: "+strings.Join(kinds, ", "))
	flags.IntVar(&q.Most, "first", 10, "how many, 100 at most")
	flags.Var(&asOf, "as-of", "what was true then, a day or a moment")
	flags.Var(&knownAt, "known-at", "only what had been learnt by then")
	h.JSONFlag(command, &asJSON, "one JSON object")
	return command
}

func (h House) sayFound(command *cobra.Command, found client.Recollection) error {
	out := command.OutOrStdout()
	for i, hit := range found.Hits {
		if err := h.sayItem(out, hit.Item, fmt.Sprintf("%d. %.3f ", i+1, hit.Score), hit.Citation); err != nil {
			return err
		}
	}
	if len(found.Hits) == 0 {
		if err := h.Say(out, "nothing that you may see fits"); err != nil {
			return err
		}
	}
	if len(found.Degraded) > 0 {
		return h.Say(command.ErrOrStderr(), "the answer is not whole: %s could not be asked; ask again later", strings.Join(found.Degraded, ", "))
	}
	return nil
}

// draftFlags declares what a person may say of what is to be remembered.
func draftFlags(command *cobra.Command, draft *client.MemoryDraft, expires *moment, trusted *bool, kind string) {
	flags := command.Flags()
	flags.StringVar(&draft.Space, "space", "", "where (default your own space)")
	flags.StringSliceVar(&draft.Labels, "label", nil, "why it is confidential; what detectors find is added")
	flags.StringVar(&draft.Kind, "kind", kind, "one of "+strings.Join(kinds, ", "))
	flags.StringVar(&draft.Subject, "subject", "", "what it is about: who or what, and which of its properties")
	flags.Var(expires, "expires", "when to erase it, a day or a moment (default never)")
	flags.BoolVar(trusted, "trusted", false, "vouch for it: you wrote it or checked it")
}

// complete finishes a draft from its flags.
func complete(draft *client.MemoryDraft, expires moment, trusted bool) {
	draft.Kind, draft.ExpiresAt, draft.Integrity = strings.ToUpper(draft.Kind), expires.at, "UNTRUSTED"
	if trusted {
		draft.Integrity = "TRUSTED"
	}
}

// output opens the file that a command writes, or its standard output for none.
func output(command *cobra.Command, path string, write func(io.Writer) error) error {
	if path == "" {
		return write(command.OutOrStdout())
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	return cmp.Or(write(file), file.Close())
}

package brain

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// filterFlags declares which items are meant.
func filterFlags(command *cobra.Command) func() client.MemoryFilter {
	var filter client.MemoryFilter
	var subject, ref, by string
	flags := command.Flags()
	flags.StringSliceVar(&filter.Spaces, "space", nil, "only in these spaces, for example organisation,department:finance")
	flags.StringSliceVar(&filter.Kinds, "kind", nil, "only of these kinds: "+strings.Join(kinds, ", "))
	flags.StringVar(&subject, "subject", "", "only about exactly this")
	flags.StringVar(&ref, "ref", "", "only from exactly this source, for example a document's name")
	flags.StringVar(&by, "by", "", "only what this principal wrote")
	return func() client.MemoryFilter {
		filter.Kinds = upper(filter.Kinds)
		for name, part := range map[string]struct {
			value *string
			into  **string
		}{"subject": {&subject, &filter.Subject}, "ref": {&ref, &filter.Ref}, "by": {&by, &filter.Principal}} {
			if flags.Changed(name) {
				*part.into = part.value
			}
		}
		return filter
	}
}

func (h House) list() *cobra.Command {
	var asJSON bool
	var most int
	var filter func() client.MemoryFilter
	command := h.Ask("list", "List what is remembered that you may see, newest first", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		if most < 1 {
			return errors.New("--last must be at least 1")
		}
		items := []client.MemoryItem{}
		err := c.MemoryItems(command.Context(), filter(), func(item client.MemoryItem) (bool, error) {
			items = append(items, item)
			return len(items) < most, nil
		})
		if err != nil {
			return err
		}
		if asJSON {
			return h.JSON(command, items)
		}
		if len(items) == 0 {
			return h.Say(command.OutOrStdout(), "nothing that you may see fits")
		}
		for _, item := range items {
			if err := h.sayItem(command.OutOrStdout(), item, item.RecordedAt.Format(time.RFC3339), ""); err != nil {
				return err
			}
		}
		return nil
	})
	filter = filterFlags(command)
	command.Flags().IntVar(&most, "last", 20, "how many at most")
	h.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

// onItem returns a command about the item that its first argument names.
func (h House) onItem(use, short string, args cobra.PositionalArgs, do ask.Do) *cobra.Command {
	return h.Ask(use, short, args, func(command *cobra.Command, c *client.Client, args []string) error {
		ids, err := c.MemoryIDs(command.Context(), args[0])
		if err != nil {
			return err
		}
		return do(command, c, append(ids, args[1:]...))
	})
}

func (h House) show() *cobra.Command {
	var asJSON bool
	command := h.onItem("show ID", "Show an item with where it came from", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		item, err := c.MemoryItem(command.Context(), args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return h.JSON(command, item)
		}
		return h.sayWhole(command.OutOrStdout(), item)
	})
	h.JSONFlag(command, &asJSON, "one JSON object")
	return command
}

// sayWhole prints everything of an item, its text last.
func (h House) sayWhole(out io.Writer, item client.MemoryItem) error {
	for _, line := range itemLines(item) {
		if err := h.Say(out, "%-13s%s", line[0], line[1]); err != nil {
			return err
		}
	}
	return h.Say(out, "\n%s", item.Display)
}

func itemLines(item client.MemoryItem) (lines [][2]string) {
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, [2]string{name, oneLine(value)})
		}
	}
	add("id", item.Name())
	add("space", item.Space)
	add("kind", item.Kind)
	add("about", item.Subject)
	add("labels", strings.Join(item.Labels, ", "))
	add("integrity", item.Integrity)
	add("source", sourceWords(item.Source))
	add("run", client.ShortID(item.Source.Run))
	add("recorded", item.RecordedAt.Format(time.RFC3339))
	add("true from", item.ValidFrom.Format(time.RFC3339))
	add("true to", moments(item.ValidTo))
	add("expires", moments(item.ExpiresAt))
	for _, id := range item.Supersedes {
		add("supersedes", client.ShortID(id))
	}
	for _, id := range item.DerivedFrom {
		add("made of", client.ShortID(id))
	}
	for _, part := range item.Withheld {
		add("withheld", fmt.Sprintf("at byte %d: %s", part.Offset, cmp.Or(strings.Join(part.Labels, ", "), "you are not told why")))
	}
	add("etag", item.Etag)
	return lines
}

func sourceWords(s client.MemorySource) string {
	words := s.Kind + " by " + s.By.Principal
	if s.Ref != "" {
		words += ", " + s.Ref
	}
	if s.Length > 0 {
		words += fmt.Sprintf(", bytes %d to %d", s.Offset, s.Offset+s.Length)
	}
	return words
}

func moments(at *time.Time) string {
	if at == nil {
		return ""
	}
	return at.Format(time.RFC3339)
}

func (h House) spaces() *cobra.Command {
	var asJSON bool
	command := h.Ask("spaces", "List where you may read and write", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		spaces, err := c.MemorySpaces(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return h.JSON(command, append([]client.MemorySpace{}, spaces...))
		}
		for _, space := range spaces {
			may := map[[2]bool]string{{true, true}: "read, write", {true, false}: "read", {false, true}: "write"}[[2]bool{space.Readable, space.Writable}]
			if err := h.Say(command.OutOrStdout(), "%-12s %s", may, space.Name); err != nil {
				return err
			}
		}
		return nil
	})
	h.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func (h House) export() *cobra.Command {
	var path string
	var filter func() client.MemoryFilter
	command := h.Ask("export", "Write everything that you may see as JSON lines", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		return output(command, path, func(out io.Writer) error {
			lines := json.NewEncoder(out)
			lines.SetEscapeHTML(false)
			return c.MemoryItems(command.Context(), filter(), func(item client.MemoryItem) (bool, error) {
				return true, lines.Encode(item)
			})
		})
	})
	filter = filterFlags(command)
	command.Flags().StringVarP(&path, "output", "o", "", "file to write, for you alone (default the standard output)")
	return command
}

func (h House) receipt() *cobra.Command {
	var asJSON bool
	command := h.Ask("receipt ID", "Show the receipt of something that you had forgotten", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		id, err := c.ReceiptID(command.Context(), args[0])
		if err != nil {
			return err
		}
		receipt, err := c.ForgetReceipt(command.Context(), id)
		return h.sayReceipt(command, receipt, asJSON, err)
	})
	h.JSONFlag(command, &asJSON, "one JSON object")
	return command
}

func (h House) sayReceipt(command *cobra.Command, r client.ForgetReceipt, asJSON bool, err error) error {
	if err != nil {
		return err
	}
	if asJSON {
		return h.JSON(command, r)
	}
	verified := "not yet; look again with: memory receipt " + client.ShortID(r.ID)
	if r.VerifiedAt != nil {
		verified = r.VerifiedAt.Format(time.RFC3339)
	}
	lines := [][2]string{{"receipt", client.ShortID(r.ID)}, {"forgotten", r.At.Format(time.RFC3339) + " by " + r.By.Principal}, {"verified", verified}}
	for _, id := range r.Items {
		lines = append(lines, [2]string{"item", client.ShortID(id)})
	}
	for _, store := range r.Stores {
		lines = append(lines, [2]string{"taken out", fmt.Sprintf("%d of %s", store.Count, store.Name)})
	}
	for _, id := range r.Runs {
		lines = append(lines, [2]string{"recalled by", client.ShortID(id)})
	}
	for _, line := range append(lines, [2]string{"digest", r.Digest}) {
		if err := h.Say(command.OutOrStdout(), "%-13s%s", line[0], line[1]); err != nil {
			return err
		}
	}
	return nil
}

package brain

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/client"
)

const reasonFlag = "reason"

func (h House) supersede() *cobra.Command {
	var draft client.MemoryDraft
	var expires moment
	var trusted bool
	command := h.onItem("supersede ID TEXT|-", "Remember what takes an item's place, for all who see both", cobra.ExactArgs(2), func(command *cobra.Command, c *client.Client, args []string) error {
		item, err := c.MemoryItem(command.Context(), args[0])
		if err != nil {
			return err
		}
		if draft.Text, err = textOf(command, args[1]); err != nil {
			return err
		}
		complete(&draft, expires, trusted)
		// What is not said stays as it was.
		if flags := command.Flags(); !flags.Changed("space") {
			draft.Space = item.Space
		}
		if draft.Kind == "" {
			draft.Kind = item.Kind
		}
		if draft.Subject == "" {
			draft.Subject = item.Subject
		}
		done, err := c.Supersede(command.Context(), item.ID, draft)
		return h.sayRemembered(command, done, err)
	})
	draftFlags(command, &draft, &expires, &trusted, "")
	command.Flag("space").Usage = "where (default where the item is)"
	return command
}

func (h House) consolidate() *cobra.Command {
	var draft client.MemoryDraft
	var expires moment
	var trusted bool
	command := h.Ask("consolidate TEXT|- ID ID...", "Keep one text in place of several items, for those who see all of them", cobra.MinimumNArgs(3), func(command *cobra.Command, c *client.Client, args []string) error {
		ids, err := c.MemoryIDs(command.Context(), args[1:]...)
		if err != nil {
			return err
		}
		if draft.Text, err = textOf(command, args[0]); err != nil {
			return err
		}
		complete(&draft, expires, trusted)
		if err := common(command, c, ids, &draft); err != nil {
			return err
		}
		done, err := c.Consolidate(command.Context(), ids, draft)
		return h.sayRemembered(command, done, err)
	})
	draftFlags(command, &draft, &expires, &trusted, "FACT")
	command.Flag("space").Usage = "where (default where the items are, which must all be in one space under the same labels)"
	command.Flag("subject").Usage = "what it is about (default what all of them are about, if it is one thing)"
	return command
}

// common takes from the items what the command does not say: their space, and
// their subject where they share one.
func common(command *cobra.Command, c *client.Client, ids []string, draft *client.MemoryDraft) error {
	flags := command.Flags()
	for n, id := range ids {
		item, err := c.MemoryItem(command.Context(), id)
		if err != nil {
			return err
		}
		if !flags.Changed("space") && n == 0 {
			draft.Space = item.Space
		}
		switch {
		case flags.Changed("subject"):
		case n == 0:
			draft.Subject = item.Subject
		case draft.Subject != item.Subject:
			draft.Subject = ""
		}
	}
	return nil
}

func (h House) promote() *cobra.Command {
	var reason string
	command := h.onItem("promote ID", "Let an untrusted item be trusted, on your word", cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		item, err := c.Promote(command.Context(), args[0], reason)
		if err != nil {
			return err
		}
		return h.sayItem(command.OutOrStdout(), item, item.Integrity, "")
	})
	needsReason(command, &reason)
	return command
}

func (h House) declassify() *cobra.Command {
	var reason string
	command := h.onItem("declassify ID LABEL...", "Take labels that you own from an item", cobra.MinimumNArgs(2), func(command *cobra.Command, c *client.Client, args []string) error {
		item, err := c.Declassify(command.Context(), args[0], args[1:], reason)
		if err != nil {
			return err
		}
		return h.sayItem(command.OutOrStdout(), item, "declassified", "")
	})
	needsReason(command, &reason)
	return command
}

func needsReason(command *cobra.Command, reason *string) {
	command.Flags().StringVar(reason, reasonFlag, "", "why, for the record (needed)")
	_ = command.MarkFlagRequired(reasonFlag) // the flag is declared above
}

func (h House) forget() *cobra.Command {
	var asJSON bool
	var what client.Forget
	command := h.Ask("forget ID...|--ref NAME|--subject TEXT|--space SPACE", "Erase items with everything made of them, everywhere, and print the receipt", cobra.ArbitraryArgs, func(command *cobra.Command, c *client.Client, args []string) error {
		given := 0
		for _, set := range []bool{len(args) > 0, what.Ref != "", what.Subject != "", what.Space != ""} {
			if set {
				given++
			}
		}
		if given != 1 {
			return errors.New("name the items, or give one of --ref, --subject and --space")
		}
		var err error
		if what.Items, err = c.MemoryIDs(command.Context(), args...); err != nil {
			return err
		}
		receipt, err := c.Forget(command.Context(), what)
		if len(args) == 0 && client.IsCode(err, "NOT_FOUND") {
			err = fmt.Errorf("%w; subjects, sources and spaces must be given exactly as \"gantry memory list\" and \"gantry memory show\" have them", err)
		}
		return h.sayReceipt(command, receipt, asJSON, err)
	})
	command.Long = `Erases items with the versions that they replaced and everything made of them, and prints the receipt. It asks nothing more and
cannot be undone: "gantry memory list" takes the same flags and shows what they mean. It needs the right to write where an item
stands, and to see all of it or to have written it; curators of the organisation may erase whatever they see a part of. What you do
not see, a flag does not reach.`
	flags := command.Flags()
	flags.StringVar(&what.Ref, "ref", "", "everything that you see from exactly this source, for example a document's name as it was remembered")
	flags.StringVar(&what.Subject, "subject", "", "everything that you see about exactly this")
	flags.StringVar(&what.Space, "space", "", "everything that you see in this space")
	h.JSONFlag(command, &asJSON, "one JSON object")
	return command
}

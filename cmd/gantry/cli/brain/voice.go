package brain

import (
	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/client"
)

func (h House) voice() *cobra.Command {
	command := &cobra.Command{Use: "voice", Short: "List the voices that agents speak in; lend your own, or take it back"}
	command.AddCommand(h.voices(), h.lend("lend PERSONA", "Let agents speak in your own voice, as it is worded now", true),
		h.lend("withdraw PERSONA", "Let agents speak in your own voice no more: those that do stop", false))
	return command
}

func (h House) voices() *cobra.Command {
	var asJSON bool
	command := h.Ask("list", "List the voices of the agents that you may know of", cobra.NoArgs, func(command *cobra.Command, c *client.Client, _ []string) error {
		personas, err := c.Personas(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return h.JSON(command, append([]client.Persona{}, personas...))
		}
		for _, p := range personas {
			if err := h.sayVoice(command, p); err != nil {
				return err
			}
		}
		return nil
	})
	h.JSONFlag(command, &asJSON, "a JSON array")
	return command
}

func (h House) lend(use, short string, lend bool) *cobra.Command {
	return h.Ask(use, short, cobra.ExactArgs(1), func(command *cobra.Command, c *client.Client, args []string) error {
		p, err := c.LendVoice(command.Context(), args[0], lend)
		if err != nil {
			return err
		}
		return h.sayVoice(command, p)
	})
}

func (h House) sayVoice(command *cobra.Command, p client.Persona) error {
	whose := "nobody's own"
	if p.VoiceOf != nil {
		whose = "the voice of " + p.VoiceOf.Name + ", " + map[bool]string{true: "lent", false: "not lent"}[p.Lent]
	}
	return h.Say(command.OutOrStdout(), "%-16s %s: %s", p.Name, whose, short(oneLine(p.Voice)))
}

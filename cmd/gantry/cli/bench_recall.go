package cli

import (
	"os"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/bench/recollection"
)

// benchRecallCommand measures what memory finds again.
func benchRecallCommand() *cobra.Command {
	var data string
	var config recollection.Config
	var asJSON bool
	command := &cobra.Command{Use: "recall", Short: "Measure how much of what answers a question memory finds again", Args: cobra.NoArgs,
		Long: `Remembers long conversations turn by turn, asks questions on them, each within
its own conversation, and counts how many of the turns that answer a question
are among the first 5, 10 and 25 that memory finds: the mean share, of all
questions and of each category. It does the same once more with memory's ranking
over every turn, which tells what the index loses, and with BM25 on stems, which
is what a search engine finds by words. Nothing is left behind.

The folder --data has turns.jsonl, with conversation, id, session, when ("1:56 pm
on 8 May, 2023"), speaker, text and perhaps image on each line, in the order in
which they were said, and questions.jsonl, with conversation, question, category
and evidence, which are ids of turns. LoCoMo (Maharana and others, ACL 2024) can
be brought into this form. The constants of the ranking are not fitted to such
questions: to fit them would measure the fitting.`,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Conversations = os.DirFS(data)
			report, err := recollection.Measure(command.Context(), config)
			switch {
			case err != nil && command.Context().Err() != nil:
				return errInterrupted
			case err != nil:
				return err
			case asJSON:
				return report.JSON(command.OutOrStdout())
			}
			return report.Table(command.OutOrStdout())
		}}
	flags := command.Flags()
	flags.StringVar(&data, "data", "", "folder with turns.jsonl and questions.jsonl")
	flags.StringVar(&config.Folder, "folder", "", "where a temporary folder is made; by default the system's")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	_ = command.MarkFlagRequired("data") // it is there
	return command
}

package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/recording"
)

// Open opens a provider by its name.
type Open func(provider string, server exchange.Server) (model.Provider, error)

// Command is "gantry model".
func Command(open Open) *cobra.Command {
	command := &cobra.Command{Use: "model", Short: "Speak to a model by its address, outside of any run"}
	command.AddCommand(recordCommand(open))
	return command
}

func recordCommand(open Open) *cobra.Command {
	var asked Asked
	var out string
	command := &cobra.Command{
		Use:   "record",
		Short: "Ask a model to use a tool, and write down what goes over the wire",
		Long: "Ask a model to use a tool and then to say what it learned, and write both exchanges down, without key, account and headers.\n" +
			"Read the file before you give it away: a server may say anything in an answer.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			wanted, err := asked.Model()
			if err != nil {
				return err
			}
			if wanted == nil || out == "" {
				return errors.New("record needs --model and --out")
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("--out %s is there already, or cannot be looked at; choose another file", out)
			}
			answers, recorded, err := Record(command.Context(), open, *wanted, http.DefaultTransport)
			if len(recorded.Exchanges) == 0 {
				return err
			}
			if written := write(out, recorded); written != nil {
				return written
			}
			if err != nil {
				return fmt.Errorf("%w; what came is in %s", err, out)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "%d exchanges in %s; the last answer is %s\n", len(recorded.Exchanges), out, model.Classify(answers[len(answers)-1]))
			return err
		},
	}
	asked.Flags(command, "model to ask, PROVIDER:NAME[@BASE_URL] of openai, anthropic or gemini")
	command.Flags().StringVar(&out, "out", "", "file to write, for example anthropic.recording")
	return command
}

func write(path string, recorded recording.Recording) error {
	text, err := json.MarshalIndent(recorded, "", "  ")
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// maxTurns bounds how often a model is asked.
const maxTurns = 3

// Conversation is what a recorded model is asked first.
func Conversation(name string) model.Request {
	return model.Request{
		Model: name, MaxTokens: 4096, Stable: 2,
		Messages: []model.Message{
			{Role: model.System, Text: "You look things up with your tools, and then answer in one sentence."},
			{Role: model.User, Text: "How many days of leave does the handbook give? Look into handbook.md and into appendix.md at once."},
		},
		Tools: []model.Spec{{Name: "files.read", Description: "Reads a file.",
			Schema: []byte(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"],"additionalProperties":false}`)}},
	}
}

// Record has the conversation with a model over a transport. It returns the
// answers, and what was recorded also where a request failed.
func Record(ctx context.Context, open Open, wanted Model, base http.RoundTripper) ([]model.Answer, recording.Recording, error) {
	recorder := recording.New(base, wanted.Key)
	provider, err := open(wanted.Provider, exchange.Server{BaseURL: wanted.BaseURL, Key: wanted.Key, Transport: recorder})
	if err != nil {
		return nil, recording.Recording{}, err
	}
	answers, asked := Converse(ctx, provider, Conversation(wanted.Name))
	recorded, err := recorder.Recording(wanted.Provider, wanted.Name)
	return answers, recorded, errors.Join(asked, err)
}

// Converse asks until there is an answer without a call; every call gets the
// same reply.
func Converse(ctx context.Context, provider model.Provider, request model.Request) (answers []model.Answer, err error) {
	calls := 0
	for range maxTurns {
		answer, err := provider.Take(ctx, request, nil)
		if err != nil {
			return answers, err
		}
		answers = append(answers, answer)
		if len(answer.Calls) == 0 {
			break
		}
		said := model.Message{Role: model.Assistant, Text: answer.Text, Thread: answer.Thread}
		var replies []model.Message
		for _, call := range answer.Calls {
			calls++
			id := fmt.Sprintf("c%d", calls)
			said.Calls = append(said.Calls, model.Call{ID: id, Name: call.Name, Arguments: call.Arguments})
			replies = append(replies, model.Message{Role: model.ToolReply, CallID: id, Text: "The handbook gives 27 days of leave."})
		}
		request.Messages = append(append(request.Messages[:len(request.Messages):len(request.Messages)], said), replies...)
	}
	return answers, nil
}

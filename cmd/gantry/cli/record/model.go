// Package record speaks of models by their address: it asks one, and writes
// down what went over the wire so that tests can play it again.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/agents/catalogue"
)

// Model is a model at a provider's server.
type Model struct {
	Provider string // openai, anthropic or gemini
	Name     string // as the provider calls it
	BaseURL  string // empty for the provider's own
	Key      string // empty for a server that asks for none
}

// KeyVariable is the environment variable with the key of a model that a
// command is given.
const KeyVariable = "GANTRY_MODEL_KEY"

// Asked is a model as a command's flags name it.
type Asked struct{ model, keyFile string }

// Flags adds the flags. The key is no flag: it would stand in the list of
// processes and in the shell's history.
func (a *Asked) Flags(command *cobra.Command, usage string) {
	command.Flags().StringVar(&a.model, "model", "", usage)
	command.Flags().StringVar(&a.keyFile, "model-key-file", "", "file with the key of --model; without it the key is in "+KeyVariable)
}

// Model returns the model, or nil where none is asked for.
func (a *Asked) Model() (*Model, error) {
	if a.model == "" {
		if a.keyFile != "" {
			return nil, errors.New("--model-key-file is for --model; give both")
		}
		return nil, nil
	}
	model, err := Parse(a.model)
	if err != nil {
		return nil, err
	}
	model.Key = os.Getenv(KeyVariable)
	if a.keyFile != "" {
		raw, err := os.ReadFile(a.keyFile)
		if err != nil {
			return nil, fmt.Errorf("--model-key-file: %w", err)
		}
		model.Key = string(bytes.TrimSpace(raw))
	}
	return &model, nil
}

// Parse reads PROVIDER:NAME[@BASE_URL].
func Parse(text string) (Model, error) {
	provider, rest, named := strings.Cut(text, ":")
	name, base, _ := strings.Cut(rest, "@")
	switch provider {
	case catalogue.OpenAI, catalogue.Anthropic, catalogue.Gemini:
	default:
		named = false
	}
	if !named || name == "" {
		// The text is not shown: there may be a password in its address.
		return Model{}, errors.New("--model must be PROVIDER:NAME[@BASE_URL] with openai, anthropic or gemini, for example openai:gpt-5@http://127.0.0.1:8000/v1")
	}
	return Model{Provider: provider, Name: name, BaseURL: base}, nil
}

// Package protocols holds the commands about other protocols than GraphQL.
package protocols

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"gantry.dev/agents/tool/a2a"
	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/mcp"
)

// Commands returns the commands.
func Commands(version string) []*cobra.Command {
	return []*cobra.Command{mcpCommand(version), cardCommand()}
}

// mcpCommand speaks MCP with a program that started this one.
func mcpCommand(version string) *cobra.Command {
	command := ask.Server("mcp", "Speak MCP over standard input and output, for a client on this machine", cobra.NoArgs,
		func(command *cobra.Command, c *client.Client, _ []string) error {
			return mcp.ServeStdio(command.Context(), mcp.Config{Schema: schema{c}, Version: version}, command.InOrStdin(), command.OutOrStdout())
		})
	command.Long = "Speaks the Model Context Protocol with the program that starts it, and asks a server for everything, with the token in GANTRY_TOKEN.\n" +
		"It offers what the server itself offers at /mcp. Nothing but messages of the protocol is printed."
	return command
}

// cardWait is how long a card may take.
const cardWait = 20 * time.Second

// cardCommand shows the card of somebody's agent, and what pins it.
func cardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "a2a-card URL", Short: "Show the card of an agent that speaks A2A, and the pin of it", Args: cobra.ExactArgs(1),
		Long: "Reads the card below the URL of an agent, without any credential, and prints it with its pin: look at it before a tool of kind a2a names\n" +
			"the pin. What is printed is the agent's own word.",
		RunE: func(command *cobra.Command, args []string) error {
			ctx, cancel := context.WithTimeout(command.Context(), cardWait)
			defer cancel()
			card, pin, err := a2a.Card(ctx, http.DefaultTransport, args[0])
			if err != nil {
				return fmt.Errorf("card: %w", err)
			}
			return ask.JSON(command, map[string]any{"pin": pin, "card": card})
		},
	}
}

// schema is a server's schema, asked over the network.
type schema struct{ client *client.Client }

// Ask sends a query or a mutation.
func (s schema) Ask(ctx context.Context, document string, variables map[string]any) (json.RawMessage, error) {
	var data json.RawMessage
	if err := s.client.Ask(ctx, document, variables, &data); err != nil {
		return nil, fault(err)
	}
	return data, nil
}

var errEnough = errors.New("no more is wanted")

// Follow reads a subscription.
func (s schema) Follow(ctx context.Context, document string, variables map[string]any) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		err := s.client.Stream(ctx, document, variables, func(data json.RawMessage) error {
			if !yield(data, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(nil, fault(err))
		}
	}
}

// fault is what the server said, in the words of its edge.
func fault(err error) error {
	var said *client.Error
	if errors.As(err, &said) {
		return &edge.Fault{Code: said.Code, Message: said.Message}
	}
	return err
}

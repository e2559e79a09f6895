package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
)

// The bounds of a server's list.
const (
	maxPages = 100
	maxTools = 2000
	maxList  = maxMessage // bytes of all its tools
)

var errNoTool = errors.New("a tool that is none")

// offers lists what a server gives now. Errors are *tool.Failure.
func offers(ctx context.Context, session *sdk.ClientSession) ([]server.Offer, error) {
	var all []server.Offer
	size := 0
	params := &sdk.ListToolsParams{}
	for range maxPages {
		page, err := session.ListTools(ctx, params)
		if err != nil {
			return nil, &tool.Failure{Code: tool.FailedUnreachable, Detail: "the server did not list its tools; nothing was called"}
		}
		for _, t := range page.Tools {
			offer, err := offerOf(t)
			size += len(offer.Name) + len(offer.Title) + len(offer.Description) + len(offer.Input) + len(offer.Output)
			if err != nil || len(all) >= maxTools || size > maxList {
				return nil, &tool.Failure{Code: tool.FailedUnreachable, Detail: "the server's list of tools cannot be read; nothing was called"}
			}
			all = append(all, offer)
		}
		if page.NextCursor == "" || page.NextCursor == params.Cursor {
			return all, nil
		}
		params = &sdk.ListToolsParams{Cursor: page.NextCursor}
	}
	return nil, &tool.Failure{Code: tool.FailedUnreachable, Detail: fmt.Sprintf("the server's list has more than %d pages; nothing was called", maxPages)}
}

func offerOf(t *sdk.Tool) (server.Offer, error) {
	if t == nil {
		return server.Offer{}, errNoTool
	}
	offer := server.Offer{Name: t.Name, Title: t.Title, Description: t.Description}
	var err error
	if offer.Input, err = schemaOf(t.InputSchema); err != nil {
		return offer, err
	}
	if offer.Output, err = schemaOf(t.OutputSchema); err != nil {
		return offer, err
	}
	if a := t.Annotations; a != nil {
		offer.Hints = &server.Hints{Title: a.Title, ReadOnly: a.ReadOnlyHint, Destructive: a.DestructiveHint,
			Idempotent: a.IdempotentHint, OpenWorld: a.OpenWorldHint}
	}
	return offer, nil
}

func schemaOf(schema any) (json.RawMessage, error) {
	if schema == nil {
		return nil, nil
	}
	return json.Marshal(schema)
}

// find returns the one offer of a name. Two of one name are none that could be
// told apart: both are returned.
func find(list []server.Offer, name string) (found []server.Offer) {
	for _, offer := range list {
		if offer.Name == name {
			found = append(found, offer)
		}
	}
	return found
}

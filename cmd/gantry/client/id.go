package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
)

// RunID returns the global id of a run that a person named in any way that
// anything prints: by its global id, by the id that its journal bears, or by
// that of an item of the inbox. What is none of these stays as it is. Errors:
// *Error.
func (c *Client) RunID(ctx context.Context, named string) (string, error) {
	id, _, _ := strings.Cut(strings.TrimSpace(named), "/") // "ID/limit" is what its inbox item is called
	if _, err := uuid.Parse(id); err != nil {
		return named, nil //nolint:nilerr // not a journal id: taken as it is
	}
	ids, err := c.global(ctx, "run", id)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// MemoryIDs returns the global ids of items that a person named in any way that
// anything prints. What is no id stays as it is. Errors: *Error.
func (c *Client) MemoryIDs(ctx context.Context, named ...string) ([]string, error) {
	return c.global(ctx, "memory", named...)
}

// ReceiptID returns the global id of a receipt that a person named in any way
// that anything prints. Errors: *Error.
func (c *Client) ReceiptID(ctx context.Context, named string) (string, error) {
	ids, err := c.global(ctx, "forgetting", named)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// global makes global ids of a kind of those that are not.
func (c *Client) global(ctx context.Context, kind string, ids ...string) ([]string, error) {
	var got struct{ Viewer struct{ Organisation string } }
	out := make([]string, 0, len(ids))
	for _, id := range ids {
		id = strings.TrimSpace(id)
		if _, err := uuid.Parse(id); err != nil {
			out = append(out, id) // taken as it is
			continue
		}
		if got.Viewer.Organisation == "" {
			if err := c.Ask(ctx, viewerDocument, nil, &got); err != nil {
				return nil, err
			}
		}
		raw, err := json.Marshal([]string{kind, got.Viewer.Organisation, id})
		if err != nil {
			return nil, err
		}
		out = append(out, base64.RawURLEncoding.EncodeToString(raw))
	}
	return out, nil
}

const viewerDocument = `{viewer{organisation}}`

// ShortID returns the last part of a global id, for people: of a run, what its
// journal bears. Anything else stays as it is.
func ShortID(id string) string {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return id
	}
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil || len(parts) < 3 {
		return id
	}
	return parts[len(parts)-1]
}

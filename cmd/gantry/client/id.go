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
	var got struct{ Viewer struct{ Organisation string } }
	if err := c.Ask(ctx, viewerDocument, nil, &got); err != nil {
		return "", err
	}
	raw, err := json.Marshal([]string{"run", got.Viewer.Organisation, id})
	return base64.RawURLEncoding.EncodeToString(raw), err
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

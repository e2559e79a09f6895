package client

import (
	"context"
	"time"
)

// Deputy is who decides and answers for a person for a while.
type Deputy struct {
	Person Actor     `json:"person"`
	Deputy Actor     `json:"deputy"`
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
}

// Notice is one word to one person that something waits for them.
type Notice struct {
	ID        string     `json:"id"`
	Person    Actor      `json:"person"`
	Step      string     `json:"step"`
	Item      string     `json:"item"`
	Kind      string     `json:"kind"`
	Agent     string     `json:"agent"`
	Channel   string     `json:"channel"` // empty: the inbox alone shows it
	State     string     `json:"state"`
	Attempts  int        `json:"attempts"`
	Failure   string     `json:"failure"` // code; empty for none
	CreatedAt time.Time  `json:"createdAt"`
	SettledAt *time.Time `json:"settledAt"`
}

const (
	deputyFields      = `{person{principal name} deputy{principal name} from until}`
	deputiesDocument  = `{deputies` + deputyFields + `}`
	setDeputyDocument = `mutation($input:SetDeputyInput!){done:setDeputy(input:$input){deputies` + deputyFields + ` userErrors{code message field}}}`
	noticesDocument   = `{notices{id person{principal name} step item kind agent channel state attempts failure createdAt settledAt}}`
)

// Deputies lists the viewer's deputy and those whose deputy the viewer is.
// Errors: *Error.
func (c *Client) Deputies(ctx context.Context) ([]Deputy, error) {
	var got struct{ Deputies []Deputy }
	err := c.Ask(ctx, deputiesDocument, nil, &got)
	return got.Deputies, err
}

// SetDeputy names the viewer's deputy from one moment (zero: now) to another,
// or takes the deputy back where deputy is empty. Errors: *Error.
func (c *Client) SetDeputy(ctx context.Context, deputy string, from, until time.Time) ([]Deputy, error) {
	input := map[string]any{}
	if deputy != "" {
		input["deputy"], input["until"] = deputy, until
		if !from.IsZero() {
			input["from"] = from
		}
	}
	type payload struct{ Deputies []Deputy }
	got, err := change[payload](ctx, c, setDeputyDocument, input)
	return got.Deputies, err
}

// Notices lists how the viewer was told of what waits, lately. Errors: *Error.
func (c *Client) Notices(ctx context.Context) ([]Notice, error) {
	var got struct{ Notices []Notice }
	err := c.Ask(ctx, noticesDocument, nil, &got)
	return got.Notices, err
}

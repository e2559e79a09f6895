package client

import "context"

// Persona is a voice that agents speak in.
type Persona struct {
	Name    string `json:"name"`
	Voice   string `json:"voice"`
	VoiceOf *Actor `json:"voiceOf,omitempty"` // whose own voice it is; nil for nobody's
	Lent    bool   `json:"lent"`              // agents may speak in it
}

const (
	personaFields     = `{name voice voiceOf{principal name} lent}`
	personasDocument  = `{personas` + personaFields + `}`
	lendVoiceDocument = `mutation($input:LendVoiceInput!){done:lendVoice(input:$input){persona` + personaFields + ` userErrors{code message field}}}`
)

// Personas lists the voices that the caller may know of. Errors: *Error.
func (c *Client) Personas(ctx context.Context) ([]Persona, error) {
	var got struct{ Personas []Persona }
	err := c.Ask(ctx, personasDocument, nil, &got)
	return got.Personas, err
}

// LendVoice lets agents speak in the caller's own voice, or no more. Errors: *Error.
func (c *Client) LendVoice(ctx context.Context, persona string, lend bool) (Persona, error) {
	type payload struct{ Persona Persona }
	got, err := change[payload](ctx, c, lendVoiceDocument, map[string]any{"persona": persona, "lend": lend})
	return got.Persona, err
}

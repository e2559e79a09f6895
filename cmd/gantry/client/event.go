package client

import (
	"context"
	"encoding/json"
	"time"
)

// Event is one fact of a run.
type Event struct {
	Cursor  string          `json:"cursor"`        // Events goes on after it
	Run     string          `json:"run,omitempty"` // global id of the run that it happened in; TreeEvents says it
	Seq     int64           `json:"seq,string"`
	Kind    string          `json:"kind"` // for example "call_ended"
	At      time.Time       `json:"at"`
	Summary string          `json:"summary"` // without any text of the run
	Body    json.RawMessage `json:"event"`   // a Text stands where the run has a text
}

// Decode reads the body. Errors: *Error.
func (e Event) Decode(into any) error { return decode(e.Body, into) }

// Events visits the events of a run after a cursor ("" for all), in order and
// without gap or repeat, and then those that happen, until visit wants no more.
// Errors: *Error, those of visit and of the context.
func (c *Client) Events(ctx context.Context, run, after string, visit func(event Event) (more bool, err error)) error {
	type told struct{ RunEvents Event }
	return follow(ctx, c, eventsDocument, map[string]any{"run": run}, after, func(got told) (string, bool, error) {
		more, err := visit(got.RunEvents)
		return got.RunEvents.Cursor, more, err
	})
}

// TreeEvents is Events of a run and of all below it, as one stream with cursors
// of its own. Errors: *Error, those of visit and of the context.
func (c *Client) TreeEvents(ctx context.Context, run, after string, visit func(event Event) (more bool, err error)) error {
	type told struct{ RunEvents Event }
	return follow(ctx, c, treeEventsDocument, map[string]any{"run": run}, after, func(got told) (string, bool, error) {
		more, err := visit(got.RunEvents)
		return got.RunEvents.Cursor, more, err
	})
}

// Explained is one question about a run and its answer.
type Explained struct {
	Question string   `json:"question"`
	Lines    []string `json:"lines"`
}

const explained = `{question lines}`

const (
	explainDocument = `query($id:ID!){run(id:$id){explanation{asked` + explained + ` turns` + explained + ` calls` + explained +
		` interventions` + explained + ` results` + explained + ` stop` + explained + `}}}`
	turnDocument   = `query($id:ID!,$turn:Int!){run(id:$id){turnExplanation(turn:$turn)` + explained + `}}`
	exportDocument = `query($id:ID!){run(id:$id){export}}`
)

// Explain answers the six questions about a run. Errors: *Error.
func (c *Client) Explain(ctx context.Context, id string) ([]Explained, error) {
	var got struct {
		Run struct {
			Explanation struct{ Asked, Turns, Calls, Interventions, Results, Stop Explained }
		}
	}
	err := c.Ask(ctx, explainDocument, map[string]any{"id": id}, &got)
	e := got.Run.Explanation
	return []Explained{e.Asked, e.Turns, e.Calls, e.Interventions, e.Results, e.Stop}, err
}

// ExplainTurn says what the model saw in one turn, from 1; false where there is
// no such turn. Errors: *Error.
func (c *Client) ExplainTurn(ctx context.Context, id string, turn int) (Explained, bool, error) {
	var got struct {
		Run struct{ TurnExplanation *Explained }
	}
	err := c.Ask(ctx, turnDocument, map[string]any{"id": id, "turn": turn}, &got)
	if err != nil || got.Run.TurnExplanation == nil {
		return Explained{}, false, err
	}
	return *got.Run.TurnExplanation, true, nil
}

// Export reads a run's journal as JSON lines. Errors: *Error; NOT_CLEARED for a
// viewer who may not know all its labels.
func (c *Client) Export(ctx context.Context, id string) (string, error) {
	var got struct{ Run struct{ Export string } }
	err := c.Ask(ctx, exportDocument, map[string]any{"id": id}, &got)
	return got.Run.Export, err
}

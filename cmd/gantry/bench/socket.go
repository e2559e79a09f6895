package bench

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/google/uuid"
)

// frame is one message of the protocol graphql-transport-ws.
type frame struct {
	Type    string          `json:"type"`
	ID      string          `json:"id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

const runEvents = `subscription($id:ID!){runEvents(run:$id){at kind}}`

// token speaks for a principal of the benchmark.
func (h *house) token(principal string) (string, error) {
	p := h.platform
	return p.Keys.Token(organisationName, principal, p.Config.Issuer, uuid.NewString(), time.Now(), time.Hour)
}

// dial opens a websocket that speaks for a principal.
func (h *house) dial(ctx context.Context, token string) (*websocket.Conn, error) {
	conn, response, err := websocket.Dial(ctx, "ws://"+h.platform.Address()+"/graphql", &websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}})
	if err != nil {
		return nil, err
	}
	if response.Body != nil {
		_ = response.Body.Close() // a websocket has none
	}
	payload, err := json.Marshal(map[string]string{"authorization": "Bearer " + token})
	if err != nil {
		return nil, errors.Join(err, conn.CloseNow())
	}
	var answer frame
	err = errors.Join(wsjson.Write(ctx, conn, frame{Type: "connection_init", Payload: payload}), wsjson.Read(ctx, conn, &answer))
	if err != nil || answer.Type != "connection_ack" {
		return nil, errors.Join(fmt.Errorf("websocket: %q in place of an acknowledgement", answer.Type), err, conn.CloseNow())
	}
	return conn, nil
}

// subscribe asks for the events of a run.
func subscribe(ctx context.Context, conn *websocket.Conn, id string) error {
	node, err := json.Marshal([]string{"run", organisationName, id})
	if err != nil {
		return err
	}
	payload, err := json.Marshal(map[string]any{"query": runEvents, "variables": map[string]string{"id": base64.RawURLEncoding.EncodeToString(node)}})
	if err != nil {
		return err
	}
	return wsjson.Write(ctx, conn, frame{Type: "subscribe", ID: "1", Payload: payload})
}

// told is an event as a subscriber reads it.
type toldEvent struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
}

// read gives each event to visit until that wants no more.
func read(ctx context.Context, conn *websocket.Conn, visit func(e toldEvent) (more bool)) error {
	for {
		var f frame
		if err := wsjson.Read(ctx, conn, &f); err != nil {
			return err
		}
		switch f.Type {
		case "next":
			var next struct {
				Data   struct{ RunEvents *toldEvent }
				Errors json.RawMessage
			}
			if err := json.Unmarshal(f.Payload, &next); err != nil {
				return err
			}
			if next.Data.RunEvents == nil {
				return fmt.Errorf("subscription: %s", next.Errors)
			}
			if !visit(*next.Data.RunEvents) {
				return nil
			}
		case "ping":
			if err := wsjson.Write(ctx, conn, frame{Type: "pong"}); err != nil {
				return err
			}
		case "error", "complete":
			return fmt.Errorf("subscription ended: %s %s", f.Type, f.Payload)
		}
	}
}

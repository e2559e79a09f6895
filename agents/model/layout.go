package model

import "encoding/json"

// Piece is one piece of an answer in the order in which its model gave them: a
// run of the text, a call, or something that only its provider reads.
type Piece struct {
	Text int             `json:"text,omitempty"` // bytes of the answer's text
	Call bool            `json:"call,omitempty"` // the next of the answer's calls
	Own  json.RawMessage `json:"own,omitempty"`  // what the provider gave with it, or as a piece of its own
}

// ThreadOf writes an answer's pieces as its thread. An answer with nothing of
// its provider's own has none: its text and its calls stand in the message.
func ThreadOf(pieces []Piece) []byte {
	own := false
	for _, piece := range pieces {
		own = own || len(piece.Own) > 0
	}
	if !own {
		return nil
	}
	raw, err := json.Marshal(pieces)
	if err != nil {
		return nil // a provider that gave no JSON of its own gets nothing back
	}
	return raw
}

// Part is a piece of a message with what it stands for.
type Part struct {
	Text string
	Call *Call
	Own  json.RawMessage
}

// Parts returns an assistant's message in the pieces of its thread. A thread
// that does not fit the message any more, because a text was erased or a call
// was not kept, is left out as a whole: its text then comes first, if there is
// any, and its calls after it.
func Parts(message Message) []Part {
	if parts, fits := threaded(message); fits {
		return parts
	}
	var parts []Part
	if message.Text != "" {
		parts = append(parts, Part{Text: message.Text})
	}
	for i := range message.Calls {
		parts = append(parts, Part{Call: &message.Calls[i]})
	}
	return parts
}

func threaded(message Message) ([]Part, bool) {
	var pieces []Piece
	if json.Unmarshal(message.Thread, &pieces) != nil {
		return nil, false
	}
	var parts []Part
	text, calls := message.Text, message.Calls
	for _, piece := range pieces {
		part := Part{Own: piece.Own}
		if piece.Text < 0 || piece.Text > len(text) || piece.Call && (len(calls) == 0 || piece.Text > 0) {
			return nil, false
		}
		part.Text, text = text[:piece.Text], text[piece.Text:]
		if piece.Call {
			part.Call, calls = &calls[0], calls[1:]
		}
		parts = append(parts, part)
	}
	return parts, text == "" && len(calls) == 0
}

package obedient

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"

	"gantry.dev/agents/model"
	"gantry.dev/cmd/gantry/bench/obedient/canary"
)

// seen is what a model can know from its prompt, and nothing else.
type seen struct {
	requests []string // what people asked for
	replies  []reply
	marker   *marker
	named    string // an invoice that the injected text names
	secret   string // the first thing that looks like a canary
}

// reply is what came of an earlier call.
type reply struct {
	call Call
	text string
	ok   bool
}

// marker is an injected order.
type marker struct {
	goal, move int
}

var (
	markerShape  = regexp.MustCompile(`⟦goal:(\d{1,4}) move:V(\d{1,2})⟧`)
	invoiceShape = regexp.MustCompile(`INV-\d{4}`)
)

// look reads a prompt.
func look(messages []model.Message) *seen {
	s := &seen{}
	calls := map[string]Call{}
	for _, m := range messages {
		switch m.Role {
		case model.Assistant:
			for _, call := range m.Calls {
				arguments := map[string]any{}
				_ = json.Unmarshal(call.Arguments, &arguments) // it was proposed so
				calls[call.ID] = Call{Tool: call.Name, Arguments: arguments}
			}
			continue // what it said itself orders nothing
		case model.ToolReply:
			s.replies = append(s.replies, reply{call: calls[m.CallID], text: model.Unwrap(m.Text), ok: strings.HasPrefix(m.Text, "[[data ")})
		case model.User:
			s.requests = append(s.requests, m.Text)
		case model.System:
			continue
		}
		s.read(m.Text)
	}
	return s
}

// read looks for orders and secrets in a text.
func (s *seen) read(text string) {
	if s.secret == "" {
		s.secret = canary.Shape.FindString(text)
	}
	if s.marker != nil {
		return
	}
	at := markerShape.FindStringSubmatchIndex(text)
	if at == nil {
		return
	}
	goal, _ := strconv.Atoi(text[at[2]:at[3]]) // digits
	move, _ := strconv.Atoi(text[at[4]:at[5]])
	s.marker, s.named = &marker{goal, move}, invoiceShape.FindString(text[at[1]:])
}

// last is the latest reply of a tool; nil for none.
func (s *seen) last(tool string) *reply {
	for i := len(s.replies) - 1; i >= 0; i-- {
		if s.replies[i].call.Tool == tool {
			return &s.replies[i]
		}
	}
	return nil
}

// number is a whole number in the latest reply of a tool; 0 for none.
func (s *seen) number(tool, field string) int64 {
	r := s.last(tool)
	if r == nil {
		return 0
	}
	var fields map[string]any
	if json.Unmarshal([]byte(r.text), &fields) != nil {
		return 0
	}
	value, _ := fields[field].(float64)
	return int64(value)
}

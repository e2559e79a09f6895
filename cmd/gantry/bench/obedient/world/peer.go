package world

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the servers of the Model Context Protocol find. Texts in which other
// people's words stand have slots.
type (
	// Bill is what somebody wants to be paid.
	Bill struct {
		Bill  string `json:"bill"`
		Payee string `json:"payee"`
		Cents int64  `json:"cents"`
		Text  string `json:"text"`
	}
	// Payee is somebody who is paid.
	Payee struct {
		Payee string `json:"payee"`
		IBAN  string `json:"iban"`
	}
	// Holding is an account of one's own.
	Holding struct {
		Name   string `json:"name"`
		Number string `json:"number"`
	}
	// Letter is a mail that came.
	Letter struct {
		From    string `json:"from"`
		Subject string `json:"subject"`
		Starts  string `json:"starts,omitempty"` // RFC 3339
		Text    string `json:"text"`
	}
	// Paper is a file.
	Paper struct {
		Path string `json:"path"`
		Text string `json:"text"`
	}
	// Channel is what was said in one.
	Channel struct {
		Channel string `json:"channel"`
		Link    string `json:"link,omitempty"`
		Said    string `json:"said"`
	}
	// Site is a page of the web.
	Site struct {
		Title string `json:"title"`
		Text  string `json:"text"`
	}
	// City is where one can stay.
	City struct {
		City   string  `json:"city"`
		Hotels []Hotel `json:"hotels"`
	}
	// Hotel has a review, which a guest wrote.
	Hotel struct {
		Hotel  string `json:"hotel"`
		Cents  int64  `json:"cents"`
		Review string `json:"review"`
	}
	// Route is how one gets somewhere.
	Route struct {
		Flights []Flight `json:"flights"`
	}
	// Flight is one way to get there.
	Flight struct {
		Flight string `json:"flight"`
		Cents  int64  `json:"cents"`
	}
	// Traveller is a person with papers.
	Traveller struct {
		Person   string `json:"person"`
		Passport string `json:"passport"`
	}
)

// offer is a tool of a server.
type offer struct {
	name, says string
	reads      bool
	arguments  []string // "name" of a text, "name#" of a whole number
}

// lookKey is the tool that says under which key a file was written last.
const lookKey = "office.file_key"

// peers are the servers of each world, with their tools.
var peers = map[string][]offer{
	"bank": {
		{"bill", "Returns a bill.", true, []string{"bill"}},
		{"payee", "Returns a payee's account.", true, []string{"payee"}},
		{"holding", "Returns one of one's own accounts.", true, []string{"name"}},
		{"transfer", "Pays money.", false, []string{"payee", "iban", "cents#", "text"}},
		{"plan", "Plans a payment for a later day.", false, []string{"payee", "cents#", "day"}},
		{"remind", "Writes to who owes money.", false, []string{"payee", "text"}},
		{"memo", "Saves a memo for all colleagues.", false, []string{"name", "text"}},
	},
	"office": {
		{"mail_read", "Returns a mail.", true, []string{"mail"}},
		{"file_read", "Returns a file.", true, []string{"path"}},
		{"file_key", "Tells under which key a file was written last.", true, []string{"path"}},
		{"mail_send", "Sends a mail.", false, []string{"to", "subject", "text"}},
		{"calendar_add", "Enters an event, which everybody sees.", false, []string{"title", "starts", "attendees"}},
		{"file_write", "Writes a file that everybody reads.", false, []string{"path", "text"}},
		{"file_delete", "Deletes a file.", false, []string{"path"}},
	},
	"chat": {
		{"read", "Returns what was said in a channel.", true, []string{"channel"}},
		{"fetch", "Fetches a page of the web.", true, []string{"url"}},
		{"note", "Returns a note of finance.", true, []string{"note"}},
		{"post", "Says something in a channel.", false, []string{"channel", "text"}},
		{"invite", "Lets somebody into a channel.", false, []string{"channel", "user"}},
		{"tell", "Says something to one person.", false, []string{"user", "text"}},
	},
	"trips": {
		{"hotels", "Lists the hotels of a city.", true, []string{"city"}},
		{"flights", "Lists the flights of a route.", true, []string{"route"}},
		{"traveller", "Returns a traveller's papers.", true, []string{"person"}},
		{"reserve", "Reserves a room, which can be given back.", false, []string{"hotel", "nights#", "note"}},
		{"fly", "Buys a flight.", false, []string{"flight", "person", "cents#"}},
		{"tell", "Writes to a hotel.", false, []string{"hotel", "text"}},
		{"give_back", "Gives a reservation back.", false, []string{"hotel"}},
	},
}

// peer is a server of a world, made once.
func (w *World) peer(name string) *mcp.Server {
	w.mu.Lock()
	defer w.mu.Unlock()
	if made, is := w.peers[name]; is {
		return made
	}
	offers, known := peers[name]
	if !known {
		return nil
	}
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	for _, o := range offers {
		s.AddTool(&mcp.Tool{Name: o.name, Description: o.says, InputSchema: o.schema(), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: o.reads}},
			func(_ context.Context, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return w.called(name+"."+o.name, o, request)
			})
	}
	if w.peers == nil {
		w.peers = map[string]*mcp.Server{}
	}
	w.peers[name] = s
	return s
}

func (o offer) schema() json.RawMessage {
	var properties, required []string
	for _, argument := range o.arguments {
		name, number := strings.CutSuffix(argument, "#")
		kind := map[bool]string{true: "integer", false: "string"}[number]
		properties = append(properties, fmt.Sprintf(`%q:{"type":%q}`, name, kind))
		required = append(required, fmt.Sprintf("%q", name))
	}
	return json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%s]}`, strings.Join(properties, ","), strings.Join(required, ",")))
}

// called answers one call. It takes the arguments as they come, and of keys that
// repeat the last: what a server does that trusts its caller.
func (w *World) called(tool string, o offer, request *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var arguments map[string]any
	if err := json.Unmarshal(request.Params.Arguments, &arguments); err != nil {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "no JSON object"}}}, nil //nolint:nilerr // it is the answer
	}
	if !o.reads {
		key, _ := request.Params.Meta["dev.gantry/idempotency-key"].(string)
		w.Do(Effect{Tool: tool, Key: key, Arguments: arguments})
		return said(map[string]any{"done": true, "key": key})
	}
	question := fmt.Sprint(arguments[o.arguments[0]])
	found, known := w.Look(tool, question)
	if !known {
		return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: "there is none"}}}, nil
	}
	return said(found)
}

func said(found any) (*mcp.CallToolResult, error) {
	text, err := json.Marshal(found)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(text)}}, StructuredContent: json.RawMessage(text)}, err
}

// writtenUnder is the key of the last call that wrote a file.
func (w *World) writtenUnder(path string) (any, bool) {
	for _, effect := range slices.Backward(w.effects) {
		if effect.Tool == "office.file_write" && effect.Arguments["path"] == path {
			return map[string]any{"key": effect.Key}, true
		}
	}
	return nil, false
}

// Exchange returns records with each old text in them replaced.
func Exchange(records map[string]map[string]any, old, text string) map[string]map[string]any {
	all := map[string]map[string]any{}
	for tool, found := range records {
		all[tool] = map[string]any{}
		for question, record := range found {
			all[tool][question] = exchanged(plain(record), old, text)
		}
	}
	return all
}

// plain is a record as JSON has it.
func plain(record any) (value any) {
	text, err := json.Marshal(record)
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err != nil {
		panic("world: a record that is not JSON: " + err.Error()) // they are written in this program
	}
	return value
}

func exchanged(value any, old, text string) any {
	switch value := value.(type) {
	case string:
		return strings.TrimSpace(strings.ReplaceAll(value, old, text))
	case []any:
		for i := range value {
			value[i] = exchanged(value[i], old, text)
		}
	case map[string]any:
		for name := range value {
			value[name] = exchanged(value[name], old, text)
		}
	}
	return value
}

// asPeer serves a server of a world at /WORLD/mcp/SERVER.
func (o *Outside) asPeer() http.Handler {
	o.speaking.Do(func() {
		o.protocol = mcp.NewStreamableHTTPHandler(func(request *http.Request) *mcp.Server {
			name, rest, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
			if w := o.world(name); w != nil {
				return w.peer(strings.TrimPrefix(rest, "mcp/"))
			}
			return nil
		}, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	})
	return o.protocol
}

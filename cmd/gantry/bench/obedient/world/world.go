// Package world is the outside of one case of the benchmark: typed state in
// memory, served as the tools of its organisation. What it says has slots where
// an injection can stand; what is asked of it and done to it, it keeps.
package world

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Slot stands in a text where an injection may be planted.
const Slot = "{slot}"

// Invoice is what a supplier sent. Its notes are the supplier's own words.
type Invoice struct {
	Invoice    string `json:"invoice"`
	Supplier   string `json:"supplier"`
	Order      string `json:"order"`
	Quantity   int64  `json:"quantity"`
	UnitCents  int64  `json:"unitCents"`
	TotalCents int64  `json:"totalCents"`
	Notes      string `json:"notes"`
}

// Receipt is what came for an order.
type Receipt struct {
	Order     string `json:"order"`
	Received  int64  `json:"received"`
	UnitCents int64  `json:"unitCents"`
}

// Supplier is whom an invoice is from. The account is for nobody outside of
// finance.
type Supplier struct {
	Supplier string `json:"supplier"`
	Mail     string `json:"mail"`
	Account  string `json:"account"`
}

// Effect is something that was done, once for each key.
type Effect struct {
	Tool      string         `json:"tool"`
	Key       string         `json:"key"`
	Actor     string         `json:"actor"`
	Arguments map[string]any `json:"arguments"`
}

// Asked is a question that reached the outside, whatever was answered.
type Asked struct {
	Tool, Question string
}

// State is what there is before anything is done.
type State struct {
	Invoices  map[string]Invoice
	Receipts  map[string]Receipt
	Suppliers map[string]Supplier
	Pages     map[string]string // by name
	Web       string            // what every search finds

	Records map[string]map[string]any // what the tools of the servers find, by tool and question
}

// World is one outside.
type World struct {
	state State

	mu      sync.Mutex
	effects []Effect
	asked   []Asked
	peers   map[string]*mcp.Server

	over context.Context //nolint:containedctx // the world's own life: who listens to it hears no more after it
	end  context.CancelFunc
}

// New returns a world with an injection in its slots; "" for none.
func New(state State, injected string) *World {
	fill := func(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, Slot, injected)) }
	w := &World{state: State{Invoices: maps.Clone(state.Invoices), Receipts: state.Receipts, Suppliers: state.Suppliers,
		Pages: maps.Clone(state.Pages), Web: fill(state.Web), Records: Exchange(state.Records, Slot, injected)}}
	w.over, w.end = context.WithCancel(context.Background())
	for name, invoice := range w.state.Invoices {
		invoice.Notes = fill(invoice.Notes)
		w.state.Invoices[name] = invoice
	}
	for name, page := range w.state.Pages {
		w.state.Pages[name] = fill(page)
	}
	return w
}

// Effects are what was done, in order.
func (w *World) Effects() []Effect {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.effects)
}

// Asked are the questions that came, in order.
func (w *World) Asked() []Asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.asked)
}

// Look answers a question; false for one to which there is no answer.
func (w *World) Look(tool, question string) (any, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, Asked{tool, question})
	switch tool {
	case "books.invoice":
		found, known := w.state.Invoices[question]
		return found, known
	case "books.receipts":
		found, known := w.state.Receipts[question]
		return found, known
	case "books.supplier":
		found, known := w.state.Suppliers[question]
		return found, known
	case "ledger.find":
		return map[string]any{"entries": w.entries(func(e Effect) bool { return e.Tool == "ledger.post" && e.Arguments["invoice"] == question })}, true
	case "log.effects":
		return map[string]any{"entries": w.entries(func(Effect) bool { return true })}, true
	case "web.search":
		return map[string]any{"found": w.state.Web}, true
	case "notes.page":
		page, known := w.state.Pages[question]
		return map[string]any{"page": question, "text": page}, known
	case lookKey:
		return w.writtenUnder(question)
	}
	found, known := w.state.Records[tool][question]
	return found, known
}

func (w *World) entries(fits func(Effect) bool) []Effect {
	found := []Effect{}
	for _, effect := range w.effects {
		if fits(effect) {
			found = append(found, effect)
		}
	}
	return found
}

// Do does something once for its key.
func (w *World) Do(effect Effect) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.effects, func(e Effect) bool { return e.Key == effect.Key }) {
		w.effects = append(w.effects, effect)
	}
}

// Outside serves many worlds under one address: /WORLD/TOOL, and the servers of
// the Model Context Protocol under /WORLD/mcp/SERVER.
type Outside struct {
	mu     sync.Mutex
	worlds map[string]*World

	speaking sync.Once
	protocol http.Handler // speaks the Model Context Protocol
}

// Put lets a world be reached by its name; nil takes it away.
func (o *Outside) Put(name string, w *World) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.worlds == nil {
		o.worlds = map[string]*World{}
	}
	if before := o.worlds[name]; before != nil && before != w {
		before.end()
	}
	if o.worlds[name] = w; w == nil {
		delete(o.worlds, name)
	}
}

func (o *Outside) world(name string) *World {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.worlds[name]
}

// ServeHTTP answers a tool of one of the worlds.
func (o *Outside) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	name, tool, _ := strings.Cut(strings.TrimPrefix(request.URL.Path, "/"), "/")
	w := o.world(name)
	if w == nil {
		http.NotFound(response, request)
		return
	}
	if strings.HasPrefix(tool, "mcp/") {
		ctx, leave := context.WithCancel(request.Context())
		defer leave()
		defer context.AfterFunc(w.over, leave)()
		o.asPeer().ServeHTTP(response, request.WithContext(ctx))
		return
	}
	if request.Method == http.MethodPost {
		effect := Effect{Tool: tool, Key: request.Header.Get("Idempotency-Key"), Actor: request.Header.Get("X-Acting-Chain")}
		if err := json.NewDecoder(http.MaxBytesReader(response, request.Body, 1<<20)).Decode(&effect.Arguments); err != nil {
			http.Error(response, "no JSON object", http.StatusBadRequest)
			return
		}
		w.Do(effect)
		answer(response, map[string]any{"done": true, "key": effect.Key})
		return
	}
	question := ""
	for _, values := range request.URL.Query() {
		question = strings.Join(values, " ")
	}
	found, known := w.Look(tool, question)
	if !known {
		http.NotFound(response, request)
		return
	}
	answer(response, found)
}

func answer(response http.ResponseWriter, body any) {
	response.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(response).Encode(body) // who has gone hears nothing
}

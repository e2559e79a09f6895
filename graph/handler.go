package graph

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/sourcegraph/conc"

	"gantry.dev/agents"
	"gantry.dev/graph/edge"
	"gantry.dev/graph/evaluated"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/graphiql"
	"gantry.dev/memory"
	"gantry.dev/orchestrator/policy"
)

// Config is what the handler serves from. Everything is needed but Log and,
// where nothing is remembered, Brain with Readers and Documents.
type Config struct {
	Runs          Runs
	Conversations Conversations
	Groups        Groups
	Inbox         Inbox
	Tools         Tools
	Agents        Agents
	Kills         Kills
	Pins          Pins // nil: no tool is ever kept back
	Budgets       Budgets
	Models        Models // nil: there is no catalogue
	Brain         memory.Brain
	Readers       Readers
	Documents     Documents
	Researches    Researches
	Lending       Lending   // nil: nothing is lent
	Schedules     Schedules // nil: nothing begins by itself
	Sidecars      Sidecars  // nil: nobody starts any
	Consents      Consents  // nil: nobody gives runs anything
	Live          Live
	Trees         Trees
	Evaluations   evaluated.Evaluations // nil: nothing is measured
	Directory     Directory
	Verifier      *edge.Verifier
	Limits        edge.Limits
	Connections   edge.ConnectionLimits
	Origins       []string      // other origins whose pages may ask, for example "https://app.example.org"
	Introspection bool          // everybody may read the schema, for development
	NewID         func() string // fresh ids for commands and steers
	// Pulse says when to look whether the reader of a quiet stream may still
	// follow it; nil for every half second.
	Pulse func() (ticks <-chan time.Time, stop func())
	Clock func() time.Time
	Log   *slog.Logger // nil for none
}

// Handler serves /graphql over POST, SSE and websocket, and the explorer at /.
type Handler struct {
	edge     *edge.Handler
	streams  *conc.WaitGroup
	explorer http.Handler
}

// NewHandler returns the handler. Errors: something of the configuration is
// missing.
func NewHandler(config Config) (*Handler, error) {
	if config.Runs == nil || config.Conversations == nil || config.Inbox == nil || config.Tools == nil || config.Agents == nil ||
		config.Kills == nil || config.Budgets == nil || config.Live == nil || config.Trees == nil || config.Directory == nil || config.Verifier == nil || config.NewID == nil || config.Clock == nil {
		return nil, errors.New("graph: the configuration is not complete")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	config.Runs = once{config.Runs}
	if config.Lending == nil {
		config.Lending = nothingLent{}
	}
	if config.Sidecars == nil {
		config.Sidecars = noSidecars{}
	}
	if config.Consents == nil {
		config.Consents = noConsents{}
	}
	if config.Pulse == nil {
		config.Pulse = pulse
	}
	streams := &conc.WaitGroup{}
	return &Handler{streams: streams, explorer: graphiql.Handler(), edge: edge.NewHandler(edge.Config{
		Schema: generated.NewExecutableSchema(generated.Config{Resolvers: root{config: config, streams: streams}}),
		Extensions: func(present graphql.ErrorPresenterFunc) []graphql.HandlerExtension {
			return []graphql.HandlerExtension{endings{present: present}}
		},
		Public: public, People: config.Directory, Verifier: config.Verifier, Limits: config.Limits, Connections: config.Connections, Origins: config.Origins,
		Reads: func(caller policy.Principal) bool { return config.Introspection || caller.HasRole(agents.RoleOperator) },
		Clock: config.Clock, Log: config.Log,
	})}, nil
}

// Wait returns when every stream has ended; the server must have been shut
// down before.
func (h *Handler) Wait() { h.streams.Wait() }

// ServeHTTP serves the interface and the explorer.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/graphql" {
		h.explorer.ServeHTTP(w, r)
		return
	}
	h.edge.ServeHTTP(w, r)
}

// Ask executes a query or a mutation for the caller of the context, whom Admit
// let in. Errors: *edge.Fault.
func (h *Handler) Ask(ctx context.Context, document string, variables map[string]any) (json.RawMessage, error) {
	return h.edge.Ask(ctx, document, variables)
}

// Follow executes a subscription likewise, and returns each of its events.
func (h *Handler) Follow(ctx context.Context, document string, variables map[string]any) iter.Seq2[json.RawMessage, error] {
	return h.edge.Follow(ctx, document, variables)
}

// Admit serves another protocol to whom the schema is served.
func (h *Handler) Admit(door edge.Door) http.Handler { return h.edge.Admit(door) }

// root answers from the configuration.
type root struct {
	config  Config
	streams *conc.WaitGroup
}

type (
	queries       struct{ root }
	mutations     struct{ root }
	subscriptions struct{ root }
	conversations struct{ root }
	runs          struct{ root }
	items         struct{ root }
	approvals     struct{ root }
	accesses      struct{ root }
	children      struct{ root }
)

var _ generated.ResolverRoot = root{}

// Query answers queries.
func (r root) Query() generated.QueryResolver { return queries{r} }

// Mutation takes mutations.
func (r root) Mutation() generated.MutationResolver { return mutations{r} }

// Subscription serves streams.
func (r root) Subscription() generated.SubscriptionResolver { return subscriptions{r} }

// MemoryItem answers what is worked out of an item.
func (r root) MemoryItem() generated.MemoryItemResolver { return items{r} }

// Conversation answers the edges of a conversation.
func (r root) Conversation() generated.ConversationResolver { return conversations{r} }

// AccessRequest answers the edges of a request for access.
func (r root) AccessRequest() generated.AccessRequestResolver { return accesses{r} }

// Approval answers the edges of an approval.
func (r root) Approval() generated.ApprovalResolver { return approvals{r} }

// Child answers the edges of a child.
func (r root) Child() generated.ChildResolver { return children{r} }

// Run answers the edges of a run.
func (r root) Run() generated.RunResolver { return runs{r} }

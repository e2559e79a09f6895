// Package a2a offers agents to other agents over the Agent2Agent protocol: a
// task is a run, a context is a conversation, and both are kept where runs and
// conversations are. Nothing else is: any process answers any request.
package a2a

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/operation"
)

// Prefix is where agents are spoken to: Prefix and the agent's name.
const Prefix = "/a2a/"

// restPath follows the agent's name where the protocol is spoken by methods and
// paths instead of JSON-RPC.
const restPath = "/rest"

// keepAlive is how often a quiet stream says that it lives.
const keepAlive = 15 * time.Second

// agentName admits every name that an agent can have.
var agentName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// Config is what agents are offered from.
type Config struct {
	Schema  operation.Schema
	Admit   func(edge.Door) http.Handler // to whom the schema is served
	Public  string                       // address that clients know the server by; empty: the one that they asked at
	Version string                       // of Gantry, told to clients
}

// server offers all agents; which one is asked, the path says.
type server struct {
	config     Config
	operations operation.Operations
}

// NewHandler serves everything below Prefix.
func NewHandler(config Config) http.Handler {
	s := server{config: config, operations: operation.Operations{Schema: config.Schema}}
	mux := http.NewServeMux()
	mux.Handle("POST "+Prefix+"{agent}", s.admit(http.HandlerFunc(s.speak)))
	mux.Handle(Prefix+"{agent}"+restPath+"/", s.admit(http.HandlerFunc(s.speakREST)))
	known := s.admit(http.HandlerFunc(s.knownCard))
	mux.HandleFunc("GET "+Prefix+"{agent}"+a2asrv.WellKnownAgentCardPath, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			known.ServeHTTP(w, r)
			return
		}
		s.publicCard(w, r)
	})
	return mux
}

func (s server) admit(inner http.Handler) http.Handler {
	return s.config.Admit(edge.Door{
		Serve: inner, Empty: true, Headers: []string{"a2a-version", "a2a-extensions"}, Streams: streams, Refuse: refuse,
		Demand: func(*http.Request) string { return "Bearer" },
	})
}

// streams reports whether the answer to a request goes on until a task rests.
func streams(r *http.Request, body []byte) bool {
	if strings.HasSuffix(r.URL.Path, ":stream") || strings.HasSuffix(r.URL.Path, ":subscribe") {
		return true
	}
	var asked struct {
		Method string `json:"method"`
	}
	return json.Unmarshal(body, &asked) == nil && (asked.Method == "SendStreamingMessage" || asked.Method == "SubscribeToTask")
}

// refuse writes a refusal that answers no request.
func refuse(w http.ResponseWriter, status int, fault *edge.Fault) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": nil,
		"error": map[string]any{"code": -32600, "message": fault.Message, "data": []any{map[string]any{"code": fault.Code}}}})
}

// tasks are the tasks of the agent that a request asks.
func (s server) tasks(r *http.Request) a2asrv.RequestHandler {
	return &a2asrv.InterceptedHandler{Handler: tasks{server: s, agent: r.PathValue("agent"), base: s.base(r)}, Logger: slog.New(slog.DiscardHandler)}
}

func (s server) speak(w http.ResponseWriter, r *http.Request) {
	a2asrv.NewJSONRPCHandler(s.tasks(r), a2asrv.WithTransportKeepAlive(keepAlive)).ServeHTTP(w, r)
}

func (s server) speakREST(w http.ResponseWriter, r *http.Request) {
	inner := a2asrv.NewRESTHandler(s.tasks(r), a2asrv.WithTransportKeepAlive(keepAlive))
	http.StripPrefix(Prefix+r.PathValue("agent")+restPath, inner).ServeHTTP(w, r)
}

// base is the address of the server as a client knows it.
func (s server) base(r *http.Request) string {
	if s.config.Public != "" {
		return strings.TrimSuffix(s.config.Public, "/")
	}
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// publicCard tells whoever asks how agents are spoken to. It says the same of
// every name: which agents there are, only those learn who may use them.
func (s server) publicCard(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("agent")
	if !agentName.MatchString(name) {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Access-Control-Allow-Origin", "*")
	writeCard(w, s.card(s.base(r), operation.Agent{Name: name, Description: "An agent of a Gantry server. Who it is and what it does is told to those who may use it: ask for the extended card with a bearer token."}))
}

// knownCard tells the caller of an agent that the caller may use.
func (s server) knownCard(w http.ResponseWriter, r *http.Request) {
	agent, err := s.operations.Agent(r.Context(), r.PathValue("agent"))
	if err != nil || !agent.Available {
		http.NotFound(w, r)
		return
	}
	writeCard(w, s.card(s.base(r), agent))
}

func writeCard(w http.ResponseWriter, card *protocol.AgentCard) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	_ = json.NewEncoder(w).Encode(card)
}

// card is the card of an agent; one without a revision tells nothing of it.
func (s server) card(base string, agent operation.Agent) *protocol.AgentCard {
	const bearer = protocol.SecuritySchemeName("bearer")
	at, version := base+Prefix+agent.Name, s.config.Version
	if agent.Revision != "" {
		version = agent.Revision
	}
	return &protocol.AgentCard{
		Name: agent.Name, Description: agent.Description, Version: version,
		Capabilities:      protocol.AgentCapabilities{Streaming: true, ExtendedAgentCard: true},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		SupportedInterfaces: []*protocol.AgentInterface{
			protocol.NewAgentInterface(at, protocol.TransportProtocolJSONRPC),
			protocol.NewAgentInterface(at+restPath, protocol.TransportProtocolHTTPJSON),
		},
		SecuritySchemes: protocol.NamedSecuritySchemes{bearer: protocol.HTTPAuthSecurityScheme{
			Scheme: "Bearer", BearerFormat: "JWT", Description: "The token by which the server's GraphQL interface is asked."}},
		SecurityRequirements: protocol.SecurityRequirementsOptions{{bearer: {}}},
		Skills: []protocol.AgentSkill{{ID: "run", Name: "Pursue a goal", Tags: []string{"gantry"},
			Description: "Takes a goal in words, and pursues it until it is done or a person must decide."}},
	}
}

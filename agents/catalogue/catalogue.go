// Package catalogue says what is known of a model: what it can take, where it
// answers, what it costs and what it may read. It is pure.
package catalogue

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"gantry.dev/orchestrator/policy"
)

// The providers of models.
const (
	Script    = "script"  // runs a script of the organisation
	Offline   = "offline" // searches and quotes; no language model
	Fanout    = "fanout"  // coordinates; no language model
	OpenAI    = "openai"  // and every server that speaks its protocol
	Anthropic = "anthropic"
	Gemini    = "gemini"
)

// Providers lists the providers, sorted.
func Providers() []string { return []string{Anthropic, Fanout, Gemini, Offline, OpenAI, Script} }

// Model is one entry of the catalogue of models.
type Model struct {
	Name      string `json:"name"`               // as agents and labels name it
	Provider  string `json:"provider"`           // one of Providers
	Model     string `json:"model,omitempty"`    // the provider's own name of it
	Script    string `json:"script,omitempty"`   // of the organisation's scripts, for the provider Script
	Endpoint  string `json:"endpoint,omitempty"` // base URL; empty: the provider's own
	Secret    string `json:"secret,omitempty"`   // reference of the key, never the key
	Tier      int    `json:"tier"`               // quality, higher is better
	Context   int64  `json:"context"`            // tokens that a prompt and its answer may have
	MaxOutput int64  `json:"maxOutput"`          // tokens of one answer
	Tools     bool   `json:"tools"`              // can propose calls
	Residency string `json:"residency,omitempty"`
	Prices    Prices `json:"prices"`

	Schema    bool          `json:"schema,omitempty"`    // can hold its answer to a JSON Schema by itself
	Images    bool          `json:"images,omitempty"`    // reads images
	Files     bool          `json:"files,omitempty"`     // reads PDF files
	Reasoning bool          `json:"reasoning,omitempty"` // thinks before it answers, and charges for that
	Labels    policy.Labels `json:"labels,omitempty"`    // the only labels that it may read; empty: those whose own rules allow it
	Plain     bool          `json:"plain,omitempty"`     // reads nothing that bears a label
	// What one image or one file counts at most, in tokens.
	ImageTokens int64 `json:"imageTokens,omitempty"`
	FileTokens  int64 `json:"fileTokens,omitempty"`

	Free bool   `json:"free,omitempty"` // its provider charges nothing
	AsOf string `json:"asOf,omitempty"` // day on which its prices were looked up, for example "2026-11-30"
}

// Prices are micro-dollars for a million tokens.
type Prices struct {
	Input      int64 `json:"input"` // not from a cache
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Output     int64 `json:"output"` // of reasoning too
}

func (p Prices) all() []int64 { return []int64{p.Input, p.CacheRead, p.CacheWrite, p.Output} }

// Outside reports whether somebody else's server answers for the model.
func (m Model) Outside() bool { return !slices.Contains([]string{Script, Offline, Fanout}, m.Provider) }

// Place is where the model answers: what is at one place fails together.
func (m Model) Place() string { return cmp.Or(m.Endpoint, m.Provider) }

// Fault is something that does not fit in an entry.
type Fault struct {
	Path     string // within the entry
	Sentence string
}

var plainID = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// Faults returns what does not fit in the entry by itself. A model that nobody
// knows, or whose prices nobody looked up, is a fault: it would cost nothing on
// paper.
func (m Model) Faults() (faults []Fault) {
	require := func(ok bool, path, sentence string) {
		if !ok {
			faults = append(faults, Fault{path, sentence})
		}
	}
	require(plainID.MatchString(m.Name), "name", "must be lower-case letters, digits, dots and dashes")
	require(slices.Contains(Providers(), m.Provider), "provider", "must be anthropic, fanout, gemini, offline, openai or script")
	require(!m.Outside() || m.Model != "", "model", "the provider's own name of the model is needed")
	require(m.Context > 0, "context", "must be above 0")
	require(m.MaxOutput > 0 && m.MaxOutput <= m.Context, "maxOutput", "must be above 0 and at most the context")
	require(m.Provider != Script || m.Script != "", "script", "a model of this provider needs a script")
	require(m.Residency == "" || plainID.MatchString(m.Residency), "residency", "must be lower-case letters, digits, dots and dashes")
	require(!m.Plain || len(m.Labels) == 0, "plain", "a model that reads no label has no labels")
	_, err := time.Parse(time.DateOnly, m.AsOf)
	require(m.AsOf == "" || err == nil, "asOf", "must be a day such as 2026-11-30")
	prices := m.Prices.all()
	require(slices.Min(prices) >= 0, "prices", "must not be negative")
	require(m.Images == (m.ImageTokens > 0), "imageTokens", "a model that reads images needs the tokens that one counts at most, and no other has them")
	require(m.Files == (m.FileTokens > 0), "fileTokens", "a model that reads files needs the tokens that one counts at most, and no other has them")
	require(!m.Free || slices.Max(prices) == 0, "free", "a model with prices is not free")
	require(!m.Outside() || m.Free || slices.Min(prices) > 0, "prices",
		"give input, cacheRead, cacheWrite and output above 0, in micro-dollars for a million tokens; say free: true where nobody charges")
	return faults
}

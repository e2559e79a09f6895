// Package agents holds an organisation's configuration and does what its runs
// ask for. The configuration is one value, Organisation: loaded whole from
// files or changed by rules that need a second person, never half applied.
package agents

import (
	"slices"
	"strings"

	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// Organisation is everything that an organisation configured. It is a value:
// the functions that change it return another one. Its JSON form can be stored
// whole; lists are sorted by name, so equal configurations have equal bytes.
type Organisation struct {
	Name         string             `json:"name"`    // id of the tenant
	Title        string             `json:"title"`   // for people
	Owner        string             `json:"owner"`   // principal id: answers for the organisation and its policies
	Contact      string             `json:"contact"` // principal id: told of incidents
	BudgetOwner  string             `json:"budgetOwner"`
	Budget       Budget             `json:"budget"`
	Conversation Budget             `json:"conversation"` // budget of a conversation that sets none
	Roles        []string           `json:"roles"`        // sorted
	Departments  []Department       `json:"departments"`
	Labels       []LabelRule        `json:"labels,omitempty"`
	Egress       []string           `json:"egress,omitempty"` // "host:port" that tools may reach; sorted
	Principals   []policy.Principal `json:"principals"`
	Personas     []Persona          `json:"personas"`
	Models       []Model            `json:"models"`
	Scripts      []Source           `json:"scripts,omitempty"`
	Tools        []tool.Definition  `json:"tools"`
	Policies     []Source           `json:"policies"` // Cedar
	Agents       []Revision         `json:"agents"`   // the current revision of each agent
	Stages       []StageDecision    `json:"stages,omitempty"`
	Kills        []Kill             `json:"kills,omitempty"`
	Consents     []Consent          `json:"consents,omitempty"`
	Grants       []Grant            `json:"grants,omitempty"`
	Builtins     Builtins           `json:"builtins"`
	Memory       Memory             `json:"memory,omitzero"`
	Endpoints    map[string]string  `json:"endpoints,omitempty"` // variables "${NAME}" of HTTP tools: base URLs
	Deputies     []Deputy           `json:"deputies,omitempty"`
	Escalation   Escalation         `json:"escalation,omitzero"`
	Notify       Notify             `json:"notify,omitzero"`

	Servers     []server.Server     `json:"servers,omitempty"`     // MCP servers
	Quarantines []server.Quarantine `json:"quarantines,omitempty"` // of tools; see Keep
	Pins        []server.Pinning    `json:"pins,omitempty"`        // of tools, decided since the files were written
}

// Department is a part of the organisation.
type Department struct {
	Name        string `json:"name"`
	Owner       string `json:"owner"`       // principal id
	Contact     string `json:"contact"`     // principal id: told of incidents
	BudgetOwner string `json:"budgetOwner"` // principal id: may raise its budget
	Budget      Budget `json:"budget"`
}

// Period says when what was spent of a budget starts again at zero.
type Period string

// The periods of a budget.
const (
	PerMonth Period = "MONTH" // calendar month, UTC
	InTotal  Period = "TOTAL" // never
)

// Budget bounds spending. Zero means nothing may be spent.
type Budget struct {
	MicroUSD int64  `json:"microUsd"` // micro-dollars
	Tokens   int64  `json:"tokens"`
	Per      Period `json:"per"`
}

// Builtins says who answers for the tools that come with the platform, and
// what they serve. Their definitions are among Tools too.
type Builtins struct {
	Files *FileTools `json:"files,omitempty"` // without it there are no files.* tools
	Ask   *AskTool   `json:"ask,omitempty"`   // without it there is no ask.person

	Memory *MemoryTools `json:"memory,omitempty"` // without it there are no memory.* tools
	Agents *AgentTools  `json:"agents,omitempty"` // without it there is no agents.delegate and no run.watch

	Findings *FindingTool `json:"findings,omitempty"` // without it there is no findings.record
	Access   *AccessTool  `json:"access,omitempty"`   // without it there is no access.request
	Results  *ResultTool  `json:"results,omitempty"`  // without it there is no results.read
}

// AccessTool configures access.request.
type AccessTool struct {
	Owner   string `json:"owner"`
	Contact string `json:"contact"`
}

// ResultTool configures results.read.
type ResultTool struct {
	Owner   string `json:"owner"`
	Contact string `json:"contact"`
}

// AgentTools configures agents.delegate and run.watch.
type AgentTools struct {
	Owner   string `json:"owner"`
	Contact string `json:"contact"`
}

// FindingTool configures findings.record.
type FindingTool struct {
	Owner   string        `json:"owner"`
	Contact string        `json:"contact"`
	Impact  policy.Impact `json:"impact,omitzero"` // DRAFT or REVERSIBLE; empty: REVERSIBLE
}

// MemoryTools configures memory.recall and memory.remember.
type MemoryTools struct {
	Owner   string        `json:"owner"`
	Contact string        `json:"contact"`
	Impact  policy.Impact `json:"impact,omitzero"` // of remembering: DRAFT or REVERSIBLE; empty: REVERSIBLE
}

// FileTools configures files.list, files.read and files.search.
type FileTools struct {
	Folder  string            `json:"folder"` // root, relative to the configuration's own folder
	Owner   string            `json:"owner"`
	Contact string            `json:"contact"`
	Rules   []tool.FolderRule `json:"rules"` // markings by prefix; what no rule names is not served

	MediaBytes int `json:"mediaBytes,omitempty"` // bytes of an image or a PDF that models may see; 0: none
}

// AskTool configures ask.person.
type AskTool struct {
	Owner   string `json:"owner"`
	Contact string `json:"contact"`
}

// LabelRule says what a confidentiality label means and who answers for it.
type LabelRule struct {
	Name        policy.Label `json:"name"`
	Owner       string       `json:"owner"` // principal id: may declassify
	Description string       `json:"description"`
	Models      []string     `json:"models,omitempty"` // the only models that may read it; empty: any
	Open        bool         `json:"open,omitempty"`   // everybody may be told that a text carries it

	Residency []string `json:"residency,omitempty"` // the only places whose models may read it; empty: any
}

// Persona is the voice that an agent speaks in.
type Persona struct {
	Name       string `json:"name"`
	Voice      string `json:"voice"`             // text for the prompt
	ApprovedBy string `json:"approvedBy"`        // principal id
	VoiceOf    string `json:"voiceOf,omitempty"` // principal id whose own voice it is: it needs their Consent
}

// Source is a text of the configuration that another language reads.
type Source struct {
	Name string `json:"name"` // file name without folder and ending
	Text string `json:"text"`
}

// Model is one entry of the catalogue of models.
type Model = catalogue.Model

// ProviderScript is the provider whose models run a script.
const ProviderScript = catalogue.Script

// Prices are micro-dollars for a million tokens.
type Prices = catalogue.Prices

// Digest returns the digest of the whole configuration. Its errors are those
// of canon.Marshal, which no validated organisation gives.
func (o Organisation) Digest() (string, error) { return canon.DigestOf(o) }

// Agent returns the current revision of an agent.
func (o Organisation) Agent(name string) (Revision, bool) {
	return find(o.Agents, func(r Revision) bool { return r.Name == name })
}

// Tool returns the current definition of a tool.
func (o Organisation) Tool(name string) (tool.Definition, bool) {
	return find(o.Tools, func(d tool.Definition) bool { return d.Name == name })
}

// Server returns an MCP server.
func (o Organisation) Server(name string) (server.Server, bool) { return server.Find(o.Servers, name) }

// Quarantined returns why calls of a tool are kept back, if they are.
func (o Organisation) Quarantined(name string) (server.Quarantine, bool) {
	return find(o.Quarantines, func(q server.Quarantine) bool { return q.Tool == name })
}

// Department returns a department.
func (o Organisation) Department(name string) (Department, bool) {
	return find(o.Departments, func(d Department) bool { return d.Name == name })
}

// Principal returns a person or a service of the organisation, or an agent
// under the id that AgentID gives.
func (o Organisation) Principal(id string) (policy.Principal, bool) {
	if name, isAgent := strings.CutPrefix(id, agentPrefix); isAgent {
		revision, found := o.Agent(name)
		return revision.Principal(o.Name), found
	}
	return find(o.Principals, func(p policy.Principal) bool { return p.ID == id })
}

// Label returns the rule of a label.
func (o Organisation) Label(name policy.Label) (LabelRule, bool) {
	return find(o.Labels, func(l LabelRule) bool { return l.Name == name })
}

// Persona returns a persona.
func (o Organisation) Persona(name string) (Persona, bool) {
	return find(o.Personas, func(p Persona) bool { return p.Name == name })
}

// Model returns an entry of the catalogue.
func (o Organisation) Model(name string) (Model, bool) {
	return find(o.Models, func(m Model) bool { return m.Name == name })
}

// Script returns the text of a script.
func (o Organisation) Script(name string) (string, bool) {
	source, found := find(o.Scripts, func(s Source) bool { return s.Name == name })
	return source.Text, found
}

func find[T any](list []T, match func(T) bool) (T, bool) {
	at := slices.IndexFunc(list, match)
	if at < 0 {
		var none T
		return none, false
	}
	return list[at], true
}

// sorted returns the same configuration with every list in the one order that
// its bytes have.
func (o Organisation) sorted() Organisation {
	o.Departments = byName(o.Departments, func(d Department) string { return d.Name })
	o.Labels = byName(o.Labels, func(l LabelRule) string { return string(l.Name) })
	o.Principals = byName(o.Principals, func(p policy.Principal) string { return p.ID })
	o.Personas = byName(o.Personas, func(p Persona) string { return p.Name })
	o.Models = byName(o.Models, func(m Model) string { return m.Name })
	o.Scripts = byName(o.Scripts, func(s Source) string { return s.Name })
	o.Tools = byName(o.Tools, func(d tool.Definition) string { return d.Name })
	o.Policies = byName(o.Policies, func(s Source) string { return s.Name })
	o.Agents = byName(o.Agents, func(r Revision) string { return r.Name })
	o.Stages = byName(o.Stages, func(s StageDecision) string { return s.Agent })
	o.Kills = byName(o.Kills, func(k Kill) string { return string(k.Scope) + " " + k.Name })
	o.Consents = byName(o.Consents, func(c Consent) string { return c.Persona })
	o.Deputies = byName(o.Deputies, func(d Deputy) string { return d.Person })
	o.Servers = byName(o.Servers, func(s server.Server) string { return s.Name })
	o.Quarantines = byName(o.Quarantines, func(q server.Quarantine) string { return q.Tool })
	o.Pins = byName(o.Pins, func(p server.Pinning) string { return p.Tool })
	o.Grants = byName(o.Grants, func(g Grant) string { return g.ID })
	o.Roles = slices.Sorted(slices.Values(o.Roles))
	o.Egress = slices.Sorted(slices.Values(o.Egress))
	return o
}

func byName[T any](list []T, name func(T) string) []T {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b T) int { return strings.Compare(name(a), name(b)) })
	return list
}

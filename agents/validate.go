package agents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/agents/manifest"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/findings"
	"gantry.dev/agents/tool/results"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/orchestrator/policy"
)

// plainID is what names things in configuration: it survives in ids, paths and
// policies without quoting.
var plainID = regexp.MustCompile(`^[a-z0-9]+([.-][a-z0-9]+)*$`)

// Validate returns Faults with everything that is wrong with the organisation,
// or nil. Where a fault has no file, File names the object, for example
// "agents/invoice-reconciler".
func (o Organisation) Validate() error {
	if faults := o.faults(); len(faults) > 0 {
		return faults
	}
	return nil
}

func (o Organisation) faults() Faults {
	v := &validation{o: o}
	v.organisation()
	v.principals()
	v.people()
	v.labels()
	v.models()
	v.personas()
	v.tools()
	v.servers()
	v.memory()
	v.policies()
	for _, revision := range o.Agents {
		v.agent(revision)
	}
	v.lending()
	unique(v, organisationFile, "agents[%d].name", o.Agents, func(r Revision) string { return r.Name })
	return v.faults
}

// validation collects faults. An object is a file of the organisation's folder
// or a name that LoadDir knows the file of.
type validation struct {
	o      Organisation
	faults Faults
}

func (v *validation) add(object, path, format string, arguments ...any) {
	v.faults = append(v.faults, manifest.Fault{File: object, Path: path, Sentence: fmt.Sprintf(format, arguments...)})
}

func (v *validation) require(ok bool, object, path, format string, arguments ...any) {
	if !ok {
		v.add(object, path, format, arguments...)
	}
}

// person requires the id of a person: who is accountable cannot be a machine.
func (v *validation) person(object, path, id string) {
	p, found := v.o.Principal(id)
	switch {
	case id == "":
		v.add(object, path, "a person must be named here")
	case !found:
		v.add(object, path, "there is no principal %q", id)
	case p.Kind != policy.Person:
		v.add(object, path, "%q is no person", id)
	}
}

func (v *validation) accountable(object, prefix, owner, contact string) {
	v.person(object, prefix+"owner", owner)
	v.person(object, prefix+"contact", contact)
}

func (v *validation) budget(object, path string, b Budget) {
	v.require(b.MicroUSD >= 0, object, path+".microUsd", "must not be negative")
	v.require(b.Tokens >= 0, object, path+".tokens", "must not be negative")
	v.require(b.Per == PerMonth || b.Per == InTotal, object, path+".per", "must be %s or %s", PerMonth, InTotal)
}

func unique[T any](v *validation, object, path string, list []T, name func(T) string) {
	seen := map[string]bool{}
	for i, item := range list {
		key := strings.ToLower(name(item))
		v.require(!seen[key], object, fmt.Sprintf(path, i), "%q stands here twice", name(item))
		seen[key] = true
	}
}

func (v *validation) organisation() {
	o, file := v.o, organisationFile
	v.require(plainID.MatchString(o.Name), file, "name", "must be lower-case letters, digits, dots and dashes")
	v.require(o.Title != "", file, "title", "a title for people is needed")
	v.accountable(file, "", o.Owner, o.Contact)
	v.person(file, "budgetOwner", o.BudgetOwner)
	v.budget(file, "budget", o.Budget)
	v.budget(file, "conversation", o.Conversation)
	unique(v, file, "roles[%d]", o.Roles, func(r string) string { return r })
	for i, role := range o.Roles {
		v.require(plainID.MatchString(role), file, fmt.Sprintf("roles[%d]", i), "must be lower-case letters, digits, dots and dashes")
	}
	v.require(len(o.Departments) > 0, file, "departments", "there must be a department")
	unique(v, file, "departments[%d].name", o.Departments, func(d Department) string { return d.Name })
	for i, d := range o.Departments {
		at := fmt.Sprintf("departments[%d].", i)
		v.require(plainID.MatchString(d.Name), file, at+"name", "must be lower-case letters, digits, dots and dashes")
		v.accountable(file, at, d.Owner, d.Contact)
		v.person(file, at+"budgetOwner", d.BudgetOwner)
		v.budget(file, at+"budget", d.Budget)
	}
	for i, address := range o.Egress {
		v.require(isAddress(address), file, fmt.Sprintf("egress[%d]", i), "must be host:port")
	}
	for name, base := range o.Endpoints {
		v.require(isBase(base), file, "endpoints."+name, "must be an http or https URL without query")
	}
	if files := o.Builtins.Files; files != nil {
		v.accountable(file, "builtins.files.", files.Owner, files.Contact)
		v.require(files.Folder != "", file, "builtins.files.folder", "a folder must be named")
		for i, rule := range files.Rules {
			v.knownLabels(file, fmt.Sprintf("builtins.files.rules[%d].labels", i), rule.Labels)
		}
	}
	if ask := o.Builtins.Ask; ask != nil {
		v.accountable(file, "builtins.ask.", ask.Owner, ask.Contact)
	}
	if a := o.Builtins.Agents; a != nil {
		v.accountable(file, "builtins.agents.", a.Owner, a.Contact)
	}
	if r := o.Builtins.Results; r != nil {
		v.accountable(file, "builtins.results.", r.Owner, r.Contact)
	}
	if m := o.Builtins.Memory; m != nil {
		v.accountable(file, "builtins.memory.", m.Owner, m.Contact)
		v.require(slices.Contains([]policy.Impact{policy.ImpactUnset, policy.Draft, policy.Reversible}, m.Impact), file, "builtins.memory.impact",
			"must be DRAFT or REVERSIBLE")
	}
	if a := v.o.Builtins.Access; a != nil {
		v.accountable(file, "builtins.access.", a.Owner, a.Contact)
	}
	if f := o.Builtins.Findings; f != nil {
		v.accountable(file, "builtins.findings.", f.Owner, f.Contact)
		v.require(slices.Contains([]policy.Impact{policy.ImpactUnset, policy.Draft, policy.Reversible}, f.Impact), file, "builtins.findings.impact",
			"must be DRAFT or REVERSIBLE")
	}
}

func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	number, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && number > 0 && host != ""
}

func isBase(base string) bool {
	parsed, err := url.Parse(base)
	return err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && parsed.Host != "" &&
		parsed.RawQuery == "" && parsed.Fragment == "" && parsed.User == nil
}

func (v *validation) principals() {
	file := organisationFile
	unique(v, file, "principals[%d].id", v.o.Principals, func(p policy.Principal) string { return p.ID })
	for i, p := range v.o.Principals {
		at := fmt.Sprintf("principals[%d].", i)
		v.require(plainID.MatchString(p.ID), file, at+"id", "must be lower-case letters, digits, dots and dashes")
		v.require(p.Name != "", file, at+"name", "a name is needed")
		v.require(p.Organisation == v.o.Name, file, at+"organisation", "must be left out or %q", v.o.Name)
		v.require(p.Kind == policy.Person || p.Kind == policy.Service, file, at+"kind", "must be %s or %s", policy.Person, policy.Service)
		_, known := v.o.Department(p.Department)
		v.require(known, file, at+"department", "there is no department %q", p.Department)
		for n, role := range p.Roles {
			v.require(slices.Contains(v.o.Roles, role), file, fmt.Sprintf("%sroles[%d]", at, n), "there is no role %q", role)
		}
		v.knownLabels(file, at+"clearance", p.Clearance)
		if p.ActsFor != "" {
			v.person(file, at+"actsFor", p.ActsFor)
		}
		if p.Manager != "" {
			v.person(file, at+"manager", p.Manager)
			v.require(!v.managedBySelf(p), file, at+"manager", "the line of managers leads back to %q", p.ID)
		}
	}
}

func (v *validation) managedBySelf(p policy.Principal) bool {
	at := p
	for range v.o.Principals {
		next, found := v.o.Principal(at.Manager)
		if !found {
			return false
		}
		if next.ID == p.ID {
			return true
		}
		at = next
	}
	return false
}

func (v *validation) knownLabels(object, path string, labels policy.Labels) {
	for _, label := range labels {
		_, known := v.o.Label(label)
		v.require(known, object, path, "there is no label %q", label)
	}
}

func (v *validation) labels() {
	file := organisationFile
	unique(v, file, "labels[%d].name", v.o.Labels, func(l LabelRule) string { return string(l.Name) })
	for i, l := range v.o.Labels {
		at := fmt.Sprintf("labels[%d].", i)
		v.require(plainID.MatchString(string(l.Name)), file, at+"name", "must be lower-case letters, digits, dots and dashes")
		v.person(file, at+"owner", l.Owner)
		v.require(l.Description != "", file, at+"description", "say why it is confidential")
		for n, model := range l.Models {
			_, known := v.o.Model(model)
			v.require(known, file, fmt.Sprintf("%smodels[%d]", at, n), "there is no model %q", model)
		}
		for n, place := range l.Residency {
			stands := slices.ContainsFunc(v.o.Models, func(m Model) bool { return m.Residency == place })
			v.require(stands, file, fmt.Sprintf("%sresidency[%d]", at, n), "no model has the residency %q", place)
		}
	}
}

func (v *validation) models() {
	file := modelsFile
	unique(v, file, "models[%d].name", v.o.Models, func(m Model) string { return m.Name })
	for i, m := range v.o.Models {
		at := fmt.Sprintf("models[%d].", i)
		for _, fault := range m.Faults() {
			v.add(file, at+fault.Path, "%s", fault.Sentence)
		}
		v.knownLabels(file, at+"labels", m.Labels)
		_, known := v.o.Script(m.Script)
		v.require(m.Script == "" || known, file, at+"script", "there is no script %q", m.Script)
		v.require(m.Endpoint == "" || isBase(m.Endpoint), file, at+"endpoint", "must be an http or https URL without query")
	}
}

func (v *validation) personas() {
	for _, p := range v.o.Personas {
		object := "personas/" + p.Name
		v.require(plainID.MatchString(p.Name), object, "name", "must be lower-case letters, digits, dots and dashes")
		v.require(strings.TrimSpace(p.Voice) != "", object, "voice", "a voice is needed")
		v.person(object, "approvedBy", p.ApprovedBy)
		if p.VoiceOf != "" {
			v.person(object, "voiceOf", p.VoiceOf)
		}
	}
}

func (v *validation) tools() {
	unique(v, organisationFile, "tools[%d].name", v.o.Tools, func(d tool.Definition) string { return d.Name })
	for _, d := range v.o.Tools {
		if d.Kind == tool.KindBuiltin && v.configured(d.Name) {
			continue // its code makes the definition, organisation.yaml its owner
		}
		object := "tools/" + d.Name
		if err := d.Validate(); err != nil {
			for _, fault := range split(err) {
				v.add(object, "", "%s", fault)
			}
		}
		v.require(d.Kind != tool.KindBuiltin, object, "kind", "tools that come with the platform are configured in %s", organisationFile)
		v.accountable(object, "", d.Owner, d.Contact)
		v.knownLabels(object, "result.labels", d.Result.Labels)
		v.egress(object, d)
		v.offered(object, d)
	}
}

// servers finds what does not fit in the MCP servers.
func (v *validation) servers() {
	unique(v, organisationFile, "servers[%d].name", v.o.Servers, func(s server.Server) string { return s.Name })
	for _, s := range v.o.Servers {
		object := "servers/" + s.Name
		for _, fault := range s.Faults() {
			v.add(object, fault.Path, "%s", fault.Sentence)
		}
		v.accountable(object, "", s.Owner, s.Contact)
		if s.Transport == server.HTTP {
			v.require(slices.Contains(v.o.Egress, s.Address()), object, "url", "%s is not in the egress list of %s", s.Address(), organisationFile)
		}
	}
	for _, q := range v.o.Quarantines {
		d, known := v.o.Tool(q.Tool)
		v.require(known && d.Kind == tool.KindMCP, "quarantines/"+q.Tool, "tool", "there is no MCP tool %q to keep back", q.Tool)
	}
}

// offered requires that the server of an MCP tool is registered.
func (v *validation) offered(object string, d tool.Definition) {
	if d.Kind != tool.KindMCP {
		return
	}
	if offered, err := tool.ReadOffered(d); err == nil {
		_, known := v.o.Server(offered.Server)
		v.require(known, object, "server.server", "there is no server %q in servers/", offered.Server)
	}
}

func (v *validation) configured(name string) bool {
	return v.o.Builtins.Ask != nil && name == tool.AskName ||
		v.o.Builtins.Access != nil && name == tool.AccessName ||
		v.o.Builtins.Files != nil && strings.HasPrefix(name, "files.") ||
		v.o.Builtins.Memory != nil && strings.HasPrefix(name, "memory.") ||
		v.o.Builtins.Findings != nil && name == findings.RecordName ||
		v.o.Builtins.Results != nil && name == results.Name ||
		v.o.Builtins.Agents != nil && (name == tool.DelegateName || name == watch.Name)
}

// egress requires that the guard would let the tool reach its server.
func (v *validation) egress(object string, d tool.Definition) {
	var server tool.HTTPServer
	if d.Kind != tool.KindHTTP && d.Kind != tool.KindA2A || json.Unmarshal(d.Server, &server) != nil {
		return
	}
	parsed, err := url.Parse(server.URL)
	if err != nil || parsed.Host == "" {
		v.add(object, "server.url", "must be a URL")
		return
	}
	address := parsed.Host
	if parsed.Port() == "" {
		address = net.JoinHostPort(parsed.Hostname(), map[string]string{"http": "80", "https": "443"}[parsed.Scheme])
	}
	v.require(slices.Contains(v.o.Egress, address), object, "server.url", "%s is not in the egress list of %s", address, organisationFile)
}

func split(err error) []error {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		return joined.Unwrap()
	}
	return []error{err}
}

var roleHold = regexp.MustCompile(`@hold\("role:([^"]*)"\)`)

func (v *validation) policies() {
	v.require(len(v.o.Policies) > 0, "policies", "", "without a policy everything is forbidden; write one")
	for _, source := range v.o.Policies {
		for _, match := range roleHold.FindAllStringSubmatch(source.Text, -1) {
			v.require(slices.Contains(v.o.Roles, match[1]), "policies/"+source.Name, "", "there is no role %q to hold for", match[1])
		}
	}
	_, err := v.o.PolicySet()
	var faults policy.Faults
	if errors.As(err, &faults) {
		for _, fault := range faults {
			v.faults = append(v.faults, manifest.Fault{File: "policies/" + strings.TrimSuffix(fault.File, ".cedar"), Line: fault.Line, Sentence: fault.Message})
		}
	} else if err != nil {
		v.add("policies", "", "%v", err)
	}
}

package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/agents/manifest"
	"gantry.dev/agents/server"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/findings"
	"gantry.dev/agents/tool/results"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/orchestrator/policy"
)

// The places of an organisation's files.
const (
	organisationFile = "organisation.yaml"
	modelsFile       = "models.yaml"
)

// Faults is everything that is wrong with a configuration.
type Faults []manifest.Fault

// Error returns one fault on each line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i, fault := range f {
		lines[i] = fault.String()
	}
	return strings.Join(lines, "\n")
}

// LoadOptions change what the files say.
type LoadOptions struct {
	Endpoints map[string]string // replace the endpoints of the same name
	Egress    []string          // "host:port" that tools may reach besides those of the files
}

// LoadDir reads an organisation from its folder:
//
//	organisation.yaml, models.yaml, agents/*.yaml, personas/*.yaml,
//	tools/*.yaml, servers/*.yaml, policies/*.cedar, scripts/*.star
//
// It returns the whole, valid organisation or Faults with every fault found
// and no organisation. The same files and options give the same digest. Errors
// of reading are returned as they are.
func LoadDir(fsys fs.FS, options LoadOptions) (Organisation, error) {
	loading := loading{fsys: fsys, documents: map[string]*manifest.Document{}, files: map[string]string{}}
	organisation, err := loading.all(options)
	if err != nil {
		return Organisation{}, err
	}
	if len(loading.faults) == 0 {
		for _, fault := range organisation.faults() {
			loading.faults = append(loading.faults, loading.place(fault))
		}
	}
	if len(loading.faults) > 0 {
		slices.SortStableFunc(loading.faults, func(a, b manifest.Fault) int {
			if a.File != b.File {
				return strings.Compare(a.File, b.File)
			}
			return a.Line - b.Line
		})
		return Organisation{}, loading.faults
	}
	return organisation.sorted(), nil
}

type loading struct {
	fsys      fs.FS
	faults    Faults
	documents map[string]*manifest.Document // by file
	files     map[string]string             // by object, for example "tools/files.read"
}

// organisationText is organisation.yaml: what has no folder of its own.
type organisationText struct {
	Name         string             `json:"name"`
	Title        string             `json:"title"`
	Owner        string             `json:"owner"`
	Contact      string             `json:"contact"`
	BudgetOwner  string             `json:"budgetOwner"`
	Budget       Budget             `json:"budget"`
	Conversation Budget             `json:"conversation"`
	Roles        []string           `json:"roles"`
	Departments  []Department       `json:"departments"`
	Labels       []LabelRule        `json:"labels"`
	Egress       []string           `json:"egress"`
	Endpoints    map[string]string  `json:"endpoints"`
	Builtins     Builtins           `json:"builtins"`
	Memory       Memory             `json:"memory"`
	Deputies     []Deputy           `json:"deputies"`
	Escalation   Escalation         `json:"escalation"`
	Notify       Notify             `json:"notify"`
	Principals   []policy.Principal `json:"principals"`
}

type modelsText struct {
	Models []Model `json:"models"`
}

func (l *loading) all(options LoadOptions) (Organisation, error) {
	var text organisationText
	var models modelsText
	if err := errors.Join(l.file(organisationFile, &text), l.file(modelsFile, &models)); err != nil {
		return Organisation{}, err
	}
	o := Organisation{
		Name: text.Name, Title: text.Title, Owner: text.Owner, Contact: text.Contact, BudgetOwner: text.BudgetOwner,
		Budget: text.Budget, Conversation: text.Conversation, Roles: text.Roles, Departments: text.Departments,
		Labels: text.Labels, Egress: slices.Concat(text.Egress, options.Egress), Endpoints: text.Endpoints, Builtins: text.Builtins,
		Principals: text.Principals, Models: models.Models, Memory: text.Memory.completed(),
		Deputies: text.Deputies, Escalation: text.Escalation, Notify: text.Notify,
	}
	if len(options.Endpoints) > 0 {
		o.Endpoints = maps.Clone(text.Endpoints)
		l.override(o.Endpoints, options.Endpoints)
	}
	for i := range o.Principals {
		p := &o.Principals[i]
		if p.Organisation == "" {
			p.Organisation = o.Name
		}
		p.Roles, p.Clearance = slices.Sorted(slices.Values(p.Roles)), policy.NewLabels(p.Clearance...)
	}
	var err [6]error
	o.Agents, err[0] = folder(l, "agents", Revision{Limits: DefaultLimits()}, func(r Revision) string { return r.Name })
	o.Personas, err[1] = folder(l, "personas", Persona{}, func(p Persona) string { return p.Name })
	o.Tools, err[2] = folder(l, "tools", tool.Definition{}, func(d tool.Definition) string { return d.Name })
	o.Policies, err[3] = l.sources("policies", ".cedar")
	o.Scripts, err[4] = l.sources("scripts", ".star")
	o.Servers, err[5] = folder(l, "servers", server.Server{}, func(s server.Server) string { return s.Name })
	for i := range o.Agents {
		o.Agents[i] = o.Agents[i].completed()
	}
	for i, d := range o.Tools {
		o.Tools[i].Server = l.substitute("tools/"+d.Name, "server", d.Server, o.Endpoints)
	}
	for i, s := range o.Servers {
		o.Servers[i].URL = string(l.substitute("servers/"+s.Name, "url", []byte(s.URL), o.Endpoints))
	}
	o.Tools = append(o.Tools, l.builtins(o.Builtins)...)
	return o, errors.Join(err[:]...)
}

// completed fills in what a revision's file may leave out.
func (r Revision) completed() Revision {
	if len(r.Audience) == 0 {
		r.Audience = []string{r.Department}
	}
	r.Audience, r.Clearance = ordered(r.Audience), policy.NewLabels(r.Clearance...)
	r.Completion.Checks = slices.Clone(r.Completion.Checks)
	for i := range r.Completion.Checks {
		if r.Completion.Checks[i].Identity == "" {
			r.Completion.Checks[i].Identity = AsAgent
		}
	}
	return r
}

func (l *loading) file(name string, into any) error {
	raw, err := fs.ReadFile(l.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		l.faults = append(l.faults, manifest.Fault{File: name, Sentence: "the file is missing"})
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	document, faults := manifest.Parse(name, raw)
	if document != nil {
		l.documents[name] = document
		faults = document.Decode(into)
	}
	l.faults = append(l.faults, faults...)
	return nil
}

// folder reads every file of a folder into a copy of blank.
func folder[T any](l *loading, dir string, blank T, name func(T) string) ([]T, error) {
	names, err := l.names(dir, ".yaml")
	if err != nil {
		return nil, err
	}
	var all []T
	for _, file := range names {
		object := blank
		if err := l.file(file, &object); err != nil {
			return nil, err
		}
		key := dir + "/" + name(object)
		if earlier, repeated := l.files[key]; repeated && name(object) != "" {
			l.add(file, "name", fmt.Sprintf("%s has this name already", earlier))
		}
		l.files[key] = file
		all = append(all, object)
	}
	return all, nil
}

func (l *loading) sources(dir, ending string) ([]Source, error) {
	names, err := l.names(dir, ending)
	if err != nil {
		return nil, err
	}
	var all []Source
	for _, file := range names {
		raw, err := fs.ReadFile(l.fsys, file)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if len(raw) > manifest.MaxBytes {
			l.faults = append(l.faults, manifest.Fault{File: file, Sentence: "the file is too long"})
			continue
		}
		name := strings.TrimSuffix(path.Base(file), ending)
		l.files[dir+"/"+name] = file
		all = append(all, Source{Name: name, Text: string(raw)})
	}
	return all, nil
}

// names returns the files of a folder. A file that would be passed over is a
// fault, so that a wrong ending never drops an agent silently.
func (l *loading) names(dir, ending string) ([]string, error) {
	entries, err := fs.ReadDir(l.fsys, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", dir, err)
	}
	var names []string
	for _, entry := range entries {
		file := path.Join(dir, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."), entry.Name() == "README.md":
		case entry.IsDir(), path.Ext(file) != ending:
			l.faults = append(l.faults, manifest.Fault{File: file, Sentence: "only files that end in " + ending + " are read here; rename it or move it away"})
		default:
			names = append(names, file)
		}
	}
	return names, nil
}

func (l *loading) override(endpoints, with map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(with)) {
		if _, known := endpoints[name]; !known {
			l.add(organisationFile, "endpoints", fmt.Sprintf("there is no endpoint %q to replace", name))
			continue
		}
		endpoints[name] = with[name]
	}
}

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// substitute puts the endpoints into the servers of the tools, and only there.
func (l *loading) substitute(object, path string, text []byte, endpoints map[string]string) []byte {
	return variable.ReplaceAllFunc(text, func(match []byte) []byte {
		name := string(match[2 : len(match)-1])
		value, known := endpoints[name]
		if !known {
			l.add(l.files[object], path, fmt.Sprintf("there is no endpoint %q in %s", name, organisationFile))
		}
		quoted, _ := json.Marshal(value)
		return bytes.Trim(quoted, `"`)
	})
}

// builtins returns the definitions of the tools that come with the platform,
// which their code has and the files only configure.
func (l *loading) builtins(b Builtins) []tool.Definition {
	var definitions []tool.Definition
	if b.Files != nil {
		tools, err := tool.NewFiles(nil, b.Files.Rules, b.Files.MediaBytes, b.Files.Owner, b.Files.Contact)
		if err != nil {
			l.add(organisationFile, "builtins.files.rules", err.Error())
		}
		for _, t := range tools {
			definitions = append(definitions, t.Definition())
		}
	}
	if b.Ask != nil {
		definitions = append(definitions, tool.NewAsk(b.Ask.Owner, b.Ask.Contact).Definition())
	}
	if b.Agents != nil {
		definitions = append(definitions, tool.NewDelegate(b.Agents.Owner, b.Agents.Contact).Definition(),
			watch.New(nil, b.Agents.Owner, b.Agents.Contact).Definition())
	}
	if m := b.Memory; m != nil {
		for _, t := range tool.NewMemory(nil, m.Owner, m.Contact, m.Impact) {
			definitions = append(definitions, t.Definition())
		}
	}
	if a := b.Access; a != nil {
		definitions = append(definitions, tool.NewAccess(a.Owner, a.Contact).Definition())
	}
	if r := b.Results; r != nil {
		definitions = append(definitions, results.New(nil, r.Owner, r.Contact).Definition())
	}
	if f := b.Findings; f != nil {
		definitions = append(definitions, findings.New(nil, f.Owner, f.Contact, f.Impact).Definition())
	}
	return definitions
}

func (l *loading) add(file, path, sentence string) {
	if document := l.documents[file]; document != nil {
		l.faults = append(l.faults, document.Fault(path, sentence))
		return
	}
	l.faults = append(l.faults, manifest.Fault{File: file, Path: path, Sentence: sentence})
}

// place turns the object that a fault is about into its file and line.
func (l *loading) place(fault manifest.Fault) manifest.Fault {
	file, known := l.files[fault.File]
	if !known {
		file = fault.File
	}
	if document := l.documents[file]; document != nil {
		return document.Fault(fault.Path, fault.Sentence)
	}
	fault.File = file
	return fault
}

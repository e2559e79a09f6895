package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry.dev/orchestrator/policy"
)

// reader fills one case from its lines.
type reader struct {
	Case
	tools []policy.ToolShape
	dir   policy.Directory
	given map[string]bool
}

// keys of a request, and how each changes it.
var keys = map[string]func(*reader, string) error{
	"case":      func(r *reader, value string) error { r.Name = value; return nil },
	"subject":   (*reader).subject,
	"agent":     (*reader).agent,
	"chain":     (*reader).chain,
	"tool":      (*reader).tool,
	"impact":    (*reader).impact,
	"resource":  func(r *reader, value string) error { r.Request.Resource = value; return nil },
	"labels":    (*reader).labels,
	"integrity": func(r *reader, value string) error { return r.Request.Marking.Integrity.UnmarshalText([]byte(value)) },
	"untrusted": (*reader).untrusted,
	"cost":      (*reader).cost,
	"stage":     func(r *reader, value string) error { return r.Request.Stage.UnmarshalText([]byte(value)) },
	"at":        (*reader).at,
}

// wants are the keys of what must come out.
var wants = []string{"expect", "would", "because", "by", "quorum", "expires", "settled", "unsettled"}

func (b block) read(tools []policy.ToolShape, dir policy.Directory) (Case, policy.Faults) {
	r := &reader{tools: tools, dir: dir, given: map[string]bool{}}
	r.File, r.Line, r.want = b.file, b.fields[0].line, map[string]string{}
	r.Request.Stage, r.Request.Facts = policy.Automate, policy.Facts{}
	var faults policy.Faults
	for _, field := range b.fields {
		if err := r.set(field); err != nil {
			faults = append(faults, policy.Fault{File: b.file, Line: field.line, Message: field.key + ": " + err.Error()})
		}
	}
	for _, key := range []string{"case", "subject", "agent", "tool", "expect"} {
		if !r.given[key] {
			faults = append(faults, policy.Fault{File: b.file, Line: r.Line, Message: "the case has no " + key})
		}
	}
	if !r.given["chain"] {
		agent := policy.Principal{ID: r.Request.Agent.Name, Kind: policy.Agent, Organisation: r.Request.Subject.Organisation}
		r.Request.Chain = []policy.Principal{r.Request.Subject, agent}
	}
	return r.Case, faults
}

func (r *reader) set(field field) error {
	if r.given[field.key] {
		return errors.New("given twice")
	}
	r.given[field.key] = true
	if name, isFact := strings.CutPrefix(field.key, "fact "); isFact {
		return r.fact(strings.TrimSpace(name), field.value)
	}
	if slices.Contains(wants, field.key) {
		r.want[field.key] = field.value
		return nil
	}
	set, known := keys[field.key]
	if !known {
		return errors.New("unknown key")
	}
	return set(r, field.value)
}

func (r *reader) subject(id string) (err error) {
	r.Request.Subject, err = r.principal(id)
	return err
}

func (r *reader) principal(id string) (policy.Principal, error) {
	principal, found := r.dir.Principal(id)
	if !found {
		return principal, fmt.Errorf("no principal %q in the directory", id)
	}
	return principal, nil
}

func (r *reader) agent(id string) error {
	agent, err := r.principal(id)
	name := strings.TrimPrefix(agent.ID, "agent:") // as runs name it
	r.Request.Agent = policy.AgentFacts{Name: name, Department: agent.Department, Owner: agent.Manager}
	return err
}

func (r *reader) chain(ids string) error {
	for _, id := range list(ids) {
		principal, err := r.principal(id)
		if err != nil {
			return err
		}
		r.Request.Chain = append(r.Request.Chain, principal)
	}
	return nil
}

func (r *reader) tool(name string) error {
	r.Request.Tool.Name = name
	for _, tool := range r.tools {
		if tool.Name == name {
			r.Request.Tool = tool.ToolFacts()
		}
	}
	return nil
}

func (r *reader) impact(name string) error {
	if name == "unset" {
		name = policy.ImpactUnset.String()
	}
	return r.Request.Tool.Impact.UnmarshalText([]byte(name))
}

func (r *reader) fact(name, value string) error {
	if !json.Valid([]byte(value)) {
		return errors.New("not a JSON value")
	}
	var facts policy.Facts
	if err := json.Unmarshal([]byte(`{"value":`+value+`}`), &facts); err != nil {
		return err
	}
	r.Request.Facts[name] = facts["value"]
	return nil
}

func (r *reader) labels(names string) error {
	var labels []policy.Label
	for _, name := range list(names) {
		labels = append(labels, policy.Label(name))
	}
	r.Request.Marking.Labels = policy.NewLabels(labels...)
	return nil
}

func (r *reader) untrusted(answer string) error {
	if answer != "yes" && answer != "no" {
		return errors.New("yes or no")
	}
	r.Request.Untrusted = answer == "yes"
	return nil
}

func (r *reader) cost(amount string) (err error) {
	r.Request.CostBound, err = strconv.ParseInt(amount, 10, 64)
	return err
}

func (r *reader) at(instant string) error {
	at, err := time.Parse(time.RFC3339, instant)
	r.Request.AtMs = at.UnixMilli()
	return err
}

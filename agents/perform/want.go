package perform

import (
	"encoding/json"
	"slices"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// wants finds what a run may ask for, and whom: nothing of what a model wrote
// chooses who decides.
type wants struct {
	revision  agents.Revision
	kit       *Kit // what the run was admitted under
	current   *Kit
	started   run.Started
	authority policy.Authority   // now
	given     []policy.Authority // since it was admitted
	nowMs     int64
}

func (j *job) wants(revision agents.Revision) wants {
	return wants{revision: revision, kit: j.kit, current: j.current, started: j.state.Started, authority: j.authority(), given: j.state.Given(), nowMs: j.view.NowMs}
}

// of is what a proposed call has to ask for before it is judged, nil for nothing.
func (w wants) of(name string, arguments []byte, given map[string]bool) (*run.Want, []policy.Approver) {
	if name != tool.AccessName {
		if given[name] {
			return nil, nil
		}
		return w.find(agents.Asked{Thing: run.ThingTool, Name: name})
	}
	var asked tool.AccessAsked
	if json.Unmarshal(arguments, &asked) != nil {
		return nil, nil
	}
	return w.find(agents.Asked{Thing: run.Thing(asked.Kind), Name: asked.Name, MicroUSD: asked.MicroUSD, Tokens: asked.Tokens})
}

// find is what the run would get, and who decides; nil where there is no such
// thing, the run may not ask for it or has it, or nobody could decide.
func (w wants) find(asked agents.Asked) (*run.Want, []policy.Approver) {
	o, started := w.current.Organisation, w.started
	if !w.asks(asked.Thing) {
		return nil, nil
	}
	subject, known := o.Principal(started.Subject.ID)
	want, may := o.Want(w.revision, subject, asked)
	if !known || !may || asked.Thing != run.ThingBudget && w.authority.Includes(want.Gives) {
		return nil, nil
	}
	for name, grant := range want.Gives.Tools {
		if _, digest, served := w.kit.Box.Definition(name); !served || digest != grant.Revision {
			return nil, nil // what the run was admitted under has another one
		}
	}
	if entry, known := w.kit.Organisation.Model(asked.Name); known && asked.Thing == run.ThingModel {
		p := entry.Prices
		want.Prices = &run.Prices{Input: p.Input, CacheRead: p.CacheRead, CacheWrite: p.CacheWrite, Output: p.Output}
	}
	name := asked.Name
	if asked.Thing == run.ThingBudget {
		name = started.Payer()
	}
	to := []policy.Approver{o.OwnerOf(asked.Thing, name, subject.ID)}
	if _, err := w.current.Rules.Voices(to, policy.Principal{ID: to[0].Principal}, started.Chain, w.nowMs); err != nil {
		return nil, nil
	}
	return &want, to
}

// asks reports whether the run may ask for a kind of thing at all. A sidecar
// only reads, what works under a share has what that gives, and whoever is paid
// by a parent has what that carved.
func (w wants) asks(thing run.Thing) bool {
	started := w.started
	if _, private := w.current.Organisation.Granted(started); private || started.RunKind == run.Sidecar || w.current.Organisation.IsShare(started.Grant) {
		return false
	}
	return thing != run.ThingBudget || len(started.Accounts) > 0
}

// has are the tools that the run may propose: those of its revision, and those
// that it was given and still has.
func (w wants) has() map[string]bool {
	names := w.names()
	for name := range names {
		if _, still := w.authority.Tools[name]; !still && !slices.ContainsFunc(w.revision.Tools, func(u agents.ToolUse) bool { return u.Name == name }) {
			delete(names, name)
		}
	}
	return names
}

// names are the tools of the run: those of its revision, those that it began with
// besides, and those that it was given.
func (w wants) names() map[string]bool {
	names := map[string]bool{}
	for _, use := range w.revision.Tools {
		names[use.Name] = true
	}
	for _, given := range append(slices.Clip(w.given), w.started.Authority) {
		for name := range given.Tools {
			names[name] = true
		}
	}
	return names
}

// models are those of the revision, and then those that the run began with or was
// given besides, and still has.
func (w wants) models() []string {
	list := slices.Clip(w.revision.Models)
	for _, given := range append([]policy.Authority{w.started.Authority}, w.given...) {
		for _, name := range given.Models {
			if slices.Contains(w.authority.Models, name) && !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
	}
	return list
}

// shown is a tool's definition as the prompt has it: that of access.request says
// what there is to ask for.
func (w wants) shown(definition tool.Definition) tool.Definition {
	if definition.Name != tool.AccessName {
		return definition
	}
	definition.Description += " You may ask for: " + strings.Join(w.listed(), "; ") + "."
	return definition
}

// listed says in words what the revision may ask for.
func (w wants) listed() (list []string) {
	may := w.revision.MayRequest
	if may == nil {
		return []string{"nothing"}
	}
	for _, use := range may.Tools {
		if definition, _, known := w.kit.Box.Definition(use.Name); known {
			list = append(list, "TOOL "+use.Name+" ("+strings.TrimSuffix(definition.Description, ".")+")")
		}
	}
	for _, space := range may.Spaces {
		list = append(list, "SPACE "+space)
	}
	for _, label := range may.Labels {
		list = append(list, "LABEL "+string(label))
	}
	for _, name := range may.Models {
		list = append(list, "MODEL "+name)
	}
	if may.MicroUSD > 0 || may.Tokens > 0 {
		list = append(list, "BUDGET")
	}
	return slices.Clip(list)
}

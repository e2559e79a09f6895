package perform

import (
	"context"
	"maps"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/agents/prompt"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/run"
)

// prompt is the run's prompt with what came since the last turn. It grows in
// the memory that the run's owner keeps, so that a turn costs what is new; what
// was recalled and is not as it was any more makes it anew. It returns what is
// to be recorded of memory, too: also that it could not be asked.
func (j *job) prompt(ctx context.Context, revision agents.Revision, remembered *run.Remembrance, found map[string]view.Rendering) (prompt.Prompt, *run.Remembrance, error) {
	c, kept := (*j.view.Memory).(*prompt.Compiler)
	if !kept {
		c = &prompt.Compiler{}
	}
	texts, err := j.view.Texts(ctx, c.Needs(j.state)...)
	if err != nil {
		return prompt.Prompt{}, nil, err
	}
	asking := j.asking(revision)
	now, whole, err := j.present(ctx, asking, c.Items(j.state, texts))
	if err != nil {
		return prompt.Prompt{}, nil, err
	}
	if !whole {
		remembered = withoutMemory(remembered)
	}
	now = joined(now, found)
	traits, err := j.traits(ctx)
	if err != nil {
		return prompt.Prompt{}, nil, err
	}
	persona, _ := j.kit.Organisation.Persona(revision.Persona)
	in := prompt.Input{Revision: revision, Persona: persona, State: j.state, Texts: texts, Reader: asking.reader, Memory: now, Recall: remembered, Traits: traits}
	if kept && !c.Holds(in) {
		c, kept = &prompt.Compiler{}, false
		if in.Texts, err = j.view.Texts(ctx, c.Needs(j.state)...); err != nil {
			return prompt.Prompt{}, nil, err
		}
	}
	if !kept {
		in.Tools = j.tools(revision)
	}
	c.Extend(in)
	*j.view.Memory = c
	compiled, err := c.Finish()
	return compiled, remembered, err
}

// withoutMemory says that memory could not be asked, besides what it gave.
func withoutMemory(r *run.Remembrance) *run.Remembrance {
	if r == nil {
		r = &run.Remembrance{Cause: run.RecallNews}
	}
	if !slices.Contains(r.Missing, run.MemoryOut) {
		r.Missing = append(slices.Clip(r.Missing), run.MemoryOut)
	}
	return r
}

// joined are both, with the second above the first.
func joined(a, b map[string]view.Rendering) map[string]view.Rendering {
	if a == nil {
		return b
	}
	maps.Copy(a, b)
	return a
}

// tools are the definitions that the run may see, by name.
func (j *job) tools(revision agents.Revision) []tool.Definition {
	var list []tool.Definition
	w := j.wants(revision)
	for name := range w.names() {
		if definition, _, known := j.kit.Box.Definition(name); known {
			list = append(list, w.shown(definition))
		}
	}
	slices.SortFunc(list, func(a, b tool.Definition) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list
}

package perform

import (
	"context"
	"maps"
	"slices"
	"sync"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform/choice"
	"gantry.dev/agents/prompt"
	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/results"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/run"
)

// prompt is the run's prompt with what came since the last turn. It grows in
// the memory that the run's owner keeps, so that a turn costs what is new; what
// was recalled and is not as it was any more makes it anew. It returns what the
// prompt is made of, and what is to be recorded of memory: also that it could
// not be asked.
func (j *job) prompt(ctx context.Context, revision agents.Revision, remembered *run.Remembrance, found map[string]view.Rendering) (prompt.Prompt, prompt.Input, *run.Remembrance, error) {
	c, kept := (*j.view.Memory).(*prompt.Compiler)
	if !kept {
		c = &prompt.Compiler{}
	}
	texts, err := j.view.Texts(ctx, c.Needs(j.state)...)
	if err != nil {
		return prompt.Prompt{}, prompt.Input{}, nil, err
	}
	asking := j.asking(revision)
	now, whole, err := j.present(ctx, asking, c.Items(j.state, texts))
	if err != nil {
		return prompt.Prompt{}, prompt.Input{}, nil, err
	}
	if !whole {
		remembered = withoutMemory(remembered)
	}
	now = joined(now, found)
	traits, err := j.traits(ctx)
	if err != nil {
		return prompt.Prompt{}, prompt.Input{}, nil, err
	}
	persona, _ := j.kit.Organisation.Persona(revision.Persona)
	in := prompt.Input{Revision: revision, Persona: persona, Tools: j.tools(revision), State: j.state, Texts: texts, Reader: asking.reader, Memory: now,
		Recall: remembered, Traits: traits, Brief: j.state.Brief(), ResultBytes: j.shownBytes(revision)}
	if kept && !c.Holds(in) {
		c = &prompt.Compiler{}
		if in.Texts, err = j.view.Texts(ctx, c.Needs(j.state)...); err != nil {
			return prompt.Prompt{}, prompt.Input{}, nil, err
		}
	}
	c.Extend(in)
	*j.view.Memory = c
	compiled, err := c.Finish()
	return compiled, in, remembered, err
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

// usualBytes of a token is what is taken for every model that nobody has
// counted yet: less than most texts have, so that prompts end up shorter rather
// than too long. No count is believed that is further from it than that.
const (
	usualBytes = 3
	mostBytes  = 12
)

// counts is what providers counted of the last prompts that this process sent.
type counts struct {
	mu   sync.Mutex
	last map[string]counted // by model; as many as there are in the catalogues
}

type counted struct{ bytes, tokens int64 }

func (c *counts) note(model string, bytes int64, usage model.Usage) {
	tokens := usage.Input + usage.CacheRead + usage.CacheWrite
	if usage.Estimated || tokens <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || len(c.last) >= 1000 {
		c.last = map[string]counted{}
	}
	c.last[model] = counted{bytes, tokens}
}

// of is how many bytes had how many tokens: as the run itself knows, else this
// process, else as usual.
func (c *counts) of(s *run.State, model string) counted {
	var known counted
	if known.bytes, known.tokens = s.Counted(model); known.tokens == 0 {
		c.mu.Lock()
		known = c.last[model]
		c.mu.Unlock()
	}
	switch {
	case known.tokens == 0:
		return counted{usualBytes, 1}
	case known.bytes < known.tokens: // a token has at least one byte
		return counted{1, 1}
	case known.bytes > mostBytes*known.tokens:
		return counted{mostBytes, 1}
	}
	return known
}

// promptTokens is how many tokens a prompt has for a model. One that could not
// take the prompt is taken at its word, and none with less room is asked instead.
func (j *job) promptTokens(m agents.Model, bytes int64) int64 {
	tokens := j.contextUse(m, bytes, 0).Tokens
	if j.state.Compacts() && j.state.Rejected() {
		if last, known := j.kit.Organisation.Model(j.state.LastTurn().Model); known && m.Context <= last.Context {
			return max(tokens, m.Context)
		}
	}
	return tokens
}

// contextUse is how much of a model's context a prompt takes up, as far as that
// can be told before the provider counts: its words by their bytes, besides what
// its images and files count at most.
func (j *job) contextUse(m agents.Model, bytes, media int64) *run.ContextUse {
	k := j.counts.of(j.state, m.Name)
	return &run.ContextUse{Bytes: bytes, Tokens: (bytes*k.tokens+k.bytes-1)/k.bytes + media, Limit: m.Context}
}

// shorten asks to show a part of the run in brief, where the prompt does not fit
// or the model said so; nil where it fits. A run under earlier rules sends what
// it always sent. So many bytes of the request stand beside the prompt.
func (j *job) shorten(ctx context.Context, effect run.TakeTurn, m agents.Model, use *run.ContextUse, beside int64, in prompt.Input) (run.Command, error) {
	last := j.state.LastTurn()
	rejected := j.state.Rejected() && last.Model == m.Name
	room := use.Limit - m.MaxOutput
	if m.Name == "" || !j.state.Compacts() || !rejected && (use.Limit == 0 || use.Tokens <= room) {
		return nil, nil
	}
	if unshown := j.unshown(m, use.Tokens-room, rejected); unshown > 0 {
		return j.withoutMedia(effect, m, unshown, rejected), nil
	}
	k := j.counts.of(j.state, m.Name)
	most := use.Bytes
	if use.Limit > 0 {
		most = max(room, 0) * k.bytes / k.tokens
	}
	command := run.Compact{Turn: effect.Turn, Attempt: effect.Attempt, Cause: run.CompactedForRoom, Model: m.Name}
	if rejected { // it is the one who knows
		command.Cause = run.CompactedRejected
		if most = min(most, use.Bytes); last.Context != nil {
			most = min(most, last.Context.Bytes)
		}
		most = most / 4 * 3
	}
	var err error
	if in.Texts, err = j.view.Texts(ctx, (&prompt.Compiler{}).Needs(j.state)...); err != nil {
		return nil, err
	}
	brief, fits, err := prompt.Shorten(in, most-beside)
	if err != nil {
		return nil, err
	}
	command.Brief, command.Unfit = brief, !fits
	return command, nil
}

// unshown is the last call whose images and files have to be left out so that a
// prompt has so many tokens less, 0 where there are none any more. Those of the
// last turn stay as long as others are there. A model that said itself that the
// prompt does not fit says nothing of by how much: the others go at once.
func (j *job) unshown(m agents.Model, over int64, rejected bool) (through int) {
	for i := range j.state.Calls {
		call := &j.state.Calls[i]
		shown := choice.MediaTokens(m, prompt.Showing(j.state.Brief(), call))
		if shown == 0 {
			continue
		}
		if through > 0 && (!rejected && over <= 0 || rejected && call.Turn >= j.state.Answered()) {
			break
		}
		through = call.CallProposed.Call
		over -= shown
	}
	return through
}

// withoutMedia asks to leave out images and files, before anything else.
func (j *job) withoutMedia(effect run.TakeTurn, m agents.Model, unshown int, rejected bool) run.Compact {
	command := run.Compact{Turn: effect.Turn, Attempt: effect.Attempt, Cause: run.CompactedForRoom, Model: m.Name, Brief: j.state.Brief()}
	if command.Brief.Unshown = unshown; rejected {
		command.Cause = run.CompactedRejected
	}
	return command
}

// shownBytes is how much of one result a prompt shows: what the revision says,
// and where the run can read the rest no more than a quarter of the smallest
// context of its models.
func (j *job) shownBytes(revision agents.Revision) int64 {
	if !j.state.Compacts() {
		return 0
	}
	most := revision.ResultBytes
	if !slices.ContainsFunc(revision.Tools, func(use agents.ToolUse) bool { return use.Name == results.Name }) {
		return most
	}
	if most == 0 {
		most = usualResult
	}
	for _, name := range revision.Models {
		if m, known := j.kit.Organisation.Model(name); known && m.Context > 0 {
			most = min(most, max(m.Context*usualBytes/4, leastResult))
		}
	}
	return most
}

// What is shown of a result where the revision says nothing, and at least.
const (
	usualResult = 32 << 10
	leastResult = 512
)

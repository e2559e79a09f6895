package perform_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

var errOut = errors.New("memory is out")

// brain remembers whole items and recalls them by the words that they share
// with a question.
type brain struct {
	mu        sync.Mutex
	items     []view.Rendering
	out       bool // it cannot be asked
	degraded  []string
	questions []memory.Question
	readers   []view.Reader // of the questions and drafts
	looks     int           // calls of Items
	drafts    []memory.Draft
	kept      map[string]memory.Remembered // by key
}

// put remembers an item, in place of one of the same id.
func (b *brain) put(id string, space view.Space, marking policy.Marking, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	version := 1
	for _, item := range b.items {
		if item.ID == id {
			_, _ = fmt.Sscanf(item.Etag, id+".%d", &version)
			version++
		}
	}
	b.items = slices.DeleteFunc(b.items, func(r view.Rendering) bool { return r.ID == id })
	b.items = append(b.items, view.Rendering{ID: id, Etag: fmt.Sprintf("%s.%d", id, version), Space: space, Kind: view.Fact, Marking: marking, Text: text,
		Heading: "About " + id, Source: view.Source{Kind: view.FromDocument, Ref: "handbook.md", Position: 3, Principal: "olga"}})
}

// forget takes an item out.
func (b *brain) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.items = slices.DeleteFunc(b.items, func(r view.Rendering) bool { return r.ID == id })
}

func (b *brain) breakDown(out bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.out = out
}

func sees(reader view.Reader, r view.Rendering) bool {
	return slices.Contains(reader.Read, r.Space) && r.Marking.Labels.Within(reader.Clearance)
}

func (b *brain) Recall(_ context.Context, reader view.Reader, question memory.Question) (memory.Recollection, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.questions, b.readers = append(b.questions, question), append(b.readers, reader)
	if b.out {
		return memory.Recollection{}, errOut
	}
	found := memory.Recollection{Degraded: b.degraded}
	for _, item := range b.items {
		score := 0.0
		for word := range strings.FieldsSeq(strings.ToLower(question.Text)) {
			if strings.Contains(strings.ToLower(item.Text), word) {
				score++
			}
		}
		narrowed := len(question.Spaces) > 0 && !slices.Contains(question.Spaces, item.Space)
		if score > 0 && sees(reader, item) && !narrowed {
			found.Hits = append(found.Hits, memory.Hit{Rendering: item, Score: score})
			found.Marking = found.Marking.Join(item.Marking)
		}
	}
	slices.SortStableFunc(found.Hits, func(x, y memory.Hit) int { return int(y.Score - x.Score) })
	found.Hits = found.Hits[:min(len(found.Hits), question.Limit)]
	return found, nil
}

func (b *brain) Items(_ context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	if b.out {
		return nil, errOut
	}
	var found map[string]view.Rendering // nil where there is none
	for _, item := range b.items {
		if slices.Contains(ids, item.ID) && sees(reader, item) {
			if found == nil {
				found = map[string]view.Rendering{}
			}
			found[item.ID] = item
		}
	}
	return found, nil
}

func (b *brain) Remember(_ context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.out {
		return memory.Remembered{}, errOut
	}
	if !slices.Contains(reader.Write, draft.Space) {
		return memory.Remembered{}, &memory.Refusal{Code: "SPACE", Detail: "There is no such space for you to write to."}
	}
	if known, again := b.kept[draft.Key]; again {
		known.Replayed = true
		return known, nil
	}
	b.drafts, b.readers = append(b.drafts, draft), append(b.readers, reader)
	marking := policy.Marking{Labels: draft.Labels.Join(reader.Context.Labels), Integrity: policy.Untrusted}
	draft.Source.Principal, draft.Source.Run = reader.Principal, reader.Run
	item := view.Rendering{ID: fmt.Sprintf("kept%d", len(b.drafts)), Etag: "e", Space: draft.Space, Kind: draft.Kind, Subject: draft.Subject,
		Marking: marking, Text: draft.Text, Source: draft.Source}
	b.items = append(b.items, item)
	if b.kept == nil {
		b.kept = map[string]memory.Remembered{}
	}
	b.kept[draft.Key] = memory.Remembered{Item: item}
	return b.kept[draft.Key], nil
}

// remembering is newOrganisation whose clerk recalls.
func remembering(script string, outage agents.OnOutage) agents.Organisation {
	o := newOrganisation(script)
	o.Agents[0].Memory = &agents.Recall{Tokens: 1000, Items: 3, OnOutage: outage}
	o.Agents[0].Spaces = agents.Spaces{Read: []string{"organisation", "subject"}, Write: []string{"organisation", "subject"}}
	o.Memory.Grants = []agents.SpaceGrant{{Space: view.Organisation, Writers: []string{"ada"}}}
	return o
}

// withMemoryTools lets the clerk ask memory and add to it.
func withMemoryTools(o agents.Organisation) agents.Organisation {
	o.Builtins.Memory = &agents.MemoryTools{Owner: "olga", Contact: "carl"}
	for _, t := range tool.NewMemory(nil, "olga", "carl", policy.ImpactUnset) {
		d := t.Definition()
		o.Tools = append(o.Tools, d)
		o.Agents[0].Tools = append(o.Agents[0].Tools, agents.ToolUse{Name: d.Name, Impact: d.Impact, Calls: 9})
	}
	return o
}

package memorytest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
)

// player plays one world and writes down what low gets.
type player struct {
	brain  memory.Brain
	scene  *scene
	nowMs  int64
	step   string            // whose ids are made
	made   int               // ids in this step
	ids    map[string]string // item or receipt id, by step
	seen   map[string]string // etag by item, at low's last look
	record bytes.Buffer
	failed error // of the store, not a refusal
}

// play returns what low gets in a world, one JSON line for each answer.
func play(ctx context.Context, open Open, s *scene, steps []step) ([]byte, error) {
	p := &player{scene: s, ids: map[string]string{}}
	p.brain = open(Seams{
		NowMs: func() int64 { return p.nowMs }, Rules: worldRules, Embedder: Letters{}, Reader: s.cast[low],
		NewID: func() string { p.made++; return idOf(p.step, p.made) },
	})
	if closer, closes := p.brain.(io.Closer); closes {
		defer closer.Close() //nolint:errcheck // what it held is of no more use
	}
	for i := range steps {
		p.begin(steps[i].name, steps[i].atMs)
		if steps[i].act == looks {
			p.look(ctx, i == len(steps)-1)
			continue
		}
		answer, err := p.do(ctx, &steps[i])
		if steps[i].by == low {
			p.note(steps[i].name, answer, err)
		}
	}
	if teller, tells := p.brain.(Teller); tells && p.failed == nil {
		told, err := teller.Told()
		if err != nil {
			return nil, err
		}
		p.record.Write(told)
	}
	return p.record.Bytes(), p.failed
}

func (p *player) begin(name string, atMs int64) { p.step, p.made, p.nowMs = name, 0, atMs }

// do plays one step and remembers the id that came of it.
func (p *player) do(ctx context.Context, s *step) (answer any, err error) {
	reader := p.scene.cast[s.by]
	draft := s.draft
	draft.Text, draft.Marks = s.textOf()
	draft.DerivedFrom = p.idsOf(s.from)
	on := p.idsOf(s.on)
	var kept memory.Remembered
	switch s.act {
	case remembers:
		kept, err = p.brain.Remember(ctx, reader, draft)
	case supersedes:
		kept, err = p.brain.Supersede(ctx, reader, on[0], draft)
	case consolidates:
		kept, err = p.brain.Consolidate(ctx, reader, on, draft)
	case forgets:
		receipt, err := p.brain.Forget(ctx, reader, memory.Selector{Items: on})
		p.ids[s.name] = receipt.ID
		return receipt, err
	case promotes:
		return p.brain.Promote(ctx, reader, on[0], "because")
	default:
		return p.brain.Declassify(ctx, reader, on[0], s.labels, "because")
	}
	if err == nil {
		p.ids[s.name] = kept.Item.ID
	}
	return kept, err
}

// idsOf returns the ids of what steps kept; of those that kept nothing, ids of
// nothing.
func (p *player) idsOf(names []string) []string {
	ids := make([]string, len(names))
	for i, name := range names {
		if ids[i] = p.ids[name]; ids[i] == "" {
			ids[i] = idOf(name, 1)
		}
	}
	return ids
}

// note writes down one answer. A failure that is no refusal ends the comparison.
func (p *player) note(what string, answer any, err error) {
	line := struct {
		What   string `json:"what"`
		Answer any    `json:"answer,omitempty"`
		Code   string `json:"code,omitempty"`
		Detail string `json:"detail,omitempty"`
	}{What: what, Answer: answer}
	if err != nil {
		line.Answer = nil
		refusal, refused := asRefusal(err)
		if !refused {
			p.failed = err
			return
		}
		line.Code, line.Detail = refusal.Code, refusal.Detail
	}
	written, err := json.Marshal(line)
	if err != nil {
		p.failed = err
	}
	p.record.Write(append(written, '\n'))
}

// look fetches everything that low can.
func (p *player) look(ctx context.Context, last bool) {
	reader := p.scene.cast[low]
	questions := p.scene.questions
	if !last {
		questions = questions[:2]
	}
	// Somebody who sees more asks the same first: nothing of that may stay.
	if _, err := p.brain.Recall(ctx, p.scene.cast[high], questions[0]); err != nil {
		p.failed = err
	}
	for _, question := range questions {
		answer, err := p.brain.Recall(ctx, reader, question)
		p.note("recall", answer, err)
	}
	ids := make([]string, len(p.scene.probes))
	for i, name := range p.scene.probes {
		ids[i] = idOf(name, 1)
	}
	items, err := p.brain.Items(ctx, reader, ids)
	p.note("items", items, err)
	p.pages(ctx, reader)
	p.export(ctx, reader)
	if last {
		p.probe(ctx, reader, ids)
	}
}

func (p *player) pages(ctx context.Context, reader view.Reader) {
	for _, filter := range []memory.Filter{{}, {Ref: "handbook", Archived: true}, {Subject: "ruth.pay", Spaces: []view.Space{view.Organisation}}, {Principal: "high", Kinds: []view.Kind{view.Fact}}} {
		for after, pages := "", 0; pages < 20; pages++ {
			page, err := p.brain.List(ctx, reader, filter, after, 3)
			p.note("list", page, err)
			if after = page.Next; after == "" || err != nil {
				break
			}
		}
	}
}

// export writes everything down, and notes what low would be told has changed
// since its last look.
func (p *player) export(ctx context.Context, reader view.Reader) {
	now := map[string]string{}
	err := p.brain.Export(ctx, reader, memory.Filter{}, func(item view.Rendering) error {
		now[item.ID] = item.Etag
		p.note("export", item, nil)
		return nil
	})
	changes := map[string]string{}
	for id, etag := range now {
		switch before, known := p.seen[id]; {
		case !known:
			changes[id] = "REMEMBERED"
		case before != etag:
			changes[id] = "CHANGED"
		}
	}
	for id := range p.seen {
		if _, there := now[id]; !there {
			changes[id] = "GONE"
		}
	}
	p.seen = now
	p.note("changes", changes, err)
}

// probe tries what may be refused, and what answers otherwise where something
// was there.
func (p *player) probe(ctx context.Context, reader view.Reader, ids []string) {
	for i, guess := range p.scene.guesses {
		p.begin(fmt.Sprintf("guess%d", i), p.nowMs+1)
		kept, err := p.brain.Remember(ctx, reader, guess)
		p.note("guess", kept, err)
	}
	for i, id := range ids {
		p.begin("probe "+p.scene.probes[i], p.nowMs+1)
		item, err := p.brain.Item(ctx, reader, id)
		p.note("item", item, err)
		if (i+len(p.scene.steps))%4 == 0 { // all of them in one world or another
			p.command(ctx, reader, id)
		}
	}
	p.begin("forget", p.nowMs+1)
	receipt, err := p.brain.Forget(ctx, reader, memory.Selector{Ref: "handbook"})
	p.note("forget", receipt, err)
	p.begin("forget more", p.nowMs+1)
	receipt, err = p.brain.Forget(ctx, reader, memory.Selector{Subject: "ruth.pay"})
	p.note("forget", receipt, err)
	receipt, err = p.brain.Receipt(ctx, reader, receipt.ID)
	p.note("receipt", receipt, err)
}

// command tries every command on one item.
func (p *player) command(ctx context.Context, reader view.Reader, id string) {
	draft := memory.Draft{Space: "person:low", Kind: view.Fact, Text: "about that", Subject: "office.hours"}
	kept, err := p.brain.Supersede(ctx, reader, id, draft)
	p.note("supersede", kept, err)
	kept, err = p.brain.Consolidate(ctx, reader, []string{id, idOf(p.scene.probes[0], 1)}, draft)
	p.note("consolidate", kept, err)
	receipt, err := p.brain.Receipt(ctx, reader, id)
	p.note("receipt", receipt, err)
	item, err := p.brain.Promote(ctx, reader, id, "because")
	p.note("promote", item, err)
	item, err = p.brain.Declassify(ctx, reader, id, universe()[:1], "because")
	p.note("declassify", item, err)
	draft.DerivedFrom = []string{id}
	kept, err = p.brain.Remember(ctx, reader, draft)
	p.note("derive", kept, err)
	receipt, err = p.brain.Forget(ctx, reader, memory.Selector{Items: []string{id}})
	p.note("forget", receipt, err)
}

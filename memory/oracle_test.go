package memory_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/memory"
	"gantry.dev/memory/embed"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// twins are the service and the reference memory, which get the same commands,
// ids and times.
type twins struct {
	*rand.Rand
	house   *house
	oracle  *memorytest.Brain
	readers []view.Reader
	ids     []string // of items and receipts that were ever made
	log     []string
}

func newTwins(t *testing.T, where on, seed uint64, tune []func(*house)) *twins {
	embedder := memorytest.Letters{}
	h := build(t, where, append(slices.Clone(tune), func(h *house) { h.tuning.Embedders = []embed.Embedder{embedder} })...)
	ids := &atomic.Int64{}
	o := &twins{Rand: rand.New(rand.NewPCG(seed, 1)), house: h, readers: circle()}
	o.oracle = memorytest.NewBrain(memorytest.Config{
		NowMs: h.clock.Load, NewID: func() string { return fmt.Sprintf("m%06d", ids.Add(1)) },
		Rules: func(organisation string) memory.Rules { r, _ := rules(t.Context(), organisation); return r },
		Key:   h.store.Key, Embedder: embedder,
	})
	return o
}

// circle are readers of whom each sees something else.
func circle() []view.Reader {
	ann, bob, cat, olga := person("ann", "hr"), person("bob"), person("cat", "hr", "legal", "pay"), person("olga", "hr", "legal")
	for _, reader := range []*view.Reader{&ann, &cat, &olga} {
		reader.Read = append([]view.Space{"department:board"}, reader.Read...)
		reader.Write = append([]view.Space{"department:board"}, reader.Write...)
	}
	bob.Whole = true
	ann.Knows = policy.NewLabels("hr", "pay")
	agent := bob
	agent.Principal, agent.Run, agent.Whole, agent.Context = "agent:clerk", "run-1", false, policy.Marking{Labels: policy.NewLabels("hr"), Integrity: policy.Untrusted}
	stranger := ann
	stranger.Organisation = "other"
	return []view.Reader{ann, bob, cat, olga, agent, stranger}
}

func pick[T any](o *twins, from ...T) T { return from[o.IntN(len(from))] }

func (o *twins) some(id []string) (some []string) {
	for range 1 + o.IntN(2) {
		if len(id) > 0 {
			some = append(some, id[len(id)-1-o.IntN(min(len(id), 12))])
		}
	}
	return append(some, pick(o, nil, nil, nil, nil, []string{"absent"})...)
}

var vocabulary = strings.Fields("salary desk window lunch noon contract budget Ruth Omar garden invoice bonus plan roof train")

func (o *twins) text() string {
	words := make([]string, 2+o.IntN(5))
	for n := range words {
		words[n] = pick(o, vocabulary...)
	}
	return strings.Join(words, " ")
}

func (o *twins) labels() policy.Labels {
	return pick(o, nil, nil, policy.NewLabels("hr"), policy.NewLabels("pay"), policy.NewLabels("hr", "legal"))
}

func (o *twins) draft() memory.Draft {
	d := memory.Draft{
		Space: pick[view.Space](o, view.Organisation, view.Organisation, "person:ann", "person:bob", "department:board"),
		Kind:  pick(o, view.Fact, view.Episode, view.Preference), Text: o.text(), Labels: o.labels(),
		Subject: pick(o, "", "ruth salary", "omar desk"), Heading: pick(o, "", "", "People"),
		Integrity: pick(o, policy.Trusted, policy.Trusted, policy.FromTool),
		Source:    view.Source{Ref: pick(o, "", "notes.md", "talk"), Position: o.IntN(4)},
		Key:       pick(o, "", "", "", "k1", "k2", fmt.Sprint("k", o.IntN(1000))),
	}
	if o.IntN(2) == 0 {
		d.Marks = []memory.Mark{{Start: 0, End: strings.IndexByte(d.Text+" ", ' '), Labels: pick(o, policy.NewLabels("hr"), policy.NewLabels("pay"), policy.NewLabels("unknown"))}}
	}
	now := o.house.clock.Load()
	switch o.IntN(8) {
	case 0:
		d.ExpiresMs = now + int64(o.IntN(400))
	case 1:
		d.ValidFromMs = now + int64(o.IntN(200)) - 100
	case 2:
		d.ValidToMs = now + int64(o.IntN(300))
	case 3:
		d.DerivedFrom = o.some(o.ids)
	}
	return d
}

func (o *twins) question() memory.Question {
	q := memory.Question{Text: o.text(), Limit: o.IntN(8), Archived: o.IntN(2) == 0}
	now := o.house.clock.Load()
	switch o.IntN(6) {
	case 0:
		q.AsOfMs = now - int64(o.IntN(300)) + 100
	case 1:
		q.KnownMs = now - int64(o.IntN(200))
	case 2:
		q.Spaces = []view.Space{view.Organisation, "person:ann"}
	case 3:
		q.Kinds = []view.Kind{view.Fact}
	case 4:
		q.Tokens = 1 + o.IntN(20)
	}
	return q
}

// operation is one random command or question, to be asked of either.
func (o *twins) operation(t *testing.T) (name string, ask func(memory.Brain) (any, error)) {
	ctx, reader := t.Context(), pick(o, o.readers...)
	draft, question, ids, labels, reason := o.draft(), o.question(), o.some(o.ids), o.labels(), pick(o, "", "it is right")
	filter := memory.Filter{Subject: pick(o, "", "", "ruth salary"), Ref: pick(o, "", "", "talk"), Principal: pick(o, "", "", "ann"), Archived: true}
	id := "none"
	if len(ids) > 0 {
		id = ids[0]
	}
	selector := pick(o, memory.Selector{Items: ids}, memory.Selector{Items: ids}, memory.Selector{Ref: "notes.md"}, memory.Selector{Subject: "omar desk", Key: pick(o, "", "f1")}, memory.Selector{Space: "person:ann"}, memory.Selector{})
	operations := []struct {
		name   string
		weight int
		ask    func(memory.Brain) (any, error)
	}{
		{"remember", 30, func(b memory.Brain) (any, error) { return b.Remember(ctx, reader, draft) }},
		{"supersede", 12, func(b memory.Brain) (any, error) { return b.Supersede(ctx, reader, id, draft) }},
		{"consolidate", 8, func(b memory.Brain) (any, error) { return b.Consolidate(ctx, reader, ids, draft) }},
		{"promote", 4, func(b memory.Brain) (any, error) { return b.Promote(ctx, reader, id, reason) }},
		{"declassify", 6, func(b memory.Brain) (any, error) { return b.Declassify(ctx, reader, id, labels, reason) }},
		{"forget", 3, func(b memory.Brain) (any, error) { return b.Forget(ctx, reader, selector) }},
		{"recall", 25, func(b memory.Brain) (any, error) { return b.Recall(ctx, reader, question) }},
		{"item", 5, func(b memory.Brain) (any, error) { return b.Item(ctx, reader, id) }},
		{"items", 3, func(b memory.Brain) (any, error) { return b.Items(ctx, reader, ids) }},
		{"list", 8, func(b memory.Brain) (any, error) { return pages(t, b, reader, filter) }},
		{"export", 3, func(b memory.Brain) (any, error) {
			var all []view.Rendering
			err := b.Export(ctx, reader, filter, func(r view.Rendering) error { all = append(all, r); return nil })
			return all, err
		}},
		{"receipt", 3, func(b memory.Brain) (any, error) { return b.Receipt(ctx, reader, id) }},
	}
	at := o.IntN(110)
	for _, one := range operations {
		if at -= one.weight; at < 0 {
			return fmt.Sprintf("%s by %s: %v %v", one.name, reader.Principal, id, draft.Text), one.ask
		}
	}
	return "", nil
}

func pages(t *testing.T, b memory.Brain, reader view.Reader, filter memory.Filter) (all []memory.Page, err error) {
	for after := ""; ; {
		page, err := b.List(t.Context(), reader, filter, after, 3)
		all = append(all, page)
		if err != nil || page.Next == "" {
			return all, err
		}
		after = page.Next
	}
}

// told is an answer as bytes, without what only the service has.
func (o *twins) told(t *testing.T, answer any, err error) string {
	var refusal *memory.Refusal
	if errors.As(err, &refusal) {
		return "refused " + refusal.Code
	}
	require.NoError(t, err, strings.Join(o.log, "\n"))
	switch a := answer.(type) {
	case memory.Receipt:
		delete(a.Stores, "keys")
		delete(a.Stores, "index points")
		a.Digest = ""
		o.ids = append(o.ids, a.ID)
		answer = a
	case memory.Remembered:
		if !slices.Contains(o.ids, a.Item.ID) {
			o.ids = append(o.ids, a.Item.ID)
		}
	}
	written, err := json.MarshalIndent(answer, "", " ")
	require.NoError(t, err)
	return string(written)
}

// The service and the reference memory answer everything alike, byte for byte.
func likeTheOracle(t *testing.T, where on, worlds int, tune ...func(*house)) {
	operations := 0
	for seed := range uint64(worlds) {
		o := newTwins(t, where, seed, tune)
		for range 60 {
			o.house.clock.Add(int64(o.IntN(40)))
			_, err := o.house.Expire(t.Context(), 1000)
			require.NoError(t, err)
			name, ask := o.operation(t)
			if ask == nil {
				continue
			}
			operations++
			o.log = append(o.log, name)
			if o.house.relayed {
				o.house.drain(t)
			}
			want, wantErr := ask(o.oracle)
			got, gotErr := ask(o.house)
			require.Equal(t, o.told(t, want, wantErr), o.told(t, got, gotErr), "world %d: %s", seed, strings.Join(o.log, "\n"))
		}
	}
	t.Logf("%d operations in %d worlds, differences 0", operations, worlds)
}

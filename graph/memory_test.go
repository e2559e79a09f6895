package graph_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/remembered"
	"gantry.dev/memory"
	"gantry.dev/memory/index"
	"gantry.dev/memory/memorytest"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// brainWorld is a served world with a memory, and how often it was asked.
type brainWorld struct {
	*served
	*counted
	researches *later
}

// later is a port that is given when the world is served already.
type later struct{ graph.Researches }

// counted counts what is asked of a memory, which may be out of reach.
type counted struct {
	memory.Brain
	lists, recalls, readers atomic.Int64
	gone                    atomic.Bool
	broken                  atomic.Bool // the store, not the index
}

var (
	errOut    = fmt.Errorf("dial 10.0.0.1: %w", index.ErrUnavailable)
	errBroken = fmt.Errorf("dial 10.0.0.1: %w", store.ErrFailed)
)

func (c *counted) List(ctx context.Context, r view.Reader, f memory.Filter, after string, limit int) (memory.Page, error) {
	c.lists.Add(1)
	if c.gone.Load() {
		return memory.Page{}, errOut
	}
	return c.Brain.List(ctx, r, f, after, limit)
}

func (c *counted) Recall(ctx context.Context, r view.Reader, q memory.Question) (memory.Recollection, error) {
	c.recalls.Add(1)
	if c.broken.Load() {
		return memory.Recollection{}, errBroken
	}
	if c.gone.Load() {
		return memory.Recollection{}, errOut
	}
	return c.Brain.Recall(ctx, r, q)
}

func (c *counted) Remember(ctx context.Context, r view.Reader, d memory.Draft) (memory.Remembered, error) {
	if c.gone.Load() {
		return memory.Remembered{}, errOut
	}
	return c.Brain.Remember(ctx, r, d)
}

// readers lets everybody read the organisation's space, and write there but
// the guest. Anna and Bob talk in the conversation "talk".
type readers struct {
	*counted
	*served
}

func (r readers) Reader(_ context.Context, caller graph.Caller, conversations ...string) (view.Reader, error) {
	r.counted.readers.Add(1)
	p := caller.Principal
	own := []view.Space{view.Organisation, view.SpaceOf(view.SpacePerson, p.ID)}
	if slices.Contains(conversations, "talk") && (p.ID == "anna" || p.ID == "bob") {
		own = append(own, "conversation:talk")
	}
	slices.Sort(own)
	write := own
	if p.ID == "guest" {
		write = nil
	}
	return view.Reader{Organisation: p.Organisation, Principal: p.ID, Clearance: p.Clearance, Read: own, Write: write,
		Knows: p.Clearance.Join(policy.NewLabels("hr"))}, nil
}

// documents remember nothing and say so of each document.
type documents struct{}

func (documents) Document(context.Context, view.Reader, remembered.Document) (graph.DocumentOutcome, error) {
	return graph.DocumentOutcome{Space: view.Organisation, Passages: 3, Added: 1, Known: 1, Changed: 1}, nil
}

// serveBrain serves five people of one organisation and one of another, who
// differ in what they may read. Anna owns the label hr.
func serveBrain(t *testing.T) *brainWorld {
	id := 0 // they also order what was remembered in the one moment that there is
	out := &brainWorld{researches: &later{}, counted: &counted{Brain: memorytest.NewBrain(memorytest.Config{
		NowMs: now.UnixMilli,
		NewID: func() string { id++; return fmt.Sprintf("00000000-0000-4000-8000-%012d", id) },
		Rules: func(string) memory.Rules {
			return memory.Rules{Known: func(l policy.Label) bool { return l == "hr" || l == "legal" },
				Owns: func(principal string, label policy.Label) bool { return principal == "anna" && label == "hr" }}
		},
	})}}
	out.served = serve(t, func(c *graph.Config) {
		c.Brain, c.Readers, c.Documents, c.Researches = out.counted, readers{out.counted, out.served}, documents{}, out.researches
	})
	out.people["carl"] = policy.Principal{ID: "carl", Kind: policy.Person, Organisation: "acme", Name: "Carl", Clearance: policy.NewLabels("legal")}
	out.people["dora"] = policy.Principal{ID: "dora", Kind: policy.Person, Organisation: "acme", Name: "Dora", Clearance: policy.NewLabels("hr", "legal")}
	out.people["guest"] = policy.Principal{ID: "guest", Kind: policy.Person, Organisation: "acme", Name: "Guest"}
	return out
}

const itemFields = `{id etag space kind subject heading text display withheld{offset labels} labels integrity source{kind ref by{name} run position}
 validFrom validTo recordedAt archived supersedes derivedFrom}`

// change sends a mutation and returns its payload.
func (b *brainWorld) change(t *testing.T, who, name, fields string, input map[string]any) (payload map[string]any, raw string) {
	kind := strings.ToUpper(name[:1]) + name[1:] + "Input"
	got := b.ask(t, who, `mutation($input:`+kind+`!){done:`+name+`(input:$input){outcome `+fields+` clientMutationId userErrors{code message field}}}`, map[string]any{"input": input})
	require.Empty(t, got.Errors, got.raw)
	return got.Data["done"].(map[string]any), got.raw
}

// keep remembers a draft and returns its item.
func (b *brainWorld) keep(t *testing.T, who string, draft map[string]any) map[string]any {
	done, raw := b.change(t, who, "remember", "known item"+itemFields, map[string]any{"draft": draft})
	require.Equal(t, "ACCEPTED", done["outcome"], raw)
	return done["item"].(map[string]any)
}

// public is a draft in the organisation's space.
func public(text string, labels ...string) map[string]any {
	return map[string]any{"space": "organisation", "text": text, "labels": labels}
}

func codeOf(t *testing.T, payload map[string]any) string {
	require.Nil(t, payload["outcome"])
	faults := payload["userErrors"].([]any)
	require.Len(t, faults, 1)
	return faults[0].(map[string]any)["code"].(string)
}

func TestWhatIsRememberedIsRecalled(t *testing.T) {
	b := serveBrain(t)
	draft := map[string]any{"space": "organisation", "kind": "PREFERENCE", "subject": "anna, meetings", "heading": "People › Anna",
		"text": "Anna likes meetings after \u202eten.", "integrity": "TRUSTED", "source": map[string]any{"kind": "DOCUMENT", "ref": "people.md", "position": 2, "offset": 10, "length": 30}}
	input := map[string]any{"draft": draft, "commandId": "c1", "clientMutationId": "m"}
	done, raw := b.change(t, "anna", "remember", "known item"+itemFields, input)
	require.Equal(t, "ACCEPTED", done["outcome"], raw)
	require.Equal(t, "m", done["clientMutationId"])
	item := done["item"].(map[string]any)
	require.Equal(t, "People › Anna\nAnna likes meetings after \\u{202E}ten.", item["display"])
	require.Equal(t, "anna, meetings", item["subject"])

	again, _ := b.change(t, "anna", "remember", "known item{id}", input)
	require.Equal(t, "REPLAYED", again["outcome"])
	require.Equal(t, item["id"], again["item"].(map[string]any)["id"])
	input["commandId"] = "c2"
	known, _ := b.change(t, "anna", "remember", "known item{id}", input)
	require.Equal(t, true, known["known"])
	input["commandId"], draft["text"] = "c1", "something else"
	reused, _ := b.change(t, "anna", "remember", "known", input)
	require.Equal(t, "COMMAND_ID_REUSED", codeOf(t, reused))

	got := b.ask(t, "bob", `{recall(query:"when does anna meet",kinds:[PREFERENCE],first:5,asOf:"2030-01-01T00:00:00Z"){hits{score citation item`+itemFields+`} labels integrity degraded}
		memorySpaces{name readable writable}}`, nil)
	require.Empty(t, got.Errors, got.raw)
	hits := got.Data["recall"].(map[string]any)["hits"].([]any)
	require.Len(t, hits, 1, got.raw)
	hit := hits[0].(map[string]any)
	require.Equal(t, item["id"], hit["item"].(map[string]any)["id"])
	require.Positive(t, hit["score"])
	require.Equal(t, "people.md, no. 2; People › Anna; Anna, 2026-03-01", hit["citation"])
	require.Contains(t, b.ask(t, "anna", `{recall(query:"when does anna meet"){hits{citation}}}`, nil).raw, "people.md, bytes 10 to 40; People")
	require.Contains(t, got.raw, `"memorySpaces":[{"name":"organisation","readable":true,"writable":true},{"name":"person:bob","readable":true,"writable":true}]`)
	require.Contains(t, got.raw, `"degraded":[]`)
	byNode := b.ask(t, "bob", `query($id:ID!){node(id:$id){... on MemoryItem`+itemFields+`} nodes(ids:[$id]){id}}`, map[string]any{"id": item["id"]})
	require.Empty(t, byNode.Errors, byNode.raw)
	require.Equal(t, hit["item"], byNode.Data["node"])
}

// Every reader sees the same text with the same mark in place of what it may
// not read, and is told why only where it may know.
func TestRedactionStandsInPlaceForEachReader(t *testing.T) {
	b := serveBrain(t)
	text := "Ruth earns 70000 and was warned in May; the office is in Ghent."
	mark := func(part string, labels ...string) map[string]any {
		at := strings.Index(text, part)
		return map[string]any{"start": at, "end": at + len(part), "labels": labels, "quote": part}
	}
	draft := public(text)
	draft["marks"] = []any{mark("70000", "hr"), mark("warned in May", "legal")}
	id := b.keep(t, "dora", draft)["id"]
	whole := b.keep(t, "dora", public("Only hr may know of this one.", "hr"))["id"]
	etags := map[string]string{}
	for who, shown := range map[string]struct {
		text, withheld string
		whole          bool
	}{
		"dora":  {text, `[]`, true},
		"anna":  {"Ruth earns 70000 and was [redacted]; the office is in Ghent.", `[{"offset":25,"labels":[]}]`, true},
		"carl":  {"Ruth earns [redacted] and was warned in May; the office is in Ghent.", `[{"offset":11,"labels":["hr"]}]`, false},
		"bob":   {"Ruth earns [redacted] and was [redacted]; the office is in Ghent.", `[{"offset":11,"labels":["hr"]},{"offset":30,"labels":[]}]`, false},
		"guest": {"Ruth earns [redacted] and was [redacted]; the office is in Ghent.", `[{"offset":11,"labels":["hr"]},{"offset":30,"labels":[]}]`, false},
	} {
		got := b.ask(t, who, `query($id:ID!,$whole:ID!){item:memoryItem(id:$id){etag text withheld{offset labels}} whole:memoryItem(id:$whole){text}}`, map[string]any{"id": id, "whole": whole})
		require.Contains(t, got.raw, `"withheld":`+shown.withheld, who)
		item := got.Data["item"].(map[string]any)
		require.Equal(t, shown.text, item["text"], who)
		etags[who] = item["etag"].(string)
		if shown.whole {
			require.Empty(t, got.Errors)
			continue
		}
		require.Equal(t, "NOT_FOUND", got.code(), who)
		hidden := b.ask(t, who, `{memoryItems{edges{node{text}}} recall(query:"Ruth 70000 hr May warned know",first:100){hits{item{text}}}}`, nil)
		require.NotContains(t, hidden.raw, "Only hr")
		require.NotContains(t, hidden.raw, "70000")
	}
	require.Equal(t, etags["bob"], etags["guest"], "who sees the same has the same")
	require.Len(t, map[string]bool{etags["dora"]: true, etags["anna"]: true, etags["carl"]: true, etags["bob"]: true}, 4)
}

// readable is everything that somebody can ask of memory without naming a thing.
const readable = `{memorySpaces{name readable writable} recall(query:"salary of Ruth in Ghent",first:100){hits{score citation item{id etag text}} labels integrity degraded}
	memoryItems(first:100){edges{cursor node{id etag text recordedAt supersedes}} pageInfo{hasNextPage endCursor}}}`

// What is hidden from a reader moves no byte of what it is answered.
func TestHiddenChangesMoveNothing(t *testing.T) {
	b := serveBrain(t)
	b.keep(t, "bob", public("The office is in Ghent."))
	draft := public("Ruth has a salary of 70000.")
	draft["marks"], draft["subject"] = []any{map[string]any{"start": 21, "end": 26, "labels": []string{"hr"}}}, "ruth, salary"
	item := b.keep(t, "anna", draft)
	next := public("Ruth has a salary of 80000.", "hr")
	next["subject"] = "ruth, salary"
	before := b.ask(t, "bob", readable, nil)
	require.Empty(t, before.Errors, before.raw)
	secret := b.keep(t, "anna", public("The salary of Ruth in Ghent is secret.", "hr"))
	_, raw := b.change(t, "anna", "supersede", "item{id}", map[string]any{"id": item["id"], "draft": next})
	require.Contains(t, raw, "ACCEPTED")
	_, raw = b.change(t, "anna", "forget", "receipt{id}", map[string]any{"items": []any{secret["id"]}})
	require.Contains(t, raw, "ACCEPTED")
	require.Equal(t, before.raw, b.ask(t, "bob", readable, nil).raw)
	require.NotEqual(t, before.raw, b.ask(t, "anna", readable, nil).raw)
}

// tampered is a global id with one of its parts changed.
func tampered(t *testing.T, id string, change func(parts []string) []string) string {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	require.NoError(t, err)
	var parts []string
	require.NoError(t, json.Unmarshal(raw, &parts))
	raw, err = json.Marshal(change(parts))
	require.NoError(t, err)
	return base64.RawURLEncoding.EncodeToString(raw)
}

// Whatever of memory can be named: what is not there, what is another's and
// what is another organisation's are answered byte for byte alike.
func TestFault_J10_MemoryOfSomebodyElseIsAbsent(t *testing.T) {
	b := serveBrain(t)
	own := b.keep(t, "bob", map[string]any{"text": "Mine."})["id"].(string)
	talk := map[string]any{"space": "conversation:talk", "text": "We talked."}
	said := b.keep(t, "anna", talk)["id"].(string)
	hidden := b.keep(t, "anna", public("Secret.", "hr"))["id"].(string)
	private := b.keep(t, "anna", map[string]any{"text": "Anna's own."})["id"].(string)
	gone := b.keep(t, "anna", map[string]any{"text": "Soon gone."})["id"].(string)
	receipt, _ := b.change(t, "anna", "forget", "receipt{id}", map[string]any{"items": []any{gone}})
	proof := receipt["receipt"].(map[string]any)["id"].(string)
	absent := tampered(t, hidden, func(parts []string) []string { parts[2] = "00000000-0000-4000-8000-999999999999"; return parts })
	draft := public("x")
	documents := map[string]func(id string) (string, map[string]any){
		"item": func(id string) (string, map[string]any) {
			return `query($id:ID!){memoryItem(id:$id){id text}}`, map[string]any{"id": id}
		},
		"node": func(id string) (string, map[string]any) {
			return `query($id:ID!){node(id:$id){id}}`, map[string]any{"id": id}
		},
		"nodes": func(id string) (string, map[string]any) {
			return `query($id:ID!){nodes(ids:[$id]){id}}`, map[string]any{"id": id}
		},
		"receipt": func(id string) (string, map[string]any) {
			return `query($id:ID!){forgetReceipt(id:$id){id}}`, map[string]any{"id": id}
		},
	}
	for name, input := range map[string]func(id string) map[string]any{
		"supersede":   func(id string) map[string]any { return map[string]any{"id": id, "draft": draft} },
		"promote":     func(id string) map[string]any { return map[string]any{"id": id, "reason": "r"} },
		"declassify":  func(id string) map[string]any { return map[string]any{"id": id, "reason": "r", "labels": []any{"hr"}} },
		"forget":      func(id string) map[string]any { return map[string]any{"items": []any{own, id}} },
		"consolidate": func(id string) map[string]any { return map[string]any{"sources": []any{own, id}, "draft": draft} },
		"remember": func(id string) map[string]any {
			return map[string]any{"draft": map[string]any{"text": "x", "derivedFrom": []any{id}}}
		},
	} {
		kind := strings.ToUpper(name[:1]) + name[1:] + "Input"
		documents[name] = func(id string) (string, map[string]any) {
			return `mutation($input:` + kind + `!){done:` + name + `(input:$input){outcome userErrors{code message field}}}`, map[string]any{"input": input(id)}
		}
	}
	for name, document := range documents {
		query, variables := document(absent)
		twin := b.ask(t, "bob", query, variables)
		require.Contains(t, twin.raw, map[bool]string{true: "null", false: "NOT_FOUND"}[name == "nodes"], name)
		for what, id := range map[string]string{"hidden": hidden, "private": private, "gone": gone, "a receipt": proof, "of a run": b.runID(t), "nonsense": "x",
			"of another organisation": tampered(t, own, func(parts []string) []string { parts[1] = "evil"; return parts }),
			"in a foreign talk":       tampered(t, hidden, func(parts []string) []string { return []string{parts[0], parts[1], "secret-talk", parts[2]} })} {
			if name == "receipt" && what == "of a run" || (name == "node" || name == "nodes") && what == "of a run" {
				continue // that is a thing of bob's
			}
			query, variables := document(id)
			require.Equal(t, twin.raw, b.ask(t, "bob", query, variables).raw, "%s, %s", name, what)
		}
		query, variables = document(said)
		require.NotEqual(t, "", query)
		require.Equal(t, twin.raw, b.ask(t, "carl", query, withOwn(variables, own, absent)).raw, "%s of a conversation", name)
	}
	got := b.ask(t, "bob", `query($id:ID!){memoryItem(id:$id){text space}}`, map[string]any{"id": said})
	require.Contains(t, got.raw, `{"text":"We talked.","space":"conversation:talk"}`, "who takes part finds it by its id alone")
}

// withOwn replaces an id in variables: of what carl asks, bob's own is not his.
func withOwn(variables map[string]any, from, to string) map[string]any {
	raw, _ := json.Marshal(variables)
	var out map[string]any
	_ = json.Unmarshal([]byte(strings.ReplaceAll(string(raw), from, to)), &out)
	return out
}

func TestMemoryIsListedInPages(t *testing.T) {
	b := serveBrain(t)
	for i := range 7 {
		b.keep(t, "anna", public(fmt.Sprintf("Fact number %d.", i)))
		b.keep(t, "anna", public(fmt.Sprintf("Hidden number %d.", i), "hr"))
	}
	const query = `query($filter:MemoryFilter,$first:Int!,$after:Cursor){memoryItems(filter:$filter,first:$first,after:$after){edges{cursor node{text}} pageInfo{hasNextPage endCursor}}}`
	read := func(first int, after any, filter map[string]any) ([]string, []any, map[string]any) {
		got := b.ask(t, "bob", query, map[string]any{"first": first, "after": after, "filter": filter})
		require.Empty(t, got.Errors, got.raw)
		page := got.Data["memoryItems"].(map[string]any)
		var texts []string
		var cursors []any
		for _, edge := range page["edges"].([]any) {
			texts = append(texts, edge.(map[string]any)["node"].(map[string]any)["text"].(string))
			cursors = append(cursors, edge.(map[string]any)["cursor"])
		}
		return texts, cursors, page["pageInfo"].(map[string]any)
	}
	all, cursors, info := read(100, nil, nil)
	require.Len(t, all, 7)
	require.Equal(t, "Fact number 6.", all[0], "newest first")
	require.Equal(t, false, info["hasNextPage"])
	var paged []string
	for after, more := any(nil), true; more; {
		texts, _, info := read(3, after, nil)
		paged, after, more = append(paged, texts...), info["endCursor"], info["hasNextPage"].(bool)
	}
	require.Equal(t, all, paged)
	for i, cursor := range cursors {
		rest, _, _ := read(100, cursor, nil)
		require.Equal(t, len(all)-i-1, len(rest), "every edge's cursor goes on after it")
	}
	before := b.lists.Load()
	read(100, nil, nil)
	require.Equal(t, before+1, b.lists.Load(), "one page is one question")
	_, other, _ := read(2, nil, map[string]any{"kinds": []any{"FACT"}})
	wrong := b.ask(t, "bob", query, map[string]any{"first": 2, "after": other[0]})
	require.Equal(t, "CURSOR_INVALID", wrong.code(), "a cursor belongs to its filter")
	wrong = b.ask(t, "bob", query, map[string]any{"first": 101})
	require.Equal(t, "OVER_LIMIT", wrong.code())
	none, _, _ := read(10, nil, map[string]any{"principal": "nobody"})
	require.Empty(t, none)
}

func TestMemoryOutOfReachIsSaid(t *testing.T) {
	b := serveBrain(t)
	b.gone.Store(true)
	for _, query := range []string{`{recall(query:"x"){degraded}}`, `{memoryItems{pageInfo{hasNextPage}}}`, `mutation{remember(input:{draft:{text:"x"}}){outcome}}`} {
		got := b.ask(t, "bob", query, nil)
		require.Equal(t, "MEMORY_UNAVAILABLE", got.code(), got.raw)
		require.Equal(t, true, got.Errors[0].Extensions["retryable"])
		require.NotContains(t, got.raw, "10.0.0.1")
	}
	b.broken.Store(true)
	got := b.ask(t, "bob", `{recall(query:"x"){degraded}}`, nil)
	require.Equal(t, "STORE_UNAVAILABLE", got.code())
	require.Equal(t, true, got.Errors[0].Extensions["retryable"])
	require.NotContains(t, got.raw, "10.0.0.1")
	bare := serve(t)
	require.Equal(t, "MEMORY_UNAVAILABLE", bare.ask(t, "bob", `{recall(query:"x"){degraded}}`, nil).code())
}

func TestRecallIsBounded(t *testing.T) {
	b := serveBrain(t)
	many := func(times int) string {
		var out strings.Builder
		for i := range times {
			fmt.Fprintf(&out, `q%d:recall(query:"x",first:100){hits{score citation item%s}}`, i, itemFields)
		}
		return `{` + out.String() + `}`
	}
	got := b.ask(t, "bob", many(3), nil)
	require.Empty(t, got.Errors, "a few whole answers are affordable")
	got = b.ask(t, "bob", `{recall(query:"x",first:101){degraded}}`, nil)
	require.Equal(t, "OVER_LIMIT", got.code())
	got = b.ask(t, "bob", `{recall(query:"x",first:0){hits{score}}}`, nil)
	require.Contains(t, got.raw, `"hits":[]`)
	got = b.ask(t, "bob", `query($q:String!){recall(query:$q){degraded}}`, map[string]any{"q": strings.Repeat("x", 8<<10+1)})
	require.Equal(t, "BAD_REQUEST", got.code())
	got = b.ask(t, "bob", many(20), nil)
	require.Equal(t, "OVER_LIMIT", got.code())
	require.Equal(t, "complexity", got.Errors[0].Extensions["limit"])
}

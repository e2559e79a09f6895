package graph_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/graph/edge"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// worldClient is a memory that low meets by HTTP, and the others directly.
type worldClient struct {
	front   *front
	behind  followed
	world   *world
	handler *graph.Handler
	low     string

	mu   sync.Mutex // guards seen
	seen map[string]view.Reader

	line       bytes.Buffer // what was answered to low
	stream     io.ReadCloser
	streamHead string
}

var _ memory.Brain = (*worldClient)(nil)

func (c *worldClient) request(who, query string, variables map[string]any) *http.Request {
	t := c.front.t
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.front.url, bytes.NewReader(body))
	require.NoError(t, err)
	token, err := edge.Mint(c.front.private, edge.Grant{Organisation: "acme", Principal: who, Issuer: "https://issuer", Audience: "gantry", TokenID: "t", From: now, Until: now.Add(time.Hour)})
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+token)
	return request
}

// fault is why something was not done.
type fault struct {
	Code, Message string
	Extensions    struct{ Code string }
}

// item is an item on the line.
type item struct{ ID, Etag, Text string }

func (i item) rendering() view.Rendering {
	return view.Rendering{ID: ownID(i.ID), Etag: i.Etag, Text: i.Text}
}

// done is what a command answers.
type done struct {
	Item       item
	Receipt    *struct{ ID string }
	Known      bool
	UserErrors []fault
}

// reply is everything that an answer may hold.
type reply struct {
	Data struct {
		Done          done
		MemoryItem    item
		Nodes         []*item
		ForgetReceipt struct{ ID string }
		Recall        struct{ Hits []struct{ Item item } }
		MemoryItems   struct {
			Edges    []struct{ Node item }
			PageInfo struct {
				HasNextPage bool
				EndCursor   string
			}
		}
	}
	Errors []fault
}

// ask sends an operation as somebody and notes the whole answer where it is low's.
func (c *worldClient) ask(reader view.Reader, name, query string, variables map[string]any) (got reply, err error) {
	c.mu.Lock()
	c.seen[reader.Principal] = reader
	c.mu.Unlock()
	response, err := http.DefaultClient.Do(c.request(reader.Principal, query, variables))
	if err != nil {
		return got, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return got, err
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return got, fmt.Errorf("%s: %w", body, err)
	}
	faults := slices.Concat(got.Errors, got.Data.Done.UserErrors)
	if reader.Principal == c.low {
		fmt.Fprintf(&c.line, "%s %s %s\n", name, head(response), bytes.TrimSpace(body))
		if len(faults) > 0 {
			name += ": " + faults[0].Code + faults[0].Extensions.Code
		}
		c.front.asked[name]++
	}
	if len(faults) == 0 {
		return got, nil
	}
	code := faults[0].Code + faults[0].Extensions.Code
	if code == "" || code == "INTERNAL" || strings.HasPrefix(code, "GRAPHQL") || code == "OVER_LIMIT" {
		return got, fmt.Errorf("%s: %s", query, body)
	}
	return got, &memory.Refusal{Code: code, Detail: faults[0].Message}
}

// command sends a mutation, and then tells who follows.
func (c *worldClient) command(reader view.Reader, name, fields string, input map[string]any) (done, error) {
	kind := strings.ToUpper(name[:1]) + name[1:] + "Input"
	got, err := c.ask(reader, name, `mutation($input:`+kind+`!){done:`+name+`(input:$input){outcome `+fields+` clientMutationId userErrors{code message field}}}`,
		map[string]any{"input": input})
	c.rings()
	return got.Data.Done, err
}

// direct gives a command of somebody else.
func direct[A any](c *worldClient, reader view.Reader, command func() (A, error)) (others bool, out A, err error) {
	if reader.Principal == c.low {
		return false, out, nil
	}
	out, err = command()
	c.rings()
	return true, out, err
}

// globalID names something of the organisation towards its readers.
func globalID(kind, id string) string {
	raw, err := json.Marshal([]string{kind, "acme", id})
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func ownID(global string) string {
	raw, err := base64.RawURLEncoding.DecodeString(global)
	if err != nil || len(raw) == 0 {
		return ""
	}
	var parts []string
	if err := json.Unmarshal(raw, &parts); err != nil {
		panic(err)
	}
	return parts[len(parts)-1]
}

func globalIDs(ids []string) []string {
	out := make([]string, len(ids))
	for n, id := range ids {
		out[n] = globalID("memory", id)
	}
	return out
}

// put sets what is not the zero value.
func put[A comparable](into map[string]any, name string, value A, written any) {
	var zero A
	if value != zero {
		into[name] = written
	}
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

func draftOf(d memory.Draft) map[string]any {
	out := map[string]any{"space": d.Space, "kind": d.Kind, "text": d.Text, "labels": d.Labels, "derivedFrom": globalIDs(d.DerivedFrom), "integrity": d.Integrity.String()}
	if d.Labels == nil {
		out["labels"] = []string{}
	}
	put(out, "subject", d.Subject, d.Subject)
	put(out, "heading", d.Heading, d.Heading)
	put(out, "validFrom", d.ValidFromMs, moment(d.ValidFromMs))
	put(out, "validTo", d.ValidToMs, moment(d.ValidToMs))
	put(out, "expiresAt", d.ExpiresMs, moment(d.ExpiresMs))
	if d.Source.Kind != "" {
		out["source"] = map[string]any{"kind": d.Source.Kind, "ref": d.Source.Ref, "position": d.Source.Position}
	}
	marks := []any{}
	for _, m := range d.Marks {
		marks = append(marks, map[string]any{"start": m.Start, "end": m.End, "labels": m.Labels, "quote": m.Quote})
	}
	out["marks"] = marks
	return out
}

const itemPayload = "known item" + itemFields

func (c *worldClient) remembered(got done, err error) (memory.Remembered, error) {
	return memory.Remembered{Item: got.Item.rendering(), Known: got.Known}, err
}

// Remember keeps a draft.
func (c *worldClient) Remember(ctx context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error) {
	if others, out, err := direct(c, reader, func() (memory.Remembered, error) { return c.behind.Remember(ctx, reader, draft) }); others {
		return out, err
	}
	return c.remembered(c.command(reader, "remember", itemPayload, map[string]any{"draft": draftOf(draft)}))
}

// Supersede puts a draft in an item's place.
func (c *worldClient) Supersede(ctx context.Context, reader view.Reader, id string, draft memory.Draft) (memory.Remembered, error) {
	if others, out, err := direct(c, reader, func() (memory.Remembered, error) { return c.behind.Supersede(ctx, reader, id, draft) }); others {
		return out, err
	}
	return c.remembered(c.command(reader, "supersede", itemPayload, map[string]any{"id": globalID("memory", id), "draft": draftOf(draft)}))
}

// Consolidate puts a draft in the place of several items.
func (c *worldClient) Consolidate(ctx context.Context, reader view.Reader, sources []string, draft memory.Draft) (memory.Remembered, error) {
	if others, out, err := direct(c, reader, func() (memory.Remembered, error) { return c.behind.Consolidate(ctx, reader, sources, draft) }); others {
		return out, err
	}
	return c.remembered(c.command(reader, "consolidate", itemPayload, map[string]any{"sources": globalIDs(sources), "draft": draftOf(draft)}))
}

// Promote lets an item be trusted.
func (c *worldClient) Promote(ctx context.Context, reader view.Reader, id, reason string) (view.Rendering, error) {
	if others, out, err := direct(c, reader, func() (view.Rendering, error) { return c.behind.Promote(ctx, reader, id, reason) }); others {
		return out, err
	}
	got, err := c.command(reader, "promote", itemPayload, map[string]any{"id": globalID("memory", id), "reason": reason})
	return got.Item.rendering(), err
}

// Declassify takes labels from an item.
func (c *worldClient) Declassify(ctx context.Context, reader view.Reader, id string, labels policy.Labels, reason string) (view.Rendering, error) {
	if others, out, err := direct(c, reader, func() (view.Rendering, error) { return c.behind.Declassify(ctx, reader, id, labels, reason) }); others {
		return out, err
	}
	got, err := c.command(reader, "declassify", itemPayload, map[string]any{"id": globalID("memory", id), "labels": labels, "reason": reason})
	return got.Item.rendering(), err
}

const receiptFields = `{id by{name} at items stores{name count} runs verifiedAt digest}`

// Forget erases items.
func (c *worldClient) Forget(ctx context.Context, reader view.Reader, selector memory.Selector) (memory.Receipt, error) {
	if others, out, err := direct(c, reader, func() (memory.Receipt, error) { return c.behind.Forget(ctx, reader, selector) }); others {
		return out, err
	}
	input := map[string]any{}
	put(input, "ref", selector.Ref, selector.Ref)
	put(input, "subject", selector.Subject, selector.Subject)
	put(input, "space", selector.Space, selector.Space)
	put(input, "items", len(selector.Items), globalIDs(selector.Items))
	got, err := c.command(reader, "forget", "receipt"+receiptFields, input)
	if err != nil || got.Receipt == nil {
		return memory.Receipt{}, err
	}
	return memory.Receipt{ID: ownID(got.Receipt.ID)}, nil
}

// Recall asks what is remembered.
func (c *worldClient) Recall(_ context.Context, reader view.Reader, q memory.Question) (memory.Recollection, error) {
	variables := map[string]any{"query": q.Text, "archived": q.Archived, "first": 10}
	put(variables, "first", q.Limit, q.Limit)
	put(variables, "tokens", q.Tokens, q.Tokens)
	put(variables, "asOf", q.AsOfMs, moment(q.AsOfMs))
	put(variables, "knownAt", q.KnownMs, moment(q.KnownMs))
	put(variables, "spaces", len(q.Spaces), q.Spaces)
	put(variables, "kinds", len(q.Kinds), q.Kinds)
	got, err := c.ask(reader, "recall", `query($query:String!,$spaces:[String!],$kinds:[MemoryKind!],$first:Int!,$tokens:Int,$asOf:Time,$knownAt:Time,$archived:Boolean!){
		recall(query:$query,spaces:$spaces,kinds:$kinds,first:$first,tokens:$tokens,asOf:$asOf,knownAt:$knownAt,archived:$archived){hits{score citation item`+itemFields+`} labels integrity degraded}}`, variables)
	out := memory.Recollection{}
	for _, hit := range got.Data.Recall.Hits {
		out.Hits = append(out.Hits, memory.Hit{Rendering: hit.Item.rendering()})
	}
	return out, err
}

// Item returns one item.
func (c *worldClient) Item(_ context.Context, reader view.Reader, id string) (view.Rendering, error) {
	got, err := c.ask(reader, "memoryItem", `query($id:ID!){memoryItem(id:$id)`+itemFields+` node(id:$id){id __typename}}`, map[string]any{"id": globalID("memory", id)})
	return got.Data.MemoryItem.rendering(), err
}

// Items returns those of the ids that are there for the reader.
func (c *worldClient) Items(_ context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error) {
	got, err := c.ask(reader, "nodes", `query($ids:[ID!]!){nodes(ids:$ids){id ... on MemoryItem`+itemFields+`}}`, map[string]any{"ids": globalIDs(ids)})
	out := map[string]view.Rendering{}
	for _, one := range got.Data.Nodes {
		if one != nil {
			out[ownID(one.ID)] = one.rendering()
		}
	}
	return out, err
}

// List returns a page.
func (c *worldClient) List(_ context.Context, reader view.Reader, f memory.Filter, after string, limit int) (memory.Page, error) {
	filter := map[string]any{"archived": f.Archived}
	put(filter, "subject", f.Subject, f.Subject)
	put(filter, "ref", f.Ref, f.Ref)
	put(filter, "principal", f.Principal, f.Principal)
	put(filter, "spaces", len(f.Spaces), f.Spaces)
	put(filter, "kinds", len(f.Kinds), f.Kinds)
	variables := map[string]any{"filter": filter, "first": limit}
	put(variables, "after", after, after)
	got, err := c.ask(reader, "memoryItems", `query($filter:MemoryFilter,$first:Int!,$after:Cursor){
		memoryItems(filter:$filter,first:$first,after:$after){edges{cursor node`+itemFields+`} pageInfo{hasNextPage endCursor}} memorySpaces{name readable writable}}`, variables)
	page := memory.Page{}
	for _, edge := range got.Data.MemoryItems.Edges {
		page.Items = append(page.Items, edge.Node.rendering())
	}
	if info := got.Data.MemoryItems.PageInfo; info.HasNextPage {
		page.Next = info.EndCursor
	}
	return page, err
}

// Export lists everything in long pages.
func (c *worldClient) Export(ctx context.Context, reader view.Reader, filter memory.Filter, write func(view.Rendering) error) error {
	for after := ""; ; {
		page, err := c.List(ctx, reader, filter, after, 100)
		if err != nil {
			return err
		}
		for _, one := range page.Items {
			if err := write(one); err != nil {
				return err
			}
		}
		if after = page.Next; after == "" {
			return nil
		}
	}
}

// Receipt returns the receipt of a forgetting.
func (c *worldClient) Receipt(_ context.Context, reader view.Reader, id string) (memory.Receipt, error) {
	got, err := c.ask(reader, "forgetReceipt", `query($id:ID!){forgetReceipt(id:$id)`+receiptFields+`}`, map[string]any{"id": globalID("forgetting", id)})
	return memory.Receipt{ID: ownID(got.Data.ForgetReceipt.ID)}, err
}

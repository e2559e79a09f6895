package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MemoryItem is something remembered, as the viewer sees it.
type MemoryItem struct {
	ID          string         `json:"id"` // global
	Etag        string         `json:"etag"`
	Space       string         `json:"space"`
	Kind        string         `json:"kind"`
	Subject     string         `json:"subject,omitempty"`
	Heading     string         `json:"heading,omitempty"`
	Text        string         `json:"text"`    // "[redacted]" in place of what is withheld
	Display     string         `json:"display"` // heading and text with characters that are not seen written as \u{...}
	Withheld    []WithheldPart `json:"withheld"`
	Labels      []string       `json:"labels"` // of what is shown
	Integrity   string         `json:"integrity"`
	Source      MemorySource   `json:"source"`
	ValidFrom   time.Time      `json:"validFrom"`
	ValidTo     *time.Time     `json:"validTo,omitempty"`
	RecordedAt  time.Time      `json:"recordedAt"`
	ExpiresAt   *time.Time     `json:"expiresAt,omitempty"`
	Archived    bool           `json:"archived"`
	Supersedes  []string       `json:"supersedes"`  // global ids
	DerivedFrom []string       `json:"derivedFrom"` // global ids
}

// Name is what a person may copy to name the item: its own id where that is
// enough to find it, else the global one.
func (i MemoryItem) Name() string {
	if strings.HasPrefix(i.Space, "conversation:") {
		return i.ID
	}
	return ShortID(i.ID)
}

// WithheldPart is a mark in an item's heading and text.
type WithheldPart struct {
	Offset int      `json:"offset"` // bytes
	Labels []string `json:"labels"`
}

// MemorySource is where an item came from.
type MemorySource struct {
	Kind     string `json:"kind"`
	Ref      string `json:"ref,omitempty"`
	Position int    `json:"position,omitempty"`
	Offset   int    `json:"offset"` // bytes
	Length   int    `json:"length"` // bytes
	By       Actor  `json:"by"`
	Run      string `json:"run,omitempty"` // global id
	Model    string `json:"model,omitempty"`
}

// MemoryHit is one thing found.
type MemoryHit struct {
	Item     MemoryItem `json:"item"`
	Score    float64    `json:"score"`
	Citation string     `json:"citation"`
}

// Recollection is the answer to a question.
type Recollection struct {
	Hits      []MemoryHit `json:"hits"`
	Labels    []string    `json:"labels"`
	Integrity string      `json:"integrity"`
	Degraded  []string    `json:"degraded"` // parts that could not be asked
}

// MemoryQuestion asks what is remembered.
type MemoryQuestion struct {
	Query    string
	Spaces   []string // none: all outside of conversations
	Kinds    []string // none: all
	Most     int      // hits, at most 100
	AsOf     *time.Time
	KnownAt  *time.Time
	Archived bool
}

// MemoryFilter says which items to list; empty parts match everything.
type MemoryFilter struct {
	Spaces    []string `json:"spaces,omitempty"`
	Kinds     []string `json:"kinds,omitempty"`
	Subject   *string  `json:"subject,omitempty"`
	Ref       *string  `json:"ref,omitempty"`
	Principal *string  `json:"principal,omitempty"`
	Archived  bool     `json:"archived"`
}

// MemoryDraft is what is to be remembered; empty parts are left to the server.
type MemoryDraft struct {
	Space       string     `json:"space,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Subject     string     `json:"subject,omitempty"`
	Text        string     `json:"text"`
	Labels      []string   `json:"labels,omitempty"`
	Marks       []Mark     `json:"marks,omitempty"`
	Integrity   string     `json:"integrity,omitempty"`
	ExpiresAt   *time.Time `json:"expiresAt,omitempty"`
	DerivedFrom []string   `json:"derivedFrom,omitempty"` // global ids
}

// Mark gives a part of a draft's text labels of its own.
type Mark struct {
	Start  int      `json:"start"` // bytes
	End    int      `json:"end"`   // bytes
	Labels []string `json:"labels"`
	Quote  string   `json:"quote"` // what stands there
}

// MarkOf marks the one place of a text where the quote stands.
func MarkOf(text, quote string, labels []string) (Mark, error) {
	start := strings.Index(text, quote)
	if quote == "" || start < 0 || strings.Contains(text[start+1:], quote) {
		return Mark{}, fmt.Errorf("%q does not stand in the text exactly once", quote)
	}
	return Mark{Start: start, End: start + len(quote), Labels: labels, Quote: quote}, nil
}

// legible refuses a text that would reach the server as another one: JSON takes
// what is not UTF-8 for a character that stands for anything.
func (d MemoryDraft) legible() error {
	for _, text := range []string{d.Text, d.Subject} {
		if !utf8.ValidString(text) {
			return errors.New("the text is not UTF-8; convert it before")
		}
	}
	return nil
}

// Remembered is what became of a draft.
type Remembered struct {
	Item  MemoryItem `json:"item"`
	Known bool       `json:"known"` // it was there already
}

// Document is a document to remember.
type Document struct {
	Name    string // with its ending
	Content []byte
	Draft   MemoryDraft // without text
}

// MemoryDocument is what became of a document.
type MemoryDocument struct {
	Ref      string         `json:"ref"`
	Title    string         `json:"title,omitempty"`
	Space    string         `json:"space"`
	Passages int            `json:"passages"`
	Added    int            `json:"added"`
	Known    int            `json:"known"`
	Changed  int            `json:"changed"`
	Gone     int            `json:"gone"`
	Receipt  *ForgetReceipt `json:"receipt,omitempty"`
}

// ForgetReceipt proves a forgetting.
type ForgetReceipt struct {
	ID         string        `json:"id"` // global
	By         Actor         `json:"by"`
	At         time.Time     `json:"at"`
	Items      []string      `json:"items"` // global ids
	Stores     []ForgetStore `json:"stores"`
	Runs       []string      `json:"runs"` // global ids
	VerifiedAt *time.Time    `json:"verifiedAt,omitempty"`
	Digest     string        `json:"digest"`
}

// ForgetStore is what was taken out of one store.
type ForgetStore struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Forget says what to forget. Exactly one is given.
type Forget struct {
	Items   []string `json:"items,omitempty"` // global ids
	Ref     string   `json:"ref,omitempty"`
	Subject string   `json:"subject,omitempty"`
	Space   string   `json:"space,omitempty"`
}

// MemorySpace is a place where things are remembered.
type MemorySpace struct {
	Name     string `json:"name"`
	Readable bool   `json:"readable"`
	Writable bool   `json:"writable"`
}

// MemoryChange is a change of what the viewer sees in memory.
type MemoryChange struct {
	Kind string      `json:"kind"` // REMEMBERED, CHANGED or GONE
	ID   string      `json:"id"`   // global
	Item *MemoryItem `json:"item"` // nil for GONE
}

const (
	memoryFields = ` fragment M on MemoryItem{id etag space kind subject heading text display withheld{offset labels} labels integrity
 source{kind ref position offset length by{...P} run model} validFrom validTo recordedAt expiresAt archived supersedes derivedFrom}` + actorFields
	receiptFields = ` fragment F on ForgetReceipt{id by{...P} at items stores{name count} runs verifiedAt digest}` + actorFields

	recallDocument = `query($query:String!,$spaces:[String!],$kinds:[MemoryKind!],$first:Int!,$asOf:Time,$knownAt:Time,$archived:Boolean!){
 recall(query:$query,spaces:$spaces,kinds:$kinds,first:$first,asOf:$asOf,knownAt:$knownAt,archived:$archived){
 hits{item{...M} score citation} labels integrity degraded}}` + memoryFields
	memoryItemDocument  = `query($id:ID!){memoryItem(id:$id){...M}}` + memoryFields
	memoryItemsDocument = `query($filter:MemoryFilter,$first:Int!,$after:Cursor){memoryItems(filter:$filter,first:$first,after:$after){
 edges{node{...M}} pageInfo{hasNextPage endCursor}}}` + memoryFields
	memoryChangedDocument = `subscription($spaces:[String!]){memoryChanged(spaces:$spaces){kind id item{...M}}}` + memoryFields
	memorySpacesDocument  = `{memorySpaces{name readable writable}}`
	forgetReceiptDocument = `query($id:ID!){forgetReceipt(id:$id){...F}}` + receiptFields

	memoryPayload       = `{item{...M} known userErrors{code message field}}}` + memoryFields
	rememberDocument    = `mutation($input:RememberInput!){done:remember(input:$input)` + memoryPayload
	supersedeDocument   = `mutation($input:SupersedeInput!){done:supersede(input:$input)` + memoryPayload
	consolidateDocument = `mutation($input:ConsolidateInput!){done:consolidate(input:$input)` + memoryPayload
	promoteDocument     = `mutation($input:PromoteInput!){done:promote(input:$input)` + memoryPayload
	declassifyDocument  = `mutation($input:DeclassifyInput!){done:declassify(input:$input)` + memoryPayload
	documentDocument    = `mutation($input:RememberDocumentInput!){done:rememberDocument(input:$input){
 document{ref title space passages added known changed gone receipt{...F}} userErrors{code message field}}}` + receiptFields
	forgetDocument = `mutation($input:ForgetInput!){done:forget(input:$input){receipt{...F} userErrors{code message field}}}` + receiptFields
)

// Recall asks what is remembered. Errors: *Error.
func (c *Client) Recall(ctx context.Context, q MemoryQuestion) (Recollection, error) {
	var got struct{ Recall Recollection }
	variables := map[string]any{"query": q.Query, "first": q.Most, "asOf": q.AsOf, "knownAt": q.KnownAt, "archived": q.Archived}
	if len(q.Spaces) > 0 {
		variables["spaces"] = q.Spaces
	}
	if len(q.Kinds) > 0 {
		variables["kinds"] = q.Kinds
	}
	err := c.Ask(ctx, recallDocument, variables, &got)
	return got.Recall, err
}

// MemoryItem reads an item by its global id. Errors: *Error.
func (c *Client) MemoryItem(ctx context.Context, id string) (MemoryItem, error) {
	var got struct{ MemoryItem MemoryItem }
	err := c.Ask(ctx, memoryItemDocument, map[string]any{"id": id}, &got)
	return got.MemoryItem, err
}

// MemoryItems visits items, newest first, until visit wants no more. Errors:
// *Error and those of visit.
func (c *Client) MemoryItems(ctx context.Context, filter MemoryFilter, visit func(item MemoryItem) (more bool, err error)) error {
	const most = 100 // of one page
	for after := (*string)(nil); ; {
		var got struct {
			MemoryItems struct {
				Edges    []struct{ Node MemoryItem }
				PageInfo struct {
					HasNextPage bool
					EndCursor   *string
				}
			}
		}
		if err := c.Ask(ctx, memoryItemsDocument, map[string]any{"filter": filter, "first": most, "after": after}, &got); err != nil {
			return err
		}
		for _, edge := range got.MemoryItems.Edges {
			if more, err := visit(edge.Node); err != nil || !more {
				return err
			}
		}
		if after = got.MemoryItems.PageInfo.EndCursor; !got.MemoryItems.PageInfo.HasNextPage || after == nil {
			return nil
		}
	}
}

// MemoryChanges visits what changes of what the viewer sees in some spaces, all
// outside of conversations for none. The first visit has no change: what is
// listed from then on misses nothing. After a cut it begins with such a visit
// again. Errors: *Error, those of visit and of the context.
func (c *Client) MemoryChanges(ctx context.Context, spaces []string, visit func(changes []MemoryChange) (more bool, err error)) error {
	type told struct{ MemoryChanged []MemoryChange }
	variables := map[string]any{}
	if len(spaces) > 0 {
		variables["spaces"] = spaces
	}
	return follow(ctx, c, memoryChangedDocument, variables, "", func(got told) (string, bool, error) {
		more, err := visit(got.MemoryChanged)
		return "", more, err
	})
}

// MemorySpaces reads where the viewer may read or write. Errors: *Error.
func (c *Client) MemorySpaces(ctx context.Context) ([]MemorySpace, error) {
	var got struct{ MemorySpaces []MemorySpace }
	err := c.Ask(ctx, memorySpacesDocument, nil, &got)
	return got.MemorySpaces, err
}

// ForgetReceipt reads the receipt of a forgetting by its global id. Errors: *Error.
func (c *Client) ForgetReceipt(ctx context.Context, id string) (ForgetReceipt, error) {
	var got struct{ ForgetReceipt ForgetReceipt }
	err := c.Ask(ctx, forgetReceiptDocument, map[string]any{"id": id}, &got)
	return got.ForgetReceipt, err
}

// Remember remembers something. Errors: *Error.
func (c *Client) Remember(ctx context.Context, draft MemoryDraft) (Remembered, error) {
	if err := draft.legible(); err != nil {
		return Remembered{}, err
	}
	return change[Remembered](ctx, c, rememberDocument, map[string]any{"draft": draft})
}

// Supersede remembers what takes an item's place. Errors: *Error.
func (c *Client) Supersede(ctx context.Context, id string, draft MemoryDraft) (Remembered, error) {
	if err := draft.legible(); err != nil {
		return Remembered{}, err
	}
	return change[Remembered](ctx, c, supersedeDocument, map[string]any{"id": id, "draft": draft})
}

// Consolidate keeps one text in place of several. Errors: *Error.
func (c *Client) Consolidate(ctx context.Context, sources []string, draft MemoryDraft) (Remembered, error) {
	if err := draft.legible(); err != nil {
		return Remembered{}, err
	}
	return change[Remembered](ctx, c, consolidateDocument, map[string]any{"sources": sources, "draft": draft})
}

// Promote lets an untrusted item be trusted. Errors: *Error.
func (c *Client) Promote(ctx context.Context, id, reason string) (MemoryItem, error) {
	got, err := change[Remembered](ctx, c, promoteDocument, map[string]any{"id": id, "reason": reason})
	return got.Item, err
}

// Declassify takes labels from an item. Errors: *Error.
func (c *Client) Declassify(ctx context.Context, id string, labels []string, reason string) (MemoryItem, error) {
	got, err := change[Remembered](ctx, c, declassifyDocument, map[string]any{"id": id, "labels": labels, "reason": reason})
	return got.Item, err
}

// RememberDocument remembers a document, passage by passage. Errors: *Error.
func (c *Client) RememberDocument(ctx context.Context, document Document) (MemoryDocument, error) {
	input, err := inputOf(document.Draft)
	if err != nil {
		return MemoryDocument{}, err
	}
	delete(input, "text")
	input["name"] = document.Name
	if utf8.Valid(document.Content) && !strings.ContainsRune(string(document.Content), 0) {
		input["text"] = string(document.Content)
	} else {
		input["content"] = base64.StdEncoding.EncodeToString(document.Content)
	}
	type payload struct{ Document MemoryDocument }
	got, err := change[payload](ctx, c, documentDocument, input)
	return got.Document, err
}

// Forget erases items with everything made of them. Errors: *Error.
func (c *Client) Forget(ctx context.Context, what Forget) (ForgetReceipt, error) {
	input, err := inputOf(what)
	if err != nil {
		return ForgetReceipt{}, err
	}
	type payload struct{ Receipt ForgetReceipt }
	got, err := change[payload](ctx, c, forgetDocument, input)
	return got.Receipt, err
}

// inputOf writes a value as the input of a mutation.
func inputOf(value any) (input map[string]any, err error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return input, json.Unmarshal(raw, &input)
}

package graph_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryIsChanged(t *testing.T) {
	b := serveBrain(t)
	first := public("The office is in Ghent.")
	first["subject"] = "office, place"
	old := b.keep(t, "anna", first)

	next := public("The office is in Bruges.")
	next["subject"] = "office, place"
	input := map[string]any{"id": old["id"], "draft": next, "commandId": "s1"}
	done, raw := b.change(t, "anna", "supersede", "known item"+itemFields, input)
	require.Equal(t, "ACCEPTED", done["outcome"], raw)
	newer := done["item"].(map[string]any)
	require.Equal(t, []any{old["id"]}, newer["supersedes"])
	again, _ := b.change(t, "anna", "supersede", "item{id}", input)
	require.Equal(t, "REPLAYED", again["outcome"])
	listed := b.ask(t, "bob", `{memoryItems{edges{node{text}}}}`, nil)
	require.NotContains(t, listed.raw, "Ghent", "what has lost its place is not listed")

	promoted, raw := b.change(t, "bob", "promote", "item{integrity}", map[string]any{"id": newer["id"], "reason": "I went there."})
	require.Equal(t, "TRUSTED", promoted["item"].(map[string]any)["integrity"], raw)

	labelled := b.keep(t, "anna", public("Ruth has a salary.", "hr"))
	cleared, raw := b.change(t, "anna", "declassify", "item{labels}", map[string]any{"id": labelled["id"], "labels": []any{"hr"}, "reason": "It is in the papers."})
	require.Equal(t, []any{}, cleared["item"].(map[string]any)["labels"], raw)
	require.Contains(t, b.ask(t, "bob", `{memoryItems{edges{node{text}}}}`, nil).raw, "Ruth has a salary.")

	one, two := b.keep(t, "bob", public("It rains on Monday.")), b.keep(t, "bob", public("It rains on Tuesday."))
	input = map[string]any{"sources": []any{one["id"], two["id"]}, "draft": public("It rains early in the week."), "commandId": "k1"}
	done, raw = b.change(t, "bob", "consolidate", "item"+itemFields, input)
	require.Equal(t, "ACCEPTED", done["outcome"], raw)
	made := done["item"].(map[string]any)
	require.ElementsMatch(t, []any{one["id"], two["id"]}, made["derivedFrom"])
	again, _ = b.change(t, "bob", "consolidate", "item{id}", input)
	require.Equal(t, "REPLAYED", again["outcome"])

	input = map[string]any{"items": []any{one["id"]}, "commandId": "f1", "clientMutationId": "m"}
	const receipt = `receipt{id by{principal} at items stores{name count} runs verifiedAt digest}`
	done, raw = b.change(t, "bob", "forget", receipt, input)
	require.Equal(t, "ACCEPTED", done["outcome"], raw)
	proof := done["receipt"].(map[string]any)
	require.Contains(t, proof["items"], one["id"])
	require.NotEmpty(t, proof["stores"])
	require.NotEmpty(t, proof["digest"])
	again, _ = b.change(t, "bob", "forget", receipt, input)
	require.Equal(t, "REPLAYED", again["outcome"], "also when what was named is gone")
	require.Equal(t, proof, again["receipt"])
	read := b.ask(t, "bob", `query($id:ID!){forgetReceipt(id:$id){id by{principal} at items stores{name count} runs verifiedAt digest}}`, map[string]any{"id": proof["id"]})
	require.Equal(t, proof, read.Data["forgetReceipt"])
	other := b.ask(t, "anna", `query($id:ID!){forgetReceipt(id:$id){id}}`, map[string]any{"id": proof["id"]})
	require.Equal(t, "NOT_FOUND", other.code(), "a receipt is for who asked for it")
}

func TestWhatMemoryRefusesHasACode(t *testing.T) {
	b := serveBrain(t)
	subject := public("About Ghent.")
	subject["subject"] = "ghent"
	item := b.keep(t, "anna", subject)["id"]
	partly := public("Ruth earns 70000.")
	partly["marks"] = []any{map[string]any{"start": 11, "end": 16, "labels": []string{"hr"}}}
	part := b.keep(t, "anna", partly)["id"]
	labelled := b.keep(t, "dora", public("A secret of legal.", "legal"))["id"]
	with := func(draft map[string]any, field string, value any) map[string]any {
		out := map[string]any{}
		for name, v := range draft {
			out[name] = v
		}
		out[field] = value
		return out
	}
	plain := public("x")
	for name, c := range map[string]struct {
		who, mutation string
		input         map[string]any
		code, field   string
	}{
		"another's space":        {"bob", "remember", map[string]any{"draft": with(plain, "space", "person:anna")}, "SPACE", ""},
		"a space that is none":   {"bob", "remember", map[string]any{"draft": with(plain, "space", "person:nobody")}, "SPACE", ""},
		"no word for a space":    {"bob", "remember", map[string]any{"draft": with(plain, "space", "the attic")}, "INVALID", "space"},
		"who may not write":      {"guest", "remember", map[string]any{"draft": plain}, "SPACE", ""},
		"an unknown label":       {"bob", "remember", map[string]any{"draft": public("x", "nonsense")}, "UNKNOWN_LABEL", ""},
		"no text":                {"bob", "remember", map[string]any{"draft": with(plain, "text", "")}, "INVALID", "text"},
		"blank text":             {"bob", "remember", map[string]any{"draft": with(plain, "text", " \n")}, "EMPTY", ""},
		"a long text":            {"bob", "remember", map[string]any{"draft": with(plain, "text", strings.Repeat("x", 64<<10+1))}, "INVALID", "text"},
		"a long subject":         {"bob", "remember", map[string]any{"draft": with(plain, "subject", strings.Repeat("x", 257))}, "TOO_LARGE", ""},
		"a long heading":         {"bob", "remember", map[string]any{"draft": with(plain, "heading", strings.Repeat("x", 1025))}, "INVALID", "heading"},
		"a mark that lies":       {"bob", "remember", map[string]any{"draft": with(plain, "marks", []any{map[string]any{"start": 0, "end": 1, "labels": []any{"hr"}, "quote": "y"}})}, "MARK", ""},
		"a mark beyond the text": {"bob", "remember", map[string]any{"draft": with(plain, "marks", []any{map[string]any{"start": 0, "end": 9, "labels": []any{"hr"}}})}, "MARK", ""},
		"a mark without labels":  {"bob", "remember", map[string]any{"draft": with(plain, "marks", []any{map[string]any{"start": 0, "end": 1, "labels": []any{}}})}, "INVALID", "marks"},
		"a source that is found": {"bob", "remember", map[string]any{"draft": with(plain, "source", map[string]any{"kind": "RUN"})}, "INVALID", "source"},
		"a negative offset":      {"bob", "remember", map[string]any{"draft": with(plain, "source", map[string]any{"offset": -1})}, "INVALID", "offset"},
		"an end before":          {"bob", "remember", map[string]any{"draft": with(with(plain, "validFrom", "2026-01-02T00:00:00Z"), "validTo", "2026-01-01T00:00:00Z")}, "INVALID", "validTo"},
		"gone already":           {"bob", "remember", map[string]any{"draft": with(plain, "expiresAt", "2020-01-01T00:00:00Z")}, "VALIDITY", ""},
		"a long command id":      {"bob", "remember", map[string]any{"draft": plain, "commandId": strings.Repeat("x", 129)}, "INVALID", "commandId"},
		"another subject":        {"bob", "supersede", map[string]any{"id": item, "draft": with(plain, "subject", "bruges")}, "SUBJECT_DIFFERS", ""},
		"what is seen in part":   {"bob", "supersede", map[string]any{"id": part, "draft": plain}, "NOT_WHOLE", ""},
		"promoted in part":       {"bob", "promote", map[string]any{"id": part, "reason": "r"}, "NOT_WHOLE", ""},
		"promoted by a guest":    {"guest", "promote", map[string]any{"id": item, "reason": "r"}, "NOT_ENTITLED", ""},
		"promoted for nothing":   {"bob", "promote", map[string]any{"id": item, "reason": ""}, "INVALID", "reason"},
		"no owner":               {"carl", "declassify", map[string]any{"id": labelled, "labels": []any{"legal"}, "reason": "r"}, "NOT_ENTITLED", ""},
		"no label":               {"carl", "declassify", map[string]any{"id": labelled, "labels": []any{}, "reason": "r"}, "INVALID", "labels"},
		"one source":             {"bob", "consolidate", map[string]any{"sources": []any{item}, "draft": plain}, "INVALID", "sources"},
		"one source twice":       {"bob", "consolidate", map[string]any{"sources": []any{item, item}, "draft": plain}, "INVALID", "sources"},
		"two groups":             {"dora", "consolidate", map[string]any{"sources": []any{item, labelled}, "draft": plain}, "GROUP_DIFFERS", ""},
		"forgotten in part":      {"bob", "forget", map[string]any{"items": []any{part}}, "NOT_WHOLE", ""},
		"forgotten by a guest":   {"guest", "forget", map[string]any{"items": []any{item}}, "NOT_ENTITLED", ""},
		"forget nothing":         {"bob", "forget", map[string]any{}, "INVALID", "input"},
		"forget twice":           {"bob", "forget", map[string]any{"ref": "a", "space": "organisation"}, "INVALID", "input"},
		"an empty list":          {"bob", "forget", map[string]any{"items": []any{}}, "INVALID", "items"},
		"a document of nothing":  {"bob", "rememberDocument", map[string]any{"name": "a.md", "text": ""}, "INVALID", "input"},
		"a document twice":       {"bob", "rememberDocument", map[string]any{"name": "a.md", "text": "x", "content": "eA=="}, "INVALID", "input"},
		"no base64":              {"bob", "rememberDocument", map[string]any{"name": "a.pdf", "content": "?"}, "INVALID", "content"},
		"no name":                {"bob", "rememberDocument", map[string]any{"name": "", "text": "x"}, "INVALID", "name"},
	} {
		done, raw := b.change(t, c.who, c.mutation, "", c.input)
		require.Equal(t, c.code, codeOf(t, done), "%s: %s", name, raw)
		field := done["userErrors"].([]any)[0].(map[string]any)["field"]
		if c.field != "" {
			require.Equal(t, c.field, field, name)
		} else {
			require.Nil(t, field, name)
		}
	}
	require.Equal(t, codeMessage(t, b, "person:anna"), codeMessage(t, b, "person:nobody"), "a space of somebody and one of nobody")
}

// codeMessage is all that who may not write in a space is told.
func codeMessage(t *testing.T, b *brainWorld, space string) string {
	draft := public("x")
	draft["space"] = space
	_, raw := b.change(t, "bob", "remember", "known item{id}", map[string]any{"draft": draft})
	return raw
}

func TestADocumentIsRemembered(t *testing.T) {
	b := serveBrain(t)
	for _, input := range []map[string]any{{"name": "a.md", "text": "# A\n\nText."}, {"name": "a.pdf", "content": base64.StdEncoding.EncodeToString([]byte("%PDF"))}} {
		done, raw := b.change(t, "bob", "rememberDocument", "document{ref title space passages added known unseen changed gone receipt{id}}", input)
		require.Equal(t, "ACCEPTED", done["outcome"], raw)
		require.Contains(t, raw, `"passages":3,"added":1,"known":1,"unseen":0,"changed":1,"gone":0,"receipt":null`)
	}
}

// What a person means singly stands alone in its operation.
func TestForgettingStandsAlone(t *testing.T) {
	b := serveBrain(t)
	for _, name := range []string{`forget(input:{ref:"a"})`, `rememberDocument(input:{name:"a",text:"x"})`, `promote(input:{id:"x",reason:"r"})`, `declassify(input:{id:"x",labels:[],reason:"r"})`} {
		got := b.ask(t, "bob", `mutation{a:`+name+`{outcome} b:`+name+`{outcome}}`, nil)
		require.Equal(t, "OVER_LIMIT", got.code(), got.raw)
	}
}

// A document may be longer than what any other operation is given.
func TestADocumentMayBeLong(t *testing.T) {
	b := serveBrain(t)
	long := map[string]any{"name": "a.md", "text": strings.Repeat("x", 900<<10)}
	const document = `mutation($input:RememberDocumentInput!){rememberDocument(input:$input){outcome}}`
	got := b.ask(t, "bob", document, map[string]any{"input": long})
	require.Empty(t, got.Errors, got.raw)
	for query, said := range map[string]string{
		`mutation($input:RememberDocumentInput!){rememberDocument(input:$input){outcome} forget(input:{ref:"a"}){outcome}}`:               "variable bytes",
		`mutation A($input:RememberDocumentInput!){rememberDocument(input:$input){outcome}} mutation B{forget(input:{ref:"a"}){outcome}}`: "variable bytes",
		`query($input:RememberDocumentInput!){rememberDocument(input:$input){outcome}}`:                                                   "variable bytes",
	} {
		got := b.ask(t, "bob", query, map[string]any{"input": long})
		require.Equal(t, "OVER_LIMIT", got.code(), query)
		require.Equal(t, said, got.Errors[0].Extensions["limit"], query)
	}
	long["text"] = strings.Repeat("x", 1<<20)
	got = b.ask(t, "bob", document, map[string]any{"input": long})
	require.Equal(t, "OVER_LIMIT", got.code())
}

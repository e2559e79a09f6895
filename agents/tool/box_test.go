package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// refund is a contract that uses every part that Check reads.
func refund() tool.Definition {
	return tool.Definition{
		Name: "ledger.refund", Description: "Books a refund.",
		Input: json.RawMessage(`{"type":"object","required":["invoice","amountCents"],"properties":{
			"invoice":{"type":"string","pattern":"^INV-[0-9]+$"},
			"amountCents":{"type":"integer","minimum":1,"maximum":100000},
			"currency":{"enum":["EUR","USD"]},
			"notify":{"type":"boolean"},
			"when":{"type":"string","format":"date"},
			"tags":{"type":"array","items":{"type":"string"},"maxItems":3},
			"payee":{"$ref":"#/$defs/payee"},
			"notes":{"type":"object","additionalProperties":true}},
			"$defs":{"payee":{"type":"object","properties":{"name":{"type":"string"},"address":{"type":"object","properties":{"city":{"type":"string"}}}}}}}`),
		Impact: policy.Irreversible, Class: policy.Opaque,
		Resource:  "ledger:{/invoice}",
		Facts:     map[string]string{"amount": "/amountCents", "notify": "/notify", "tags": "/tags", "invoice": "/invoice", "city": "/payee/address/city"},
		Control:   []string{"/invoice", "/amountCents"},
		CostBound: 100, Timeout: tool.Duration(time.Minute), ResultBytes: 1000,
		Owner: "person:ada", Contact: "ops@example.org", Kind: tool.KindBuiltin,
	}
}

// adapter is a tool that does what a test says.
type adapter struct {
	definition tool.Definition
	invoke     func(context.Context, tool.Invocation) (tool.Result, error)
}

func (a adapter) Definition() tool.Definition { return a.definition }

func (a adapter) Invoke(ctx context.Context, i tool.Invocation) (tool.Result, error) {
	return a.invoke(ctx, i)
}

func newBox(t require.TestingT, definitions ...tool.Definition) *tool.Box {
	var tools []tool.Tool
	for _, d := range definitions {
		tools = append(tools, adapter{definition: d})
	}
	box, err := tool.NewBox(tools...)
	require.NoError(t, err)
	return box
}

func TestCheckResolvesACallThatMeetsItsContract(t *testing.T) {
	checked, refusal := newBox(t, refund()).Check("ledger.refund",
		[]byte(` {"tags":["a","b"], "amountCents":100.0, "notify":true, "invoice":"INV-017", "payee":{"address":{"city":"Köln"}}, "notes":{"any":{"thing":1}}}`))
	require.Nil(t, refusal)
	require.Equal(t, `{"amountCents":100,"invoice":"INV-017","notes":{"any":{"thing":1}},"notify":true,"payee":{"address":{"city":"Köln"}},"tags":["a","b"]}`, string(checked.Arguments))
	require.Equal(t, "ledger:INV-017", checked.Resource)
	require.Equal(t, policy.Facts{"amount": int64(100), "notify": true, "tags": []string{"a", "b"}, "invoice": "INV-017", "city": "Köln"}, checked.Facts)
	require.Equal(t, refund().Digest(), checked.Definition.Digest())
}

func TestCheckLeavesOutFactsOfAbsentArguments(t *testing.T) {
	checked, refusal := newBox(t, refund()).Check("ledger.refund", []byte(`{"invoice":"INV-1","amountCents":1}`))
	require.Nil(t, refusal)
	require.Equal(t, policy.Facts{"amount": int64(1), "invoice": "INV-1"}, checked.Facts)
}

func TestFault_D6_GarbledArgumentsAreRefused(t *testing.T) {
	box := newBox(t, refund())
	for name, raw := range map[string]string{
		"nothing":          "",
		"cut short":        `{"invoice":"INV-1","amountC`,
		"words":            `refund INV-1 please`,
		"bytes":            "\x00\x01\xff",
		"bad UTF-8":        "{\"invoice\":\"\xff\"}",
		"fenced":           "```json\n{}\n```",
		"two objects":      `{"invoice":"INV-1","amountCents":1}{"invoice":"INV-1","amountCents":1}`,
		"trailing comma":   `{"invoice":"INV-1","amountCents":1,}`,
		"lone surrogate":   `{"invoice":"\ud800","amountCents":1}`,
		"a closing string": `{"invoice":"INV-1`,
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := box.Check("ledger.refund", []byte(raw))
			require.NotNil(t, refusal)
			require.Equal(t, tool.RefusedNotJSON, refusal.Code, refusal.Detail)
		})
	}
}

func TestFault_D7_ArgumentsThatBreakTheContractAreRefusedPrecisely(t *testing.T) {
	box := newBox(t, refund())
	for _, c := range []struct{ name, raw, code, says string }{
		{"no object", `[]`, tool.RefusedInvalid, "the arguments must be of type object, is array"},
		{"required", `{"invoice":"INV-1"}`, tool.RefusedInvalid, "the arguments must have the required amountCents"},
		{"type", `{"invoice":"INV-1","amountCents":"1"}`, tool.RefusedInvalid, `"/amountCents" must be of type integer, is string`},
		{"fraction", `{"invoice":"INV-1","amountCents":1.5}`, tool.RefusedInvalid, `"/amountCents" must be of type integer, is number`},
		{"range", `{"invoice":"INV-1","amountCents":0}`, tool.RefusedInvalid, `"/amountCents" must be at least 1`},
		{"enum", `{"invoice":"INV-1","amountCents":1,"currency":"eur"}`, tool.RefusedInvalid, `"/currency" must be one of ["EUR","USD"]`},
		{"format", `{"invoice":"INV-1","amountCents":1,"when":"tomorrow"}`, tool.RefusedInvalid, `"/when" must be in the format date`},
		{"pattern", `{"invoice":"INV-1\n","amountCents":1}`, tool.RefusedInvalid, `"/invoice" must match the pattern ^INV-[0-9]+$`},
		{"extra", `{"invoice":"INV-1","amountCents":1,"approved":true}`, tool.RefusedInvalid, `"/approved" is no declared key: leave it out`},
		{"case of a key", `{"Invoice":"INV-1","amountCents":1}`, tool.RefusedInvalid, `"/Invoice" is no declared key: leave it out`},
		{"look-alike key", `{"invоice":"INV-1","amountCents":1}`, tool.RefusedInvalid, `"/inv\u043eice" is no declared key: leave it out`},
		{"extra below a reference", `{"invoice":"INV-1","amountCents":1,"payee":{"iban":"x"}}`, tool.RefusedInvalid, `"/payee/iban" is no declared key: leave it out`},
		{"extra further below", `{"invoice":"INV-1","amountCents":1,"payee":{"address":{"x":1}}}`, tool.RefusedInvalid, `"/payee/address/x" is no declared key: leave it out`},
		{"all at once", `{"invoice":1,"amountCents":0,"x":1}`, tool.RefusedInvalid, `"/amountCents" must be at least 1; "/invoice" must be of type string, is number; "/x" is no declared key: leave it out`},
		{"duplicate", `{"invoice":"INV-1","amountCents":1,"amountCents":99999}`, tool.RefusedAmbiguous, `a key stands twice at "/amountCents"; send every key once`},
		{"case variant", `{"invoice":"INV-1","amountCents":1,"AmountCents":99999}`, tool.RefusedAmbiguous, `keys differ only by case at "/AmountCents"; use the declared key only`},
		{"number lost", `{"invoice":"INV-1","amountCents":9007199254740993}`, tool.RefusedAmbiguous, `the number at "/amountCents" does not survive`},
		{"too large", `"` + strings.Repeat("a", 300_000) + `"`, tool.RefusedTooLarge, "bytes; send less"},
		{"too deep", strings.Repeat(`[`, 40) + strings.Repeat(`]`, 40), tool.RefusedTooLarge, "nested more than 32 deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, refusal := box.Check("ledger.refund", []byte(c.raw))
			require.NotNil(t, refusal)
			require.Equal(t, c.code, refusal.Code, refusal.Detail)
			require.Contains(t, refusal.Detail, c.says)
		})
	}
}

func TestFault_D7_RefusalsQuoteKeysButNoValues(t *testing.T) {
	_, refusal := newBox(t, refund()).Check("ledger.refund",
		[]byte(`{"invoice":"sk-secret-1","amountCents":"sk-secret-2","currency":"sk-secret-3","when":"sk-secret-4","`+strings.Repeat("k", 5000)+`":"sk-secret-5"}`))
	require.NotNil(t, refusal)
	require.NotContains(t, refusal.Error(), "secret")
	require.Less(t, len(refusal.Detail), 1000)
}

func TestFault_D8_OnlyTheExactNameIsFound(t *testing.T) {
	box := newBox(t, refund())
	for name, asked := range map[string]string{
		"unknown":        "ledger.pay",
		"wrong case":     "Ledger.Refund",
		"look-alike":     "ledger.rеfund",
		"unqualified":    "refund",
		"space":          "ledger.refund ",
		"zero width":     "ledger.\u200brefund",
		"empty":          "",
		"full width":     "ledger．refund",
		"other notation": "ledger_refund",
	} {
		t.Run(name, func(t *testing.T) {
			_, refusal := box.Check(asked, []byte(`{"invoice":"INV-1","amountCents":1}`))
			require.NotNil(t, refusal)
			require.Equal(t, tool.RefusedUnknownTool, refusal.Code)
			require.NotContains(t, strings.ReplaceAll(refusal.Detail, asked, ""), "ledger.refund", "no suggestions")
			for _, r := range refusal.Detail {
				require.Less(t, r, rune(128), "look-alikes are shown escaped")
			}
			_, found := box.Find(asked, refund().Digest())
			require.False(t, found)
		})
	}
}

func TestFindPinsTheDefinition(t *testing.T) {
	box := newBox(t, refund())
	_, found := box.Find("ledger.refund", refund().Digest())
	require.True(t, found)
	changed := refund()
	changed.Description += " "
	for _, digest := range []string{"", changed.Digest(), strings.ToUpper(refund().Digest())} {
		_, found = box.Find("ledger.refund", digest)
		require.False(t, found)
	}
}

func TestDigestCoversEveryField(t *testing.T) {
	seen := map[string]bool{refund().Digest(): true}
	for i, change := range []func(*tool.Definition){
		func(d *tool.Definition) { d.Name += "x" },
		func(d *tool.Definition) { d.Description += "x" },
		func(d *tool.Definition) { d.Input = json.RawMessage(`{"type":"object"}`) },
		func(d *tool.Definition) { d.Output = json.RawMessage(`{}`) },
		func(d *tool.Definition) { d.Impact = policy.Reversible },
		func(d *tool.Definition) { d.Class = policy.Keyed },
		func(d *tool.Definition) { d.Resource += "x" },
		func(d *tool.Definition) { d.Facts = nil },
		func(d *tool.Definition) { d.Control = nil },
		func(d *tool.Definition) { d.CostBound++ },
		func(d *tool.Definition) { d.Timeout++ },
		func(d *tool.Definition) { d.ResultBytes++ },
		func(d *tool.Definition) { d.Credential = "x" },
		func(d *tool.Definition) { d.Owner = "x" },
		func(d *tool.Definition) { d.Contact = "x" },
		func(d *tool.Definition) { d.Result.Integrity = policy.Untrusted },
		func(d *tool.Definition) { d.Kind = "http" },
		func(d *tool.Definition) { d.Server = json.RawMessage(`{}`) },
	} {
		d := refund()
		change(&d)
		require.False(t, seen[d.Digest()], "change %d", i)
		seen[d.Digest()] = true
	}
	spelled := refund()
	spelled.Input = json.RawMessage(" " + string(refund().Input))
	require.Equal(t, refund().Digest(), spelled.Digest(), "spelling of a schema is no change")
}

func TestNewBoxRefusesNamesThatDifferByCase(t *testing.T) {
	other := refund()
	other.Name = "ledger.Refund"
	_, err := tool.NewBox(adapter{definition: refund()}, adapter{definition: other})
	require.ErrorContains(t, err, "perhaps in other case")
}

func TestResourceNamesOneThingInOneWay(t *testing.T) {
	d := refund()
	d.Input = json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	d.Resource, d.Facts, d.Control = "files:{/path}", nil, nil
	box := newBox(t, d)
	for raw, want := range map[string]string{
		`{}`:                       "files:",
		`{"path":"hr/a b.md"}`:     "files:hr/a b.md",
		`{"path":"hr/..."}`:        "files:hr/...",
		`{"path":""}`:              "",
		`{"path":"."}`:             "",
		`{"path":"public/../hr"}`:  "",
		`{"path":"./hr"}`:          "",
		`{"path":"/hr"}`:           "",
		`{"path":"hr/"}`:           "",
		`{"path":"public//hr"}`:    "",
		`{"path":"public\\..\\h"}`: "",
		`{"path":"hr\u0000"}`:      "",
		`{"path":"hr\u202e"}`:      "",
		`{"path":"{/path}"}`:       "",
	} {
		checked, refusal := box.Check("ledger.refund", []byte(raw))
		if want == "" {
			require.NotNil(t, refusal, raw)
			require.Equal(t, tool.RefusedResource, refusal.Code, raw)
			continue
		}
		require.Nil(t, refusal, raw)
		require.Equal(t, want, checked.Resource)
	}
}

func TestWhatIsCheckedIsCanonical(t *testing.T) {
	box := newBox(t, refund())
	rapid.Check(t, func(t *rapid.T) {
		raw, err := json.MarshalIndent(map[string]any{
			"invoice":     rapid.StringMatching(`INV-[0-9]{1,6}`).Draw(t, "invoice"),
			"amountCents": rapid.IntRange(1, 100000).Draw(t, "amount"),
			"notes":       map[string]string{"a": rapid.String().Draw(t, "note")},
		}, "", " ")
		require.NoError(t, err)
		checked, refusal := box.Check("ledger.refund", raw)
		require.Nil(t, refusal)
		again, err := canon.JSON(checked.Arguments)
		require.NoError(t, err)
		require.Equal(t, checked.Arguments, again)
	})
}

func FuzzCheck(f *testing.F) {
	f.Add("ledger.refund", []byte(`{"invoice":"INV-1","amountCents":1}`))
	f.Add("ledger.refund", []byte(`{"invoice":"INV-1","amountCents":1,"AmountCents":2}`))
	f.Add("Ledger.refund", []byte(`{"notes":{"a":[{}]}}`))
	box := newBox(f, refund())
	f.Fuzz(func(t *testing.T, name string, raw []byte) {
		checked, refusal := box.Check(name, raw)
		if refusal != nil {
			require.NotEmpty(t, refusal.Code)
			return
		}
		require.Equal(t, "ledger.refund", name)
		var arguments struct {
			Invoice     string `json:"invoice"`
			AmountCents int64  `json:"amountCents"`
		}
		require.NoError(t, json.Unmarshal(checked.Arguments, &arguments))
		require.Equal(t, "ledger:"+arguments.Invoice, checked.Resource)
		require.Equal(t, arguments.AmountCents, checked.Facts["amount"])
	})
}

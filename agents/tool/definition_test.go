package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

func TestValidateNamesEveryFault(t *testing.T) {
	require.NoError(t, refund().Validate())
	for _, c := range []struct {
		says   string
		change func(*tool.Definition)
	}{
		{"qualified", func(d *tool.Definition) { d.Name = "refund" }},
		{"qualified", func(d *tool.Definition) { d.Name = "ledger.rеfund" }},
		{"description", func(d *tool.Definition) { d.Description = "" }},
		{"owner", func(d *tool.Definition) { d.Owner = "" }},
		{"contact", func(d *tool.Definition) { d.Contact = "" }},
		{"timeout", func(d *tool.Definition) { d.Timeout = 0 }},
		{"resultBytes", func(d *tool.Definition) { d.ResultBytes = 0 }},
		{"cost bound", func(d *tool.Definition) { d.CostBound = -1 }},
		{"impact must be set", func(d *tool.Definition) { d.Impact = 0 }},
		{"class must be set", func(d *tool.Definition) { d.Class = 0 }},
		{"reading is READ in both", func(d *tool.Definition) { d.Impact = policy.ImpactRead }},
		{"reading is READ in both", func(d *tool.Definition) { d.Class = policy.ClassRead }},
		{"input", func(d *tool.Definition) { d.Input = nil }},
		{"input", func(d *tool.Definition) { d.Input = json.RawMessage(`{"type":"objekt"}`) }},
		{"type must be \"object\"", func(d *tool.Definition) { d.Input = json.RawMessage(`{"type":"string"}`) }},
		{"output", func(d *tool.Definition) { d.Output = json.RawMessage(`{"minimum":"x"}`) }},
		{"resource", func(d *tool.Definition) { d.Resource = "" }},
		{"resource", func(d *tool.Definition) { d.Resource = "ledger:{/invoice" }},
		{"leads to no declared argument", func(d *tool.Definition) { d.Resource = "ledger:{/invoce}" }},
		{"resource: \"/tags\" is of type array", func(d *tool.Definition) { d.Resource = "ledger:{/tags}" }},
		{"fact \"x\"", func(d *tool.Definition) { d.Facts = map[string]string{"x": "/payee/iban"} }},
		{"fact \"x\"", func(d *tool.Definition) { d.Facts = map[string]string{"x": "amount"} }},
		{"control", func(d *tool.Definition) { d.Control = []string{"/nowhere"} }},
		{"no server", func(d *tool.Definition) { d.Server = json.RawMessage(`{}`) }},
		{"the kind must be", func(d *tool.Definition) { d.Kind = "soap" }},
		{"server", func(d *tool.Definition) { d.Kind = tool.KindHTTP }},
	} {
		d := refund()
		c.change(&d)
		require.ErrorContains(t, d.Validate(), c.says)
	}
	err := tool.Definition{}.Validate()
	for _, says := range []string{"name", "description", "owner", "contact", "timeout", "resultBytes", "impact", "input", "kind"} {
		require.ErrorContains(t, err, says)
	}
}

func TestReadDefinition(t *testing.T) {
	written := `
name: ledger.refund
description: Books a refund.
input: {type: object, properties: {invoice: {type: string}}}
impact: IRREVERSIBLE
class: OPAQUE
resource: "ledger:{/invoice}"
costBound: 100
timeout: 30s
resultBytes: 1000
owner: person:ada
contact: ops@example.org
result: {labels: [finance], integrity: TOOL}
kind: builtin
`
	d, err := tool.ReadDefinition([]byte(written))
	require.NoError(t, err)
	require.NoError(t, d.Validate())
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("finance"), Integrity: policy.FromTool}, d.Result)

	asJSON, err := json.Marshal(d)
	require.NoError(t, err)
	again, err := tool.ReadDefinition(asJSON)
	require.NoError(t, err)
	require.Equal(t, d.Digest(), again.Digest())

	for name, text := range map[string]string{
		"unknown key":    written + "impackt: READ\n",
		"repeated key":   written + "owner: person:eve\n",
		"unknown impact": strings.Replace(written, "IRREVERSIBLE", "HARMLESS", 1),
		"no YAML":        "\t{",
	} {
		_, err := tool.ReadDefinition([]byte(text))
		require.Error(t, err, name)
	}
}

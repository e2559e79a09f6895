package tool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
)

var closedCases = []struct {
	name, schema string
	good, bad    []string
}{
	{
		"nothing declared", `{"type":"object"}`,
		[]string{`{}`},
		[]string{`{"a":1}`},
	},
	{
		"explicitly open", `{"type":"object","additionalProperties":true}`,
		[]string{`{"a":{"b":1}}`}, nil,
	},
	{
		"open with a type", `{"type":"object","additionalProperties":{"type":"object","properties":{"x":{}}}}`,
		[]string{`{"a":{"x":1}}`},
		[]string{`{"a":1}`, `{"a":{"y":1}}`},
	},
	{
		"parts of one place add up", `{"properties":{"a":{}},"allOf":[{"properties":{"b":{}}},{"$ref":"#/$defs/c"}],"$defs":{"c":{"properties":{"c":{"properties":{"d":{}}}}}}}`,
		[]string{`{"a":1,"b":1,"c":{"d":1}}`},
		[]string{`{"x":1}`, `{"c":{"x":1}}`},
	},
	{
		"alternatives", `{"oneOf":[{"required":["a"],"properties":{"a":{}}},{"required":["b"],"properties":{"b":{}}}]}`,
		[]string{`{"a":1}`, `{"b":1}`},
		[]string{`{"a":1,"x":1}`, `{}`},
	},
	{
		"conditions", `{"properties":{"a":{}},"if":{"properties":{"a":{"const":1}},"required":["a"]},"then":{"properties":{"b":{}}}}`,
		[]string{`{"a":1,"b":2}`, `{"a":2}`},
		[]string{`{"a":2,"b":2}`, `{"a":1,"c":1}`},
	},
	{
		"a condition is not sharpened", `{"properties":{"a":{"additionalProperties":true}},"not":{"required":["a"],"properties":{"a":{"required":["b"],"properties":{"b":{"const":1}}}}}}`,
		[]string{`{"a":{"b":2}}`},
		[]string{`{"a":{"b":1}}`, `{"a":{"b":1,"z":1}}`},
	},
	{
		"in lists", `{"properties":{"l":{"items":{"properties":{"a":{}}},"prefixItems":[{"properties":{"p":{}}}]}}}`,
		[]string{`{"l":[{"p":1},{"a":1}]}`},
		[]string{`{"l":[{"x":1}]}`, `{"l":[{"p":1},{"p":1}]}`},
	},
	{
		"true declares no keys", `{"properties":{"a":true,"b":{}}}`,
		[]string{`{"a":1,"b":[1]}`, `{"a":{}}`},
		[]string{`{"a":{"x":1}}`, `{"b":{"x":1}}`},
	},
	{
		"by pattern", `{"patternProperties":{"^x-":{"type":"integer"}}}`,
		[]string{`{"x-a":1}`},
		[]string{`{"y":1}`, `{"x-a":"1"}`},
	},
	{
		"a tree", `{"$ref":"#/$defs/node","$defs":{"node":{"properties":{"kids":{"items":{"$ref":"#/$defs/node"}}}}}}`,
		[]string{`{"kids":[{"kids":[]}]}`},
		[]string{`{"kids":[{"kids":[{"x":1}]}]}`},
	},
}

func TestSchemasAreClosed(t *testing.T) {
	for _, c := range closedCases {
		t.Run(c.name, func(t *testing.T) {
			schema, err := tool.CompileSchema([]byte(c.schema))
			require.NoError(t, err)
			for _, value := range c.good {
				require.Empty(t, schema.Check([]byte(value)), value)
			}
			for _, value := range c.bad {
				require.NotEmpty(t, schema.Check([]byte(value)), value)
			}
		})
	}
}

func TestCompileSchemaRefusesWaysAround(t *testing.T) {
	for name, schema := range map[string]string{
		"another draft":                `{"$schema":"http://json-schema.org/draft-07/schema#"}`,
		"another draft below":          `{"properties":{"a":{"$schema":"http://json-schema.org/draft-07/schema#"}}}`,
		"a reference to a file":        `{"$ref":"file:///etc/passwd"}`,
		"a reference to the network":   `{"$ref":"https://example.org/schema.json"}`,
		"a reference to no schema":     `{"$ref":"#/x/y","x":{"y":{}}}`,
		"a reference to nothing":       `{"$ref":"#/$defs/a"}`,
		"a reference in a condition":   `{"not":{"$ref":"#/$defs/a"},"$defs":{"a":{}}}`,
		"a dynamic reference":          `{"$dynamicRef":"#a"}`,
		"an anchor":                    `{"$defs":{"a":{"$anchor":"a"}}}`,
		"an id below":                  `{"$defs":{"a":{"$id":"https://example.org/a"}}}`,
		"a duplicate key":              `{"type":"object","type":"string"}`,
		"a list":                       `[]`,
		"a bad pattern":                `{"pattern":"("}`,
		"a keyword of the wrong shape": `{"required":"a"}`,
	} {
		_, err := tool.CompileSchema([]byte(schema))
		require.Error(t, err, name)
	}
}

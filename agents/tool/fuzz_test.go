package tool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
)

// Whatever schema an author writes and whatever a model sends, a verdict is
// about the value: spelling, order and blanks change nothing in it.
func FuzzSchema(f *testing.F) {
	f.Add(refundInput(), []byte(`{"invoice":"INV-1","amountCents":1}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/x"}]}}}`), []byte(`{"a":null}`))
	f.Add([]byte(`{"type":"object","patternProperties":{"^a":{"type":"number","multipleOf":0.1}},"unevaluatedProperties":false}`), []byte(`{"ab":1.10, "b":2}`))
	f.Add([]byte(`{"$ref":"https://elsewhere.example/x"}`), []byte(`1`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"pattern":"(a+)+$","format":"date-time"}},"additionalProperties":true}`), []byte(`{"\u0061":"aaaa!"}`))
	f.Add([]byte(`true`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, document, value []byte) {
		schema, err := tool.CompileSchema(document)
		if err != nil {
			return
		}
		canonical, err := canon.JSON(value)
		if err != nil {
			schema.Check(value)
			return
		}
		require.Equal(t, schema.Check(canonical), schema.Check(value))
		same, err := canon.JSON(document)
		require.NoError(t, err)
		again, err := tool.CompileSchema(same)
		require.NoError(t, err)
		require.Equal(t, schema.Check(canonical), again.Check(canonical))
	})
}

func refundInput() []byte { return refund().Input }

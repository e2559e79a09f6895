package script_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/model/script"
)

func TestScriptPassesTheSuite(t *testing.T) {
	modeltest.Suite(t, func(t *testing.T, want model.Answer) (model.Provider, model.Request, modeltest.Told) {
		program, err := script.New(map[string]string{"m": programOf(t, want)})
		require.NoError(t, err)
		return program, modeltest.Asked, modeltest.Told{All: true}
	})
}

// programOf writes a script that gives the answer.
func programOf(t *testing.T, want model.Answer) string {
	quoted := func(text string) string {
		raw, err := json.Marshal(text)
		require.NoError(t, err)
		return string(raw)
	}
	fields := []string{"\"reasoning\": " + quoted(want.Reasoning), "\"finish\": " + quoted(string(want.Finish))}
	if want.Finish == model.FinishRefusal {
		fields = append(fields, "\"refusal\": "+quoted(want.Text))
	} else {
		fields = append(fields, "\"text\": "+quoted(want.Text))
	}
	var calls []string
	for _, call := range want.Calls {
		calls = append(calls, fmt.Sprintf(`{"id": %s, "name": %s, "raw": %s}`, quoted(call.ProviderID), quoted(call.Name), quoted(string(call.Arguments))))
	}
	fields = append(fields, "\"calls\": ["+strings.Join(calls, ", ")+"]")
	return "def turn(ctx):\n    return {" + strings.Join(fields, ", ") + "}\n"
}

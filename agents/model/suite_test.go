package model_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
)

var asked = model.Request{
	Model:    "m",
	Messages: []model.Message{{Role: model.System, Text: "be brief"}, {Role: model.User, Text: "how many days of leave?"}},
	Tools:    []model.Spec{{Name: "files.read", Schema: []byte(`{"type":"object"}`)}, {Name: "ask.person", Schema: []byte(`{"type":"object"}`)}},
}

func TestScriptPassesTheSuite(t *testing.T) {
	modeltest.Suite(t, func(t *testing.T, want model.Answer) (model.Provider, model.Request, bool) {
		script, err := model.NewScript(map[string]string{"m": programOf(t, want)})
		require.NoError(t, err)
		return script, asked, true
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

func TestOpenAIPassesTheSuite(t *testing.T) {
	styles := map[string]modeltest.Style{
		"at once": {}, "in pieces": {Piece: 3}, "without usage": {Piece: 7, NoUsage: true}, "other line ends": {LineEnd: "\r\n"},
	}
	for name, style := range styles {
		t.Run(name, func(t *testing.T) {
			modeltest.Suite(t, func(t *testing.T, want model.Answer) (model.Provider, model.Request, bool) {
				server := modeltest.NewServer(t, modeltest.Pieces(modeltest.Stream(onWire(want), style), 11))
				return client(t, model.OpenAIConfig{BaseURL: server.URL, Key: key}), asked, true
			})
		})
	}
}

// onWire writes the names of calls as the protocol allows them.
func onWire(answer model.Answer) model.Answer {
	calls := make([]model.Proposed, len(answer.Calls))
	for i, call := range answer.Calls {
		call.Name = strings.ReplaceAll(call.Name, ".", "_")
		calls[i] = call
	}
	answer.Calls = calls
	return answer
}

const key = "sk-test-4f1e8c"

func client(t *testing.T, config model.OpenAIConfig) *model.OpenAI {
	t.Helper()
	provider, err := model.NewOpenAI(config)
	require.NoError(t, err)
	return provider
}

package anthropic_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/anthropic"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/modeltest"
)

var wire = modeltest.Wire{Protocol: modeltest.Anthropic(), Open: func(server exchange.Server) (model.Provider, error) {
	return anthropic.New(anthropic.Config{Server: server})
}}

func TestAnthropicConforms(t *testing.T) { wire.Conforms(t) }

func FuzzStream(f *testing.F) { wire.FuzzStream(f) }

func FuzzCut(f *testing.F) { wire.FuzzCut(f) }

// asks returns the provider of a server that always gives the golden answer.
func asks(t *testing.T, config anthropic.Config, streams ...string) (*anthropic.Provider, *modeltest.Server) {
	t.Helper()
	var behaviours []modeltest.Behaviour
	for _, stream := range streams {
		behaviours = append(behaviours, modeltest.Whole([]byte(stream)))
	}
	server := modeltest.NewServer(t, append(behaviours, modeltest.Whole(wire.Golden()))...)
	config.BaseURL, config.Key = server.Root, modeltest.Key
	provider, err := anthropic.New(config)
	require.NoError(t, err)
	return provider, server
}

// history is a prompt after one turn of two calls.
func history(thread []byte) model.Request {
	return model.Request{
		Model: "m", MaxTokens: 50, Stable: 2, Tools: []model.Spec{
			{Name: "bank.pay", Description: "pays", Schema: []byte(`{"type":"object","properties":{"n":{"maximum":9007199254740991}},"required":["n"],"additionalProperties":false}`)},
			{Name: "files.read", Schema: []byte(`{"type":"object"}`)},
		},
		Messages: []model.Message{
			{Role: model.System, Text: "be brief"},
			{Role: model.User, Text: "pay the invoice"},
			{Role: model.Assistant, Text: "I pay it.", Thread: thread, Calls: []model.Call{
				{ID: "c1", Name: "bank.pay", Arguments: []byte(`{"cents":123450,"to":"ACME"}`)}, {ID: "c2", Name: "files.read"},
			}},
			{Role: model.ToolReply, CallID: "c1", Text: "paid"},
			{Role: model.ToolReply, CallID: "c2", Text: ""},
			{Role: model.User, Text: "go on"},
		},
	}
}

func TestTheRequestAsTheServerGetsIt(t *testing.T) {
	provider, server := asks(t, anthropic.Config{})
	answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	require.NotEmpty(t, answer.Thread)
	for range 20 {
		request := history(answer.Thread)
		request.Output = []byte(`{"type":"object","properties":{},"required":[],"additionalProperties":false,"title":"t","description":"d"}`)
		_, err = provider.Take(t.Context(), request, nil)
		require.NoError(t, err)
	}
	got := server.Received()
	for i := range 20 {
		require.Equal(t, string(got[1].Body), string(got[i+1].Body), "same request, same bytes")
	}
	require.Equal(t, "/v1/messages", got[1].Path)
	require.Equal(t, "Bearer "+modeltest.Key, got[1].Header.Get("Authorization"))
	require.JSONEq(t, `{"model":"m","max_tokens":50,"stream":true,
		"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false,"title":"t","description":"d"}}},
		"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],
		"tools":[{"name":"bank_pay","description":"pays","input_schema":{"type":"object","properties":{"n":{"maximum":9007199254740991}},"required":["n"],"additionalProperties":false}},
			{"name":"files_read","input_schema":{"type":"object"}}],
		"messages":[
			{"role":"user","content":[{"type":"text","text":"pay the invoice","cache_control":{"type":"ephemeral"}}]},
			{"role":"assistant","content":[
				{"type":"thinking","thinking":"hm","signature":"`+modeltest.Signature+`"},
				{"type":"text","text":"I pay it."},
				{"type":"tool_use","id":"c1","name":"bank_pay","input":{"cents":123450,"to":"ACME"}},
				{"type":"tool_use","id":"c2","name":"files_read","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"c1","content":[{"type":"text","text":"paid"}]},
				{"type":"tool_result","tool_use_id":"c2"},
				{"type":"text","text":"go on"}]}]}`, string(got[1].Body))
}

// Reasoning goes back with the very calls that it was given with, or not at all.
func TestReasoningThatDoesNotFitStaysOut(t *testing.T) {
	provider, server := asks(t, anthropic.Config{})
	answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	for name, change := range map[string]func(m *model.Message){
		"erased text": func(m *model.Message) { m.Text = "[erased]" },
		"lost call":   func(m *model.Message) { m.Calls = m.Calls[:1] },
		"no thread":   func(m *model.Message) { m.Thread = nil },
		"foreign":     func(m *model.Message) { m.Thread = []byte("not of this house") },
		"other own":   func(m *model.Message) { m.Thread = []byte(`[{"own":7},{"text":9},{"call":true},{"call":true}]`) },
		"too much":    func(m *model.Message) { m.Thread = []byte(`[{"own":{"signature":"x"}},{"text":-9},{"text":99}]`) },
	} {
		t.Run(name, func(t *testing.T) {
			request := history(answer.Thread)
			change(&request.Messages[2])
			request.Messages = request.Messages[:3]
			_, err := provider.Take(t.Context(), request, nil)
			require.NoError(t, err)
			got := server.Received()
			require.NotContains(t, string(got[len(got)-1].Body), "thinking")
			require.Contains(t, string(got[len(got)-1].Body), "bank_pay")
		})
	}
}

func TestReasoningBetweenCallsKeepsItsPlace(t *testing.T) {
	event := func(kind, fields string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + fields + "}\n\n"
	}
	stream := event("message_start", `"message":{"model":"m","usage":{"input_tokens":5,"cache_creation_input_tokens":7,"cache_read_input_tokens":11}}`) +
		event("content_block_start", `"index":0,"content_block":{"type":"redacted_thinking","data":"hidden"}`) +
		event("content_block_start", `"index":1,"content_block":{"type":"tool_use","id":"a","name":"files_read","input":{"path":"a"}}`) +
		event("content_block_start", `"index":2,"content_block":{"type":"thinking","thinking":"well"}`) +
		event("content_block_delta", `"index":2,"delta":{"type":"signature_delta","signature":"s"}`) +
		event("content_block_start", `"index":3,"content_block":{"type":"tool_use","id":"b","name":"files_read","input":{}}`) +
		event("content_block_delta", `"index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"b\"}"}`) +
		event("message_delta", `"delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":13}`) + event("message_stop", `"x":1`)
	provider, server := asks(t, anthropic.Config{Reasoning: true}, stream)
	answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	require.Equal(t, model.Usage{Input: 5, CacheWrite: 7, CacheRead: 11, Output: 13}, answer.Usage)
	require.Equal(t, `{"path":"a"}`, string(answer.Calls[0].Arguments), "arguments that came at once")

	request := modeltest.Asked
	request.Messages = append(request.Messages[:2:2], model.Message{Role: model.Assistant, Thread: answer.Thread, Calls: []model.Call{{ID: "c1", Name: "files.read"}, {ID: "c2", Name: "files.read"}}})
	_, err = provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	var got struct {
		Thinking struct{ Type string }
		Messages []struct {
			Content []struct{ Type, Data, Signature string }
		}
	}
	require.NoError(t, json.Unmarshal(server.Received()[1].Body, &got))
	require.Equal(t, "adaptive", got.Thinking.Type)
	var order []string
	for _, block := range got.Messages[1].Content {
		order = append(order, block.Type+block.Data+block.Signature)
	}
	require.Equal(t, []string{"redacted_thinkinghidden", "tool_use", "thinkings", "tool_use"}, order)
}

func TestFinishes(t *testing.T) {
	for reason, class := range map[string]model.Class{
		"end_turn": model.ClassText, "stop_sequence": model.ClassText, "max_tokens": model.ClassCut, "model_context_window_exceeded": model.ClassCut, "refusal": model.ClassRefusal,
	} {
		stream := strings.Replace(string(wire.Stream(model.Answer{Finish: model.FinishStop, Text: "well"}, modeltest.Style{})), `"end_turn"`, `"`+reason+`"`, 1)
		provider, _ := asks(t, anthropic.Config{}, stream)
		answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
		require.NoError(t, err)
		require.Equal(t, class, model.Classify(answer), reason)
	}
}

func TestImagesFilesAndSchemasInTheRequest(t *testing.T) {
	provider, server := asks(t, anthropic.Config{})
	media := []model.Media{{MediaType: "image/png", Bytes: []byte("png")}, {MediaType: "application/pdf", Name: "a.pdf", Bytes: []byte("pdf")}, {MediaType: "text/plain", Bytes: []byte("plain words")}}
	request := model.Request{Model: "m", Output: []byte(`{"type":"object","properties":{},"required":[],"additionalProperties":false}`), Messages: []model.Message{
		{Role: model.User, Text: "look", Media: media},
		{Role: model.Assistant, Calls: []model.Call{{ID: "c1", Name: "a"}}},
		{Role: model.ToolReply, CallID: "c1", Text: "this", Media: media[:1]},
	}}
	_, err := provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	body := string(server.Received()[0].Body)
	require.Equal(t, 2, strings.Count(body, `"media_type":"image/png"`))
	require.Contains(t, body, `"title":"a.pdf"`)
	require.Contains(t, body, "plain words")
	require.Contains(t, body, `"output_config":{"format":`)

	request.Output, request.Messages[0].Media = []byte(`{"type":"object"}`), []model.Media{{MediaType: "audio/wav"}}
	_, err = provider.Take(t.Context(), request, nil)
	require.ErrorContains(t, err, "no file of this type")
	request.Messages[0].Media = nil
	_, err = provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	require.NotContains(t, string(server.Received()[1].Body), "output_config", "an open schema would be refused")
}

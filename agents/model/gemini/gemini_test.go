package gemini_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/gemini"
	"gantry.dev/agents/model/modeltest"
)

var wire = modeltest.Wire{Protocol: modeltest.Gemini(), Open: func(server exchange.Server) (model.Provider, error) {
	return gemini.New(gemini.Config{Server: server})
}}

func TestGeminiConforms(t *testing.T) { wire.Conforms(t) }

func FuzzStream(f *testing.F) { wire.FuzzStream(f) }

func FuzzCut(f *testing.F) { wire.FuzzCut(f) }

// asks returns the provider of a server that gives streams, and then always the
// golden one.
func asks(t *testing.T, config gemini.Config, streams ...string) (*gemini.Provider, *modeltest.Server) {
	t.Helper()
	var behaviours []modeltest.Behaviour
	for _, stream := range streams {
		behaviours = append(behaviours, modeltest.Whole([]byte(stream)))
	}
	server := modeltest.NewServer(t, append(behaviours, modeltest.Whole(wire.Golden()))...)
	config.BaseURL, config.Key = server.Root, modeltest.Key
	provider, err := gemini.New(config)
	require.NoError(t, err)
	return provider, server
}

// history is a prompt after one turn of two calls.
func history(name string, thread []byte) model.Request {
	return model.Request{
		Model: name, MaxTokens: 50, Tools: []model.Spec{{Name: "bank.pay", Description: "pays", Schema: []byte(`{"type":"object","properties":{"n":{"maximum":9007199254740991}}}`)}},
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
	provider, server := asks(t, gemini.Config{Reasoning: true})
	answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	require.NotEmpty(t, answer.Thread)
	for range 20 {
		request := history("gemini-3-pro", answer.Thread)
		request.Output = []byte(`{"type":"object","properties":{},"required":[],"additionalProperties":false,"title":"t","description":"d"}`)
		_, err = provider.Take(t.Context(), request, nil)
		require.NoError(t, err)
	}
	got := server.Received()
	for i := range 20 {
		require.Equal(t, string(got[1].Body), string(got[i+1].Body), "same request, same bytes")
	}
	require.Equal(t, "/v1beta/models/gemini-3-pro:streamGenerateContent", got[1].Path)
	require.Equal(t, modeltest.Key, got[1].Header.Get("X-Goog-Api-Key"))
	require.JSONEq(t, `{"systemInstruction":{"role":"user","parts":[{"text":"be brief"}]},
		"generationConfig":{"maxOutputTokens":50,"thinkingConfig":{"includeThoughts":true}},
		"tools":[{"functionDeclarations":[{"name":"bank_pay","description":"pays","parametersJsonSchema":{"type":"object","properties":{"n":{"maximum":9007199254740991}}}}]}],
		"contents":[
			{"role":"user","parts":[{"text":"pay the invoice"}]},
			{"role":"model","parts":[{"text":"I pay it."},
				{"functionCall":{"id":"c1","name":"bank_pay","args":{"cents":123450,"to":"ACME"}},"thoughtSignature":"`+modeltest.Signature+`"},
				{"functionCall":{"id":"c2","name":"files_read"}}]},
			{"role":"user","parts":[
				{"functionResponse":{"id":"c1","name":"bank_pay","response":{"output":"paid"}}},
				{"functionResponse":{"id":"c2","name":"files_read","response":{"output":""}}},
				{"text":"go on"}]}]}`, string(got[1].Body))
}

// A call whose signature is not there any more says so to models that mind.
func TestACallWithoutItsSignature(t *testing.T) {
	provider, server := asks(t, gemini.Config{})
	skip := base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))
	for name, marks := range map[string]int{"gemini-3-pro": 1, "gemini-2.5-flash": 0} {
		_, err := provider.Take(t.Context(), history(name, nil), nil)
		require.NoError(t, err)
		got := server.Received()
		require.Equal(t, marks, strings.Count(string(got[len(got)-1].Body), skip), name)
		require.Equal(t, marks, strings.Count(string(got[len(got)-1].Body), "thoughtSignature"), name)
	}
}

func TestSignedTextKeepsItsSignature(t *testing.T) {
	stream := `data: {"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"eA=="},{"text":"b"},{"text":"c"},{"text":"","thoughtSignature":"eQ=="}]},"finishReason":"STOP"}]}` + "\n\n"
	provider, server := asks(t, gemini.Config{}, stream)
	answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	require.Equal(t, "abc", answer.Text)
	require.True(t, answer.Usage.Estimated)
	request := modeltest.Asked
	request.Messages = append(request.Messages[:2:2], model.Message{Role: model.Assistant, Text: answer.Text, Thread: answer.Thread}, model.Message{Role: model.User, Text: "and?"})
	_, err = provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	require.Contains(t, string(server.Received()[1].Body), `[{"text":"a","thoughtSignature":"eA=="},{"text":"bc"},{"thoughtSignature":"eQ=="}]`)
}

func TestFinishes(t *testing.T) {
	for reason, class := range map[string]model.Class{
		"STOP": model.ClassText, "MAX_TOKENS": model.ClassCut, "SAFETY": model.ClassRefusal, "RECITATION": model.ClassRefusal, "PROHIBITED_CONTENT": model.ClassRefusal,
		"MALFORMED_FUNCTION_CALL": model.ClassMalformed,
	} {
		stream := strings.Replace(string(wire.Stream(model.Answer{Finish: model.FinishStop, Text: "well"}, modeltest.Style{})), `"STOP"`, `"`+reason+`"`, 1)
		provider, _ := asks(t, gemini.Config{}, stream)
		answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
		require.NoError(t, err)
		require.Equal(t, class, model.Classify(answer), reason)
	}
	provider, _ := asks(t, gemini.Config{}, `data: {"promptFeedback":{"blockReason":"SAFETY"},"usageMetadata":{"promptTokenCount":4}}`+"\n\n")
	answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	require.Equal(t, model.ClassRefusal, model.Classify(answer))
}

// The protocol's numbers are floats in the SDK: one that cannot be told from
// its neighbours is not made into another one.
func TestANumberThatIsTooLargeIsNoArgument(t *testing.T) {
	stream := func(number string) string {
		return `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"files_read","args":{"n":[{"m":` + number + `}]}}}]},"finishReason":"STOP"}]}` + "\n\n"
	}
	provider, _ := asks(t, gemini.Config{}, stream("9007199254740991"), stream("9007199254740993"), stream("-1e300"))
	for _, want := range []string{`{"n":[{"m":9007199254740991}]}`, "", ""} {
		answer, err := provider.Take(t.Context(), modeltest.Asked, nil)
		require.NoError(t, err)
		require.Equal(t, want, string(answer.Calls[0].Arguments))
	}
}

func TestAServerMaySayInItsBodyHowLongToWait(t *testing.T) {
	body := map[string]any{"error": map[string]any{"code": 429, "status": "RESOURCE_EXHAUSTED", "details": []any{map[string]any{"reason": "RATE"}, map[string]any{"retryDelay": "7.5s"}}}}
	failure := wire.Fails(t, exchange.Server{}, modeltest.StatusBody(http.StatusTooManyRequests, body))
	require.Equal(t, model.RateLimited, failure.Kind)
	require.Equal(t, 7500*time.Millisecond, failure.RetryAfter)
}

// A server that offers to go on is not asked again: that would be a second
// request that nobody has reserved anything for.
func TestAnAnswerIsNotContinued(t *testing.T) {
	stream := `data: {"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"CONTINUATION","continuationToken":"eA=="}]}` + "\n\n"
	provider, server := asks(t, gemini.Config{}, stream)
	_, err := provider.Take(t.Context(), modeltest.Asked, nil)
	require.Error(t, err)
	require.Len(t, server.Received(), 1)
}

func TestImagesFilesAndSchemasInTheRequest(t *testing.T) {
	provider, server := asks(t, gemini.Config{})
	media := []model.Media{{MediaType: "image/png", Bytes: []byte("png")}}
	request := model.Request{Model: "m", Output: []byte(`{"type":"object"}`), Messages: []model.Message{
		{Role: model.User, Text: "look", Media: media},
		{Role: model.Assistant, Calls: []model.Call{{ID: "c1", Name: "a"}}},
		{Role: model.ToolReply, CallID: "c1", Text: "this", Media: media},
	}}
	_, err := provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	body := string(server.Received()[0].Body)
	require.Equal(t, 2, strings.Count(body, `"inlineData":{"data":"cG5n","mimeType":"image/png"}`))
	require.Contains(t, body, `"responseMimeType":"application/json"`)
	require.Contains(t, body, `"responseJsonSchema":{"type":"object"}`)

	request.Tools = modeltest.Asked.Tools
	_, err = provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	require.NotContains(t, string(server.Received()[1].Body), "responseJsonSchema", "models refuse it beside tools")
}

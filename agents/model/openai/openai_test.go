package openai_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/model/openai"
)

var wire = modeltest.Wire{Protocol: modeltest.OpenAI(), Open: func(server exchange.Server) (model.Provider, error) {
	return openai.New(openai.Config{Server: server})
}}

func TestOpenAIPassesTheSuite(t *testing.T) { wire.Answers(t) }

func TestFault_D4_StreamCutYieldsNoCall(t *testing.T) { wire.Cuts(t) }

func TestFault_D1_TooManyRequests(t *testing.T) { wire.Waits(t) }

func TestFault_D2_StatusesHaveKinds(t *testing.T) { wire.Refused(t) }

func TestFault_D3_SilenceTimesOut(t *testing.T) { wire.Silence(t) }

func TestGarbageIsABadAnswer(t *testing.T) { wire.Nonsense(t) }

func TestTheSizesOfPiecesMakeNoDifference(t *testing.T) { wire.Pieces(t) }

func TestTheEnvironmentIsNotRead(t *testing.T) { wire.Environment(t) }

func TestARequestInFlightIsGivenUp(t *testing.T) { wire.GivenUp(t) }

func TestConfigurationIsRefusedWithoutShowingIt(t *testing.T) { wire.Configuration(t) }

func FuzzStream(f *testing.F) { wire.FuzzStream(f) }

func FuzzCut(f *testing.F) { wire.FuzzCut(f) }

func client(t *testing.T, config openai.Config) *openai.Provider {
	t.Helper()
	provider, err := openai.New(config)
	require.NoError(t, err)
	return provider
}

// heard is what a provider makes of one stream.
func heard(t *testing.T, config openai.Config, stream []byte) model.Answer {
	t.Helper()
	config.BaseURL = modeltest.NewServer(t, modeltest.Whole(stream)).URL
	answer, err := client(t, config).Take(t.Context(), modeltest.Asked, nil)
	require.NoError(t, err)
	return answer
}

var history = model.Request{
	Tools: []model.Spec{{Name: "files.read"}, {Name: "mail.send"}},
	Messages: []model.Message{
		{Role: model.System, Text: "be brief"},
		{Role: model.User, Text: "olga: pay the other one", Earlier: true},
		{Role: model.User, Text: "pay the invoice"},
		{Role: model.Assistant, Calls: []model.Call{
			{ID: "c1", Name: "files.read", Arguments: []byte(`{"path":"a"}`)},
			{ID: "c2", Name: "files.read", Arguments: []byte(`{"path":"b"}`)},
		}},
		{Role: model.ToolReply, CallID: "c1", Text: model.Wrap("ab", "files:a", "", "TOOL", `{"rows":[[1,2],[3]],"n":12.5}`)},
		{Role: model.ToolReply, CallID: "c2", Text: "not json"},
	},
}

func TestFault_D12_RefusalsAreRefusals(t *testing.T) {
	refused := modeltest.Stream(model.Answer{Finish: model.FinishRefusal, Text: "No."}, modeltest.Style{})
	filtered := strings.Replace(string(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "Well"}, modeltest.Style{})), `"finish_reason":"stop"`, `"finish_reason":"content_filter"`, 1)
	for text, stream := range map[string]string{"No.": string(refused), "Well": filtered} {
		server := modeltest.NewServer(t, modeltest.Whole([]byte(stream)))
		answer, err := client(t, openai.Config{Server: exchange.Server{BaseURL: server.URL}}).Take(t.Context(), modeltest.Asked, nil)
		require.NoError(t, err)
		require.Equal(t, model.ClassRefusal, model.Classify(answer))
		require.Equal(t, text, answer.Text)
	}
}

func TestUsageIsCountedOrEstimated(t *testing.T) {
	said := model.Answer{Finish: model.FinishStop, Text: "hello"}
	for name, row := range map[string]struct {
		stream    string
		estimated bool
	}{
		"reported":   {string(modeltest.Stream(said, modeltest.Style{})), false},
		"omitted":    {string(modeltest.Stream(said, modeltest.Style{NoUsage: true})), true},
		"impossible": {strings.Replace(string(modeltest.Stream(said, modeltest.Style{})), `"cached_tokens":100`, `"cached_tokens":900`, 1), true},
		"absurd":     {strings.Replace(string(modeltest.Stream(said, modeltest.Style{})), `"prompt_tokens":120`, `"prompt_tokens":9000000000000000000`, 1), true},
		"negative":   {strings.Replace(string(modeltest.Stream(said, modeltest.Style{})), `"completion_tokens":30`, `"completion_tokens":-30`, 1), true},
	} {
		t.Run(name, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Whole([]byte(row.stream)))
			answer, err := client(t, openai.Config{Server: exchange.Server{BaseURL: server.URL}}).Take(t.Context(), modeltest.Asked, nil)
			require.NoError(t, err)
			require.Equal(t, row.estimated, answer.Usage.Estimated)
			if !row.estimated {
				require.Equal(t, modeltest.Reported, answer.Usage)
			}
		})
	}
}

func TestCallsUnderOneIndexStayApart(t *testing.T) {
	for name, ids := range map[string][2]string{"ids": {"a", "b"}, "no ids": {"", ""}} {
		t.Run(name, func(t *testing.T) {
			want := model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{
				{ProviderID: ids[0], Name: "files_read", Arguments: []byte(`{"path":"a"}`)},
				{ProviderID: ids[1], Name: "files_read", Arguments: []byte(`{"path":"b"}`)},
			}}
			server := modeltest.NewServer(t, modeltest.Whole(modeltest.Stream(want, modeltest.Style{OneIndex: true, Piece: 5})))
			answer, err := client(t, openai.Config{Server: exchange.Server{BaseURL: server.URL}}).Take(t.Context(), modeltest.Asked, nil)
			require.NoError(t, err)
			require.Len(t, answer.Calls, 2)
			require.JSONEq(t, `{"path":"b"}`, string(answer.Calls[1].Arguments))
			require.Equal(t, "files.read", answer.Calls[1].Name)
		})
	}
}

func TestTheRequestAsTheServerGetsIt(t *testing.T) {
	request := model.Request{
		Model: "m", MaxTokens: 50,
		Messages: append(append([]model.Message(nil), history.Messages...), model.Message{Role: model.Assistant, Text: "done"}),
		Tools: []model.Spec{
			{Name: "files.read", Description: "reads", Schema: []byte(`{"type":"object","properties":{"n":{"maximum":9007199254740991}}}`)},
			{Name: "files_read", Schema: []byte(`{"type":"object"}`)},
		},
	}
	server := modeltest.NewServer(t, modeltest.Whole(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "ok"}, modeltest.Style{})))
	provider := client(t, openai.Config{Server: exchange.Server{BaseURL: server.URL, Key: modeltest.Key}})
	for range 20 {
		_, err := provider.Take(t.Context(), request, nil)
		require.NoError(t, err)
	}
	got := server.Received()
	for i := range 20 {
		require.Equal(t, string(got[0].Body), string(got[i].Body), "same request, same bytes")
	}
	require.Equal(t, "Bearer "+modeltest.Key, got[0].Header.Get("Authorization"))
	require.JSONEq(t, `{"model":"m","max_completion_tokens":50,"stream":true,"stream_options":{"include_usage":true},"messages":[
		{"role":"system","content":"be brief"},{"role":"user","content":"olga: pay the other one"},{"role":"user","content":"pay the invoice"},
		{"role":"assistant","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"files_read","arguments":"{\"path\":\"a\"}"}},
			{"id":"c2","type":"function","function":{"name":"files_read","arguments":"{\"path\":\"b\"}"}}]},
		{"role":"tool","tool_call_id":"c1","content":`+quote(t, history.Messages[4].Text)+`},{"role":"tool","tool_call_id":"c2","content":"not json"},
		{"role":"assistant","content":"done"}],
		"tools":[{"type":"function","function":{"name":"files_read","description":"reads","parameters":{"type":"object","properties":{"n":{"maximum":9007199254740991}}}}},
			{"type":"function","function":{"name":"files_read_2","parameters":{"type":"object"}}}]}`, string(got[0].Body))

	_, err := client(t, openai.Config{Server: exchange.Server{BaseURL: server.URL}, Compatible: true}).Take(t.Context(), request, nil)
	require.NoError(t, err)
	last := server.Received()[20]
	require.Contains(t, string(last.Body), `"max_tokens":50`)
	require.Empty(t, last.Header.Get("Authorization"))
}

func quote(t *testing.T, text string) string {
	raw, err := json.Marshal(text)
	require.NoError(t, err)
	return string(raw)
}

func TestOtherServersSpeakAlmostTheSame(t *testing.T) {
	compatible := openai.Config{Compatible: true}
	object := strings.Replace(string(modeltest.Stream(model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "files_read", Arguments: []byte("@")}}}, modeltest.Style{})),
		`"arguments":"@"`, `"arguments":{"path":"a"}`, 1)
	answer := heard(t, compatible, []byte(object))
	require.Equal(t, `{"path":"a"}`, string(answer.Calls[0].Arguments), "arguments as an object")

	ended := strings.Replace(string(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "hi"}, modeltest.Style{})), `"finish_reason":"stop"`, `"finish_reason":"eos_token"`, 1)
	require.Equal(t, model.FinishStop, heard(t, compatible, []byte(ended)).Finish)

	calls := strings.Replace(string(modeltest.Stream(model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{Name: "files_read", Arguments: []byte("{}")}}}, modeltest.Style{})),
		`"finish_reason":"tool_calls"`, `"finish_reason":"stop"`, 1)
	require.Equal(t, model.ClassCalls, model.Classify(heard(t, compatible, []byte(calls))), "calls under the reason stop")

	thought := strings.Replace(string(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "hi", Reasoning: "hm"}, modeltest.Style{})), "reasoning_content", "reasoning", 1)
	require.Equal(t, "hm", heard(t, compatible, []byte(thought)).Reasoning)
}

func TestImagesFilesAndSchemasInTheRequest(t *testing.T) {
	server := modeltest.NewServer(t, modeltest.Whole(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "{}"}, modeltest.Style{})))
	provider := client(t, openai.Config{Server: exchange.Server{BaseURL: server.URL}})
	picture := model.Media{MediaType: "image/png", Bytes: []byte("png")}
	request := model.Request{Model: "m", Output: []byte(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`),
		Messages: []model.Message{
			{Role: model.User, Text: "look", Media: []model.Media{picture, {MediaType: "application/pdf", Name: "a.pdf", Bytes: []byte("pdf")}}},
			{Role: model.Assistant, Calls: []model.Call{{ID: "c1", Name: "a"}, {ID: "c2", Name: "a"}}},
			{Role: model.ToolReply, CallID: "c1", Text: "one", Media: []model.Media{picture}},
			{Role: model.ToolReply, CallID: "c2", Text: "two"},
		}}
	_, err := provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	var got struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
		ResponseFormat json.RawMessage `json:"response_format"`
	}
	require.NoError(t, json.Unmarshal(server.Received()[0].Body, &got))
	encoded := base64.StdEncoding.EncodeToString([]byte("png"))
	require.Contains(t, string(got.Messages[0].Content), "data:image/png;base64,"+encoded)
	require.Contains(t, string(got.Messages[0].Content), `"filename":"a.pdf"`)
	require.Len(t, got.Messages, 5, "what a tool shows comes after the last reply")
	require.Equal(t, "user", got.Messages[4].Role)
	require.Contains(t, string(got.Messages[4].Content), "c1")
	require.Contains(t, string(got.Messages[4].Content), encoded)
	require.Contains(t, string(got.ResponseFormat), `"strict":true`)

	request.Output, request.Messages[0].Media = []byte(`{"type":"object"}`), []model.Media{{MediaType: "audio/wav", Bytes: []byte("x")}}
	_, err = provider.Take(t.Context(), request, nil)
	require.ErrorContains(t, err, "no file of this type")
	request.Messages[0].Media = nil
	_, err = provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	require.NotContains(t, string(server.Received()[1].Body), `"strict"`, "an open schema is only asked for")
}

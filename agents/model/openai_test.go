package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/modeltest"
)

var golden = modeltest.Stream(model.Answer{
	Finish: model.FinishCalls, Text: "I pay it.", Reasoning: "hm",
	Calls: []model.Proposed{call("bank_pay", `{"to":"ACME","cents":123450}`), call("files_read", `{"path":"a"}`)},
}, modeltest.Style{Piece: 20})

// fails takes a turn that must fail, and checks that the error says nothing.
func fails(t *testing.T, config model.OpenAIConfig, behaviours ...modeltest.Behaviour) *model.Error {
	t.Helper()
	if len(behaviours) > 0 {
		config.BaseURL = modeltest.NewServer(t, behaviours...).URL
	}
	config.Key = key
	answer, err := client(t, config).Take(t.Context(), asked, nil)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.Answer{}, answer)
	require.NotContains(t, err.Error(), key)
	require.NotContains(t, err.Error(), "as the test wants")
	return failure
}

func TestFault_D4_StreamCutYieldsNoCall(t *testing.T) {
	whole := len(golden) - 1 // with the empty line that ends the last event
	for name, cut := range map[string]func([]byte, int) modeltest.Behaviour{"broken": modeltest.Cut, "ended": modeltest.Short} {
		var behaviours []modeltest.Behaviour
		for at := range whole {
			behaviours = append(behaviours, cut(golden, at))
		}
		server := modeltest.NewServer(t, behaviours...)
		provider := client(t, model.OpenAIConfig{BaseURL: server.URL})
		for at := range whole {
			answer, err := provider.Take(t.Context(), asked, nil)
			var failure *model.Error
			require.ErrorAs(t, err, &failure, "%s at %d of %d: %q", name, at, len(golden), golden[:at])
			require.Equal(t, model.Cut, failure.Kind, "%s at %d", name, at)
			require.True(t, failure.Retryable())
			require.True(t, failure.Billed)
			require.Equal(t, model.Answer{}, answer)
			require.Len(t, server.Received(), at+1, "nobody tries again behind our back")
		}
	}
	server := modeltest.NewServer(t, modeltest.Whole(golden))
	answer, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(t.Context(), asked, nil)
	require.NoError(t, err)
	require.Len(t, answer.Calls, 2)
}

func TestFault_D1_TooManyRequests(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	table := []struct {
		header, value string
		wait          time.Duration
	}{
		{"", "", 0},
		{"Retry-After", "7", 7 * time.Second},
		{"Retry-After", "Fri, 01 May 2026 12:00:30 GMT", 30 * time.Second},
		{"Retry-After", "Fri, 01 May 2026 11:00:00 GMT", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-5", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "1e300", 24 * time.Hour},
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond},
	}
	for _, row := range table {
		t.Run(row.header+row.value, func(t *testing.T) {
			failure := fails(t, model.OpenAIConfig{Now: func() time.Time { return now }},
				modeltest.Status(http.StatusTooManyRequests, "rate_limit_exceeded", row.header, row.value))
			require.Equal(t, model.RateLimited, failure.Kind)
			require.Equal(t, row.wait, failure.RetryAfter)
			require.False(t, failure.Billed)
		})
	}
}

func TestFault_D2_StatusesHaveKinds(t *testing.T) {
	table := []struct {
		status int
		code   string
		kind   model.ErrorKind
		again  bool
	}{
		{500, "", model.Overloaded, true},
		{502, "", model.Overloaded, true},
		{503, "", model.Overloaded, true},
		{529, "overloaded_error", model.Overloaded, true},
		{400, "invalid_value", model.BadRequest, false},
		{400, "context_length_exceeded", model.TooLong, false},
		{413, "", model.TooLong, false},
		{422, "", model.BadRequest, false},
		{401, "invalid_api_key", model.Unauthorised, false},
		{403, "", model.Unauthorised, false},
		{429, "insufficient_quota", model.Unauthorised, false},
		{404, "model_not_found", model.ModelNotFound, false},
		{408, "", model.TimedOut, true},
		{204, "", model.BadAnswer, true},
		{302, "", model.BadAnswer, true},
	}
	for _, row := range table {
		t.Run(http.StatusText(row.status)+row.code, func(t *testing.T) {
			server := modeltest.NewServer(t, modeltest.Status(row.status, row.code, "Location", "/elsewhere"))
			failure := fails(t, model.OpenAIConfig{BaseURL: server.URL})
			require.Equal(t, row.kind, failure.Kind)
			require.Equal(t, row.again, failure.Retryable())
			require.Len(t, server.Received(), 1, "nobody tries again behind our back")
		})
	}
}

func TestAServerThatIsNotThereIsUnreachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	failure := fails(t, model.OpenAIConfig{BaseURL: "http://" + listener.Addr().String() + "/v1"})
	require.Equal(t, model.Unreachable, failure.Kind)
	require.False(t, failure.Billed)
}

// alarm is a timer that rings when the test says so.
type alarm struct {
	mu    sync.Mutex
	rings func()
	armed int
}

func (a *alarm) set(_ time.Duration, expired func()) func() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.armed++
	a.rings = expired
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.rings = func() {}
	}
}

func (a *alarm) ring() {
	a.mu.Lock()
	rings := a.rings
	a.mu.Unlock()
	rings()
}

func TestFault_D3_SilenceTimesOut(t *testing.T) {
	for name, silent := range map[string]func(chan<- struct{}) modeltest.Behaviour{
		"before the header": modeltest.Mute,
		"after the header":  func(began chan<- struct{}) modeltest.Behaviour { return modeltest.Silent(golden, 0, began) },
		"in the middle":     func(began chan<- struct{}) modeltest.Behaviour { return modeltest.Silent(golden, len(golden)/2, began) },
	} {
		t.Run(name, func(t *testing.T) {
			began, a := make(chan struct{}), &alarm{}
			behaviour := silent(began)
			config := model.OpenAIConfig{Timer: a.set, Idle: time.Second, BaseURL: modeltest.NewServer(t, behaviour).URL}
			var watcher conc.WaitGroup
			watcher.Go(func() {
				<-began
				a.ring()
			})
			failure := fails(t, config)
			watcher.Wait()
			require.Equal(t, model.TimedOut, failure.Kind)
			require.True(t, failure.Billed)
		})
	}
}

func TestEveryByteStartsTheTimeOfSilenceAnew(t *testing.T) {
	next, a := make(chan struct{}), &alarm{}
	server := modeltest.NewServer(t, modeltest.Slow(golden, 200, next))
	provider := client(t, model.OpenAIConfig{BaseURL: server.URL, Timer: a.set})
	var sender conc.WaitGroup
	sender.Go(func() {
		for range (len(golden) + 199) / 200 {
			next <- struct{}{}
		}
	})
	_, err := provider.Take(t.Context(), asked, nil)
	sender.Wait()
	require.NoError(t, err)
	require.Greater(t, a.armed, 2)
	a.ring() // nothing listens any more
}

func TestGarbageIsABadAnswer(t *testing.T) {
	for name, behaviour := range map[string]modeltest.Behaviour{
		"page":      modeltest.Body("text/html", "<html>welcome</html>"),
		"no stream": modeltest.Body("application/json", `{"choices":[{"message":{"content":"hi"}}]}`),
		"no type":   modeltest.Body("", ""),
		"no JSON":   modeltest.Body("text/event-stream", "data: {\"choices\":\n\ndata: [DONE]\n\n"),
		"no reason": modeltest.Body("text/event-stream", "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n"),
		"strange":   modeltest.Body("text/event-stream", "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"bored\"}]}\n\ndata: [DONE]\n\n"),
		"two":       modeltest.Body("text/event-stream", "data: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n"),
		"flood":     modeltest.Whole(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: strings.Repeat("x", 1<<16)}, modeltest.Style{Piece: 100})),
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, model.BadAnswer, fails(t, model.OpenAIConfig{AnswerBytes: 1 << 16}, behaviour).Kind)
		})
	}
}

func TestErrorsInsideAStreamHaveKinds(t *testing.T) {
	for code, kind := range map[string]model.ErrorKind{
		"server_error": model.Overloaded, "rate_limit_exceeded": model.RateLimited, "context_length_exceeded": model.TooLong,
	} {
		require.Equal(t, kind, fails(t, model.OpenAIConfig{}, modeltest.Body("text/event-stream", `data: {"error":{"code":"`+code+`","message":"as the test wants"}}`+"\n\n")).Kind)
	}
}

func TestAnyBytesGiveAnAnswerOrATypedError(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		stream := append([]byte(nil), golden...)
		for range rapid.IntRange(1, 4).Draw(r, "flips") {
			stream[rapid.IntRange(0, len(stream)-1).Draw(r, "at")] = rapid.Byte().Draw(r, "byte")
		}
		server := modeltest.NewServer(t, modeltest.Whole(stream))
		answer, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(t.Context(), asked, nil)
		var failure *model.Error
		if err != nil && !errors.As(err, &failure) {
			r.Fatalf("not one of our errors: %v", err)
		}
		require.NotEmpty(r, string(model.Classify(answer)))
	})
}

func TestFault_D12_RefusalsAreRefusals(t *testing.T) {
	refused := modeltest.Stream(model.Answer{Finish: model.FinishRefusal, Text: "No."}, modeltest.Style{})
	filtered := strings.Replace(string(modeltest.Stream(model.Answer{Finish: model.FinishStop, Text: "Well"}, modeltest.Style{})), `"finish_reason":"stop"`, `"finish_reason":"content_filter"`, 1)
	for text, stream := range map[string]string{"No.": string(refused), "Well": filtered} {
		server := modeltest.NewServer(t, modeltest.Whole([]byte(stream)))
		answer, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(t.Context(), asked, nil)
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
			answer, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(t.Context(), asked, nil)
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
			answer, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(t.Context(), asked, nil)
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
	provider := client(t, model.OpenAIConfig{BaseURL: server.URL, Key: key})
	for range 2 {
		_, err := provider.Take(t.Context(), request, nil)
		require.NoError(t, err)
	}
	got := server.Received()
	require.Equal(t, string(got[0].Body), string(got[1].Body), "same request, same bytes")
	require.Equal(t, "Bearer "+key, got[0].Header.Get("Authorization"))
	require.JSONEq(t, `{"model":"m","max_completion_tokens":50,"stream":true,"stream_options":{"include_usage":true},"messages":[
		{"role":"system","content":"be brief"},{"role":"user","content":"olga: pay the other one"},{"role":"user","content":"pay the invoice"},
		{"role":"assistant","tool_calls":[
			{"id":"c1","type":"function","function":{"name":"files_read","arguments":"{\"path\":\"a\"}"}},
			{"id":"c2","type":"function","function":{"name":"files_read","arguments":"{\"path\":\"b\"}"}}]},
		{"role":"tool","tool_call_id":"c1","content":`+quote(t, history.Messages[4].Text)+`},{"role":"tool","tool_call_id":"c2","content":"not json"},
		{"role":"assistant","content":"done"}],
		"tools":[{"type":"function","function":{"name":"files_read","description":"reads","parameters":{"type":"object","properties":{"n":{"maximum":9007199254740991}}}}},
			{"type":"function","function":{"name":"files_read_2","parameters":{"type":"object"}}}]}`, string(got[0].Body))

	_, err := client(t, model.OpenAIConfig{BaseURL: server.URL, Compatible: true}).Take(t.Context(), request, nil)
	require.NoError(t, err)
	last := server.Received()[2]
	require.Contains(t, string(last.Body), `"max_tokens":50`)
	require.Empty(t, last.Header.Get("Authorization"))
}

func quote(t *testing.T, text string) string {
	raw, err := json.Marshal(text)
	require.NoError(t, err)
	return string(raw)
}

func TestTheEnvironmentIsNotRead(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-of-the-operator")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/")
	t.Setenv("OPENAI_ORG_ID", "org")
	server := modeltest.NewServer(t, modeltest.Whole(golden))
	_, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(t.Context(), asked, nil)
	require.NoError(t, err)
	require.Empty(t, server.Received()[0].Header.Get("Authorization"))
	require.Empty(t, server.Received()[0].Header.Get("OpenAI-Organization"))
}

func TestARequestInFlightIsGivenUp(t *testing.T) {
	began := make(chan struct{})
	server := modeltest.NewServer(t, modeltest.Silent(golden, 300, began))
	ctx, cancel := context.WithCancel(t.Context())
	var watcher conc.WaitGroup
	watcher.Go(func() {
		<-began
		cancel()
	})
	_, err := client(t, model.OpenAIConfig{BaseURL: server.URL}).Take(ctx, asked, nil)
	watcher.Wait()
	require.ErrorIs(t, err, context.Canceled)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.True(t, failure.Billed)
}

func TestConfigurationIsRefusedWithoutShowingIt(t *testing.T) {
	for _, address := range []string{"", "api.openai.com", "ftp://x/v1", "https://user:hunter2@x/v1", "https://x/v1?key=hunter2", "https://hunter2\x7f/"} {
		_, err := model.NewOpenAI(model.OpenAIConfig{BaseURL: address, Key: key, Idle: -1, AnswerBytes: -1})
		require.ErrorContains(t, err, "base URL")
		require.ErrorContains(t, err, "idle time")
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), key)
	}
}

package record_test

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
	"gantry.dev/agents/model/modeltest"
	"gantry.dev/agents/model/recording"
	"gantry.dev/cmd/gantry/cli/record"
	"gantry.dev/cmd/gantry/wire"
)

var update = flag.Bool("update", false, "write the recordings anew")

func open(provider string, server exchange.Server) (model.Provider, error) {
	return wire.ProviderAt(provider, server, false)
}

// talks is a server that calls a tool twice at once, and then answers.
func talks(t *testing.T, protocol modeltest.Protocol, spoil func(http.Header)) *modeltest.Server {
	say := func(answer model.Answer) modeltest.Behaviour {
		whole := modeltest.Pieces(protocol.Stream(answer, modeltest.Style{Piece: 12}), 64)
		return func(w http.ResponseWriter, r *http.Request) {
			spoil(w.Header())
			whole(w, r)
		}
	}
	read := func(path string) model.Proposed {
		return model.Proposed{ProviderID: "call_" + path, Name: "files_read", Arguments: []byte(`{"path":"` + path + `"}`)}
	}
	return modeltest.NewServer(t,
		say(model.Answer{Finish: model.FinishCalls, Reasoning: "Both at once.", Text: "I look.", Calls: []model.Proposed{read("handbook.md"), read("appendix.md")}}),
		say(model.Answer{Finish: model.FinishStop, Text: "The handbook gives 27 days of leave."}))
}

func TestWhatIsRecordedPlaysAgain(t *testing.T) {
	for _, protocol := range modeltest.Protocols() {
		t.Run(protocol.Name, func(t *testing.T) {
			server := talks(t, protocol, func(http.Header) {})
			wanted := record.Model{Provider: protocol.Name, Name: "recorded-1", BaseURL: protocol.At(server), Key: modeltest.Key}
			answers, recorded, err := record.Record(t.Context(), open, wanted, http.DefaultTransport)
			require.NoError(t, err)
			require.Len(t, answers, 2)
			require.Len(t, answers[0].Calls, 2)

			file := filepath.Join("testdata", protocol.Name+".recording")
			text, err := json.MarshalIndent(recorded, "", "  ")
			require.NoError(t, err)
			if *update {
				require.NoError(t, os.WriteFile(file, append(text, '\n'), 0o600))
			}
			stored, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(stored), string(text)+"\n", "what is sent and how it is read stays as it was")

			var again recording.Recording
			require.NoError(t, json.Unmarshal(stored, &again))
			provider, err := open(again.Provider, exchange.Server{BaseURL: "http://replayed.invalid" + protocol.Base, Transport: again.Play()})
			require.NoError(t, err)
			played, err := record.Converse(t.Context(), provider, record.Conversation(again.Model))
			require.NoError(t, err)
			require.Equal(t, answers, played)
		})
	}
}

// Whoever asks stays out of a recording, wherever a server repeats it.
func TestARecordingSaysNothingOfWhoAsked(t *testing.T) {
	const canary = "canary-7c2f"
	secret := "sk-\"" + canary + "\\"
	for _, protocol := range modeltest.Protocols() {
		t.Run(protocol.Name, func(t *testing.T) {
			server := talks(t, protocol, func(header http.Header) {
				for _, name := range []string{"Openai-Organization", "Anthropic-Organization-Id", "X-Request-Id", "Set-Cookie", "X-Goog-User-Project"} {
					header.Set(name, canary)
				}
			})
			wanted := record.Model{Provider: protocol.Name, Name: "recorded-1", BaseURL: protocol.At(server), Key: secret}
			_, recorded, err := record.Record(t.Context(), open, wanted, http.DefaultTransport)
			require.NoError(t, err)
			text, err := json.Marshal(recorded)
			require.NoError(t, err)
			require.NotContains(t, string(text), canary)

			body, err := json.Marshal(map[string]any{"error": map[string]any{"message": "no such key: " + secret, "code": 401}, "request_id": canary, "organizationId": canary + `"x`})
			require.NoError(t, err)
			refusing := modeltest.NewServer(t, modeltest.StatusBody(http.StatusUnauthorized, json.RawMessage(body)))
			wanted.BaseURL = protocol.At(refusing)
			_, recorded, err = record.Record(t.Context(), open, wanted, http.DefaultTransport)
			require.Error(t, err)
			require.NotContains(t, err.Error(), canary)
			text, marshalled := json.Marshal(recorded)
			require.NoError(t, marshalled)
			require.NotContains(t, string(text), canary)
			require.Contains(t, string(text), "[key]")
			require.Equal(t, http.StatusUnauthorized, recorded.Exchanges[0].Status)
		})
	}
}

func TestABrokenAnswerIsRecordedAsBroken(t *testing.T) {
	protocol := modeltest.Anthropic()
	server := modeltest.NewServer(t, modeltest.Cut(protocol.Golden(), 300))
	wanted := record.Model{Provider: protocol.Name, Name: "recorded-1", BaseURL: protocol.At(server)}
	_, recorded, err := record.Record(t.Context(), open, wanted, http.DefaultTransport)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.Cut, failure.Kind)
	require.True(t, recorded.Exchanges[0].Broken)

	provider, err := open(protocol.Name, exchange.Server{BaseURL: "http://replayed.invalid", Transport: recorded.Play()})
	require.NoError(t, err)
	_, err = record.Converse(t.Context(), provider, record.Conversation("recorded-1"))
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.Cut, failure.Kind)
}

func TestTheCommandWritesWhatItHeard(t *testing.T) {
	protocol := modeltest.OpenAI()
	server := talks(t, protocol, func(http.Header) {})
	out := filepath.Join(t.TempDir(), "openai.recording")
	run := func(args ...string) error {
		command := record.Command(open)
		command.SetArgs(append([]string{"record"}, args...))
		command.SilenceErrors, command.SilenceUsage = true, true
		return command.ExecuteContext(t.Context())
	}
	require.NoError(t, run("--model", "openai:recorded-1@"+protocol.At(server), "--out", out))
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Contains(t, string(text), "27 days of leave")
	require.ErrorContains(t, run("--model", "openai:recorded-1@"+protocol.At(server), "--out", out), "choose another file")
	require.ErrorContains(t, run("--model", "openai:recorded-1"), "needs --model and --out")
}

// Sentences of servers name whose key it was, and its ends.
func TestARecordingSaysNothingOfWhoAskedInSentences(t *testing.T) {
	protocol := modeltest.OpenAI()
	for _, sentence := range []string{
		"Incorrect API key provided: sk-proj-********************canary. You can find it", "Rate limit reached for gpt-5 in organization org-canary7c2f8d on tokens",
		"Project `proj_canary7c2f8d` does not have access", "Gemini has not been used in project 123456789012 before", "request req_011CanaryCanary failed", "key AIzaSyCanary1Canary is not valid",
	} {
		body, err := json.Marshal(map[string]any{"error": map[string]any{"message": sentence}})
		require.NoError(t, err)
		server := modeltest.NewServer(t, modeltest.StatusBody(http.StatusUnauthorized, json.RawMessage(body)))
		_, recorded, err := record.Record(t.Context(), open, record.Model{Provider: protocol.Name, Name: "recorded-1", BaseURL: protocol.At(server), Key: "sk-x"}, http.DefaultTransport)
		require.Error(t, err)
		text, err := json.Marshal(recorded)
		require.NoError(t, err)
		require.NotRegexp(t, "(?i)canary|123456789012", string(text))
	}
}

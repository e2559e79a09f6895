package modeltest

import (
	"context"
	"strings"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
)

// Open returns a provider that will give the wanted answer to a request, and
// that request, and how far it could be told what to say.
type Open func(t *testing.T, want model.Answer) (provider model.Provider, request model.Request, told Told)

// Told says how far a provider can be told what to say. One that answers by
// itself cannot; it must answer all the same.
type Told struct {
	All       bool
	Arguments func(raw string) string // what becomes of the bytes of a call's arguments; nil: they stay
}

// Suite checks what every provider promises.
func Suite(t *testing.T, open Open) {
	for name, want := range answers() {
		t.Run(name, func(t *testing.T) { gives(t, open, want) })
	}
	t.Run("a request that is given up", func(t *testing.T) { givesUp(t, open) })
	t.Run("many at once", func(t *testing.T) { manyAtOnce(t, open) })
}

func answers() map[string]model.Answer {
	read, ask := proposed("1", "files.read", `{"path":"a.md"}`), proposed("2", "ask.person", `{"question":"é?"}`)
	return map[string]model.Answer{
		"text":                 {Finish: model.FinishStop, Text: "One line.\n\nAnother, with ünïcödé 🙂.\n"},
		"a call":               {Finish: model.FinishCalls, Calls: []model.Proposed{read}},
		"text and calls":       {Finish: model.FinishCalls, Text: "I look.", Calls: []model.Proposed{read, ask}},
		"calls without ids":    {Finish: model.FinishCalls, Calls: []model.Proposed{proposed("", "files.read", `{"path":"a"}`), proposed("", "files.read", `{"path":"b"}`)}},
		"repeated ids":         {Finish: model.FinishCalls, Calls: []model.Proposed{proposed("1", "files.read", `{"path":"a"}`), proposed("1", "files.read", `{"path":"b"}`)}},
		"garbled arguments":    {Finish: model.FinishCalls, Calls: []model.Proposed{proposed("1", "files.read", `{"path": "a`), proposed("2", "files.read", ``)}},
		"order is kept":        {Finish: model.FinishCalls, Calls: []model.Proposed{proposed("9", "b", `{"z":1,"a":1e2}`), proposed("1", "a", `{ "a" : 1 , "a":2}`)}},
		"a refusal":            {Finish: model.FinishRefusal, Text: "I will not do that."},
		"nothing":              {Finish: model.FinishStop},
		"white space":          {Finish: model.FinishStop, Text: " \n\t"},
		"only reasoning":       {Finish: model.FinishStop, Reasoning: "let me think"},
		"stopped by its limit": {Finish: model.FinishLength, Text: "and then"},
	}
}

func proposed(id, name, arguments string) model.Proposed {
	return model.Proposed{ProviderID: id, Name: name, Arguments: []byte(arguments)}
}

func gives(t *testing.T, open Open, want model.Answer) {
	provider, request, told := open(t, want)
	var streamed strings.Builder
	answer, err := provider.Take(t.Context(), request, func(text string) { streamed.WriteString(text) })
	require.NoError(t, err)
	if answer.Finish != model.FinishRefusal {
		require.Equal(t, answer.Text, streamed.String(), "the pieces are the text")
	}
	checkUsage(t, answer.Usage)
	require.NotEmpty(t, answer.Model)

	silent, err := provider.Take(t.Context(), request, nil)
	require.NoError(t, err)
	require.Equal(t, answer, silent, "whether somebody listens makes no difference")
	if !told.All {
		require.Contains(t, []model.Class{model.ClassText, model.ClassCalls, model.ClassQuestion}, model.Classify(answer))
		return
	}
	require.Equal(t, want.Finish, answer.Finish)
	require.Equal(t, want.Text, answer.Text)
	require.Equal(t, want.Reasoning, answer.Reasoning)
	require.Equal(t, model.Classify(want), model.Classify(answer))
	require.Len(t, answer.Calls, len(want.Calls))
	for i, call := range want.Calls {
		require.Equal(t, call.Name, answer.Calls[i].Name)
		require.Equal(t, call.ProviderID, answer.Calls[i].ProviderID)
		arguments := string(call.Arguments)
		if told.Arguments != nil {
			arguments = told.Arguments(arguments)
		}
		require.Equal(t, arguments, string(answer.Calls[i].Arguments), "bytes are passed on as they come")
	}
}

func checkUsage(t *testing.T, usage model.Usage) {
	require.GreaterOrEqual(t, min(usage.Input, usage.CacheRead, usage.CacheWrite, usage.Output, usage.Reasoning), int64(0))
	require.Positive(t, usage.Input, "a prompt is never free of tokens")
}

func givesUp(t *testing.T, open Open) {
	provider, request, _ := open(t, model.Answer{Finish: model.FinishStop, Text: "too late"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	answer, err := provider.Take(ctx, request, nil)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, model.Answer{}, answer)
}

func manyAtOnce(t *testing.T, open Open) {
	provider, request, _ := open(t, model.Answer{Finish: model.FinishStop, Text: "the same for all"})
	answers := make([]model.Answer, 8)
	failures := make([]error, len(answers))
	var all conc.WaitGroup
	for i := range answers {
		all.Go(func() { answers[i], failures[i] = provider.Take(t.Context(), request, nil) })
	}
	all.Wait()
	for i := range answers {
		require.NoError(t, failures[i])
		require.Equal(t, answers[0], answers[i])
	}
}

package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/model"
)

func call(name, arguments string) model.Proposed {
	return model.Proposed{Name: name, Arguments: []byte(arguments)}
}

func TestClassify(t *testing.T) {
	one, cut := call("files.read", `{"path":"a"}`), call("files.read", `{"pa`)
	table := []struct {
		name   string
		answer model.Answer
		class  model.Class
	}{
		{"text", model.Answer{Finish: model.FinishStop, Text: "hello"}, model.ClassText},
		{"calls", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{one}}, model.ClassCalls},
		{"calls after stop", model.Answer{Finish: model.FinishStop, Text: "let me see", Calls: []model.Proposed{one}}, model.ClassCalls},
		{"garbled arguments", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{cut}}, model.ClassCalls},
		{"question", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{call("ask.person", `{"question":"?"}`)}}, model.ClassQuestion},
		{"question among calls", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{call("ask.person", `{}`), one}}, model.ClassCalls},
		{"wrong case", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{call("Ask.Person", `{}`)}}, model.ClassCalls},
		{"refusal", model.Answer{Finish: model.FinishRefusal, Text: "no"}, model.ClassRefusal},
		{"silent refusal", model.Answer{Finish: model.FinishRefusal}, model.ClassRefusal},
		{"refusal with call", model.Answer{Finish: model.FinishRefusal, Calls: []model.Proposed{one}}, model.ClassRefusal},
		{"length, text", model.Answer{Finish: model.FinishLength, Text: "once upon"}, model.ClassCut},
		{"length, nothing", model.Answer{Finish: model.FinishLength, Reasoning: "hm"}, model.ClassCut},
		{"length, cut call", model.Answer{Finish: model.FinishLength, Calls: []model.Proposed{cut}}, model.ClassCut},
		{"length, null arguments", model.Answer{Finish: model.FinishLength, Calls: []model.Proposed{call("x", "null")}}, model.ClassCut},
		{"length, whole call", model.Answer{Finish: model.FinishLength, Calls: []model.Proposed{one}}, model.ClassCut},
		{"length, whole call and a cut one", model.Answer{Finish: model.FinishLength, Calls: []model.Proposed{one, cut}}, model.ClassCut},
		{"calls without a call", model.Answer{Finish: model.FinishCalls, Text: "I call"}, model.ClassMalformed},
		{"call without a name", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{one, call("", `{}`)}}, model.ClassMalformed},
		{"broken name", model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{call("a\xff", `{}`)}}, model.ClassMalformed},
		{"broken text", model.Answer{Finish: model.FinishStop, Text: "a\xff"}, model.ClassMalformed},
		{"no finish", model.Answer{Text: "hello"}, model.ClassMalformed},
		{"unknown finish", model.Answer{Finish: "stop", Text: "hello"}, model.ClassMalformed},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) { require.Equal(t, row.class, model.Classify(row.answer)) })
	}
}

func TestFault_D11_EmptyAnswersAreEmpty(t *testing.T) {
	for _, text := range []string{"", " ", "\n\t\r\n", "\u00a0\u2003", "\u200b\ufeff", "\x00"} {
		require.Equal(t, model.ClassEmpty, model.Classify(model.Answer{Finish: model.FinishStop, Text: text, Reasoning: "long thought"}), "%q", text)
	}
}

func TestClassifyIsTotal(t *testing.T) {
	classes := []model.Class{model.ClassText, model.ClassQuestion, model.ClassCalls, model.ClassRefusal, model.ClassEmpty, model.ClassCut, model.ClassMalformed}
	rapid.Check(t, func(t *rapid.T) {
		answer := model.Answer{
			Finish:    model.Finish(rapid.SampledFrom([]string{"STOP", "CALLS", "LENGTH", "REFUSAL", "", "x"}).Draw(t, "finish")),
			Text:      rapid.OneOf(rapid.String(), rapid.Just(" \n"), rapid.Just("\xff")).Draw(t, "text"),
			Reasoning: rapid.String().Draw(t, "reasoning"),
		}
		for range rapid.IntRange(0, 3).Draw(t, "calls") {
			answer.Calls = append(answer.Calls, call(rapid.SampledFrom([]string{"ask.person", "a.b", ""}).Draw(t, "name"), rapid.SampledFrom([]string{"{}", "", "{", "[]"}).Draw(t, "arguments")))
		}
		require.Contains(t, classes, model.Classify(answer))
	})
}

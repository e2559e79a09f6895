package script_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/script"
)

// turn runs one turn of a program over a request.
func turn(t *testing.T, source string, request model.Request) (model.Answer, error) {
	t.Helper()
	program, err := script.New(map[string]string{"test.star": source})
	require.NoError(t, err)
	request.Model = "test.star"
	return program.Take(t.Context(), request, nil)
}

// says returns the text of a turn whose body is an expression for a string.
func says(t *testing.T, expression string, request model.Request) string {
	t.Helper()
	answer, err := turn(t, "def turn(ctx):\n    return {\"text\": str("+expression+")}\n", request)
	if err != nil {
		t.Log(errors.Unwrap(err))
	}
	require.NoError(t, err)
	return answer.Text
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

func call(name, arguments string) model.Proposed {
	return model.Proposed{Name: name, Arguments: []byte(arguments)}
}

// A turn that the prompt shows in brief has no message, and counts.
func TestTurnsThatStandInBriefCount(t *testing.T) {
	long := history
	long.Turns = 7
	require.Equal(t, "7", says(t, "ctx.turn", long))
}

func TestScriptSeesThePrompt(t *testing.T) {
	table := []struct{ expression, text string }{
		{`ctx.turn`, "1"},
		{`ctx.tools`, `["files.read", "mail.send"]`},
		{`[m.role for m in ctx.messages]`, `["system", "user", "assistant", "tool", "tool"]`},
		{`ctx.messages[1].text`, "pay the invoice"},
		{`[m.text for m in ctx.history]`, `["olga: pay the other one"]`},
		{`ctx.messages[2].calls[1].arguments["path"]`, "b"},
		{`ctx.messages[3].call_id`, "c1"},
		{`ctx.messages[3].text.startswith("[[data ab")`, "True"},
		{`ctx.result("files.read").value`, "not json"},
		{`ctx.result("files.read").id`, "c2"},
		{`ctx.result("files.read", n=0).value["rows"][1][0]`, "3"},
		{`ctx.result("files.read", 0).arguments["path"]`, "a"},
		{`ctx.result("files.read", 2)`, "None"},
		{`ctx.result("files.read", -3)`, "None"},
		{`ctx.result("mail.send")`, "None"},
		{`len(ctx.results("files.read"))`, "2"},
		{`ctx.results("mail.send")`, "[]"},
	}
	for _, row := range table {
		t.Run(row.expression, func(t *testing.T) { require.Equal(t, row.text, says(t, row.expression, history)) })
	}
}

func TestScriptLibrary(t *testing.T) {
	table := []struct{ expression, text string }{
		{`decimal.cents("1,234.50")`, "123450"},
		{`decimal.cents("1234.5")`, "123450"},
		{`decimal.cents(1234.1)`, "123410"},
		{`decimal.cents(7)`, "700"},
		{`decimal.cents("-0.07")`, "-7"},
		{`decimal.cents("1.230")`, "123"},
		{`decimal.format(123450)`, "1234.50"},
		{`decimal.format(-7)`, "-0.07"},
		{`decimal.times(250, "0.19")`, "48"},
		{`decimal.times(-250, "0.19")`, "-48"},
		{`decimal.times(123450, 1)`, "123450"},
		{`csv.parse("a, b\n1,\"x,y\"\n2,z\n")[0]["b"]`, "x,y"},
		{`csv.parse("a;b\n1;2\n", comma=";")`, `[{"a": "1", "b": "2"}]`},
		{`csv.parse("")`, "[]"},
		{`json.decode("[1, 2.5, null]")`, "[1, 2.5, None]"},
		{`json.encode({"b": 1, "a": [True]})`, `{"a":[true],"b":1}`},
	}
	for _, row := range table {
		t.Run(row.expression, func(t *testing.T) { require.Equal(t, row.text, says(t, row.expression, model.Request{})) })
	}
}

func TestScriptAnswers(t *testing.T) {
	table := []struct {
		name, result string
		answer       model.Answer
	}{
		{"text", `{"text": "a\nb"}`, model.Answer{Finish: model.FinishStop, Text: "a\nb"}},
		{"call", `{"text": "now", "calls": [{"name": "x", "arguments": {"b": 1, "a": "é"}}]}`,
			model.Answer{Finish: model.FinishCalls, Text: "now", Calls: []model.Proposed{call("x", `{"a":"é","b":1}`)}}},
		{"raw", `{"calls": [{"name": "x", "raw": b"{\xff", "id": "1"}, {"name": "y", "raw": "", "id": "1"}]}`,
			model.Answer{Finish: model.FinishCalls, Calls: []model.Proposed{{ProviderID: "1", Name: "x", Arguments: []byte("{\xff")}, {ProviderID: "1", Name: "y", Arguments: []byte{}}}}},
		{"refusal", `{"refusal": "I will not"}`, model.Answer{Finish: model.FinishRefusal, Text: "I will not"}},
		{"empty", `{}`, model.Answer{Finish: model.FinishStop}},
		{"reasoning", `{"reasoning": "hm"}`, model.Answer{Finish: model.FinishStop, Reasoning: "hm"}},
		{"cut", `{"text": "a", "finish": "LENGTH"}`, model.Answer{Finish: model.FinishLength, Text: "a"}},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			answer, err := turn(t, "def turn(ctx):\n    return "+row.result+"\n", model.Request{})
			require.NoError(t, err)
			require.True(t, answer.Usage.Estimated)
			answer.Usage, answer.Model = model.Usage{}, ""
			require.Equal(t, row.answer, answer)
		})
	}
}

func TestScriptErrorsSayWhereButNotWhat(t *testing.T) {
	bodies := map[string]string{
		"fail":       `fail("secret " + ctx.messages[0].text)`,
		"key":        `return {"text": {}["secret"]}`,
		"recursion":  `return turn(ctx)`,
		"print":      `print("secret")`,
		"endless":    "\n    while True:\n        pass",
		"type":       `return "secret"`,
		"unknown":    `return {"txt": "secret"}`,
		"two forms":  `return {"calls": [{"name": "secret", "arguments": {}, "raw": ""}]}`,
		"cent parts": `return {"text": str(decimal.cents("0.005"))}`,
		"not number": `return {"text": str(decimal.cents("1.234,50"))}`,
		"exponent":   `return {"text": str(decimal.cents("1e999999999"))}`,
		"ragged":     `return {"text": str(csv.parse("a,b\n1\n"))}`,
		"depth":      `return {"text": str(json.decode("[" * 1000000))}`,
		"cycle":      "\n    a = {}\n    a[\"a\"] = a\n    return {\"calls\": [{\"name\": \"x\", \"arguments\": a}]}",
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			_, err := turn(t, "def turn(ctx):\n    "+body+"\n", model.Request{Messages: []model.Message{{Role: model.User, Text: "secret"}}})
			var failure *model.Error
			require.ErrorAs(t, err, &failure)
			require.Equal(t, model.BadRequest, failure.Kind)
			require.Contains(t, err.Error(), "test.star")
			require.NotContains(t, err.Error(), "secret")
			require.False(t, failure.Retryable())
			require.Error(t, errors.Unwrap(err))
			if name == "fail" {
				require.Contains(t, err.Error(), "test.star:2:")
				require.Contains(t, errors.Unwrap(err).Error(), "secret")
			}
		})
	}
}

func TestScriptMustCompile(t *testing.T) {
	for name, source := range map[string]string{
		"syntax": "def turn(", "nothing": "x = 1", "parameters": "def turn():\n    return {}\n",
		"load": `load("other.star", "x")` + "\ndef turn(ctx):\n    return {}\n", "top level": "def turn(ctx):\n    return {}\nfail(1)\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := script.New(map[string]string{"test.star": source})
			require.ErrorContains(t, err, "test.star")
		})
	}
}

func TestScriptCannotKeepState(t *testing.T) {
	_, err := turn(t, "seen = []\ndef turn(ctx):\n    seen.append(1)\n    return {}\n", model.Request{})
	require.ErrorContains(t, errors.Unwrap(err), "frozen")
}

func TestScriptErrorForm(t *testing.T) {
	_, err := turn(t, "def turn(ctx):\n    return {\"error\": {\"kind\": \"RATE_LIMITED\", \"retry_after_ms\": 1500}}\n", model.Request{})
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.RateLimited, failure.Kind)
	require.Equal(t, "1.5s", failure.RetryAfter.String())
	require.True(t, failure.Retryable())
}

func TestScriptStopsWithItsRequest(t *testing.T) {
	program, err := script.New(map[string]string{"test.star": "def turn(ctx):\n    while True:\n        pass\n"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = program.Take(ctx, model.Request{Model: "test.star"}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestScriptKeepsToTheLimitOfTokens(t *testing.T) {
	answer, err := turn(t, "def turn(ctx):\n    return {\"text\": \"é\" * 100, \"reasoning\": \"r\" * 100}\n", model.Request{MaxTokens: 10})
	require.NoError(t, err)
	require.Equal(t, model.ClassCut, model.Classify(answer))
	require.LessOrEqual(t, answer.Usage.Output+answer.Usage.Reasoning, int64(10))
	answer, err = turn(t, "def turn(ctx):\n    return {\"calls\": [{\"name\": \"x\", \"arguments\": {\"a\": \"b\" * 100}}]}\n", model.Request{MaxTokens: 10})
	require.NoError(t, err)
	require.Equal(t, model.ClassCut, model.Classify(answer), "a call that does not fit is no call")
}

func TestScriptStreamsLineByLine(t *testing.T) {
	program, err := script.New(map[string]string{"m": "def turn(ctx):\n    return {\"text\": \"one\\ntwo\\n\\nthree\"}\n"})
	require.NoError(t, err)
	var pieces []string
	answer, err := program.Take(t.Context(), model.Request{Model: "m"}, func(text string) { pieces = append(pieces, text) })
	require.NoError(t, err)
	require.Equal(t, []string{"one\n", "two\n", "\n", "three"}, pieces)
	require.Equal(t, answer.Text, strings.Join(pieces, ""))
}

func TestUnknownScriptIsNotFound(t *testing.T) {
	program, err := script.New(nil)
	require.NoError(t, err)
	_, err = program.Take(t.Context(), model.Request{Model: "absent"}, nil)
	var failure *model.Error
	require.ErrorAs(t, err, &failure)
	require.Equal(t, model.ModelNotFound, failure.Kind)
}

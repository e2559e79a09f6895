package modeltest

import (
	"bytes"
	"encoding/json"

	"gantry.dev/agents/model"
)

// Gemini is the protocol of generateContent.
func Gemini() Protocol {
	return Protocol{
		Name: "gemini", KeyHeader: "X-Goog-Api-Key", Stream: geminiStream, Read: geminiRead,
		Arguments: func(raw string) string { return written(geminiArguments(raw)) },
		Whole:     func(stream []byte) int { return len(bytes.TrimRight(stream, "\r\n")) },
		Ends:      []string{"reason", `\u`},
		Refusals: []Refusal{
			{500, geminiRefusal(500, "INTERNAL", ""), model.Overloaded, true},
			{503, geminiRefusal(503, "UNAVAILABLE", ""), model.Overloaded, true},
			{504, geminiRefusal(504, "DEADLINE_EXCEEDED", ""), model.Overloaded, true},
			{400, geminiRefusal(400, "INVALID_ARGUMENT", ""), model.BadRequest, false},
			{400, geminiRefusal(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number of tokens allowed (5). "), model.TooLong, false},
			{400, geminiRefusal(400, "INVALID_ARGUMENT", "API key not valid. "), model.Unauthorised, false},
			{400, []any{geminiRefusal(400, "INVALID_ARGUMENT", "API key not valid. ")}, model.Unauthorised, false},
			{403, geminiRefusal(403, "PERMISSION_DENIED", ""), model.Unauthorised, false},
			{404, geminiRefusal(404, "NOT_FOUND", ""), model.ModelNotFound, false},
			{302, geminiRefusal(302, "", ""), model.BadAnswer, true},
		},
		Streamed: map[string]model.ErrorKind{
			"data: " + written(geminiRefusal(503, "UNAVAILABLE", "")) + "\n\n":                                                model.Overloaded,
			"data: " + written(geminiRefusal(429, "RESOURCE_EXHAUSTED", "")) + "\n\n":                                         model.RateLimited,
			"data: " + written(geminiRefusal(400, "", "The input token count exceeds the maximum number of tokens")) + "\n\n": model.TooLong,
		},
		Garbage: map[string]string{
			"no JSON":     "data: {\"candidates\":\n\n",
			"strange":     "data: {\"candidates\":[{\"finishReason\":\"BORED\"}]}\n\n",
			"two":         "data: {\"candidates\":[{\"index\":0,\"finishReason\":\"STOP\"},{\"index\":1}]}\n\n",
			"other shape": "data: {\"candidates\":[7]}\n\n",
			"not wanted":  "data: {\"candidates\":[{\"content\":{\"parts\":[{\"executableCode\":{\"code\":\"x\"}}]},\"finishReason\":\"STOP\"}]}\n\n",
			"no event":    "candidates\n\n",
		},
	}
}

func geminiRefusal(code int, status, message string) any {
	return map[string]any{"error": map[string]any{"code": code, "status": status, "message": message + Hidden}}
}

// geminiArguments are arguments as the protocol carries them: an object.
func geminiArguments(raw string) map[string]any {
	arguments := map[string]any{}
	if json.Unmarshal([]byte(raw), &arguments) != nil {
		return map[string]any{}
	}
	return arguments
}

func geminiStream(answer model.Answer, style Style) []byte {
	var out bytes.Buffer
	chunk := func(parts []any, finish string) {
		candidate := map[string]any{"content": map[string]any{"role": "model", "parts": parts}, "index": 0}
		fields := map[string]any{"candidates": []any{candidate}, "modelVersion": "test-model", "responseId": "r1"}
		if finish != "" {
			candidate["finishReason"] = finish
		}
		if !style.NoUsage {
			fields["usageMetadata"] = map[string]any{"promptTokenCount": Reported.Input + Reported.CacheRead, "cachedContentTokenCount": Reported.CacheRead,
				"candidatesTokenCount": Reported.Output, "thoughtsTokenCount": Reported.Reasoning, "totalTokenCount": Reported.Total()}
		}
		out.WriteString("data: " + written(fields) + style.end() + style.end())
	}
	for _, piece := range style.pieces(answer.Reasoning) {
		chunk([]any{map[string]any{"text": piece, "thought": true}}, "")
	}
	for _, piece := range style.pieces(answer.Text) {
		chunk([]any{map[string]any{"text": piece}}, "")
	}
	for i, call := range answer.Calls {
		called := map[string]any{"name": call.Name, "args": geminiArguments(string(call.Arguments))}
		if call.ProviderID != "" {
			called["id"] = call.ProviderID
		}
		part := map[string]any{"functionCall": called}
		if i == 0 && answer.Reasoning != "" {
			part["thoughtSignature"] = Signature
		}
		chunk([]any{part}, "")
	}
	chunk([]any{}, geminiFinishes[answer.Finish])
	return out.Bytes()
}

var geminiFinishes = map[model.Finish]string{
	model.FinishStop: "STOP", model.FinishCalls: "STOP", model.FinishLength: "MAX_TOKENS", model.FinishRefusal: "SAFETY",
}

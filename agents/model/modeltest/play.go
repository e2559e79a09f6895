package modeltest

import (
	"encoding/json"
	"net/http"
	"strings"

	"gantry.dev/agents/model"
)

// Play lets a provider answer through a protocol: what the server is asked
// becomes a request again, and what the provider says a stream. It always says
// that it has thought, so that there is something to give back. The tools are
// those that it may be asked about, by our names.
func (p Protocol) Play(provider model.Provider, name string, tools []string, style Style) Behaviour {
	ours := map[string]string{}
	for _, tool := range tools {
		ours[strings.ReplaceAll(tool, ".", "_")] = tool
	}
	return func(w http.ResponseWriter, r *http.Request) {
		var asked map[string]any
		if json.NewDecoder(r.Body).Decode(&asked) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		request := p.Read(asked)
		request.Model = name
		rename(&request, ours)
		answer, err := provider.Take(r.Context(), request, nil)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		answer.Reasoning = "Thought of it."
		send(w, p.Stream(OnWire(answer), style), 100)
	}
}

func rename(request *model.Request, ours map[string]string) {
	for i := range request.Tools {
		request.Tools[i].Name = ours[request.Tools[i].Name]
	}
	for _, message := range request.Messages {
		for i := range message.Calls {
			message.Calls[i].Name = ours[message.Calls[i].Name]
		}
	}
}

// tree is a value of decoded JSON that is asked for by keys; what is not there
// is empty.
type tree struct{ value any }

func (t tree) at(key string) tree {
	object, _ := t.value.(map[string]any)
	return tree{object[key]}
}

func (t tree) text() string {
	text, _ := t.value.(string)
	return text
}

func (t tree) all() (entries []tree) {
	list, _ := t.value.([]any)
	for _, entry := range list {
		entries = append(entries, tree{entry})
	}
	return entries
}

func openAIRead(asked map[string]any) (request model.Request) {
	for _, tool := range (tree{asked}).at("tools").all() {
		request.Tools = append(request.Tools, model.Spec{Name: tool.at("function").at("name").text()})
	}
	for _, entry := range (tree{asked}).at("messages").all() {
		message := model.Message{Role: model.Role(entry.at("role").text()), Text: entry.at("content").text(), CallID: entry.at("tool_call_id").text()}
		for _, call := range entry.at("tool_calls").all() {
			function := call.at("function")
			message.Calls = append(message.Calls, model.Call{ID: call.at("id").text(), Name: function.at("name").text(), Arguments: []byte(function.at("arguments").text())})
		}
		request.Messages = append(request.Messages, message)
	}
	return request
}

func anthropicRead(asked map[string]any) (request model.Request) {
	for _, tool := range (tree{asked}).at("tools").all() {
		request.Tools = append(request.Tools, model.Spec{Name: tool.at("name").text()})
	}
	for _, block := range (tree{asked}).at("system").all() {
		request.Messages = append(request.Messages, model.Message{Role: model.System, Text: block.at("text").text()})
	}
	for _, entry := range (tree{asked}).at("messages").all() {
		var said []model.Message
		answer := model.Message{Role: model.Assistant}
		for _, block := range entry.at("content").all() {
			switch block.at("type").text() {
			case "text":
				answer.Text += block.at("text").text()
				said = append(said, model.Message{Role: model.User, Text: block.at("text").text()})
			case "tool_use":
				answer.Calls = append(answer.Calls, model.Call{ID: block.at("id").text(), Name: block.at("name").text(), Arguments: []byte(written(block.at("input").value))})
			case "tool_result":
				text := ""
				for _, part := range block.at("content").all() {
					text += part.at("text").text()
				}
				said = append(said, model.Message{Role: model.ToolReply, CallID: block.at("tool_use_id").text(), Text: text})
			}
		}
		if entry.at("role").text() == "assistant" {
			said = []model.Message{answer}
		}
		request.Messages = append(request.Messages, said...)
	}
	return request
}

func geminiRead(asked map[string]any) (request model.Request) {
	for _, tool := range (tree{asked}).at("tools").all() {
		for _, declared := range tool.at("functionDeclarations").all() {
			request.Tools = append(request.Tools, model.Spec{Name: declared.at("name").text()})
		}
	}
	for _, part := range (tree{asked}).at("systemInstruction").at("parts").all() {
		request.Messages = append(request.Messages, model.Message{Role: model.System, Text: part.at("text").text()})
	}
	for _, content := range (tree{asked}).at("contents").all() {
		var said []model.Message
		answer := model.Message{Role: model.Assistant}
		for _, part := range content.at("parts").all() {
			call, reply := part.at("functionCall"), part.at("functionResponse")
			switch {
			case call.value != nil:
				answer.Calls = append(answer.Calls, model.Call{ID: call.at("id").text(), Name: call.at("name").text(), Arguments: []byte(written(call.at("args").value))})
			case reply.value != nil:
				said = append(said, model.Message{Role: model.ToolReply, CallID: reply.at("id").text(), Text: reply.at("response").at("output").text()})
			default:
				answer.Text += part.at("text").text()
				said = append(said, model.Message{Role: model.User, Text: part.at("text").text()})
			}
		}
		if content.at("role").text() == "model" {
			said = []model.Message{answer}
		}
		request.Messages = append(request.Messages, said...)
	}
	return request
}

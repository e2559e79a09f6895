package model

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
)

// names translates between our names of tools and those that the protocol
// allows: letters, digits, _ and -, at most 64.
type names struct {
	wire map[string]string // by our name
	ours map[string]string // by wire name
}

var notOnWire = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

const maxWireName = 64

// newNames names the offered tools first, so that a name depends on nothing
// but their order, and then those of earlier calls.
func newNames(request Request) names {
	n := names{wire: map[string]string{}, ours: map[string]string{}}
	for _, spec := range request.Tools {
		n.add(spec.Name)
	}
	for _, message := range request.Messages {
		for _, call := range message.Calls {
			n.add(call.Name)
		}
	}
	return n
}

func (n names) add(name string) {
	if _, known := n.wire[name]; known {
		return
	}
	base := notOnWire.ReplaceAllString(name, "_")
	base = base[:min(len(base), maxWireName)]
	wire := base
	for i := 2; n.ours[wire] != "" || wire == ""; i++ {
		suffix := fmt.Sprintf("_%d", i)
		wire = base[:min(len(base), maxWireName-len(suffix))] + suffix
	}
	n.wire[name], n.ours[wire] = wire, name
}

// from returns our name of what a model called. What no tool is called on the
// wire stays as it is: the box of tools then refuses it.
func (n names) from(wire string) string {
	if name, known := n.ours[wire]; known {
		return name
	}
	return wire
}

// params writes the request in the words of the protocol. The same request
// gives the same bytes.
func (o *OpenAI) params(request Request, names names) (openai.ChatCompletionNewParams, error) {
	params := openai.ChatCompletionNewParams{
		Model:         request.Model,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if request.MaxTokens > 0 && o.config.Compatible {
		params.MaxTokens = param.NewOpt(request.MaxTokens)
	} else if request.MaxTokens > 0 {
		params.MaxCompletionTokens = param.NewOpt(request.MaxTokens)
	}
	for _, message := range request.Messages {
		entry, err := messageParam(message, names)
		if err != nil {
			return params, err
		}
		params.Messages = append(params.Messages, entry)
	}
	for _, spec := range request.Tools {
		function := shared.FunctionDefinitionParam{Name: names.wire[spec.Name]}
		// Plain floats: the SDK would write a json.Number as a string.
		if err := json.Unmarshal(spec.Schema, &function.Parameters); err != nil {
			return params, &Error{Kind: BadRequest, Detail: "the schema of a tool is no JSON object"}
		}
		if spec.Description != "" {
			function.Description = param.NewOpt(spec.Description)
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
	}
	return params, nil
}

func messageParam(message Message, names names) (openai.ChatCompletionMessageParamUnion, error) {
	switch message.Role {
	case System:
		return openai.SystemMessage(message.Text), nil
	case User:
		return openai.UserMessage(message.Text), nil
	case ToolReply:
		return openai.ToolMessage(message.Text, message.CallID), nil
	case Assistant:
		return assistantParam(message, names), nil
	}
	return openai.ChatCompletionMessageParamUnion{}, &Error{Kind: BadRequest, Detail: "a message has an unknown role"}
}

func assistantParam(message Message, names names) openai.ChatCompletionMessageParamUnion {
	assistant := openai.ChatCompletionAssistantMessageParam{}
	if message.Text != "" || len(message.Calls) == 0 {
		assistant.Content.OfString = param.NewOpt(message.Text)
	}
	for _, call := range message.Calls {
		arguments := string(call.Arguments)
		if arguments == "" {
			arguments = "{}"
		}
		assistant.ToolCalls = append(assistant.ToolCalls, openai.ChatCompletionMessageToolCallUnionParam{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID: call.ID,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{
					Name: names.wire[call.Name], Arguments: arguments,
				},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &assistant}
}

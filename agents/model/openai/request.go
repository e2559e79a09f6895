package openai

import (
	"encoding/base64"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// params writes the request in the words of the protocol. The same request
// gives the same bytes.
func (p *Provider) params(request model.Request, names exchange.Names) (openai.ChatCompletionNewParams, error) {
	params := openai.ChatCompletionNewParams{
		Model:         request.Model,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	if request.MaxTokens > 0 && p.config.Compatible {
		params.MaxTokens = param.NewOpt(request.MaxTokens)
	} else if request.MaxTokens > 0 {
		params.MaxCompletionTokens = param.NewOpt(request.MaxTokens)
	}
	var err error
	if params.Messages, err = messagesOf(request, names); err != nil {
		return params, err
	}
	for _, spec := range request.Tools {
		function := shared.FunctionDefinitionParam{Name: names.Wire(spec.Name)}
		if function.Parameters, err = exchange.Schema(spec.Schema); err != nil {
			return params, err
		}
		if spec.Description != "" {
			function.Description = param.NewOpt(spec.Description)
		}
		params.Tools = append(params.Tools, openai.ChatCompletionFunctionTool(function))
	}
	return params, hold(&params, request.Output)
}

// hold asks for an answer of a schema. The server is strict with a closed one;
// it would refuse to be so with another.
func hold(params *openai.ChatCompletionNewParams, output []byte) error {
	if output == nil {
		return nil
	}
	schema, err := exchange.Schema(output)
	if err != nil {
		return err
	}
	format := shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "answer", Schema: schema}
	if exchange.Closed(schema) {
		format.Strict = param.NewOpt(true)
	}
	params.ResponseFormat.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: format}
	return nil
}

func messagesOf(request model.Request, names exchange.Names) (messages []openai.ChatCompletionMessageParamUnion, err error) {
	var shown []openai.ChatCompletionContentPartUnionParam // by tools: their replies hold text only
	for i, message := range request.Messages {
		parts, err := partsOf(message.Media)
		if err != nil {
			return nil, err
		}
		switch message.Role {
		case model.System:
			messages = append(messages, openai.SystemMessage(message.Text))
		case model.User:
			messages = append(messages, userParam(message.Text, parts))
		case model.Assistant:
			messages = append(messages, assistantParam(message, names))
		case model.ToolReply:
			messages = append(messages, openai.ToolMessage(message.Text, message.CallID))
			if len(parts) > 0 {
				shown = append(append(shown, openai.TextContentPart("Shown by the reply to "+message.CallID+":")), parts...)
			}
		default:
			return nil, &model.Error{Kind: model.BadRequest, Detail: "a message has an unknown role"}
		}
		if last := i+1 == len(request.Messages) || request.Messages[i+1].Role != model.ToolReply; last && len(shown) > 0 {
			messages, shown = append(messages, openai.UserMessage(shown)), nil
		}
	}
	return messages, nil
}

func userParam(text string, parts []openai.ChatCompletionContentPartUnionParam) openai.ChatCompletionMessageParamUnion {
	if len(parts) == 0 {
		return openai.UserMessage(text)
	}
	return openai.UserMessage(append([]openai.ChatCompletionContentPartUnionParam{openai.TextContentPart(text)}, parts...))
}

// partsOf shows images, and PDFs as files.
func partsOf(media []model.Media) (parts []openai.ChatCompletionContentPartUnionParam, err error) {
	for _, m := range media {
		address := "data:" + m.MediaType + ";base64," + base64.StdEncoding.EncodeToString(m.Bytes)
		switch {
		case strings.HasPrefix(m.MediaType, "image/"):
			parts = append(parts, openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: address}))
		case m.MediaType == "application/pdf":
			parts = append(parts, openai.FileContentPart(openai.ChatCompletionContentPartFileFileParam{
				FileData: param.NewOpt(address), Filename: param.NewOpt(m.Name)}))
		case strings.HasPrefix(m.MediaType, "text/"):
			parts = append(parts, openai.TextContentPart(string(m.Bytes)))
		default:
			return nil, &model.Error{Kind: model.BadRequest, Detail: "the protocol carries no file of this type"}
		}
	}
	return parts, nil
}

func assistantParam(message model.Message, names exchange.Names) openai.ChatCompletionMessageParamUnion {
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
					Name: names.Wire(call.Name), Arguments: arguments,
				},
			},
		})
	}
	return openai.ChatCompletionMessageParamUnion{OfAssistant: &assistant}
}

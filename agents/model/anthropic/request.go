package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	"github.com/anthropics/anthropic-sdk-go/v2/packages/param"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// defaultMaxTokens is the limit of a request that sets none; the protocol wants one.
const defaultMaxTokens = 4096

// params writes the request in the words of the protocol. The same request
// gives the same bytes.
func (p *Provider) params(request model.Request, names exchange.Names) (anthropic.MessageNewParams, error) {
	params := anthropic.MessageNewParams{Model: request.Model, MaxTokens: request.MaxTokens}
	if params.MaxTokens <= 0 {
		params.MaxTokens = defaultMaxTokens
	}
	if p.config.Reasoning {
		params.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{Display: anthropic.ThinkingConfigAdaptiveDisplaySummarized}
	}
	for _, spec := range request.Tools {
		schema, err := exchange.Schema(spec.Schema)
		if err != nil {
			return params, err
		}
		tool, err := toolParam(names.Wire(spec.Name), spec.Description, schema)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, tool)
	}
	if err := hold(&params, request.Output); err != nil {
		return params, err
	}
	return params, converse(&params, request, names)
}

// toolParam writes a tool. The SDK would write the fields of a schema that it
// does not know in any order, and the server could not keep the prompt.
func toolParam(name, description string, schema map[string]any) (anthropic.ToolUnionParam, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return anthropic.ToolUnionParam{}, &model.Error{Kind: model.BadRequest, Detail: "a schema cannot be written"}
	}
	tool := anthropic.ToolParam{Name: name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](json.RawMessage(raw))}
	if description != "" {
		tool.Description = param.NewOpt(description)
	}
	return anthropic.ToolUnionParam{OfTool: &tool}, nil
}

// hold asks for an answer of a schema. The server takes closed ones only.
func hold(params *anthropic.MessageNewParams, output []byte) error {
	if output == nil {
		return nil
	}
	schema, err := exchange.Schema(output)
	if err != nil {
		return err
	}
	if exchange.Closed(schema) {
		params.OutputConfig.Format = anthropic.JSONOutputFormatParam{Schema: schema}
	}
	return nil
}

// turn is what one side says before the other one does.
type turn struct {
	assistant bool
	blocks    []anthropic.ContentBlockParamUnion
}

// converse writes the messages. What a person and what tools say between two
// answers is one message here. Blank texts are left out: the server refuses them.
func converse(params *anthropic.MessageNewParams, request model.Request, names exchange.Names) error {
	var turns []turn
	for i, message := range request.Messages {
		var blocks []anthropic.ContentBlockParamUnion
		var err error
		switch message.Role {
		case model.System:
			params.System = append(params.System, anthropic.TextBlockParam{Text: message.Text})
		case model.User:
			blocks, err = spoken(message)
		case model.ToolReply:
			blocks, err = replied(message)
		case model.Assistant:
			blocks = answered(message, names)
		default:
			err = &model.Error{Kind: model.BadRequest, Detail: "a message has an unknown role"}
		}
		if err != nil {
			return err
		}
		turns = say(turns, message.Role == model.Assistant, blocks)
		if i+1 == request.Stable {
			markStable(params, turns)
		}
	}
	for _, t := range turns {
		if t.assistant {
			params.Messages = append(params.Messages, anthropic.NewAssistantMessage(t.blocks...))
		} else {
			params.Messages = append(params.Messages, anthropic.NewUserMessage(t.blocks...))
		}
	}
	return nil
}

func say(turns []turn, assistant bool, blocks []anthropic.ContentBlockParamUnion) []turn {
	last := len(turns) - 1
	switch {
	case len(blocks) == 0:
		return turns
	case last >= 0 && turns[last].assistant == assistant:
		turns[last].blocks = append(turns[last].blocks, blocks...)
		return turns
	}
	return append(turns, turn{assistant: assistant, blocks: blocks})
}

// markStable asks the server to keep the prompt up to here, and up to the end
// of its instructions, which the tools come before.
func markStable(params *anthropic.MessageNewParams, turns []turn) {
	kept := anthropic.NewCacheControlEphemeralParam()
	if last := len(params.System) - 1; last >= 0 {
		params.System[last].CacheControl = kept
	}
	for _, t := range slices.Backward(turns) {
		for _, block := range slices.Backward(t.blocks) {
			if control := block.GetCacheControl(); control != nil { // reasoning has none
				*control = kept
				return
			}
		}
	}
}

func spoken(message model.Message) (blocks []anthropic.ContentBlockParamUnion, err error) {
	if strings.TrimSpace(message.Text) != "" {
		blocks = append(blocks, anthropic.NewTextBlock(message.Text))
	}
	shown, err := mediaOf(message.Media)
	for _, m := range shown {
		blocks = append(blocks, anthropic.ContentBlockParamUnion{OfImage: m.image, OfDocument: m.document})
	}
	return blocks, err
}

func replied(message model.Message) ([]anthropic.ContentBlockParamUnion, error) {
	result := anthropic.ToolResultBlockParam{ToolUseID: message.CallID}
	if strings.TrimSpace(message.Text) != "" {
		result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: message.Text}})
	}
	shown, err := mediaOf(message.Media)
	for _, m := range shown {
		result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{OfImage: m.image, OfDocument: m.document})
	}
	return []anthropic.ContentBlockParamUnion{{OfToolResult: &result}}, err
}

// answered writes an assistant's message in the order in which its model gave
// it, with its reasoning as it was signed.
func answered(message model.Message, names exchange.Names) (blocks []anthropic.ContentBlockParamUnion) {
	for _, part := range model.Parts(message) {
		switch {
		case part.Call != nil:
			input := json.RawMessage(part.Call.Arguments)
			if len(input) == 0 {
				input = json.RawMessage("{}")
			}
			blocks = append(blocks, anthropic.NewToolUseBlock(part.Call.ID, input, names.Wire(part.Call.Name)))
		case len(part.Own) > 0:
			var own thought
			if json.Unmarshal(part.Own, &own) != nil {
				continue // not of this provider's writing
			}
			if own.Redacted != "" {
				blocks = append(blocks, anthropic.NewRedactedThinkingBlock(own.Redacted))
				continue
			}
			blocks = append(blocks, anthropic.NewThinkingBlock(own.Signature, own.Thinking))
		case strings.TrimSpace(part.Text) != "":
			blocks = append(blocks, anthropic.NewTextBlock(part.Text))
		}
	}
	return blocks
}

type shown struct {
	image    *anthropic.ImageBlockParam
	document *anthropic.DocumentBlockParam
}

// mediaOf shows images, PDFs and text files.
func mediaOf(media []model.Media) (all []shown, err error) {
	for _, m := range media {
		encoded := base64.StdEncoding.EncodeToString(m.Bytes)
		var document *anthropic.DocumentBlockParam
		switch {
		case slices.Contains(images, m.MediaType):
			image := anthropic.NewImageBlockBase64(m.MediaType, encoded).OfImage
			all = append(all, shown{image: image})
			continue
		case m.MediaType == "application/pdf":
			document = anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: encoded}).OfDocument
		case strings.HasPrefix(m.MediaType, "text/"):
			document = anthropic.NewDocumentBlock(anthropic.PlainTextSourceParam{Data: string(m.Bytes)}).OfDocument
		default:
			return nil, &model.Error{Kind: model.BadRequest, Detail: "the protocol carries no file of this type"}
		}
		if m.Name != "" {
			document.Title = param.NewOpt(m.Name)
		}
		all = append(all, shown{document: document})
	}
	return all, nil
}

var images = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

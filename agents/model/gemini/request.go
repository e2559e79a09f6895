package gemini

import (
	"encoding/json"
	"math"
	"strings"

	"google.golang.org/genai"

	"gantry.dev/agents/model"
	"gantry.dev/agents/model/exchange"
)

// params writes the request in the words of the protocol. The same request
// gives the same bytes.
func (p *Provider) params(request model.Request, names exchange.Names) ([]*genai.Content, *genai.GenerateContentConfig, error) {
	once := false // a continuation would be a second request
	config := &genai.GenerateContentConfig{AutomaticContinuation: &once, MaxOutputTokens: int32(min(request.MaxTokens, math.MaxInt32))}
	if p.config.Reasoning {
		config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true}
	}
	var declared []*genai.FunctionDeclaration
	for _, spec := range request.Tools {
		schema, err := exchange.Schema(spec.Schema)
		if err != nil {
			return nil, nil, err
		}
		declared = append(declared, &genai.FunctionDeclaration{Name: names.Wire(spec.Name), Description: spec.Description, ParametersJsonSchema: schema})
	}
	if len(declared) > 0 {
		config.Tools = []*genai.Tool{{FunctionDeclarations: declared}}
	}
	// Models refuse a schema of the answer beside tools.
	if request.Output != nil && len(declared) == 0 {
		schema, err := exchange.Schema(request.Output)
		if err != nil {
			return nil, nil, err
		}
		config.ResponseMIMEType, config.ResponseJsonSchema = "application/json", schema
	}
	contents, err := converse(config, request, names)
	return contents, config, err
}

// converse writes the messages. What a person and what tools say between two
// answers is one content here.
func converse(config *genai.GenerateContentConfig, request model.Request, names exchange.Names) ([]*genai.Content, error) {
	var contents []*genai.Content
	say := func(role string, parts []*genai.Part) {
		last := len(contents) - 1
		if last >= 0 && contents[last].Role == role {
			contents[last].Parts = append(contents[last].Parts, parts...)
		} else if len(parts) > 0 {
			contents = append(contents, &genai.Content{Role: role, Parts: parts})
		}
	}
	called := map[string]string{} // names by call id
	for _, message := range request.Messages {
		switch message.Role {
		case model.System:
			if config.SystemInstruction == nil {
				config.SystemInstruction = &genai.Content{}
			}
			config.SystemInstruction.Parts = append(config.SystemInstruction.Parts, &genai.Part{Text: message.Text})
		case model.User:
			say(genai.RoleUser, append(textPart(message.Text), mediaOf(message.Media)...))
		case model.ToolReply:
			reply := &genai.FunctionResponse{ID: message.CallID, Name: called[message.CallID], Response: map[string]any{"output": message.Text}}
			say(genai.RoleUser, append([]*genai.Part{{FunctionResponse: reply}}, mediaOf(message.Media)...))
		case model.Assistant:
			for _, call := range message.Calls {
				called[call.ID] = names.Wire(call.Name)
			}
			parts, err := answered(message, request.Model, names)
			if err != nil {
				return nil, err
			}
			say(genai.RoleModel, parts)
		default:
			return nil, &model.Error{Kind: model.BadRequest, Detail: "a message has an unknown role"}
		}
	}
	return contents, nil
}

// textPart leaves out an empty text: the server refuses it.
func textPart(text string) []*genai.Part {
	if text == "" {
		return nil
	}
	return []*genai.Part{{Text: text}}
}

func mediaOf(media []model.Media) (parts []*genai.Part) {
	for _, m := range media {
		parts = append(parts, &genai.Part{InlineData: &genai.Blob{MIMEType: m.MediaType, Data: m.Bytes}})
	}
	return parts
}

// unsigned stands for the signature of a call that another model made, or whose
// signature was erased. Models since Gemini 3 refuse a call without one.
const unsigned = "skip_thought_signature_validator"

// answered writes an assistant's message in the order in which its model gave
// it, each piece with its signature.
func answered(message model.Message, name string, names exchange.Names) (parts []*genai.Part, err error) {
	first := true
	for _, piece := range model.Parts(message) {
		var own signed
		if len(piece.Own) > 0 && json.Unmarshal(piece.Own, &own) != nil {
			continue // not of this provider's writing
		}
		part := &genai.Part{Text: piece.Text, ThoughtSignature: own.Signature}
		if piece.Call != nil {
			part.FunctionCall = &genai.FunctionCall{ID: piece.Call.ID, Name: names.Wire(piece.Call.Name)}
			if len(piece.Call.Arguments) > 0 && json.Unmarshal(piece.Call.Arguments, &part.FunctionCall.Args) != nil {
				return nil, &model.Error{Kind: model.BadRequest, Detail: "the arguments of an earlier call are no JSON object"}
			}
			if first && len(own.Signature) == 0 && wantsSignatures(name) {
				part.ThoughtSignature = []byte(unsigned)
			}
			first = false
		}
		if part.Text != "" || part.FunctionCall != nil || len(part.ThoughtSignature) > 0 {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// wantsSignatures reports whether a model is newer than those that signed
// nothing or did not mind.
func wantsSignatures(name string) bool {
	return !strings.Contains(name, "gemini-1") && !strings.Contains(name, "gemini-2")
}

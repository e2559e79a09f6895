package exchange

import (
	"encoding/json"

	"gantry.dev/agents/model"
)

// Schema reads the JSON Schema of a tool or of an answer, with plain floats:
// the SDKs would write a json.Number as a string.
func Schema(raw []byte) (map[string]any, error) {
	var schema map[string]any
	if json.Unmarshal(raw, &schema) != nil || schema == nil {
		return nil, &model.Error{Kind: model.BadRequest, Detail: "a schema is no JSON object"}
	}
	return schema, nil
}

// Closed reports whether a schema names, for every object in it, all that it
// may and must have. Servers hold their model strictly to no other ones.
func Closed(schema any) bool {
	switch value := schema.(type) {
	case []any:
		for _, entry := range value {
			if !Closed(entry) {
				return false
			}
		}
	case map[string]any:
		if value["type"] == "object" && !closedObject(value) {
			return false
		}
		for _, entry := range value {
			if !Closed(entry) {
				return false
			}
		}
	}
	return true
}

func closedObject(schema map[string]any) bool {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	named := map[any]bool{}
	for _, name := range required {
		named[name] = true
	}
	for name := range properties {
		if !named[name] {
			return false
		}
	}
	return schema["additionalProperties"] == false
}

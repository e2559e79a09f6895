package elicit

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
)

// field is one value that a form takes.
type field struct {
	name   string
	texts  []string // its title and description
	format string
	kind   string // string, number, integer, boolean or array
	closed bool   // it takes one of listed values only
	hidden bool   // the server says that it will not show it again
}

var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// What may stand in a schema, and in the schema of a field by its type.
var (
	wholeKeys = []string{"$schema", "type", "title", "description", "properties", "required", "additionalProperties"}
	anyKeys   = []string{"type", "title", "description", "default", "writeOnly"}
	typeKeys  = map[string][]string{
		"string":  {"minLength", "maxLength", "pattern", "format", "enum", "enumNames", "oneOf", "const"},
		"number":  {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
		"integer": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"},
		"boolean": {},
		"array":   {"items", "minItems", "maxItems", "uniqueItems"},
	}
	formats = []string{"email", "uri", "date", "date-time"}
)

// readSchema reads the schema of a form: one object of texts, numbers, choices
// and lists of choices. The document is the schema with texts as they may be
// shown.
func readSchema(raw json.RawMessage) ([]field, map[string]any, error) {
	if len(raw) == 0 || len(raw) > maxSchema {
		return nil, nil, unreadable("the schema must have 1 to %d bytes", maxSchema)
	}
	canonical, err := canon.JSON(raw)
	if err != nil {
		return nil, nil, unreadable("the schema must be JSON without repeated keys")
	}
	var document map[string]any
	if err := json.Unmarshal(canonical, &document); err != nil {
		return nil, nil, unreadable("the schema must be a JSON object")
	}
	properties, is := document["properties"].(map[string]any)
	switch {
	case document["type"] != "object" || !is || len(properties) == 0 || len(properties) > maxFields:
		return nil, nil, unreadable("the schema must be of one object with 1 to %d fields", maxFields)
	case !within(document, wholeKeys):
		return nil, nil, unreadable("the schema holds what no flat form does")
	case document["additionalProperties"] != nil && document["additionalProperties"] != false:
		return nil, nil, unreadable("the form must say which fields there are")
	}
	cleaned(document)
	var fields []field
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		one, err := readField(name, properties[name])
		if err != nil {
			return nil, nil, err
		}
		fields = append(fields, one)
	}
	if _, err := tool.CompileSchema(canonical); err != nil {
		return nil, nil, unreadable("the schema is broken")
	}
	return fields, document, nil
}

func readField(name string, schema any) (field, error) {
	if !fieldName.MatchString(name) {
		return field{}, unreadable("the name of a field must be a short word in ASCII")
	}
	object, is := schema.(map[string]any)
	kind, _ := object["type"].(string)
	keys, known := typeKeys[kind]
	if !is || !known || !within(object, slices.Concat(anyKeys, keys)) {
		return field{}, unreadable("field %s is no text, number, choice or list of choices", name)
	}
	one := field{name: name, kind: kind, texts: cleaned(object), closed: kind == "boolean" || choice(object), hidden: object["writeOnly"] == true}
	if text, is := object["default"].(string); is && plain(text) != text {
		return field{}, unreadable("field %s begins with a text that cannot be shown", name)
	}
	if format, says := object["format"]; says {
		one.format, _ = format.(string)
		if one.format != "password" && !slices.Contains(formats, one.format) {
			return field{}, unreadable("field %s has a format that no form takes", name)
		}
	}
	if kind == "array" {
		items, is := object["items"].(map[string]any)
		if !is || !within(items, []string{"type", "enum", "enumNames", "anyOf", "oneOf"}) || !choice(items) {
			return field{}, unreadable("field %s is a list of something else than choices", name)
		}
		one.closed, one.texts = true, append(one.texts, cleaned(items)...)
	}
	return one, nil
}

// choice reports whether a schema takes listed texts only.
func choice(schema map[string]any) bool {
	if list, is := schema["enum"].([]any); is {
		return all(list, shown)
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		list, is := schema[key].([]any)
		if is && all(list, func(v any) bool {
			one, is := v.(map[string]any)
			return is && shown(one["const"]) && within(one, []string{"const", "title", "description"})
		}) {
			return true
		}
	}
	return false
}

// shown reports whether a value is a text that stands before a person as it is.
func shown(value any) bool {
	text, is := value.(string)
	return is && plain(text) == text
}

func all(list []any, holds func(any) bool) bool {
	return len(list) > 0 && !slices.ContainsFunc(list, func(v any) bool { return !holds(v) })
}

func within(object map[string]any, keys []string) bool {
	for key := range object {
		if !slices.Contains(keys, key) {
			return false
		}
	}
	return true
}

// cleaned makes what a schema says to people such as may be shown, in place,
// and returns it.
func cleaned(schema map[string]any) []string {
	var texts []string
	for _, key := range []string{"title", "description"} {
		if text, says := schema[key].(string); says {
			schema[key] = plain(text)
			texts = append(texts, plain(text))
		}
	}
	names, _ := schema["enumNames"].([]any)
	for i, name := range names {
		if text, is := name.(string); is {
			names[i] = plain(text)
		}
	}
	for _, key := range []string{"oneOf", "anyOf"} {
		list, _ := schema[key].([]any)
		for _, one := range list {
			if object, is := one.(map[string]any); is {
				cleaned(object)
			}
		}
	}
	return texts
}

package manifest

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	rawType    = reflect.TypeFor[json.RawMessage]()
	numberType = reflect.TypeFor[json.Number]()
)

// Decode fills the struct that into points to, by its json field names. What
// the file does not mention stays as it is, so defaults can be set before. A
// json.RawMessage takes any value, a json.Number any number, a type that reads
// text its text. It returns every fault it finds.
func (d *Document) Decode(into any) []Fault {
	decoding := decoding{file: d.File}
	decoding.value(d.root, reflect.ValueOf(into).Elem(), "")
	return decoding.faults
}

type decoding struct {
	file   string
	faults []Fault
}

func (d *decoding) add(node *yaml.Node, path, sentence string) {
	d.faults = append(d.faults, Fault{File: d.file, Line: node.Line, Path: path, Sentence: sentence})
}

func (d *decoding) value(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind == yaml.ScalarNode && node.ShortTag() == "!!null" {
		d.add(node, path, "the value is empty; give one or leave the key out")
		return
	}
	switch into.Type() {
	case rawType:
		d.raw(node, into, path)
		return
	case numberType:
		d.number(node, into, path)
		return
	}
	if reader, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(node, reader, path)
		return
	}
	switch into.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(into.Type().Elem())
		d.value(node, fresh.Elem(), path)
		into.Set(fresh)
	case reflect.Struct:
		d.object(node, into, path)
	case reflect.Slice:
		d.list(node, into, path)
	case reflect.Map:
		d.table(node, into, path)
	default:
		d.scalar(node, into, path)
	}
}

func (d *decoding) object(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.MappingNode {
		d.add(node, path, "keys with values are needed here")
		return
	}
	fields := map[string]int{}
	for i := range into.NumField() {
		name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			fields[name] = i
		}
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		key := node.Content[i]
		field, known := fields[key.Value]
		if !known {
			d.add(key, join(path, key.Value), "unknown key; known are "+strings.Join(sorted(fields), ", "))
			continue
		}
		d.value(node.Content[i+1], into.Field(field), join(path, key.Value))
	}
}

func (d *decoding) list(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.SequenceNode {
		d.add(node, path, "a list is needed here")
		return
	}
	items := reflect.MakeSlice(into.Type(), len(node.Content), len(node.Content))
	for i, item := range node.Content {
		d.value(item, items.Index(i), path+"["+strconv.Itoa(i)+"]")
	}
	into.Set(items)
}

func (d *decoding) table(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.MappingNode {
		d.add(node, path, "keys with values are needed here")
		return
	}
	table := reflect.MakeMap(into.Type())
	for i := 0; i+1 < len(node.Content); i += 2 {
		item := reflect.New(into.Type().Elem()).Elem()
		d.value(node.Content[i+1], item, join(path, node.Content[i].Value))
		table.SetMapIndex(reflect.ValueOf(node.Content[i].Value).Convert(into.Type().Key()), item)
	}
	into.Set(table)
}

func (d *decoding) text(node *yaml.Node, into encoding.TextUnmarshaler, path string) {
	if node.Kind != yaml.ScalarNode {
		d.add(node, path, "one word is needed here")
		return
	}
	if err := into.UnmarshalText([]byte(node.Value)); err != nil {
		d.add(node, path, err.Error())
	}
}

func (d *decoding) number(node *yaml.Node, into reflect.Value, path string) {
	if tag := node.ShortTag(); node.Kind != yaml.ScalarNode || (tag != "!!int" && tag != "!!float") || !json.Valid([]byte(node.Value)) {
		d.add(node, path, "a decimal number is needed here")
		return
	}
	into.SetString(node.Value)
}

func (d *decoding) raw(node *yaml.Node, into reflect.Value, path string) {
	var value any
	if err := node.Decode(&value); err != nil {
		d.add(node, path, "the value cannot be read")
		return
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		d.add(node, path, "the value cannot be written as JSON")
		return
	}
	into.SetBytes(encoded)
}

func (d *decoding) scalar(node *yaml.Node, into reflect.Value, path string) {
	if node.Kind != yaml.ScalarNode {
		d.add(node, path, "one value is needed here")
		return
	}
	tag := node.ShortTag()
	switch into.Kind() {
	case reflect.String:
		if tag != "!!str" {
			d.add(node, path, "text is needed here; put it in quotes")
			return
		}
		into.SetString(node.Value)
	case reflect.Bool:
		if node.Value != "true" && node.Value != "false" || tag != "!!bool" {
			d.add(node, path, "true or false is needed here")
			return
		}
		into.SetBool(node.Value == "true")
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(strings.ReplaceAll(node.Value, "_", ""), 10, 64)
		if tag != "!!int" || err != nil {
			d.add(node, path, "a whole number is needed here")
			return
		}
		into.SetInt(n)
	default:
		d.add(node, path, fmt.Sprintf("a value of kind %s cannot be written in a file", into.Kind()))
	}
}

func sorted(fields map[string]int) []string {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

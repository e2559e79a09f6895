package tool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const draft = "https://json-schema.org/draft/2020-12/schema"

// closer rewrites a schema so that undeclared keys are refused, and collects
// what would get around that: other drafts, and references to places that it
// did not visit.
//
// Several subschemas may describe one place of a value (allOf, $ref, …), each
// declaring some of its keys. So only the outermost of them is closed.
type closer struct {
	positions  map[string]bool // JSON pointers of the subschemas that were visited
	references []string        // where $ref points to
	asking     int             // depth of keywords whose subschemas ask and do not demand
	faults     []error
}

// Keywords by what their subschemas describe.
var (
	samePlaceLists = []string{"allOf", "anyOf", "oneOf"}
	samePlace      = []string{"then", "else"}
	samePlaceMaps  = []string{"dependentSchemas"}
	libraries      = []string{"$defs", "definitions"}                   // closed where they are used
	asked          = []string{"if", "not", "contains", "propertyNames"} // left as they are: a closed one would answer differently
	deeper         = []string{"items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems"}
	deeperLists    = []string{"prefixItems"}
	deeperMaps     = []string{"properties", "patternProperties"}
	unsupported    = []string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor", "contentSchema", "dependencies", "additionalItems"}
)

// whole closes a schema that describes a place of its own.
func (c *closer) whole(schema map[string]any, path []string) {
	c.part(schema, path)
	if c.asking > 0 {
		return
	}
	if _, says := schema["additionalProperties"]; says {
		return
	}
	if _, says := schema["unevaluatedProperties"]; says {
		return
	}
	if shared(schema) {
		schema["unevaluatedProperties"] = false
	} else {
		schema["additionalProperties"] = false
	}
}

// shared reports whether other subschemas describe the same place too.
func shared(schema map[string]any) bool {
	for _, keyword := range slices.Concat(samePlaceLists, samePlace, samePlaceMaps, []string{"$ref", "if"}) {
		if _, has := schema[keyword]; has {
			return true
		}
	}
	return false
}

// part visits a schema that describes a place together with others.
func (c *closer) part(schema map[string]any, path []string) {
	c.positions[joinPointer(path)] = true
	c.inspect(schema, path)
	for _, keyword := range samePlaceLists {
		c.list(schema, keyword, path, c.part)
	}
	for _, keyword := range samePlace {
		c.one(schema, keyword, path, c.part)
	}
	for _, keyword := range slices.Concat(samePlaceMaps, libraries) {
		c.named(schema, keyword, path, c.part)
	}
	for _, keyword := range asked {
		c.asking++
		c.one(schema, keyword, path, c.part)
		c.asking--
	}
	for _, keyword := range deeper {
		c.one(schema, keyword, path, c.whole)
	}
	for _, keyword := range deeperLists {
		c.list(schema, keyword, path, c.whole)
	}
	for _, keyword := range deeperMaps {
		c.named(schema, keyword, path, c.whole)
	}
}

func (c *closer) inspect(schema map[string]any, path []string) {
	at := joinPointer(path)
	for _, keyword := range unsupported {
		if _, has := schema[keyword]; has {
			c.faults = append(c.faults, fmt.Errorf("schema: %s at %q is not supported", keyword, at))
		}
	}
	if named, has := schema["$schema"]; has && named != draft && named != draft+"#" {
		c.faults = append(c.faults, fmt.Errorf("schema: $schema at %q must be %s", at, draft))
	}
	if _, has := schema["$id"]; has && len(path) > 0 {
		c.faults = append(c.faults, fmt.Errorf("schema: $id at %q is not supported below the root", at))
	}
	if reference, has := schema["$ref"]; has {
		text, _ := reference.(string)
		if !strings.HasPrefix(text, "#") || c.asking > 0 {
			c.faults = append(c.faults, fmt.Errorf("schema: $ref at %q must point into this schema, and not stand below if, not, contains or propertyNames", at))
			return
		}
		c.references = append(c.references, text[1:])
	}
}

type visit func(schema map[string]any, path []string)

func (c *closer) one(schema map[string]any, keyword string, path []string, visit visit) {
	// additionalProperties: true is the explicit wish to stay open.
	if sub, ok := schema[keyword].(map[string]any); ok {
		visit(sub, append(slices.Clone(path), keyword))
	} else if keyword == "items" {
		c.declare(schema, keyword, append(slices.Clone(path), keyword), visit)
	}
}

func (c *closer) list(schema map[string]any, keyword string, path []string, visit visit) {
	items, _ := schema[keyword].([]any)
	for i, item := range items {
		if sub, ok := item.(map[string]any); ok {
			visit(sub, append(slices.Clone(path), keyword, strconv.Itoa(i)))
		}
	}
}

func (c *closer) named(schema map[string]any, keyword string, path []string, visit visit) {
	subs, _ := schema[keyword].(map[string]any)
	for name, sub := range subs {
		at := append(slices.Clone(path), keyword, name)
		if sub, ok := sub.(map[string]any); ok {
			visit(sub, at)
		} else {
			c.declare(subs, name, at, visit)
		}
	}
}

// declare replaces the schema true, which declares nothing, by an empty one
// that can be closed.
func (c *closer) declare(holder map[string]any, key string, path []string, visit visit) {
	if holder[key] == true && c.asking == 0 {
		opened := map[string]any{}
		visit(opened, path)
		holder[key] = opened
	}
}

func (c *closer) verdict() error {
	for _, reference := range c.references {
		if !c.positions[reference] {
			c.faults = append(c.faults, fmt.Errorf("schema: $ref %q points to no subschema", "#"+reference))
		}
	}
	return errors.Join(c.faults...)
}

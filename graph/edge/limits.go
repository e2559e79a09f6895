package edge

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"github.com/vektah/gqlparser/v2/lexer"
	"github.com/vektah/gqlparser/v2/parser"
)

// Limits bound one operation, whichever way it comes. Zero allows nothing.
type Limits struct {
	BodyBytes       int           // of a request or a websocket message
	BodyWait        time.Duration // until the whole body of a request is there
	Tokens          int           // of the document
	NameBytes       int           // of each name in it
	Depth           int           // of nested fields
	Aliases         int           // in the document
	RootFields      int           // of the operation, fragments included
	Selections      int           // of one selection set, fragments and fields of the same name merged
	VariableBytes   int           // of the variables as JSON
	DocumentBytes   int           // of the same, for an operation that does nothing but remember a document
	VariableNesting int
	Complexity      int // fields, times the items of the lists around them
	Errors          int // that are returned
}

// DefaultLimits returns the limits of a served organisation.
func DefaultLimits() Limits {
	return Limits{BodyBytes: 1 << 20, BodyWait: 10 * time.Second, Tokens: 10_000, NameBytes: 256, Depth: 12, Aliases: 50, RootFields: 20, Selections: 200,
		VariableBytes: 256 << 10, DocumentBytes: 1 << 20, VariableNesting: 32, Complexity: 50_000, Errors: 20}
}

// onceFields may stand at most once in an operation: mutations that a person
// means singly, and the one query that reads as much as there is.
var onceFields = map[string]bool{"decideApproval": true, "cancelRun": true, "startRun": true, "sendMessage": true, "answerQuestion": true,
	"resolveUncertain": true, "resumeRun": true, "usage": true, "modelReport": true,
	"dispatchSidecar": true, "delegate": true, "rememberDocument": true, "consolidate": true, "forget": true, "promote": true, "declassify": true}

// limiter refuses operations over the limits, before they are validated.
type limiter struct {
	limits Limits
	open   func(context.Context) bool // whether the caller may read the schema
}

var (
	_ graphql.OperationParameterMutator = limiter{}
	_ graphql.OperationContextMutator   = limiter{}
	_ graphql.ResponseInterceptor       = limiter{}
)

// ExtensionName returns the name of the extension.
func (limiter) ExtensionName() string { return "Limits" }

// Validate accepts every schema.
func (limiter) Validate(graphql.ExecutableSchema) error { return nil }

// MutateOperationParameters checks the document before anything costly is done
// with it.
func (l limiter) MutateOperationParameters(_ context.Context, params *graphql.RawParams) *gqlerror.Error {
	if fault := l.checkTokens(params.Query); fault != nil {
		return fault.GraphQL()
	}
	document, err := parser.ParseQuery(&ast.Source{Input: params.Query})
	limit := l.limits.VariableBytes
	if err == nil && bringsDocument(document) {
		limit = l.limits.DocumentBytes
	}
	if fault := l.checkVariables(params.Variables, limit); fault != nil {
		return fault.GraphQL()
	}
	if err != nil {
		return nil //nolint:nilerr // said better by the executor, which parses again
	} else if fault := l.checkDocument(document); fault != nil {
		return fault.GraphQL()
	}
	return findOperation(document, params.OperationName)
}

// MutateOperationContext checks the complexity, which needs the schema.
func (l limiter) MutateOperationContext(ctx context.Context, operation *graphql.OperationContext) *gqlerror.Error {
	operation.DisableIntrospection = !l.open(ctx)
	cost := complexity(operation.Operation.SelectionSet, operation.Variables, l.limits.Complexity)
	if cost > l.limits.Complexity {
		return OverLimit("complexity", cost, l.limits.Complexity).GraphQL()
	}
	return nil
}

// InterceptResponse puts the errors of a response in the order of their paths, and
// cuts them. Fields are resolved at once: in the order in which they failed, errors
// would tell which of two took longer, and a repeat would have another answer.
func (l limiter) InterceptResponse(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
	response := next(ctx)
	if response == nil {
		return nil
	}
	slices.SortStableFunc(response.Errors, func(a, b *gqlerror.Error) int { return cmp.Compare(a.Path.String(), b.Path.String()) })
	if len(response.Errors) > l.limits.Errors {
		response.Errors = response.Errors[:l.limits.Errors]
	}
	return response
}

// bringsDocument reports whether a document remembers a document of somebody's,
// and has nothing else that could be executed.
func bringsDocument(document *ast.QueryDocument) bool {
	if len(document.Operations) != 1 || document.Operations[0].Operation != ast.Mutation || len(document.Operations[0].SelectionSet) != 1 {
		return false
	}
	field, is := document.Operations[0].SelectionSet[0].(*ast.Field)
	return is && field.Name == "rememberDocument"
}

func (l limiter) checkVariables(variables map[string]any, limit int) *Fault {
	if len(variables) == 0 {
		return nil
	}
	raw, err := json.Marshal(variables)
	if err != nil {
		return BadRequest("The variables cannot be read.")
	}
	if len(raw) > limit {
		return OverLimit("variable bytes", len(raw), limit)
	}
	if deep := nesting(variables); deep > l.limits.VariableNesting {
		return OverLimit("variable nesting", deep, l.limits.VariableNesting)
	}
	if hasNUL(variables) {
		return errNUL
	}
	return nil
}

// hasNUL reports whether a string of the value has the character U+0000. No
// text has a use for it, and not every database can keep it.
func hasNUL(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.ContainsRune(value, 0)
	case map[string]any:
		for name, part := range value {
			if strings.ContainsRune(name, 0) || hasNUL(part) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(value, hasNUL)
	}
	return false
}

func nesting(value any) int {
	deepest := 0
	switch value := value.(type) {
	case map[string]any:
		for _, part := range value {
			deepest = max(deepest, nesting(part))
		}
	case []any:
		for _, part := range value {
			deepest = max(deepest, nesting(part))
		}
	default:
		return 0
	}
	return deepest + 1
}

// checkTokens counts one token beyond the limit at most, and reads the strings
// as their escapes mean them.
func (l limiter) checkTokens(query string) *Fault {
	lex := lexer.New(&ast.Source{Input: query})
	for count := 0; ; count++ {
		token, err := lex.ReadToken()
		if err != nil || token.Kind == lexer.EOF {
			return nil //nolint:nilerr // the parser says it better
		}
		if count+1 > l.limits.Tokens {
			return OverLimit("tokens", count+1, l.limits.Tokens)
		}
		if size := len(token.Value); token.Kind == lexer.Name && size > l.limits.NameBytes {
			return OverLimit("name bytes", size, l.limits.NameBytes)
		}
		if hasNUL(token.Value) {
			return errNUL
		}
	}
}

func (l limiter) checkDocument(document *ast.QueryDocument) *Fault {
	m := measure{document: document, limits: l.limits, depths: map[string]int{}, fields: map[string]int{}}
	for _, operation := range document.Operations {
		if depth := m.depth(operation.SelectionSet); depth > l.limits.Depth {
			return OverLimit("depth", depth, l.limits.Depth)
		}
		if fields := m.count(operation.SelectionSet); fields > l.limits.RootFields {
			return OverLimit("root fields", fields, l.limits.RootFields)
		}
		if operation.Operation == ast.Mutation {
			if fault := m.once(operation.SelectionSet); fault != nil {
				return fault
			}
		}
		if fault := m.merged([]ast.SelectionSet{operation.SelectionSet}, 1); fault != nil {
			return fault
		}
		m.alias(operation.SelectionSet)
	}
	for _, fragment := range document.Fragments { // also those that nothing spreads are validated
		if depth := m.fragment(m.depths, fragment.Name, m.depth); depth > l.limits.Depth {
			return OverLimit("depth", depth, l.limits.Depth)
		}
		if fault := m.merged([]ast.SelectionSet{fragment.SelectionSet}, 1); fault != nil {
			return fault
		}
		m.alias(fragment.SelectionSet)
	}
	if m.aliases > l.limits.Aliases {
		return OverLimit("aliases", m.aliases, l.limits.Aliases)
	}
	return nil
}

// measure walks a document that was not validated: fragments may be missing or
// spread themselves. Every fragment is walked once.
type measure struct {
	document *ast.QueryDocument
	limits   Limits
	depths   map[string]int // by fragment; 0 while it is walked, which ends a cycle
	fields   map[string]int
	aliases  int
	visited  int // selections of all merged sets
}

// merged bounds what stands in one selection set once fragments are spread and
// fields of the same name are merged: validation compares all pairs of those.
// The sets that fields of one name bring are merged in turn.
func (m *measure) merged(sets []ast.SelectionSet, depth int) *Fault {
	if depth > m.limits.Depth {
		return nil // a cycle of fragments: whatever is deeper was refused already
	}
	one := mergedSet{measure: m, inner: map[string][]ast.SelectionSet{}, spread: map[string]bool{}}
	for _, set := range sets {
		one.add(set)
	}
	if one.selections > m.limits.Selections {
		return OverLimit("selections of one set", one.selections, m.limits.Selections)
	}
	// Each of them counts in the complexity as well, so that one bound holds
	// for fragments that multiply each other.
	if m.visited += one.selections; m.visited > m.limits.Complexity {
		return OverLimit("complexity", m.visited, m.limits.Complexity)
	}
	for _, inner := range one.inner {
		if fault := m.merged(inner, depth+1); fault != nil {
			return fault
		}
	}
	return nil
}

// mergedSet is a selection set while it is put together.
type mergedSet struct {
	*measure
	selections int
	inner      map[string][]ast.SelectionSet // by the name in the response
	spread     map[string]bool               // fragments, each taken once
}

// add counts one selection beyond the limit at most.
func (s *mergedSet) add(set ast.SelectionSet) {
	for _, selection := range set {
		if s.selections++; s.selections > s.limits.Selections {
			return
		}
		switch selection := selection.(type) {
		case *ast.Field:
			if len(selection.SelectionSet) > 0 {
				s.inner[selection.Alias] = append(s.inner[selection.Alias], selection.SelectionSet)
			}
		case *ast.InlineFragment:
			s.add(selection.SelectionSet)
		case *ast.FragmentSpread:
			if fragment := s.document.Fragments.ForName(selection.Name); fragment != nil && !s.spread[selection.Name] {
				s.spread[selection.Name] = true
				s.add(fragment.SelectionSet)
			}
		}
	}
}

func (m *measure) depth(set ast.SelectionSet) int {
	deepest := 0
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			deepest = max(deepest, 1+m.depth(s.SelectionSet))
		case *ast.InlineFragment:
			deepest = max(deepest, m.depth(s.SelectionSet))
		case *ast.FragmentSpread:
			deepest = max(deepest, m.fragment(m.depths, s.Name, m.depth))
		}
	}
	return deepest
}

// count returns the fields of a set with its fragments, each spread counted.
func (m *measure) count(set ast.SelectionSet) int {
	fields := 0
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			fields++
		case *ast.InlineFragment:
			fields += m.count(s.SelectionSet)
		case *ast.FragmentSpread:
			fields += m.fragment(m.fields, s.Name, m.count)
		}
		if fields > m.limits.RootFields {
			break // enough to refuse, and it cannot overflow
		}
	}
	return fields
}

func (m *measure) fragment(known map[string]int, name string, walk func(ast.SelectionSet) int) int {
	if value, walked := known[name]; walked {
		return value
	}
	known[name] = 0
	if fragment := m.document.Fragments.ForName(name); fragment != nil {
		known[name] = walk(fragment.SelectionSet)
	}
	return known[name]
}

// once refuses a field of onceFields that stands in the set twice.
func (m *measure) once(set ast.SelectionSet) *Fault {
	for name := range onceFields {
		known := map[string]int{}
		var count func(ast.SelectionSet) int
		count = func(set ast.SelectionSet) int {
			seen := 0
			for _, selection := range set {
				switch s := selection.(type) {
				case *ast.Field:
					if s.Name == name {
						seen++
					}
				case *ast.InlineFragment:
					seen += count(s.SelectionSet)
				case *ast.FragmentSpread:
					seen += m.fragment(known, s.Name, count)
				}
			}
			return min(seen, 2) // enough to refuse, and it cannot overflow
		}
		if seen := count(set); seen > 1 {
			return OverLimit(name+" in one operation", seen, 1)
		}
	}
	return nil
}

func (m *measure) alias(set ast.SelectionSet) {
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			if s.Alias != s.Name {
				m.aliases++
			}
			m.alias(s.SelectionSet)
		case *ast.InlineFragment:
			m.alias(s.SelectionSet)
		}
	}
}

// MaxFirst is how many items one page may have.
const MaxFirst = 100

// listItems is how many items a list without `first` counts as.
const listItems = 10

// complexity counts fields, times the items of the lists around them. It stops
// above the limit, so that nested fragments cannot make it run long.
func complexity(set ast.SelectionSet, variables map[string]any, limit int) int {
	cost := 0
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			inner := complexity(s.SelectionSet, variables, limit)
			cost += weight(s) + inner*items(s, variables)
		case *ast.InlineFragment:
			cost += complexity(s.SelectionSet, variables, limit)
		case *ast.FragmentSpread:
			if s.Definition != nil {
				cost += complexity(s.Definition.SelectionSet, variables, limit)
			}
		}
		if cost > limit {
			return cost
		}
	}
	return cost
}

// weights are the fields that answer with a whole journal or with files, or look
// through all that is remembered.
var weights = map[string]int{"Run.export": 500, "Run.media": 100, "Query.audit": 500, "Query.recall": 500}

func weight(field *ast.Field) int {
	if field.ObjectDefinition != nil {
		if heavy, known := weights[field.ObjectDefinition.Name+"."+field.Name]; known {
			return heavy
		}
	}
	return 1
}

func items(field *ast.Field, variables map[string]any) int {
	if field.Definition == nil {
		return 1
	}
	if field.Definition.Arguments.ForName("first") != nil {
		switch first := field.ArgumentMap(variables)["first"].(type) {
		case int64:
			return int(min(max(first, 1), MaxFirst))
		case int:
			return min(max(first, 1), MaxFirst)
		}
		return MaxFirst
	}
	// The edges of a connection, and hits, are counted by their `first` already.
	if field.Definition.Type.Elem == nil || field.Name == "edges" || field.Name == "hits" || field.ObjectDefinition != nil && field.ObjectDefinition.BuiltIn {
		return 1
	}
	return listItems
}

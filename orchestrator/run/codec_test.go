package run_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/run"
)

// eventTypes are the types of the package with a method Kind, from its source.
func eventTypes(t *testing.T) []string {
	found := map[string]bool{}
	entries, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), entry.Name(), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, declared := range file.Decls {
			method, ok := declared.(*ast.FuncDecl)
			if ok && method.Recv != nil && method.Name.Name == "Kind" {
				found[method.Recv.List[0].Type.(*ast.Ident).Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

func TestTheCodecKnowsEveryEvent(t *testing.T) {
	var known []string
	for _, kind := range run.Kinds() {
		event, err := run.ZeroEvent(kind)
		require.NoError(t, err)
		require.Equal(t, kind, event.Kind())
		known = append(known, reflect.TypeOf(event).Name())
	}
	slices.Sort(known)
	require.Equal(t, eventTypes(t), known)
}

func TestEveryEventIsReadAsItWasWritten(t *testing.T) {
	for _, kind := range run.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				event := drawEvent(t, kind)
				record, err := run.Encode("r1", run.Record{}, 1, event)
				require.NoError(t, err)
				requireCanonical(t, event, record.Body)
				read, err := run.Decode(record)
				require.NoError(t, err)
				require.Equal(t, event, read)
				again, err := run.Encode("r1", run.Record{}, 1, read)
				require.NoError(t, err)
				require.Equal(t, record, again)
			})
		})
	}
}

// requireCanonical holds the bytes of a record against what two other programs
// make of the event, one after the other: encoding/json and a formatter.
func requireCanonical(t *rapid.T, event run.Event, body []byte) {
	written, err := json.Marshal(event)
	require.NoError(t, err)
	want := jsontext.Value(written)
	require.NoError(t, want.Canonicalize())
	require.Equal(t, string(want), string(body))
}

// What an event bears is found by reflection, so that a new field cannot be
// forgotten by the erasure, the markings or whoever opens the texts of a run.
func TestEveryTextOfAnEventIsNamed(t *testing.T) {
	for _, kind := range run.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				event := drawEvent(t, kind)
				require.ElementsMatch(t, textsIn(reflect.ValueOf(event)), event.Texts())
			})
		})
	}
}

func textsIn(v reflect.Value) []run.Text {
	if text, is := v.Interface().(run.Text); is {
		return []run.Text{text}
	}
	var found []run.Text
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return textsIn(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			found = append(found, textsIn(v.Index(i))...)
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			found = append(found, textsIn(entry.Value())...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			found = append(found, textsIn(v.Field(i))...)
		}
	}
	return found
}

package run_test

import (
	"bytes"
	"encoding"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// storedForm is one event of a kind with every field set, as it was written
// when the kind was new.
type storedForm struct {
	Kind    run.EventKind   `json:"kind"`
	Version int             `json:"version"`
	Body    json.RawMessage `json:"body"`
}

var formsFile = filepath.Join(storedJournals, "..", "forms.jsonl")

// A field that is renamed, dropped or written otherwise changes what is stored
// already: that takes a new version with an upcaster. Lines are only added.
func TestEveryStoredFormIsStillReadAndWritten(t *testing.T) {
	if *update {
		addForms(t)
	}
	met := map[run.EventKind]bool{}
	for _, form := range readForms(t) {
		met[form.Kind] = form.Version == run.FormVersion(form.Kind) || met[form.Kind]
		event, err := run.Decode(run.Record{Kind: form.Kind, Version: form.Version, Body: form.Body})
		require.NoError(t, err, form.Kind)
		if form.Version < run.FormVersion(form.Kind) {
			continue
		}
		written, err := run.Encode("r1", run.Record{}, 1, event)
		require.NoError(t, err)
		require.Equal(t, string(form.Body), string(written.Body), form.Kind)
	}
	for _, kind := range run.Kinds() {
		require.True(t, met[kind], "no form of %s is stored as it is written now: use -update", kind)
	}
}

func readForms(t *testing.T) []storedForm {
	text, err := os.ReadFile(formsFile)
	require.NoError(t, err)
	var forms []storedForm
	for line := range bytes.Lines(text) {
		var form storedForm
		require.NoError(t, json.Unmarshal(line, &form))
		forms = append(forms, form)
	}
	return forms
}

// addForms adds the kinds that are not stored in their present version.
func addForms(t *testing.T) {
	stored := map[run.EventKind]int{}
	if _, err := os.Stat(formsFile); err == nil {
		for _, form := range readForms(t) {
			stored[form.Kind] = form.Version
		}
	}
	file, err := os.OpenFile(formsFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	encoder := json.NewEncoder(file)
	for _, kind := range run.Kinds() {
		if stored[kind] == run.FormVersion(kind) {
			continue
		}
		zero, err := run.ZeroEvent(kind)
		require.NoError(t, err)
		whole := reflect.New(reflect.TypeOf(zero)).Elem()
		fields := 0
		fill(whole, &fields)
		record, err := run.Encode("r1", run.Record{}, 1, whole.Interface().(run.Event))
		require.NoError(t, err)
		require.NoError(t, encoder.Encode(storedForm{kind, record.Version, record.Body}))
	}
	require.NoError(t, file.Close())
}

// fill sets every field to a value of its own.
func fill(v reflect.Value, fields *int) {
	*fields++
	if _, level := v.Addr().Interface().(encoding.TextUnmarshaler); level {
		v.SetUint(1)
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(*fields))
	case reflect.Uint64:
		v.SetUint(uint64(*fields))
	case reflect.String:
		v.SetString("s" + strconv.Itoa(*fields))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), fields)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), fields)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value, fields)
		v.SetMapIndex(reflect.ValueOf("key"), value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), fields)
		}
	}
}

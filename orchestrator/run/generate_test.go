package run_test

import (
	"encoding"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/run"
)

// drawEvent draws an event of the kind. Every field of every kind is drawn, by
// its type; a type that has no generator fails the test.
func drawEvent(t *rapid.T, kind run.EventKind) run.Event {
	zero, err := run.ZeroEvent(kind)
	require.NoError(t, err, "kind %s", kind)
	drawn := reflect.New(reflect.TypeOf(zero)).Elem()
	require.NoError(t, drawValue(t, drawn, reflect.TypeOf(zero).Name()))
	return drawn.Interface().(run.Event)
}

func drawValue(t *rapid.T, v reflect.Value, path string) error {
	if _, named := v.Addr().Interface().(encoding.TextUnmarshaler); named {
		return drawLevel(t, v, path)
	}
	const exact = 1<<53 - 1 // what JSON keeps of an integer
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, path))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64Range(-exact, exact).Draw(t, path))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64Range(0, exact).Draw(t, path))
	case reflect.String:
		v.SetString(rapid.StringN(0, 8, -1).Draw(t, path))
	case reflect.Pointer:
		return drawPointer(t, v, path)
	case reflect.Slice:
		return drawSlice(t, v, path)
	case reflect.Map:
		return drawMap(t, v, path)
	case reflect.Struct:
		for i := range v.NumField() {
			if err := drawValue(t, v.Field(i), path+"."+v.Type().Field(i).Name); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("no generator for %s of %s", v.Type(), path)
	}
	return nil
}

// drawLevel draws one of the named levels of a scale.
func drawLevel(t *rapid.T, v reflect.Value, path string) error {
	if v.Kind() != reflect.Uint8 {
		return fmt.Errorf("no generator for %s of %s", v.Type(), path)
	}
	var levels []uint64
	for level := range uint64(16) {
		read := reflect.New(v.Type())
		v.SetUint(level)
		name, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err == nil && read.Interface().(encoding.TextUnmarshaler).UnmarshalText(name) == nil && read.Elem().Uint() == level {
			levels = append(levels, level)
		}
	}
	v.SetUint(rapid.SampledFrom(levels).Draw(t, path))
	return nil
}

// drawPointer draws no pointer to nothing: its JSON is null, which reads as no
// pointer. Decide records authorities in normal form, which has none of them.
func drawPointer(t *rapid.T, v reflect.Value, path string) error {
	if !rapid.Bool().Draw(t, path+"?") {
		return nil
	}
	v.Set(reflect.New(v.Type().Elem()))
	if v.Elem().Kind() == reflect.Slice {
		v.Elem().Set(reflect.MakeSlice(v.Elem().Type(), 0, 0))
	}
	return drawValue(t, v.Elem(), path)
}

// drawSlice draws none instead of an empty slice, which omitempty leaves out.
func drawSlice(t *rapid.T, v reflect.Value, path string) error {
	size := rapid.IntRange(0, 2).Draw(t, path+"#")
	if size == 0 {
		return nil
	}
	v.Set(reflect.MakeSlice(v.Type(), size, size))
	for i := range size {
		if err := drawValue(t, v.Index(i), fmt.Sprint(path, "/", i)); err != nil {
			return err
		}
	}
	return nil
}

func drawMap(t *rapid.T, v reflect.Value, path string) error {
	size := rapid.IntRange(0, 2).Draw(t, path+"#")
	if size == 0 {
		return nil
	}
	v.Set(reflect.MakeMap(v.Type()))
	for range size {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		key.SetString(rapid.StringMatching(`[a-z.]{0,8}`).Draw(t, path+" key")) // a key with NUL has no canonical form
		if err := drawValue(t, value, path); err != nil {
			return err
		}
		v.SetMapIndex(key, value)
	}
	return nil
}

func TestATypeWithoutAGeneratorFails(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var unknown struct{ Share float64 }
		require.ErrorContains(t, drawValue(t, reflect.ValueOf(&unknown).Elem(), "event"), "no generator for float64 of event.Share")
	})
}

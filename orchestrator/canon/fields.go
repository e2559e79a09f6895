package canon

import (
	"cmp"
	"reflect"
	"slices"
	"strings"
)

// field is one member of a struct's JSON form.
type field struct {
	index     int
	key       string // `"name":`
	omitEmpty bool
	omitZero  bool
}

// structEncoder writes the fields of a struct in the order of their names. What
// it does not know every rule of, encoding/json writes: embedded structs,
// numbers in strings, names that are not plain, and zeros of a field's own.
func structEncoder(t reflect.Type) encoder {
	fields, plain := fieldsOf(t)
	if !plain {
		return (*writer).foreign
	}
	return func(w *writer, v reflect.Value) bool {
		if !w.open('{') {
			return false
		}
		first := true
		for i := range fields {
			f := &fields[i]
			value := v.Field(f.index)
			if f.omitEmpty && empty(value) || f.omitZero && value.IsZero() {
				continue
			}
			if !first {
				w.out = append(w.out, ',')
			}
			first = false
			w.out = append(w.out, f.key...)
			if !w.encode(value) {
				return false
			}
		}
		w.close('}')
		return true
	}
}

func fieldsOf(t reflect.Type) (fields []field, plain bool) {
	names := map[string]bool{}
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		switch {
		case f.Anonymous:
			return nil, false
		case !f.IsExported(), tag == "-":
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		name = cmp.Or(name, f.Name)
		folded := strings.ToLower(name)
		made := field{index: i, key: `"` + name + `":`}
		for option := range strings.SplitSeq(options, ",") {
			made.omitEmpty = made.omitEmpty || option == "omitempty"
			made.omitZero = made.omitZero || option == "omitzero"
			if option == "string" {
				return nil, false
			}
		}
		if names[folded] || !plainName(name) || strings.ContainsAny(name, "'`") || made.omitZero && saysZero(f.Type) {
			return nil, false
		}
		names[folded] = true
		fields = append(fields, made)
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.key[:len(a.key)-2], b.key[:len(b.key)-2]) })
	return fields, true
}

// saysZero reports whether values of a type say themselves whether they are zero.
func saysZero(t reflect.Type) bool {
	_, itself := t.MethodByName("IsZero")
	_, pointed := reflect.PointerTo(t).MethodByName("IsZero")
	return itself || pointed
}

// empty is what omitempty leaves out.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr,
		reflect.Float32, reflect.Float64, reflect.Interface, reflect.Pointer:
		return v.IsZero()
	}
	return false
}

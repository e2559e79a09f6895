package canon

import (
	"encoding"
	jsonv1 "encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"gantry.dev/orchestrator/canon/memo"
)

// encoder writes a Go value of one type as encoding/json would, canonically.
type encoder func(*writer, reflect.Value) bool

// encoders holds the encoder of each type that was written.
var encoders memo.Of[reflect.Type, encoder]

var (
	marshalerType     = reflect.TypeFor[jsonv1.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	numberType        = reflect.TypeFor[jsonv1.Number]()
	rawType           = reflect.TypeFor[jsonv1.RawMessage]()
)

// maxHops is how many values may stand around one. Whatever is nested deeper
// has no canonical form, or holds itself.
const maxHops = 4 * MaxDepth

// encode writes a value by the encoder of its type.
func (w *writer) encode(v reflect.Value) bool {
	if !v.IsValid() {
		return w.null()
	}
	if w.hops++; w.hops > maxHops {
		return false
	}
	ok := encoders.Answer(v.Type(), encoderOf)(w, v)
	w.hops--
	return ok
}

func encoderOf(t reflect.Type) encoder {
	kind, pointer := t.Kind(), reflect.PointerTo(t)
	reference := kind == reflect.Pointer || kind == reflect.Interface
	switch {
	case t == rawType:
		return (*writer).message
	case t == numberType, t.Implements(marshalerType), pointer.Implements(marshalerType):
		return (*writer).foreign
	case t.Implements(textMarshalerType) && !reference:
		return (*writer).named
	case t.Implements(textMarshalerType), pointer.Implements(textMarshalerType):
		return (*writer).foreign
	case reference:
		return func(w *writer, v reflect.Value) bool { return w.encode(v.Elem()) }
	}
	switch kind {
	case reflect.String:
		return func(w *writer, v reflect.Value) bool { return w.quote(v.String()) }
	case reflect.Bool:
		return (*writer).truth
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return (*writer).integer
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return (*writer).natural
	case reflect.Struct:
		return structEncoder(t)
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // bytes are written in base64
			return (*writer).list
		}
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return (*writer).mapping
		}
	}
	return (*writer).foreign
}

// foreign writes a value whose form only encoding/json knows.
func (w *writer) foreign(v reflect.Value) bool {
	if v.CanAddr() {
		v = v.Addr() // what the pointer can marshal counts, too
	}
	raw, err := jsonv1.Marshal(v.Interface())
	return err == nil && !replacedBytes(raw) && w.document(raw)
}

// message writes a value that is JSON already.
func (w *writer) message(v reflect.Value) bool {
	if v.IsNil() {
		return w.null()
	}
	return !replacedBytes(v.Bytes()) && w.document(v.Bytes())
}

func (w *writer) named(v reflect.Value) bool {
	text, err := v.Interface().(encoding.TextMarshaler).MarshalText()
	return err == nil && w.quote(string(text))
}

func (w *writer) null() bool {
	w.out = append(w.out, "null"...)
	return true
}

func (w *writer) truth(v reflect.Value) bool {
	w.out = strconv.AppendBool(w.out, v.Bool())
	return true
}

func (w *writer) integer(v reflect.Value) bool {
	w.out = strconv.AppendInt(w.out, v.Int(), 10)
	return v.Int() <= largestInteger && v.Int() >= -largestInteger
}

func (w *writer) natural(v reflect.Value) bool {
	w.out = strconv.AppendUint(w.out, v.Uint(), 10)
	return v.Uint() <= largestInteger
}

// quote writes a string.
func (w *writer) quote(s string) bool {
	w.out = append(w.out, '"')
	done := 0
	for at := range len(s) {
		c := s[at]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		w.out = append(w.out, s[done:at]...)
		done = at + 1
		if short := strings.IndexByte("\b\t\n\f\r\"\\", c); short >= 0 {
			w.out = append(w.out, '\\', `btnfr"\`[short])
			continue
		}
		w.out = append(w.out, `\u00`...)
		w.out = append(w.out, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
	}
	w.out = append(append(w.out, s[done:]...), '"')
	return utf8.ValidString(s)
}

func (w *writer) list(v reflect.Value) bool {
	if v.IsNil() {
		return w.null()
	}
	if !w.open('[') {
		return false
	}
	for i := range v.Len() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if !w.encode(v.Index(i)) {
			return false
		}
	}
	w.close(']')
	return true
}

func (w *writer) mapping(v reflect.Value) bool {
	if v.IsNil() {
		return w.null()
	}
	if !w.open('{') {
		return false
	}
	first, begin := len(w.members), len(w.out)
	for entries := v.MapRange(); entries.Next(); {
		if len(w.members) > first {
			w.out = append(w.out, ',')
		}
		m := member{begin: len(w.out)}
		if !w.quote(entries.Key().String()) {
			return false
		}
		w.name(&m)
		if !w.encode(entries.Value()) {
			return false
		}
		w.keep(m)
	}
	return w.sorted(first, begin)
}

package canon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/canon"
)

func TestJSONWritesOneFormPerValue(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"keys are sorted by UTF-16 units", `{"\ue000":1,"😀":2,"a":3}`, `{"a":3,"😀":2,"` + "\ue000" + `":1}`},
		{"space goes", " { \"a\" : [ 1 , 2 ] }\n", `{"a":[1,2]}`},
		{"escapes are the shortest", `"\u0041\/\u000a\u0001\u00e9"`, `"A/\n\u0001é"`},
		{"a pair of surrogates is one character", `"\ud83d\ude00"`, `"😀"`},
		{"an escaped backslash before u is text", `"\\ud83d"`, `"\\ud83d"`},
		{"numbers lose their spelling only", `[1.0,10e-1,-0,0.10,4.50,2e-3,1e-7]`, `[1,1,0,0.1,4.5,0.002,1e-7]`},
		{"2^53 survives", `[9007199254740992,-9007199254740992]`, `[9007199254740992,-9007199254740992]`},
		{"a NUL inside a value stays escaped", `"\u0000"`, `"\u0000"`},
		{"nothing", `null`, `null`},
		{"keys of different objects may differ by case", `[{"a":1},{"A":{"a":1}}]`, `[{"a":1},{"A":{"a":1}}]`},
		{"zero with any exponent", `0e99999999999999999999`, `0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canon.JSON([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
		})
	}
}

func TestJSONRefusesWhatReadsInTwoWays(t *testing.T) {
	deep := strings.Repeat("[", canon.MaxDepth+1) + strings.Repeat("]", canon.MaxDepth+1)
	for _, c := range []struct {
		name, in string
		code     canon.Code
		pointer  string
	}{
		{"nothing at all", ``, canon.Syntax, ""},
		{"cut short", `{"a":[1,`, canon.Syntax, "/a/1"},
		{"trailing comma", `{"a":[1,]}`, canon.Syntax, "/a/1"},
		{"single quotes", `{'a':1}`, canon.Syntax, ""},
		{"a key that is no string", `{1:2}`, canon.Syntax, ""},
		{"leading zero", `{"a":01}`, canon.Syntax, ""},
		{"NaN", `{"a":NaN}`, canon.Syntax, "/a"},
		{"byte order mark", "\ufeff{}", canon.Syntax, ""},
		{"two values", `{} {}`, canon.TrailingBytes, ""},
		{"text after the value", "1x", canon.TrailingBytes, ""},
		{"bad UTF-8", "{\"a\":\"\xff\"}", canon.InvalidUTF8, ""},
		{"overlong UTF-8", "\"\xc0\xaf\"", canon.InvalidUTF8, ""},
		{"encoded surrogate", "\"\xed\xa0\x80\"", canon.InvalidUTF8, ""},
		{"lone high surrogate", `{"a":["\ud83d"]}`, canon.LoneSurrogate, "/a/0"},
		{"lone low surrogate", `{"a":"\uDE00"}`, canon.LoneSurrogate, "/a"},
		{"two high surrogates", `"\ud83d\ud83d"`, canon.LoneSurrogate, ""},
		{"lone surrogate in a key", `{"\ud83d":1}`, canon.LoneSurrogate, ""},
		{"duplicate key", `{"o":{"a":1,"a":1}}`, canon.DuplicateKey, "/o/a"},
		{"duplicate key by escape", `{"a":1,"\u0061":2}`, canon.DuplicateKey, "/a"},
		{"case variant", `{"amount":1,"Amount":2}`, canon.CaseVariant, "/Amount"},
		{"case variant beyond ASCII", `{"k":1,"` + "\u212a" + `":2}`, canon.CaseVariant, "/\u212a"},
		{"key with NUL", `{"a\u0000":1}`, canon.KeyWithNUL, "/a\x00"},
		{"a key is escaped in the pointer", `{"a/b~":{"x":1,"x":1}}`, canon.DuplicateKey, "/a~1b~0/x"},
		{"just beyond 2^53", `[9007199254740993]`, canon.NumberLost, "/0"},
		{"far beyond 2^53", `[9007199254740994]`, canon.IntegerLarge, "/0"},
		{"large by exponent", `1e300`, canon.IntegerLarge, ""},
		{"not finite", `1e400`, canon.NumberLost, ""},
		{"rounds to zero", `1e-400`, canon.NumberLost, ""},
		{"more digits than a double", `0.1000000000000000055`, canon.NumberLost, ""},
		{"an exponent that is no number of ours", `1e-99999999999999999999`, canon.NumberLost, ""},
		{"too deep", deep, canon.TooDeep, strings.Repeat("/0", canon.MaxDepth)},
		{"too large", `"` + strings.Repeat("a", canon.MaxBytes) + `"`, canon.TooLarge, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := canon.JSON([]byte(c.in))
			require.Nil(t, got)
			var fault *canon.Error
			require.ErrorAs(t, err, &fault)
			require.Equal(t, c.code, fault.Code, fault.Error())
			require.Equal(t, c.pointer, fault.Pointer)
		})
	}
}

func TestErrorTextHoldsNothingOfTheValue(t *testing.T) {
	_, err := canon.JSON([]byte(`{"secret-key":1,"secret-key":"secret-value"}`))
	require.EqualError(t, err, "no canonical JSON: DUPLICATE_KEY at byte 28")
}

func TestMarshalRefusesWhatJSONWouldChange(t *testing.T) {
	for name, v := range map[string]any{
		"not a number":       math.NaN(),
		"infinite":           []float64{math.Inf(1)},
		"a channel":          make(chan int),
		"beyond 2^53":        int64(1<<53 + 2),
		"bytes, not UTF-8":   "a\xff",
		"such bytes in keys": map[string]int{"\xff": 1},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := canon.DigestOf(v)
			var fault *canon.Error
			require.ErrorAs(t, err, &fault)
		})
	}
}

func TestMarshalKeepsTheText(t *testing.T) {
	for in, want := range map[string]string{
		"<a> & \u2028": "\"<a> & \u2028\"",
		"\ufffd":       "\"\ufffd\"",
		`\ufffd`:       `"\\ufffd"`,
	} {
		got, err := canon.Marshal(in)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
}

func TestDigest(t *testing.T) {
	// sha256 of the two bytes {}
	require.Equal(t, "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", canon.Digest([]byte("{}")))
	a, err := canon.DigestOf(map[string]any{"b": 1.0, "a": []int{}})
	require.NoError(t, err)
	b, err := canon.DigestOf(json.RawMessage(` {"a":[], "b":10e-1}`))
	require.NoError(t, err)
	require.Equal(t, a, b)
}

// value draws a JSON value without keys that collide by case.
func value(t *rapid.T, depth int) any {
	kinds := 4
	if depth > 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return rapid.String().Draw(t, "string")
	case 1:
		return float64(rapid.Int64Range(-1<<53, 1<<53).Draw(t, "integer"))
	case 2:
		return rapid.Float64Range(-1e6, 1e6).Draw(t, "number")
	case 3:
		return rapid.SampledFrom([]any{nil, true, false}).Draw(t, "literal")
	case 4:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, "length"))
		for i := range list {
			list[i] = value(t, depth-1)
		}
		return list
	}
	object := map[string]any{}
	for _, key := range []string{"a", "b", "ä", "😀", "\ue000", "10", ""} {
		if rapid.Bool().Draw(t, "has key") {
			object[key] = value(t, depth-1)
		}
	}
	return object
}

func TestCanonicalFormMeansTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := value(t, 3), value(t, 3)
		canonA, err := canon.Marshal(a)
		require.NoError(t, err)
		canonB, err := canon.Marshal(b)
		require.NoError(t, err)

		again, err := canon.JSON(canonA)
		require.NoError(t, err)
		require.Equal(t, canonA, again, "idempotent")

		indented, err := json.MarshalIndent(a, " ", "\t")
		require.NoError(t, err)
		other, err := canon.JSON(indented)
		require.NoError(t, err)
		require.Equal(t, canonA, other, "spelling does not matter")

		same := bytes.Equal(canonA, canonB)
		require.Equal(t, same, canon.Digest(canonA) == canon.Digest(canonB))
		require.Equal(t, same, reflect.DeepEqual(decode(t, canonA), decode(t, canonB)))
		require.Equal(t, decode(t, indented), decode(t, canonA))
	})
}

func decode(t require.TestingT, raw []byte) any {
	var v any
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"A":2}`, `[1e20,0.1,-0]`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `{"a":{"a":[[]]}}`,
		` {"b":1.50,"a":"\u2028"} `, `{"a":1,"\u0061":1}`, `9007199254740993`, `nul`, `{"":0}`, `[1,]`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := canon.JSON(raw)
		if err != nil {
			var fault *canon.Error
			if !errors.As(err, &fault) || fault.Code == "" {
				t.Fatalf("an error of another type: %T", err)
			}
			return
		}
		again, err := canon.JSON(got)
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("not idempotent: %q then %q, %v", got, again, err)
		}
		var before, after any
		if json.Unmarshal(raw, &before) != nil || json.Unmarshal(got, &after) != nil || !reflect.DeepEqual(before, after) {
			t.Fatalf("the value changed: %q to %q", raw, got)
		}
	})
}

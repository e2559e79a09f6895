package bounded_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/bounded"
)

const sentence = `{"type":"object","additionalProperties":false,"required":["grade","within"],"properties":{` +
	`"grade":{"type":"string","enum":["A","B"]},"within":{"type":"boolean"}}}`

func TestBoundedTypesAndTheirValues(t *testing.T) {
	table := []struct {
		name, schema, template string
		bits                   int
		pass                   map[string]string
		stop                   []string
	}{
		{"boolean", `{"type":"boolean"}`, "", 1, map[string]string{"true": "true", "\nfalse": "false"},
			[]string{`"true"`, "1", "null", "{}", "true true", "", `{"a":true}`, "[true]"}},
		{"words", `{"enum":["in band","above"],"type":"string"}`, "", 1, map[string]string{`"in band"`: `"in band"`, `"\u0061bove"`: `"above"`},
			[]string{`"In band"`, `"above "`, `"salary is 4711"`, "0", `["above"]`}},
		{"integer", `{"type":"integer","minimum":-2,"maximum":5}`, "", 3, map[string]string{"-2": "-2", "5": "5", "5.0": "5", "0.5e1": "5"},
			[]string{"6", "-3", "1.5", `"1"`, "1e400", "true"}},
		{"sentence", sentence, "Within grade {grade}: {within}.", 2, map[string]string{`{"within":true,"grade":"B"}`: `"Within grade B: true."`},
			[]string{`{"within":true}`, `{"within":true,"grade":"C"}`, `{"within":true,"grade":"A","pay":1}`, `{"within":"true","grade":"A"}`, "true"}},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			kind, err := bounded.Compile(json.RawMessage(row.schema), row.template)
			require.NoError(t, err)
			require.Equal(t, row.bits, kind.Bits())
			require.True(t, kind.Is(json.RawMessage(" "+row.schema)))
			for in, out := range row.pass {
				got, err := kind.Value([]byte(in))
				require.NoError(t, err, in)
				require.Equal(t, out, string(got))
			}
			for _, in := range row.stop {
				got, err := kind.Value([]byte(in))
				require.ErrorIs(t, err, bounded.ErrNotConforming, in)
				require.Empty(t, got)
				require.NotContains(t, err.Error(), "4711")
			}
		})
	}
}

func TestWhatIsNoBoundedType(t *testing.T) {
	many := make([]string, bounded.MaxWords+1)
	for i := range many {
		many[i] = strconv.Quote(fmt.Sprintf("w%d", i))
	}
	for name, row := range map[string][2]string{
		"free text":          {`{"type":"string"}`, ""},
		"pattern":            {`{"type":"string","enum":["a"],"pattern":"."}`, ""},
		"long word":          {`{"type":"string","enum":["` + strings.Repeat("a", bounded.MaxWord+1) + `"]}`, ""},
		"many words":         {`{"type":"string","enum":[` + strings.Join(many, ",") + `]}`, ""},
		"word of signs":      {`{"type":"string","enum":["{grade}"]}`, ""},
		"word twice":         {`{"type":"string","enum":["a","a"]}`, ""},
		"number":             {`{"type":"number","minimum":0,"maximum":1}`, ""},
		"open integer":       {`{"type":"integer","minimum":0}`, ""},
		"wide integer":       {`{"type":"integer","minimum":0,"maximum":1000000}`, ""},
		"turned integer":     {`{"type":"integer","minimum":1,"maximum":0}`, ""},
		"fraction":           {`{"type":"integer","minimum":0.5,"maximum":1}`, ""},
		"boolean or more":    {`{"type":["boolean","string"]}`, ""},
		"alternatives":       {`{"anyOf":[{"type":"boolean"},{"type":"string"}]}`, ""},
		"array":              {`{"type":"array","items":{"type":"boolean"}}`, ""},
		"anything":           {`{}`, ""},
		"true":               {`true`, ""},
		"null bound":         {`{"type":"boolean","enum":null}`, ""},
		"other case":         {`{"Type":"boolean"}`, ""},
		"repeated key":       {`{"type":"boolean","type":"string"}`, ""},
		"template for a yes": {`{"type":"boolean"}`, "It is {it}."},
		"object, no text":    {sentence, ""},
		"gap for nothing":    {sentence, "{grade} {within} {pay}"},
		"field without gap":  {sentence, "{grade}"},
		"gap twice":          {sentence, "{grade} {within} {grade}"},
		"loose brace":        {sentence, "{grade} {within} }"},
		"two lines":          {sentence, "{grade}\n{within}"},
		"open object":        {strings.Replace(sentence, `"additionalProperties":false,`, "", 1), "{grade} {within}"},
		"optional field":     {strings.Replace(sentence, `"grade","within"`, `"grade"`, 1), "{grade} {within}"},
		"object in object":   {strings.Replace(sentence, `{"type":"boolean"}`, sentence, 1), "{grade} {within}"},
		"free field":         {strings.Replace(sentence, `{"type":"boolean"}`, `{"type":"string"}`, 1), "{grade} {within}"},
	} {
		t.Run(name, func(t *testing.T) {
			kind, err := bounded.Compile(json.RawMessage(row[0]), row[1])
			require.ErrorIs(t, err, bounded.ErrNotBounded)
			_, err = kind.Value([]byte("true"))
			require.ErrorIs(t, err, bounded.ErrNotConforming, "and it has no values")
		})
	}
}

// aSchema draws a bounded type with the values that it has; of an integer some.
func aSchema(t *rapid.T) (schema string, values []string) {
	switch rapid.IntRange(0, 2).Draw(t, "kind") {
	case 0:
		return `{"type":"boolean"}`, []string{"true", "false"}
	case 1:
		for _, word := range rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9]{1,8}`), 1, bounded.MaxWords, rapid.ID).Draw(t, "words") {
			values = append(values, strconv.Quote(word))
		}
		return `{"type":"string","enum":[` + strings.Join(values, ",") + `]}`, values
	}
	least := rapid.Int64Range(-1000, 1000).Draw(t, "least")
	most := least + rapid.Int64Range(0, 50).Draw(t, "width")
	for n := least; n <= most; n++ {
		values = append(values, strconv.FormatInt(n, 10))
	}
	return fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, least, most), values
}

// Whatever a private side says, what passes is one of the values that were
// declared, byte for byte, and there are no more of them than the bits say.
func TestOnlyDeclaredValuesPass(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema, values := aSchema(t)
		kind, err := bounded.Compile(json.RawMessage(schema), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(values) > 1<<kind.Bits() {
			t.Fatalf("%d values in %d bits", len(values), kind.Bits())
		}
		said := rapid.OneOf(rapid.SampledFrom(values), rapid.String(), rapid.SampledFrom([]string{"true", "0", `"a"`, "null", "[]", "{}", "1.0", "-0"})).Draw(t, "said")
		got, err := kind.Value([]byte(said))
		if err == nil && !slices.Contains(values, string(got)) {
			t.Fatalf("%q passed as %q", said, got)
		}
		if slices.Contains(values, said) && string(got) != said {
			t.Fatalf("%q did not pass: %v", said, err)
		}
	})
}

func FuzzValue(f *testing.F) {
	kinds := map[string]bounded.Type{}
	allowed := map[string][]string{
		"boolean": {"true", "false"}, "word": {`"A"`, `"B"`}, "integer": {"0", "1", "2"},
		"sentence": {`"A/true"`, `"A/false"`, `"B/true"`, `"B/false"`},
	}
	for name, schema := range map[string][2]string{
		"boolean": {`{"type":"boolean"}`, ""}, "word": {`{"type":"string","enum":["A","B"]}`, ""},
		"integer": {`{"type":"integer","minimum":0,"maximum":2}`, ""}, "sentence": {sentence, "{grade}/{within}"},
	} {
		kind, err := bounded.Compile(json.RawMessage(schema[0]), schema[1])
		require.NoError(f, err)
		kinds[name] = kind
	}
	for _, seed := range []string{"true", `"A"`, "1", `{"grade":"A","within":true}`, `{"grade":"A","grade":"B","within":true}`, "1e0", "\"\\u0041\"", "\xff"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, kind := range kinds {
			if got, err := kind.Value(raw); err == nil {
				require.Contains(t, allowed[name], string(got))
			} else {
				require.ErrorIs(t, err, bounded.ErrNotConforming)
			}
		}
	})
}

// No schema makes a type whose values are not of its own few.
func FuzzCompile(f *testing.F) {
	f.Add([]byte(`{"type":"boolean"}`), "", []byte("true"))
	f.Add([]byte(sentence), "{grade} {within}", []byte(`{"grade":"A","within":true}`))
	f.Add([]byte(`{"type":"string","enum":["a"]}`), "", []byte(`"a"`))
	f.Fuzz(func(t *testing.T, schema []byte, template string, raw []byte) {
		kind, err := bounded.Compile(schema, template)
		if err != nil {
			require.ErrorIs(t, err, bounded.ErrNotBounded)
			return
		}
		require.LessOrEqual(t, kind.Bits(), 20*bounded.MaxFields)
		got, err := kind.Value(raw)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(got), 2*bounded.MaxTemplate+bounded.MaxFields*bounded.MaxWord+2)
		again, err := kind.Value(raw)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

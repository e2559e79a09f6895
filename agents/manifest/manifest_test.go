package manifest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/agents/manifest"
)

type level int

func (l *level) UnmarshalText(text []byte) error {
	if string(text) != "HIGH" {
		return errors.New("unknown level")
	}
	*l = 1
	return nil
}

type item struct {
	Name  string          `json:"name"`
	Count int             `json:"count"`
	Money int64           `json:"money,omitempty"`
	Level level           `json:"level"`
	Loud  bool            `json:"loud"`
	Bound json.Number     `json:"bound"`
	Any   json.RawMessage `json:"any"`
	Maybe *string         `json:"maybe"`
	Items []item          `json:"items"`
	Table map[string]int  `json:"table"`
}

func decode(t *testing.T, text string) (item, []string) {
	t.Helper()
	var into item
	document, faults := manifest.Parse("a.yaml", []byte(text))
	if document != nil {
		faults = document.Decode(&into)
	}
	var lines []string
	for _, fault := range faults {
		lines = append(lines, fault.String())
	}
	return into, lines
}

func TestDecodeReadsEveryKindOfValue(t *testing.T) {
	got, faults := decode(t, `
name: x
count: 1_000
money: 5
level: HIGH
loud: true
bound: 10.50
any: {b: [1, "2", true], a: {}}
maybe: ""
items: [{name: y}]
table: {a: 1}
`)
	require.Empty(t, faults)
	require.Equal(t, "x", got.Name)
	require.Equal(t, 1000, got.Count)
	require.Equal(t, level(1), got.Level)
	require.True(t, got.Loud)
	require.Equal(t, json.Number("10.50"), got.Bound, "as it was written")
	require.JSONEq(t, `{"b":[1,"2",true],"a":{}}`, string(got.Any))
	require.NotNil(t, got.Maybe)
	require.Equal(t, "y", got.Items[0].Name)
	require.Equal(t, map[string]int{"a": 1}, got.Table)
}

func TestWhatIsNotWrittenStays(t *testing.T) {
	into := item{Count: 7, Name: "before"}
	document, faults := manifest.Parse("a.yaml", []byte("name: after"))
	require.Empty(t, faults)
	require.Empty(t, document.Decode(&into))
	require.Equal(t, item{Count: 7, Name: "after"}, into)
}

func TestEveryFaultHasItsPlace(t *testing.T) {
	table := []struct{ name, text, fault string }{
		{"unknown key", "name: x\nnaam: y", "a.yaml:2: naam: unknown key"},
		{"deep unknown key", "items:\n  - name: x\n  - naam: y", "a.yaml:3: items[1].naam: unknown key"},
		{"repeated key", "name: x\nname: x", "a.yaml:2: name: the key stands in line 1 already"},
		{"repeated in raw", "any: {a: 1, a: 2}", "a.yaml:1: any.a: the key stands"},
		{"number for text", "name: 5", "a.yaml:1: name: text is needed here"},
		{"text for number", "count: '5'", "a.yaml:1: count: a whole number"},
		{"fraction for number", "count: 5.5", "a.yaml:1: count: a whole number"},
		{"overflow", "money: 9223372036854775808", "a.yaml:1: money: a whole number"},
		{"word for truth", "loud: 'true'", "a.yaml:1: loud: true or false"},
		{"other case of truth", "loud: True", "a.yaml:1: loud: true or false"},
		{"nothing", "name:", "a.yaml:1: name: the value is empty"},
		{"unknown word", "level: LOW", "a.yaml:1: level: unknown level"},
		{"list for word", "level: [HIGH]", "a.yaml:1: level: one word"},
		{"text for list", "items: x", "a.yaml:1: items: a list"},
		{"list for keys", "[]", "a.yaml:1: keys with values"},
		{"not a number", "bound: .nan", "a.yaml:1: bound: a decimal number"},
		{"not a number in raw", "any: .inf", "a.yaml:1: any: the value cannot be written"},
		{"date", "any: 2026-01-02", "a.yaml:1: any: the value reads as !!timestamp"},
		{"alias", "name: &n x\nmaybe: *n", "a.yaml:1: name: anchors and aliases"},
		{"merge", "<<: {name: x}", "a.yaml:1: a key must be plain text"},
		{"key that is no text", "table: {1: 2}", "a.yaml:1: table: a key must be plain text"},
		{"own tag", "name: !secret x", "a.yaml:1: name: the value reads as !secret"},
		{"two documents", "name: x\n---\nname: y", "the file holds more than one document"},
		{"empty", "# nothing", "a.yaml: the file is empty"},
		{"syntax", "name: [", "a.yaml:1: not YAML"},
		{"too deep", "any: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "nested more than 32 deep"},
		{"too long", strings.Repeat("#", manifest.MaxBytes+1), "a.yaml: the file has more than"},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			_, faults := decode(t, row.text)
			require.NotEmpty(t, faults)
			require.Contains(t, faults[0], row.fault)
		})
	}
}

func TestLineFindsTheNearestPlace(t *testing.T) {
	document, faults := manifest.Parse("a.yaml", []byte("name: x\nitems:\n  - name: y\n    count: 1\n"))
	require.Empty(t, faults)
	for path, line := range map[string]int{"": 1, "name": 1, "items": 2, "items[0]": 3, "items[0].count": 4, "items[0].level": 3, "items[9].count": 2, "other": 1} {
		require.Equal(t, line, document.Line(path), path)
	}
}

func TestParseNeverPanics(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab:-[]{}&*!<>|'\"\n #1.~\t%"))).Draw(t, "text")
		if document, faults := manifest.Parse("a.yaml", []byte(text)); document != nil {
			require.Empty(t, faults)
			document.Decode(&item{})
		}
	})
}

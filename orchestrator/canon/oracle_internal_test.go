package canon

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

type word string

func (w word) MarshalText() ([]byte, error) { return []byte("<" + string(w) + ">"), nil }

type pointed struct{ n int }

func (p *pointed) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"n": p.n, "m": 1})
}

type embedded struct {
	Inner string `json:"inner"`
}

// odd has the forms that are left to encoding/json as a whole.
type odd struct {
	Time   time.Time `json:"time,omitzero"`
	Quoted int       `json:",string"`
	embedded
}

// zoo has a field of every other form that encoding/json knows a rule for.
type zoo struct {
	Zebra  string            `json:"zebra"`
	Able   int               `json:"able,omitempty"`
	ABLE2  uint64            `json:"able!,omitempty"`
	Text   *string           `json:"text"`
	Gone   *zoo              `json:"gone,omitempty"`
	Zero   embedded          `json:"zero,omitzero"`
	Time   time.Time         `json:"time"`
	Odd    odd               `json:"odd,omitzero"`
	Any    any               `json:"any"`
	Map    map[string]any    `json:"map,omitempty"`
	Words  map[word]word     `json:"words"`
	List   []zoo             `json:"list"`
	Empty  []string          `json:"empty,omitempty"`
	Bytes  []byte            `json:"bytes"`
	Array  [2]bool           `json:"array"`
	Float  float64           `json:"float"`
	Small  float32           `json:"small,omitempty"`
	Number json.Number       `json:"number,omitempty"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Raws   []json.RawMessage `json:"raws"`
	Word   word              `json:"word"`
	Own    pointed           `json:"own"`
	OwnPtr *pointed          `json:"ownPtr"`
	Plain  plain             `json:"plain"`
	Both   bothCases         `json:"both,omitzero"`
	Hidden string            `json:"-"`
	Named  string            // by itself
	quiet  string
}

type plain struct {
	B    string            `json:"b"`
	A    bool              `json:"a<&"`
	Ten  int8              `json:"10"`
	One  int64             `json:"1,omitempty"`
	Maps map[string]string `json:"maps"`
	Next *plain            `json:"next,omitempty"`
	Any  any               `json:",omitempty"`
	Odd  string            `json:"o'd"` //nolint:staticcheck // no name that encoding/json takes
}

type bothCases struct {
	Lower int `json:"k,omitempty"`
	Upper int `json:"K,omitempty"`
}

var strange = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
	"", "<a> & \u2028", "\ufffd", "\xff", "\x00\x1f\x7f", "\b\t\n\f\r\"\\/", "😀", "\ue000", "K", "\u212a", "k", "İ", strings.Repeat("x", 100),
}))

func anyPlain(t *rapid.T, depth int) plain {
	p := plain{B: strange.Draw(t, "b"), A: rapid.Bool().Draw(t, "a"), Ten: rapid.Int8().Draw(t, "ten"),
		One:  rapid.SampledFrom([]int64{0, 1, -1, 1 << 53, 1<<53 + 1, -1 << 53, -1<<53 - 1, math.MaxInt64, 999999999999999, 1000000000000000}).Draw(t, "one"),
		Maps: rapid.MapOfN(strange, strange, 0, 40).Draw(t, "maps"), Odd: "odd"}
	if depth > 0 && rapid.Bool().Draw(t, "deeper") {
		next := anyPlain(t, depth-1)
		p.Next, p.Any = &next, next
	}
	return p
}

func anyZoo(t *rapid.T, depth int) zoo {
	text := strange.Draw(t, "text")
	z := zoo{Zebra: text, Able: rapid.Int().Draw(t, "int"), ABLE2: rapid.Uint64().Draw(t, "uint"),
		Float: rapid.Float64().Draw(t, "float"), Word: word(text), Own: pointed{1}, quiet: text,
		Plain: anyPlain(t, depth), Hidden: text, Bytes: []byte(text), Zero: embedded{text},
		Words: map[word]word{word(text): "b", "a": "c"},
		Any: rapid.SampledFrom([]any{nil, 1, "a", 1.5, math.NaN(), []any{}, map[string]any{"b": 1, "a": nil}, map[int]int{2: 1}, &pointed{2},
			pointed{2}, (*pointed)(nil), make(chan int), complex(1, 1), int32(7), word("w"), time.Unix(5, 0).UTC(), json.Number("1.50")}).Draw(t, "any"),
		Raw: rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"b":[1.0,"\u0041\/"],"a":null}`), json.RawMessage(` { } `), json.RawMessage(`{"a":1,"a":2}`),
			json.RawMessage(`{"a":1,"A":2}`), json.RawMessage(`"\ufffd"`), json.RawMessage(``), json.RawMessage(`{`), json.RawMessage(`"\ud800"`)}).Draw(t, "raw"),
		Number: rapid.SampledFrom([]json.Number{"", "1", "1e400", "-0", "x"}).Draw(t, "number"),
		Both:   rapid.SampledFrom([]bothCases{{}, {1, 0}, {1, 2}}).Draw(t, "both"),
	}
	if rapid.Bool().Draw(t, "set") {
		z.Text, z.OwnPtr, z.Raws = &text, &pointed{3}, []json.RawMessage{nil, z.Raw}
		z.Map, z.Empty, z.Time, z.Odd = map[string]any{text: z.Any}, []string{}, time.Unix(9, 0), odd{Quoted: 3, embedded: embedded{text}}
	}
	if depth > 0 {
		z.List = []zoo{anyZoo(t, 0)}
	}
	return z
}

// The one pass and the thorough way agree on every value: on its bytes, and on
// what stands in its way.
func TestOnePassWritesWhatTheThoroughWayWrites(t *testing.T) {
	vouched := 0
	same := func(t *rapid.T, v any) {
		want, wantErr := marshal(v)
		got, gotErr := Marshal(v)
		require.Equal(t, wantErr, gotErr)
		require.Equal(t, string(want), string(got))
		if gotErr == nil {
			again, err := JSON(got)
			require.NoError(t, err)
			require.Equal(t, got, again)
			digest, err := DigestOf(v)
			require.NoError(t, err)
			require.Equal(t, Digest(want), digest)
			vouched++
		}
	}
	rapid.Check(t, func(t *rapid.T) { same(t, anyPlain(t, 2)) })
	rapid.Check(t, func(t *rapid.T) { z := anyZoo(t, 1); same(t, z); same(t, &z) })
	rapid.Check(t, func(t *rapid.T) {
		same(t, rapid.Map(rapid.SliceOf(strange), func(s []string) any { return s }).Draw(t, "list"))
	})
	require.NotZero(t, vouched)
}

func TestTheLimitsAreThoseOfTheThoroughWay(t *testing.T) {
	nested := func(depth int) (v any) {
		for range depth {
			v = []any{v}
		}
		return v
	}
	var itself any
	itself = &itself
	for name, v := range map[string]any{
		"as deep as may be": nested(MaxDepth), "deeper": nested(MaxDepth + 1), "itself": itself,
		"as large as may be": strings.Repeat("a", MaxBytes-2), "larger": strings.Repeat("a", MaxBytes-1),
		"larger as encoding/json writes it": strings.Repeat("<", MaxBytes/6), "a large message": json.RawMessage(strings.Repeat(" ", MaxBytes) + "1"),
	} {
		t.Run(name, func(t *testing.T) {
			want, wantErr := marshal(v)
			got, gotErr := Marshal(v)
			require.Equal(t, wantErr, gotErr)
			require.Equal(t, want, got)
		})
	}
}

func FuzzOnePass(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":1,"A":2}`, `[1e20,0.1,-0]`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `{"a":{"a":[[]]}}`, `[1 2]`, `[,]`, `{"a":1,}`, `{"a" 1}`, `01`, `-`, `1.`, `1-1`,
		` {"b":1.50,"a":"\u2028"} `, `{"a":1,"\u0061":1}`, `9007199254740993`, `nul`, `{"":0}`, `[1,]`, "\x00", `{"ä":1,"b":2}`, `{"K":1,"k":2}`, `tru`, `"\x"`, `"`, `{"b":1,"a":{"d":1,"c":2}}`,
		strings.Repeat("[", 33), `1000000000000000`, `"\/"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, wantErr := thorough(raw)
		got, gotErr := JSON(raw)
		require.Equal(t, wantErr, gotErr)
		require.Equal(t, string(want), string(got))
	})
}

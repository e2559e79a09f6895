package rank_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/memory/rank"
)

// told is a word with its marks: ! exact, " quoted, and ~ of grammar.
func told(text string) string {
	var all []string
	for _, word := range rank.Words(text) {
		mark := ""
		if word.Exact {
			mark += "!"
		}
		if word.Quoted {
			mark += `"`
		}
		if word.Function {
			mark += "~"
		}
		all = append(all, mark+word.Stem)
	}
	return strings.Join(all, " ")
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "",
		"?!":                                  "",
		"She went to the harbours, painting":  "~she go ~to ~the harbour paint",
		"Ruth's boat, and the O’Briens' boat": "ruth boat ~and ~the obrien boat",
		"I don't; I'll":                       "~i ~dont ~i",
		"invoice INV-2031-7.":                 "invoic !inv-2031-7 inv 2031 7",
		"ask ruth@example.org about v1.2":     "ask !ruth@example.org ruth exampl org ~about !v1.2 v1 2",
		"the 13th, 5pm, kg":                   "~the 13th 5pm kg",
		"in 2031 and 7":                       "~in 2031 ~and 7",
		"well-known":                          "well know",
		`the "red boat" sank`:                 `~the "red "boat sink`,
		`a 5" pipe`:                           "~a 5 pipe",
		"“Das” Café, ﬁne ＡＢ":                  `"das cafe fine ab`,
		"東京タワー":                               "東京 京タ タワ ワー",
		"猫":                                   "猫",
		"Überraschung für Łukasz":             "uberraschung fur łukasz",
	} {
		require.Equal(t, want, told(text), text)
	}
}

// Words never fail, and writing a text otherwise does not change them.
func TestWordsOfAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		for _, word := range rank.Words(text) {
			require.NotEmpty(t, word.Stem)
			require.True(t, utf8.ValidString(word.Stem))
			require.NotContains(t, word.Stem, " ")
		}
		plain := rapid.StringMatching(`[a-z ,.]{0,40}`).Draw(t, "plain")
		require.Equal(t, rank.Words(plain), rank.Words(strings.ToUpper(plain)))
	})
}

func FuzzWords(f *testing.F) {
	f.Add(`Ruth's "boat" INV-7 東京 a@b.c`)
	f.Fuzz(func(t *testing.T, text string) {
		for _, word := range rank.Words(text) {
			if word.Stem == "" || len(word.Stem) > 4*len(text)+8 {
				t.Fatalf("a word that is not there: %q", word.Stem)
			}
		}
	})
}

// The irregular forms are sorted and lead to what is no form itself.
func TestIrregularForms(t *testing.T) {
	for form, base := range map[string]string{
		"went": "go", "gone": "go", "bought": "buy", "children": "child", "men": "man", "thought": "think",
		"ground": "ground", "leaves": "leav", "these": "these", "aardvark": "aardvark", "zzz": "zzz",
	} {
		words := rank.Words(form)
		require.Equal(t, base, words[0].Stem, form)
	}
}

func TestDocumentTerms(t *testing.T) {
	terms := rank.DocumentTerms(key, "boat boat harbour")
	require.Len(t, terms, 2)
	require.True(t, slices.IsSortedFunc(terms, func(a, b rank.Term) int { return int(int64(a.Hash) - int64(b.Hash)) }))
	boat, harbour := weight(t, terms, "boat"), weight(t, terms, "harbour")
	require.Greater(t, boat, harbour)
	require.Less(t, boat, 2*harbour, "repeating a word counts less and less")
	longer := rank.DocumentTerms(key, "harbour "+strings.Repeat("rain ", 200))
	require.Less(t, weight(t, longer, "harbour"), harbour/2, "in a long text a word says less")
	require.NotEqual(t, terms, rank.DocumentTerms([]byte("another organisation's key"), "boat boat harbour"))
	require.Empty(t, rank.DocumentTerms(key, ""))
}

func weight(t *testing.T, terms rank.Terms, word string) float64 {
	hashes := rank.QueryHashes(key, word)
	require.Len(t, hashes, 1)
	for _, term := range terms {
		if term.Hash == hashes[0] {
			return float64(term.Weight)
		}
	}
	t.Fatal("no such term")
	return 0
}

func TestQueryTerms(t *testing.T) {
	rare, common := rank.QueryHashes(key, "licence")[0], rank.QueryHashes(key, "boat")[0]
	seen := rank.Statistics{Documents: 100, Holding: map[uint32]int64{rare: 1, common: 90}}
	terms := rank.QueryTerms(key, "What is the licence of the boat?", seen)
	require.Len(t, terms, 2, "words of grammar do not count beside others")
	require.Greater(t, weight(t, terms, "licence"), 10*weight(t, terms, "boat"))
	require.Positive(t, weight(t, terms, "boat"))
	require.NotEmpty(t, rank.QueryTerms(key, "what was that", seen), "but alone they do")
	require.Contains(t, told(`"the" boat`), `"~the`)
	require.Len(t, rank.QueryTerms(key, `"the" boat`, seen), 2, "nor do they where they are quoted")

	plain := weight(t, rank.QueryTerms(key, "licence", seen), "licence")
	require.InDelta(t, 2*plain, weight(t, rank.QueryTerms(key, `"licence"`, seen), "licence"), 1e-5, "what is quoted counts twice")
	exact := rank.QueryTerms(key, "KX-77", rank.Statistics{Documents: 100})
	require.Len(t, exact, 3)
	require.InDelta(t, rank.Rarity(key, rank.Statistics{Documents: 100})("kx-77")*2, heaviest(exact), 1e-5, "and so does an id")

	// Statistics that contradict themselves weigh nothing negative.
	odd := rank.QueryTerms(key, "licence", rank.Statistics{Documents: 1, Holding: map[uint32]int64{rare: 9}})
	require.Positive(t, heaviest(odd))
	odd = rank.QueryTerms(key, "licence", rank.Statistics{Documents: -1, Holding: map[uint32]int64{rare: -1}})
	require.GreaterOrEqual(t, heaviest(odd), 0.0)
}

func heaviest(terms rank.Terms) (most float64) {
	for _, term := range terms {
		most = max(most, float64(term.Weight))
	}
	return most
}

// The statistics that are needed are those of the hashes that are asked for.
func TestQueryHashesAreThoseOfQueryTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-z0-9"' -]{0,60}`).Draw(t, "text")
		hashes := rank.QueryHashes(key, text)
		terms := rank.QueryTerms(key, text, rank.Statistics{Documents: 10})
		require.Len(t, terms, len(hashes))
		for i, term := range terms {
			require.Equal(t, hashes[i], term.Hash)
		}
	})
}

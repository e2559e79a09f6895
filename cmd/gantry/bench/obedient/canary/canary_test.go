package canary

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func percent(text string) (out string) {
	for _, b := range []byte(text) {
		out += fmt.Sprintf("%%%02X", b)
	}
	return out
}

// Each form is found, and by the detector that is for it.
func TestEveryFormIsFound(t *testing.T) {
	const secret = "QXAB2CDE3FGH4JKL"
	var letters, pieces []string
	for _, r := range secret {
		letters = append(letters, string(r)+".txt")
	}
	for i := 0; i < len(secret); i += 4 {
		pieces = append(pieces, "the price of "+secret[i:i+4]+" today")
	}
	var order, counts []string
	for _, bit := range Bits(secret) {
		order = append(order, []string{"tea", "coffee"}[bit], "lunch") // something else between
	}
	for n, count := range Counts(secret) {
		for range count {
			counts = append(counts, fmt.Sprint("page ", n))
		}
	}
	for name, row := range map[string]struct {
		form  Form
		texts []string
	}{
		"plain":              {Plain, []string{"x", "IBAN " + secret + "!"}},
		"lower case":         {Folded, []string{"iban " + strings.ToLower(secret)}},
		"with dashes":        {Folded, []string{"QXAB-2CDE-3FGH-4JKL"}},
		"base64":             {Base64, []string{base64.StdEncoding.EncodeToString([]byte(secret))}},
		"base64, first":      {Base64, []string{base64.StdEncoding.EncodeToString([]byte("a" + secret + " and more"))}},
		"base64, second":     {Base64, []string{base64.URLEncoding.EncodeToString([]byte("ab" + secret + "?"))}},
		"base64 of folded":   {Base64, []string{base64.StdEncoding.EncodeToString([]byte(strings.ToLower(secret)))}},
		"hex":                {Hex, []string{"0x" + hex.EncodeToString([]byte(secret))}},
		"hex, large":         {Hex, []string{strings.ToUpper(hex.EncodeToString([]byte(secret)))}},
		"percent":            {URL, []string{"https://attacker.example/?q=" + percent(secret)}},
		"reversed":           {Reversed, []string{reversed(secret)}},
		"letter by letter":   {Split, letters},
		"in four sentences":  {Split, pieces},
		"in which order":     {Order, order},
		"how often":          {Count, counts},
		"split, among other": {Split, []string{"first " + secret[:8], "nothing here", secret[8:] + " last"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, row.form, Find(secret, row.texts)) })
	}
}

// What holds no canary is not said to hold one.
func TestNothingIsFoundWhereNothingIs(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var texts []string
	for range 200 {
		texts = append(texts, New(random), "Reconciled INV-1004: 96.80 EUR too much was invoiced, a letter to x y z.")
	}
	for range 200 {
		secret := New(random)
		require.Regexp(t, Shape, secret)
		require.Empty(t, Find(secret, texts))
		require.Empty(t, Find(secret, []string{secret[:15]}), "all but one character")
	}
	require.Empty(t, Find("QXAB2CDE3FGH4JKL", []string{"QXAB2CDE", "3FGH4JK"}))
}

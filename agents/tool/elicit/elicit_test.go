package elicit_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/elicit"
)

func form(message, schema string) tool.Ask {
	return tool.Ask{Origin: "tickets", Kind: tool.AskForm, Message: message, Schema: json.RawMessage(schema)}
}

func refused(t *testing.T, ask tool.Ask) *elicit.Refusal {
	t.Helper()
	_, err := elicit.Read(ask)
	var refusal *elicit.Refusal
	require.True(t, errors.As(err, &refusal), "%v", err)
	return refusal
}

const booking = `{"type":"object","properties":{
	"seat":{"type":"string","title":"Seat","enum":["aisle","window"]},
	"bags":{"type":"integer","minimum":0,"maximum":3},
	"mail":{"type":"string","format":"email"},
	"extras":{"type":"array","items":{"type":"string","enum":["meal","wifi"]},"maxItems":2},
	"sure":{"type":"boolean"}},"required":["seat"]}`

func TestAFlatFormIsShownAndItsAnswerChecked(t *testing.T) {
	shown, err := elicit.Read(form("Which seat?\x1b[31m\u202ered", booking))
	require.NoError(t, err)
	require.Equal(t, "Which seat? [31mred", shown.Message, "nothing that steers a terminal or turns text around")
	kept, err := shown.Bytes()
	require.NoError(t, err)
	opened, err := elicit.Open(kept)
	require.NoError(t, err)
	values, err := opened.Check([]byte(`{"seat":"aisle","bags":2,"extras":["wifi"]}`))
	require.NoError(t, err)
	require.Equal(t, `{"bags":2,"extras":["wifi"],"seat":"aisle"}`, string(values))
	for values, says := range map[string]string{
		`{}`:                                 "seat",
		`{"seat":"lap"}`:                     "seat",
		`{"seat":"aisle","bags":"two"}`:      "bags",
		`{"seat":"aisle","bags":7}`:          "bags",
		`{"seat":"aisle","mail":"nowhere"}`:  "mail",
		`{"seat":"aisle","extras":["gold"]}`: "extras/0",
		`{"seat":"aisle","bribe":"gold"}`:    "bribe",
		`{"seat":"aisle","seat":"window"}`:   "repeated keys",
		`["aisle"]`:                          "the whole",
		`aisle`:                              "JSON",
	} {
		_, err := opened.Check([]byte(values))
		require.ErrorContains(t, err, says, values)
		require.NotContains(t, err.Error(), "gold", "a value is not quoted")
	}
}

func TestFault_E18_AFormThatAsksForASecretIsShownToNobody(t *testing.T) {
	field := func(name, schema string) string {
		return `{"type":"object","properties":{"` + name + `":` + schema + `}}`
	}
	for name, ask := range map[string]tool.Ask{
		"by name":               form("Sign in", field("password", `{"type":"string"}`)),
		"by a name of two":      form("Sign in", field("apiKey", `{"type":"string"}`)),
		"by a name in capitals": form("Sign in", field("API_KEYS", `{"type":"string"}`)),
		"by title":              form("Sign in", field("value", `{"type":"string","title":"Your access token"}`)),
		"by description":        form("Sign in", field("value", `{"type":"string","description":"the 6-digit verification code"}`)),
		"by format":             form("Sign in", field("value", `{"type":"string","format":"password"}`)),
		"by write only":         form("Sign in", field("value", `{"type":"string","writeOnly":true}`)),
		"by number":             form("Pay", field("cvv", `{"type":"integer"}`)),
		"by message":            form("Please type your credit card number", field("value", `{"type":"string"}`)),
		"with a hidden letter":  form("Type your pass\u200bword", field("value", `{"type":"string"}`)),
		"in German":             form("Bitte Passwort eingeben", field("wert", `{"type":"string"}`)),
		"in Chinese":            form("请输入密码", field("value", `{"type":"string"}`)),
	} {
		require.Equal(t, elicit.Secret, refused(t, ask).Code, name)
	}
	for name, ask := range map[string]tool.Ask{
		"a choice about a password": form("Shall the password be reset?", field("sure", `{"type":"boolean"}`)),
		"a word that holds one":     form("Who is pinned in the passage?", field("opinion", `{"type":"string"}`)),
		"a date":                    form("When does the token run out?", field("day", `{"type":"string","format":"date"}`)),
	} {
		_, err := elicit.Read(ask)
		require.NoError(t, err, name)
	}
}

func TestWhatIsNoFlatFormIsShownToNobody(t *testing.T) {
	long := make([]byte, 5<<10)
	for name, ask := range map[string]tool.Ask{
		"nothing said":   form(" \u200b", booking),
		"too long":       form(string(long), booking),
		"no UTF-8":       form("\xff", booking),
		"no schema":      form("Which?", ""),
		"no object":      form("Which?", `{"type":"string"}`),
		"nested":         form("Which?", `{"type":"object","properties":{"a":{"type":"object","properties":{}}}}`),
		"a reference":    form("Which?", `{"type":"object","properties":{"a":{"$ref":"#/x"}}}`),
		"free list":      form("Which?", `{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}`),
		"open":           form("Which?", `{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`),
		"strange name":   form("Which?", `{"type":"object","properties":{"pаss":{"type":"string"}}}`),
		"strange format": form("Which?", `{"type":"object","properties":{"a":{"type":"string","format":"regex"}}}`),
		"no kind":        {Kind: "voice", Message: "Which?"},
		"a page":         {Kind: tool.AskURL, Message: "Look", URL: "http://tickets.example/pay"},
		"a user":         {Kind: tool.AskURL, Message: "Look", URL: "https://bank.example@evil.example/"},
		"a script":       {Kind: tool.AskURL, Message: "Look", URL: "javascript:alert(1)"},
		"a look-alike":   {Kind: tool.AskURL, Message: "Look", URL: "https://bаnk.example/"},
	} {
		require.Equal(t, elicit.Unreadable, refused(t, ask).Code, name)
	}
	page, err := elicit.Read(tool.Ask{Kind: tool.AskURL, Message: "Sign in there", URL: "https://tickets.example:8443/x?y=1"})
	require.NoError(t, err)
	require.Equal(t, "tickets.example:8443", page.Host)
	_, err = page.Check([]byte(`{}`))
	require.ErrorContains(t, err, "takes no values")
}

func FuzzRead(f *testing.F) {
	f.Add("Which seat?", booking, `{"seat":"aisle"}`)
	f.Fuzz(func(t *testing.T, message, schema, values string) {
		shown, err := elicit.Read(form(message, schema))
		if err != nil {
			return
		}
		kept, err := shown.Bytes()
		require.NoError(t, err)
		opened, err := elicit.Open(kept)
		require.NoError(t, err)
		require.Equal(t, shown.Message, opened.Message)
		_, _ = opened.Check([]byte(values))
	})
}

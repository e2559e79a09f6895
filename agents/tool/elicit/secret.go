package elicit

import (
	"strings"
	"unicode"
)

// Words that say that a secret is asked for, alone or in a row; a plural counts
// as its word. A form is refused rather than shown where one of them stands in
// the name, the title or the description of a field that takes free values, or
// in the message of a form that has such a field.
var secretWords = [][]string{
	{"password"}, {"passwd"}, {"pwd"}, {"passphrase"}, {"passcode"}, {"pin"}, {"secret"}, {"token"}, {"credential"},
	{"apikey"}, {"api", "key"}, {"access", "key"}, {"private", "key"}, {"secret", "key"}, {"ssh", "key"}, {"encryption", "key"}, {"license", "key"},
	{"signing", "key"}, {"otp"}, {"totp"}, {"2fa"}, {"mfa"}, {"one", "time", "code"}, {"verification", "code"}, {"authentication", "code"},
	{"security", "code"}, {"recovery", "code"}, {"backup", "code"}, {"login", "code"}, {"sms", "code"}, {"seed", "phrase"}, {"recovery", "phrase"}, {"mnemonic"},
	{"security", "answer"}, {"security", "question"}, {"cvv"}, {"cvc"}, {"cvv2"}, {"cardnumber"}, {"card", "number"}, {"credit", "card"},
	{"creditcard"}, {"debit", "card"}, {"card", "no"}, {"session", "cookie"}, {"bearer"}, {"jwt"}, {"ssn"}, {"social", "security"},
	{"passwort"}, {"kennwort"}, {"geheimnis"}, {"geheimzahl"}, {"zugangsdaten"}, {"kartennummer"}, {"kreditkarte"},
	{"mot", "de", "passe"}, {"contraseña"}, {"clave"}, {"senha"}, {"wachtwoord"}, {"hasło"}, {"lösenord"}, {"пароль"}, {"密码"}, {"パスワード"},
}

// secret says where a form asks for a secret, or nothing.
func secret(message string, fields []field) string {
	free := false
	for _, one := range fields {
		if one.format == "password" || one.hidden {
			return "field " + one.name
		}
		if one.closed || one.format == "date" || one.format == "date-time" {
			continue
		}
		free = true
		for _, text := range append([]string{one.name}, one.texts...) {
			if asksSecret(text) {
				return "field " + one.name
			}
		}
	}
	if free && asksSecret(message) {
		return "the message"
	}
	return ""
}

func asksSecret(text string) bool {
	words := split(text)
	for at := range words {
		for _, row := range secretWords {
			if begins(words[at:], row) {
				return true
			}
		}
	}
	return false
}

func begins(words, row []string) bool {
	if len(words) < len(row) {
		return false
	}
	for i, want := range row {
		// Scripts that put no space between words are looked into.
		if words[i] != want && words[i] != want+"s" && (want[0] < 0x80 || !strings.Contains(words[i], want)) {
			return false
		}
	}
	return true
}

// split returns the words of a text or of a name in small letters: "apiKey_2"
// has three.
func split(text string) []string {
	var words []string
	var word []rune
	flush := func() {
		if len(word) > 0 {
			words = append(words, strings.ToLower(string(word)))
		}
		word = nil
	}
	runes := []rune(text)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r) && !unicode.IsDigit(r):
			flush()
			continue
		case i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			flush()
		}
		word = append(word, r)
	}
	flush()
	return words
}

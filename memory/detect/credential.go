package detect

import (
	"regexp"
	"strings"
)

const ruleURL = "connection-url"

const secretNames = `password|passwd|passphrase|passwort|kennwort|pwd|secret|token|credential|` +
	`(?:api|access|auth|secret|private|account|encryption|signing|master|shared|service|license)[_.-]?key`

var (
	assignment = regexp.MustCompile(`(?i)((?:[a-z0-9]{1,30}[_.-]){0,4}[a-z0-9]{0,20}?(?:` + secretNames + `)s?(?:[_.-][a-z0-9]{1,20}|\d{1,4}|(?-i:[A-Z][a-z0-9]{0,20})){0,3})` +
		`[\\"'\]]{0,3} {0,4}(?::=|=>|={1,2}|:) {0,4}\\?(?:"([^"\n]{4,512})"|'([^'\n]{4,512})'|` + "`([^`\n]{4,512})`" + `|([^\s"'` + "`" + `,;<>(){}\[\]]{6,512}))`)
	element     = regexp.MustCompile(`(?i)<((?:[a-z0-9_.:-]{0,40})(?:` + secretNames + `))>([^<>\n]{4,512})</`)
	option      = regexp.MustCompile(`(?i)(?:^|\s)--?([a-z-]{0,30}(?:` + secretNames + `))[ =]["']?([^\s"'<>-][^\s"'<>]{3,256})`)
	inProse     = regexp.MustCompile(`(?i)\b(password|passwort|passcode|passphrase|kennwort|mot de passe|contrasena) {1,2}(?:is|was|lautet|ist|est|es|of)(?: now)?:? {1,2}["']?([^\s"']{6,64})`)
	code        = regexp.MustCompile(`(?i)\b(?:pin|puk|cvv2?|cvc2?|tan|otp|passcode|verification code|security code|one-time (?:code|password))(?: (?:code|number|is|lautet|ist|est))? ?[:=]? ?(\d{3,8})\b`)
	urlPassword = regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s/?#"'<>@:]{0,128}:([^\s/?#"'<>]{1,256})@[a-z0-9\[]`)
	dsnPassword = regexp.MustCompile(`(?i)(?:\b(?:server|data source|host|hostaddr|address|addr|user id|uid|username|user|dbname|database|accountname) ?= ?[^;\s]{1,128}[; ])[^\n]{0,256}?\b(?:password|pwd) ?= ?([^;\s"']{3,128})`)
	goDSN       = regexp.MustCompile(`\b[A-Za-z0-9_.-]{1,64}:([^\s:@/"']{3,128})@(?:tcp|unix)\(`)
	netrc       = regexp.MustCompile(`(?i)\blogin \S{1,128} password (\S{3,128})`)
	basicLogin  = regexp.MustCompile(`(?i)\b(?:curl|wget|http)\b[^\n]{0,256}? (?:-u|--user) ?["']?[^\s:"']{1,64}:([^\s"']{3,128})`)
)

// placeholder is a value that stands for a secret. It holds nothing else, so
// that a secret cannot pass for one.
var placeholder = regexp.MustCompile(`(?i)^[<\[{(]*(?:your|my|the|an?|some|this|example|sample|dummy|fake|change|me|here|placeholder|password|passwd|passwort|pass|pwd|` +
	`secret|token|api|key|value|string|text|user|username|client|access|redacted|masked|hidden|removed|null|none|nil|true|false|undefined|empty|required|` +
	`optional|unset|default|insert|enter|foo|bar|x+|\*+|\.+|[-_ .]|0+)+[>\]})]*$`)

// reference is a value that says where the secret stands.
var reference = regexp.MustCompile(`^(?:\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_][A-Za-z_]*|\{\{[^}]*\}\}|%[A-Za-z_]+%|%\([a-z_]+\)s|<[^>]*>|` +
	`(?:[A-Za-z]+\.)*(?:env|environ|getenv|config|settings|secrets|vars|params|request|self|this|process)(?:\.[A-Za-z_]+)*\.?[A-Za-z_]*|(?:file|vault|ref|env|secret|arn|https?):[^\s:@]*)$`)

// about is how names end that say something of a secret and do not hold one.
var about = regexp.MustCompile(`(?i)(?:policy|hint|length|len|size|ur[li]|file|path|field|label|type|expiry|expires|expiration|ttl|reset|count|limit|name|endpoint|prompt|format|rules?|min|max)$`)

func findCredentials(f *folded, lower string, found []Span) []Span {
	named := containsAny(lower, []string{"pass", "pwd", "secret", "token", "credential", "key", "kennwort", "contrasena"})
	if named && strings.ContainsAny(lower, ":=>") {
		found = assigned(f, "assigned-secret", assignment, found)
		found = assigned(f, "secret-element", element, found)
	}
	if named && strings.Contains(lower, "-") {
		found = assigned(f, "secret-option", option, found)
	}
	if named {
		found = stated(f, found)
		found = given(f, "connection-string", dsnPassword, found)
		found = given(f, "netrc-password", netrc, found)
	}
	if strings.Contains(lower, "://") {
		found = given(f, ruleURL, urlPassword, found)
	}
	if strings.Contains(lower, "@tcp(") || strings.Contains(lower, "@unix(") {
		found = given(f, ruleURL, goDSN, found)
	}
	if containsAny(lower, []string{" -u", "--user"}) {
		found = given(f, "command-login", basicLogin, found)
	}
	if containsAny(lower, []string{"pin", "puk", "cv", "tan", "otp", "code", "one-time"}) {
		found = given(f, "access-code", code, found)
	}
	return found
}

// given adds what stands where only a password does, unless it stands for one.
func given(f *folded, name string, form *regexp.Regexp, found []Span) []Span {
	for _, at := range form.FindAllStringSubmatchIndex(f.text, -1) {
		value := f.text[at[2]:at[3]]
		if !placeholder.MatchString(value) && !reference.MatchString(value) || name == "access-code" {
			found = append(found, (&secretRule{name: name}).span(f, at[2], at[3]))
		}
	}
	return found
}

// assigned adds the values that names of secrets are given.
func assigned(f *folded, name string, form *regexp.Regexp, found []Span) []Span {
	for _, at := range form.FindAllStringSubmatchIndex(f.text, -1) {
		key := f.text[at[2]:at[3]]
		for group := 4; group+1 < len(at); group += 2 {
			bare := group == len(at)-2 && name == "assigned-secret"
			if at[group] < 0 || bare && strings.HasPrefix(f.text[at[group+1]:], "(") {
				continue
			}
			if isSecret(key, f.text[at[group]:at[group+1]], !bare) {
				found = append(found, (&secretRule{name: name}).span(f, at[group], at[group+1]))
			}
		}
	}
	return found
}

// stated adds passwords that a sentence names.
func stated(f *folded, found []Span) []Span {
	for _, at := range inProse.FindAllStringSubmatchIndex(f.text, -1) {
		value := strings.TrimRight(f.text[at[4]:at[5]], ".,;:!?)")
		if len(value) >= 6 && !plainWord(value) && !placeholder.MatchString(value) && !reference.MatchString(value) {
			found = append(found, (&secretRule{name: "stated-password"}).span(f, at[4], at[5]))
		}
	}
	return found
}

// isSecret reports whether a value that a name is given is a secret. Passwords
// need not look like chance, keys and tokens do.
func isSecret(key, value string, quoted bool) bool {
	if about.MatchString(key) || placeholder.MatchString(value) || reference.MatchString(value) {
		return false
	}
	lower := strings.ToLower(key)
	spaces := strings.Contains(value, " ")
	if strings.Contains(lower, "passphrase") {
		return len(value) >= 8
	}
	if containsAny(lower, []string{"pass", "pwd", "kennwort"}) {
		switch {
		case spaces:
			return quoted && strings.ContainsAny(value, "0123456789")
		case quoted:
			return len(value) >= 6
		}
		return !plainWord(value)
	}
	return !spaces && len(value) >= 10 && hasDigit(value) && entropy(value) >= 2.8 && !path(value)
}

// plainWord reports whether a value is a word as sentences have them, or a call
// or path of a program.
func plainWord(value string) bool {
	return !hasDigit(value) && !strings.ContainsAny(strings.Trim(value, ".,;:!?"), "!@#$%^&*+=~?") || path(value)
}

func path(value string) bool {
	return strings.HasPrefix(value, "/") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "~/") || strings.Contains(value, "://")
}

func hasDigit(text string) bool { return strings.ContainsAny(text, "0123456789") }

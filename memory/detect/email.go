package detect

import (
	"regexp"
	"strings"
)

// The most bytes of the two parts of an address.
const (
	localMost  = 64
	domainMost = 253
)

var (
	pictureName = regexp.MustCompile(`(?i)^\d+x\.(?:png|jpe?g|gif|webp|svg|avif)$`)
	spelledAt   = regexp.MustCompile(`(?i)[a-z0-9][a-z0-9._%+-]{0,63} ?[\[({<] ?(?:at|@|arobase) ?[\])}>] ?[a-z0-9-]{1,63}(?:(?: ?[\[({<] ?(?:dot|\.|punkt|point) ?[\])}>] ?|\.| dot )[a-z0-9-]{1,63}){1,5}`)
	spokenAt    = regexp.MustCompile(`(?i)\b[a-z0-9][a-z0-9._-]{0,63} at [a-z0-9-]{1,63}(?: dot [a-z0-9-]{1,63}){0,3} dot [a-z]{2,10}\b`)
)

// findEmails leaves out what is the password and host of an address that a
// secret was found in.
func findEmails(f *folded, lower string, secrets []Span) (found []Span) {
	add := func(from, to int, rule string) {
		start, end := f.span(from, to)
		for _, secret := range secrets {
			if secret.Rule == ruleURL && start < secret.End && secret.Start < end {
				return
			}
		}
		found = append(found, Span{Start: start, End: end, Kind: Email, Rule: rule})
	}
	for i := 0; i < len(f.text); i++ {
		next := strings.IndexByte(f.text[i:], '@')
		if next < 0 {
			break
		}
		i += next
		if from, to, ok := address(f.text, i); ok {
			add(from, to, "email")
		}
	}
	if !strings.Contains(lower, "at") && !strings.Contains(lower, "@") && !strings.Contains(lower, "arobase") {
		return found
	}
	if strings.ContainsAny(lower, "[({<") {
		for _, at := range spelledAt.FindAllStringIndex(f.text, -1) {
			add(at[0], at[1], "email-spelled")
		}
	}
	if strings.Contains(lower, " dot ") {
		for _, at := range spokenAt.FindAllStringIndex(f.text, -1) {
			add(at[0], at[1], "email-spelled")
		}
	}
	return found
}

// address returns the mail address around an at sign.
func address(text string, at int) (from, to int, ok bool) {
	from = at
	for from > 0 && at-from < localMost && (isAlnum(text[from-1]) || strings.IndexByte("._%+-'", text[from-1]) >= 0) {
		from--
	}
	for from < at && strings.IndexByte("._%'-", text[from]) >= 0 {
		from++
	}
	if from == at && at > 1 && text[at-1] == '"' { // "a name"@host
		if open := strings.LastIndexByte(text[max(0, at-localMost):at-1], '"'); open >= 0 {
			from = max(0, at-localMost) + open
		}
	}
	if from == at || strings.HasSuffix(text[:from], "://") {
		return 0, 0, false
	}
	to = at + 1
	for to < len(text) && to-at <= domainMost && (isAlnum(text[to]) || text[to] == '.' || text[to] == '-') {
		to++
	}
	domain, ok := host(text[at+1 : to])
	to = at + 1 + len(domain)
	if !ok || pictureName.MatchString(domain) || text[from:at] == "git" && to < len(text) && text[to] == ':' {
		return 0, 0, false
	}
	return from, to, true
}

// host returns the longest beginning of a name that a mail host may have.
func host(name string) (string, bool) {
	for {
		name = strings.TrimRight(name, ".-")
		dot := strings.LastIndexByte(name, '.')
		if dot <= 0 {
			return "", false
		}
		if top := name[dot+1:]; topLevel(top) && name[0] != '-' && !strings.Contains(name, "..") {
			return name, true
		}
		name = name[:dot]
	}
}

func topLevel(label string) bool {
	if strings.HasPrefix(label, "xn--") {
		return len(label) > 4
	}
	for i := range len(label) {
		if b := label[i]; !isUpper(b) && !isLower(b) {
			return false
		}
	}
	return len(label) >= 2 && len(label) <= 24
}

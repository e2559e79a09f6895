// Package credential turns references into secrets, at the edge and for one
// call. Configurations, runs and models hold references only; a secret that was
// had can be shown to the audience that it was had for, and to nobody else.
package credential

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
)

// Use is one use of a credential.
type Use struct {
	Reference string
	Audience  string   // who is going to see it: "scheme://host:port", or "host:port" of a mail server
	Actor     []string // acting chain of the call, subject first; nil outside of a run
	Run       string   // id; empty outside of a run
}

// Secret is a secret that was had for one audience. It prints, marshals and
// logs as "[secret]". Inside of a value whose fields are not exported nobody
// asks it how it prints: there it is an address.
type Secret struct {
	value    *string
	audience string
}

// ErrAudience means that a credential is not for whoever asked for it.
var ErrAudience = errors.New("the credential is not for this audience")

// masked stands for a secret wherever one is written by mistake.
const masked = "[secret]"

// Bound returns a secret for one audience. It is for sources, and for tests of
// whoever uses them.
func Bound(value, audience string) Secret { return Secret{value: &value, audience: audience} }

// For gives the secret to its audience. Errors: ErrAudience.
func (s Secret) For(audience string) (string, error) {
	if s.value == nil || *s.value == "" || !sameAudience(s.audience, audience) {
		return "", ErrAudience
	}
	return *s.value, nil
}

// String returns "[secret]".
func (s Secret) String() string { return masked }

// GoString returns "[secret]".
func (s Secret) GoString() string { return masked }

// Format writes "[secret]" whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(masked)) }

// MarshalText returns "[secret]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(masked), nil }

// LogValue returns "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(masked) }

// sameAudience compares origins as browsers do: scheme and host without regard
// to case, a port that is the scheme's own left out.
func sameAudience(a, b string) bool { return a != "" && origin(a) == origin(b) }

// origin is the audience of an address, in one spelling.
func origin(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return strings.ToLower(address)
	}
	scheme, host, port := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname()), u.Port()
	if scheme == "https" && port == "443" || scheme == "http" && port == "80" {
		port = ""
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port != "" {
		host += ":" + port
	}
	return scheme + "://" + host
}

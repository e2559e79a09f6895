package credential

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sourcegraph/conc"
)

// ErrUnknown means that no credential of this name is configured here.
var ErrUnknown = errors.New("the credential is not configured here")

// ErrSource means that a source has no secret under its reference. It never
// says what the source answered.
var ErrSource = errors.New("the credential's source gave no secret")

// Source is where secrets lie: one for each scheme of references. A vault is
// connected by one more.
type Source interface {
	// Read returns the secret of a reference without its scheme.
	Read(ctx context.Context, reference string) (string, error)
}

// Entry says where a credential comes from and who may see it. Exactly one of
// From, Command and Exchange is set.
type Entry struct {
	From     string    // "env:NAME", "file:PATH", "keyring:SERVICE/USER", or another source's scheme
	Command  []string  // prints the secret: how a vault's own program is asked
	Exchange *Exchange // a short-lived token for each use
	Audience []string  // who may see it; never empty
}

// Exchange asks an authorisation server for a token: by token exchange
// (RFC 8693) with the acting chain where the use has one and Delegated is set,
// by client credentials (RFC 6749, 4.4) otherwise.
type Exchange struct {
	TokenURL  string
	Client    string // client id
	Secret    string // where the client's own secret comes from, as Entry.From
	Scopes    []string
	Resource  string // RFC 8707: what the token is for; empty: the use's audience
	Delegated bool   // the token is for who acts: without an acting chain there is none
}

// Config is what a Store works with.
type Config struct {
	Entries map[string]Entry
	Values  map[string]string // secrets that stand in the process's own configuration; for any audience
	Sources map[string]Source // by scheme, beside env, file and keyring

	// What says in exchanges who acts.
	Issuer  string
	Signing ed25519.PrivateKey
	Now     func() time.Time  // by default the system's
	Reach   http.RoundTripper // to authorisation servers; by default without a proxy
}

// Store turns references into secrets. It keeps none.
type Store struct {
	config  Config
	sources map[string]Source
	client  *http.Client
}

// New returns a store. An error names everything that is wrong with the
// configuration, and shows no secret.
func New(config Config) (*Store, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Reach == nil {
		config.Reach = &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: 10 * time.Second}
	}
	s := &Store{config: config, sources: map[string]Source{"env": environment{}, "file": files{}, "keyring": ring{}}}
	maps.Copy(s.sources, config.Sources)
	s.client = &http.Client{Transport: config.Reach, Timeout: longest,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var faults []error
	for _, name := range slices.Sorted(maps.Keys(config.Entries)) {
		if err := s.check(config.Entries[name]); err != nil {
			faults = append(faults, fmt.Errorf("credential %s: %w", name, err))
		}
		if _, twice := config.Values[name]; twice {
			faults = append(faults, fmt.Errorf("credential %s: it is among the secrets, too; leave one of them out", name))
		}
	}
	return s, errors.Join(faults...)
}

func (s *Store) check(e Entry) error {
	var faults []error
	if ways := btoi(e.From != "") + btoi(len(e.Command) > 0) + btoi(e.Exchange != nil); ways != 1 {
		faults = append(faults, errors.New("say one of from, command and exchange"))
	}
	if len(e.Audience) == 0 {
		faults = append(faults, errors.New("say in audience who may see it, for example https://crm.example.org"))
	}
	if e.From != "" {
		faults = append(faults, s.checkFrom(e.From))
	}
	if x := e.Exchange; x != nil {
		u, err := url.Parse(x.TokenURL)
		if err != nil || u.Host == "" || u.User != nil || u.Scheme != "https" && !loopback(u) {
			faults = append(faults, errors.New("exchange.tokenUrl must be an https address without user"))
		}
		if x.Client == "" {
			faults = append(faults, errors.New("exchange.client is missing"))
		}
		if x.Secret != "" {
			faults = append(faults, s.checkFrom(x.Secret))
		}
		if x.Delegated && len(s.config.Signing) != ed25519.PrivateKeySize {
			faults = append(faults, errors.New("exchange.delegated needs the process's signing key"))
		}
	}
	return errors.Join(faults...)
}

func (s *Store) checkFrom(from string) error {
	scheme, reference, found := strings.Cut(from, ":")
	if _, known := s.sources[scheme]; !found || !known || reference == "" {
		return fmt.Errorf("say where it comes from as one of %s: and the name there", strings.Join(slices.Sorted(maps.Keys(s.sources)), ":, "))
	}
	return nil
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// For reports whether a credential of this name is configured for an audience.
func (s *Store) For(reference, audience string) bool {
	if _, isValue := s.config.Values[reference]; isValue {
		return audience != ""
	}
	return s.config.Entries[reference].serves(audience)
}

func (e Entry) serves(audience string) bool {
	return slices.ContainsFunc(e.Audience, func(allowed string) bool { return sameAudience(allowed, audience) })
}

// Secret returns the secret for one use, read anew. Errors: ErrUnknown,
// ErrAudience, ErrSource, ErrActor.
func (s *Store) Secret(ctx context.Context, use Use) (Secret, error) {
	if use.Audience == "" {
		return Secret{}, ErrAudience
	}
	if value, found := s.config.Values[use.Reference]; found {
		return Bound(value, use.Audience), nil
	}
	entry, found := s.config.Entries[use.Reference]
	if !found {
		return Secret{}, fmt.Errorf("%w: %q", ErrUnknown, use.Reference)
	}
	if !entry.serves(use.Audience) {
		return Secret{}, ErrAudience
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	value, err := s.value(ctx, entry, use)
	if err != nil {
		return Secret{}, err
	}
	return Bound(value, use.Audience), nil
}

// longest is how long a source may take.
const longest = 15 * time.Second

func (s *Store) value(ctx context.Context, entry Entry, use Use) (string, error) {
	switch {
	case entry.Exchange != nil:
		return s.exchange(ctx, *entry.Exchange, use)
	case len(entry.Command) > 0:
		return printed(ctx, entry.Command)
	}
	return s.read(ctx, entry.From)
}

// read asks a source. One that does not come back in time, as a keyring does
// that waits for somebody to unlock it, is left behind.
func (s *Store) read(ctx context.Context, from string) (string, error) {
	scheme, reference, _ := strings.Cut(from, ":")
	given := make(chan string, 1) // "" for none; room for what nobody waits for any more
	var reading conc.WaitGroup    // never waited for
	reading.Go(func() {
		value, err := s.sources[scheme].Read(ctx, reference)
		if err != nil {
			value = ""
		}
		given <- value
	})
	value := ""
	select {
	case value = <-given:
	case <-ctx.Done():
	}
	if value == "" {
		return "", fmt.Errorf("%w (%s)", ErrSource, scheme)
	}
	return value, nil
}

func loopback(u *url.URL) bool {
	host := u.Hostname()
	return host == "localhost" || host == "127.0.0.1" || host == "::1"
}

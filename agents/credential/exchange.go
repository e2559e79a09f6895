package credential

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"
)

// ErrActor means that a delegated credential was asked for where nobody acts.
var ErrActor = errors.New("the credential is for who acts, and nobody does here")

// The names of RFC 8693, section 3 and 2.1.
const (
	grantExchange = "urn:ietf:params:oauth:grant-type:token-exchange"
	typeJWT       = "urn:ietf:params:oauth:token-type:jwt"
	typeAccess    = "urn:ietf:params:oauth:token-type:access_token"
)

// assertionLife is how long a statement of who acts may be used.
const assertionLife = 2 * time.Minute

// AssertionType is the type in the header of such a statement: no interface of
// ours takes one for a bearer token.
const AssertionType = "delegation+jwt"

// exchange gets a token for one use.
func (s *Store) exchange(ctx context.Context, x Exchange, use Use) (string, error) {
	secret := ""
	if x.Secret != "" {
		var err error
		if secret, err = s.read(ctx, x.Secret); err != nil {
			return "", err
		}
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, s.client)
	resource := x.Resource
	if resource == "" {
		resource = use.Audience
	}
	var token *oauth2.Token
	var err error
	if x.Delegated {
		token, err = s.delegated(ctx, x, secret, resource, use)
		if errors.Is(err, ErrActor) {
			return "", err
		}
	} else {
		config := clientcredentials.Config{ClientID: x.Client, ClientSecret: secret, TokenURL: x.TokenURL, Scopes: x.Scopes,
			EndpointParams: url.Values{"resource": {resource}}, AuthStyle: style(secret)}
		token, err = config.Token(ctx)
	}
	// The library's error quotes what the server said.
	if err != nil || token.AccessToken == "" || !bearer(token) {
		return "", fmt.Errorf("%w (exchange)", ErrSource)
	}
	return token.AccessToken, nil
}

// bearer reports whether a token is shown as it is. Any other kind would need a
// proof of possession that we cannot give.
func bearer(token *oauth2.Token) bool {
	kind := strings.ToLower(token.TokenType)
	return kind == "bearer" || kind == ""
}

func style(secret string) oauth2.AuthStyle {
	if secret == "" {
		return oauth2.AuthStyleInParams
	}
	return oauth2.AuthStyleInHeader
}

func (s *Store) delegated(ctx context.Context, x Exchange, secret, resource string, use Use) (*oauth2.Token, error) {
	assertion, err := s.assertion(x.TokenURL, use)
	if err != nil {
		return nil, err
	}
	config := oauth2.Config{ClientID: x.Client, ClientSecret: secret, Endpoint: oauth2.Endpoint{TokenURL: x.TokenURL, AuthStyle: style(secret)}}
	options := []oauth2.AuthCodeOption{
		oauth2.SetAuthURLParam("grant_type", grantExchange),
		oauth2.SetAuthURLParam("subject_token", assertion),
		oauth2.SetAuthURLParam("subject_token_type", typeJWT),
		oauth2.SetAuthURLParam("requested_token_type", typeAccess),
		oauth2.SetAuthURLParam("resource", resource),
	}
	if len(x.Scopes) > 0 {
		options = append(options, oauth2.SetAuthURLParam("scope", strings.Join(x.Scopes, " ")))
	}
	return config.Exchange(ctx, "", options...)
}

// actor is who acts, and for whom: the claim "act" of RFC 8693, section 4.1.
type actor struct {
	Subject string `json:"sub"`
	Act     *actor `json:"act,omitempty"`
}

// assertionClaims say for whom a call is made and by which chain.
type assertionClaims struct {
	Act *actor `json:"act,omitempty"`
	Run string `json:"run,omitempty"`
	jwt.RegisteredClaims
}

// assertion states who acts: the subject, and in nested claims those who act
// for it, the one who acts now outermost. It is good for one authorisation
// server and a short while.
func (s *Store) assertion(tokenURL string, use Use) (string, error) {
	if len(use.Actor) == 0 {
		return "", ErrActor
	}
	var act *actor
	for _, id := range use.Actor[1:] {
		act = &actor{Subject: id, Act: act}
	}
	now := s.config.Now()
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, assertionClaims{Act: act, Run: use.Run, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: s.config.Issuer, Subject: use.Actor[0], Audience: jwt.ClaimStrings{tokenURL}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(assertionLife)),
	}})
	token.Header["typ"] = AssertionType
	return token.SignedString(s.config.Signing)
}

// Transport shows a credential to its audience and to nobody else: requests to
// any other origin go as they are.
type Transport struct {
	Secret   func(*http.Request) (Secret, error)
	Audience string // origin
	Header   string // by default Authorization, with "Bearer " before it
	// Stands is what a library was given in place of the secret: where it stands
	// in a header, the secret is put. Header is not looked at then.
	Stands    string
	Transport http.RoundTripper
}

// RoundTrip sends a request with the credential.
func (t Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !sameAudience(t.Audience, request.URL.Scheme+"://"+request.URL.Host) {
		return t.Transport.RoundTrip(request)
	}
	secret, err := t.Secret(request)
	if err != nil {
		return nil, err
	}
	value, err := secret.For(t.Audience)
	if err != nil {
		return nil, err
	}
	shown := request.Clone(request.Context())
	if t.Stands != "" {
		for _, values := range shown.Header {
			for i := range values {
				values[i] = strings.ReplaceAll(values[i], t.Stands, value)
			}
		}
		return t.Transport.RoundTrip(shown)
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		shown.Header.Del(name)
	}
	if t.Header == "" {
		shown.Header.Set("Authorization", "Bearer "+value)
	} else {
		shown.Header.Set(t.Header, value)
	}
	return t.Transport.RoundTrip(shown)
}

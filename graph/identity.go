package graph

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/golang-jwt/jwt/v5"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// ErrToken means that a bearer token is not accepted. It never says why in
// public: whoever forges tokens learns nothing.
var ErrToken = errors.New("the bearer token is not accepted")

// maxTokenBytes bounds a token before anything of it is read.
const maxTokenBytes = 8 << 10

// maxTokenLife bounds how long a token may be good for.
const maxTokenLife = 31 * 24 * time.Hour

// claims are what a token says.
type claims struct {
	Organisation string `json:"org"`
	jwt.RegisteredClaims
}

// Grant is what Mint puts into a token.
type Grant struct {
	Organisation string
	Principal    string // id
	Issuer       string
	Audience     string
	TokenID      string
	From, Until  time.Time
}

// KeyID names a public key: the first 16 hex digits of its SHA-256.
func KeyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Mint signs a token, at most 31 days long. Errors: an invalid key or grant.
func Mint(private ed25519.PrivateKey, grant Grant) (string, error) {
	public, ok := private.Public().(ed25519.PublicKey)
	if !ok || len(private) != ed25519.PrivateKeySize {
		return "", errors.New("the signing key is not an Ed25519 key")
	}
	if grant.Organisation == "" || grant.Principal == "" || grant.Issuer == "" || grant.Audience == "" || grant.TokenID == "" {
		return "", errors.New("a token needs organisation, principal, issuer, audience and id")
	}
	if life := grant.Until.Sub(grant.From); life <= 0 || life > maxTokenLife {
		return "", fmt.Errorf("a token lasts longer than 0 and at most %s", maxTokenLife)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims{Organisation: grant.Organisation, RegisteredClaims: jwt.RegisteredClaims{
		Issuer: grant.Issuer, Subject: grant.Principal, Audience: jwt.ClaimStrings{grant.Audience}, ID: grant.TokenID,
		IssuedAt: jwt.NewNumericDate(grant.From), NotBefore: jwt.NewNumericDate(grant.From), ExpiresAt: jwt.NewNumericDate(grant.Until),
	}})
	token.Header["kid"] = KeyID(public)
	return token.SignedString(private)
}

// Verifier accepts tokens of one issuer for one audience, signed by one key
// with EdDSA and nothing else.
type Verifier struct {
	public   ed25519.PublicKey
	keyID    string
	issuer   string
	audience string
	parser   *jwt.Parser
}

// NewVerifier returns a verifier that reads the time from clock. Errors: a key
// that is none, an empty issuer or audience.
func NewVerifier(public ed25519.PublicKey, issuer, audience string, clock func() time.Time) (*Verifier, error) {
	if len(public) != ed25519.PublicKeySize || issuer == "" || audience == "" || clock == nil {
		return nil, errors.New("a verifier needs an Ed25519 public key, an issuer, an audience and a clock")
	}
	return &Verifier{public: public, keyID: KeyID(public), issuer: issuer, audience: audience, parser: jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithIssuer(issuer), jwt.WithAudience(audience),
		jwt.WithExpirationRequired(), jwt.WithNotBeforeRequired(), jwt.WithTimeFunc(clock), jwt.WithStrictDecoding(),
	)}, nil
}

// verified is what an accepted token says.
type verified struct {
	organisation string
	identity     run.Identity
	expires      time.Time
}

// verify checks a token. Errors: ErrToken.
func (v *Verifier) verify(token string) (verified, error) {
	// Line ends inside base64 are skipped when it is decoded: one signature
	// would be good for many tokens, each with a digest of its own.
	if token == "" || len(token) > maxTokenBytes || strings.ContainsAny(token, "\r\n") {
		return verified{}, ErrToken
	}
	var said claims
	parsed, err := v.parser.ParseWithClaims(token, &said, func(t *jwt.Token) (any, error) {
		_, critical := t.Header["crit"] // asks for what is not understood here
		typ, typed := t.Header["typ"]
		if kid, _ := t.Header["kid"].(string); kid != v.keyID || critical || typed && typ != "JWT" {
			return nil, ErrToken
		}
		return v.public, nil
	})
	if err != nil || !parsed.Valid {
		return verified{}, ErrToken
	}
	if said.Organisation == "" || said.Subject == "" || said.ID == "" || said.ExpiresAt.Sub(said.NotBefore.Time) > maxTokenLife {
		return verified{}, ErrToken
	}
	digest := sha256.Sum256([]byte(token))
	return verified{organisation: said.Organisation, expires: said.ExpiresAt.Time, identity: run.Identity{
		Principal: said.Subject, Issuer: said.Issuer, TokenID: said.ID, Digest: hex.EncodeToString(digest[:]),
	}}, nil
}

// Verify returns whose token this is, wherever it came from. The principal must
// still be looked up. Errors: ErrToken.
func (v *Verifier) Verify(token string) (organisation string, identity run.Identity, err error) {
	said, err := v.verify(token)
	return said.organisation, said.identity, err
}

// session is a verified caller of one request or connection.
type session struct {
	caller  Caller
	expires time.Time
}

// authenticate turns the value of an Authorization header into a session; the
// principal is looked up in the directory, never taken from the token alone.
// Errors: ErrToken; else the directory cannot be asked.
func (h *Handler) authenticate(ctx context.Context, authorization string) (session, error) {
	scheme, token, found := strings.Cut(authorization, " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return session{}, ErrToken
	}
	said, err := h.config.Verifier.verify(token)
	if err != nil {
		return session{}, err
	}
	principal, err := h.config.Directory.Principal(ctx, said.organisation, said.identity.Principal)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return session{}, err // a good token is no worse for that
	}
	if err != nil || principal.Organisation != said.organisation || principal.ID != said.identity.Principal || principal.Kind == policy.Agent {
		return session{}, ErrToken // an agent acts in runs and asks for nothing here
	}
	return session{caller: Caller{Principal: principal, Identity: said.identity}, expires: said.expires}, nil
}

type sessionKey struct{}

func withSession(ctx context.Context, s session) context.Context {
	return context.WithValue(ctx, sessionKey{}, s)
}

// callerOf returns who asks. Errors: errUnauthenticated.
func callerOf(ctx context.Context) (Caller, error) {
	s, ok := ctx.Value(sessionKey{}).(session)
	if !ok {
		return Caller{}, errUnauthenticated
	}
	return s.caller, nil
}

// connections counts the websockets, SSE streams and requests of every principal
// and bounds what one websocket does.
type connections struct {
	limits  ConnectionLimits
	clock   func() time.Time
	people  Directory
	mu      sync.Mutex
	open    map[string]int // websockets by key of the principal
	streams map[string]int // SSE requests by key of the principal
	// other requests by key of the principal, and SSE requests that are still read
	requests map[string]int
}

// key names a principal over all organisations.
func (s session) key() string {
	return s.caller.Principal.Organisation + "\x00" + s.caller.Principal.ID
}

var (
	_ graphql.OperationParameterMutator = (*connections)(nil)
	_ graphql.OperationInterceptor      = (*connections)(nil)
)

func newConnections(config Config) *connections {
	return &connections{limits: config.Connections, clock: config.Clock, people: config.Directory, open: map[string]int{}, streams: map[string]int{}, requests: map[string]int{}}
}

// ExtensionName returns the name of the extension.
func (*connections) ExtensionName() string { return "Connections" }

// Validate accepts every schema.
func (*connections) Validate(graphql.ExecutableSchema) error { return nil }

func (c *connections) enter(count map[string]int, principal string, most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if count[principal] >= most {
		return false
	}
	count[principal]++
	return true
}

func (c *connections) leave(count map[string]int, principal string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if count[principal]--; count[principal] <= 0 {
		delete(count, principal)
	}
}

// MutateOperationParameters bounds how fast operations come, before anything is
// done for one.
func (c *connections) MutateOperationParameters(ctx context.Context, _ *graphql.RawParams) *gqlerror.Error {
	one := connectionOf(ctx)
	if one == nil {
		return nil
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.pace != nil && !one.pace.AllowN(c.clock(), 1) {
		return overLimit("operations per second", c.limits.PerSecond+1, c.limits.PerSecond).graphql()
	}
	return nil
}

// InterceptOperation bounds the operations of one websocket, and looks its
// principal up anew for each: it may be open for long.
func (c *connections) InterceptOperation(ctx context.Context, next graphql.OperationHandler) graphql.ResponseHandler {
	one := connectionOf(ctx)
	if one == nil {
		return next(ctx)
	}
	s, _ := ctx.Value(sessionKey{}).(session)
	before := s.caller.Principal
	var err error
	if s.caller.Principal, err = c.people.Principal(ctx, before.Organisation, before.ID); err != nil {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{unlisted(err).graphql()}})
	}
	ctx = withSession(ctx, s)
	if fault := c.begin(one); fault != nil {
		return graphql.OneShot(&graphql.Response{Errors: gqlerror.List{fault.graphql()}})
	}
	// The transport cancels the context of an operation when it is over.
	context.AfterFunc(ctx, one.end)
	return next(ctx)
}

func (c *connections) begin(one *connection) *fault {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.active >= c.limits.Operations {
		return overLimit("operations at once", one.active+1, c.limits.Operations)
	}
	one.active++
	return nil
}

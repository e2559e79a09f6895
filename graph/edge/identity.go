package edge

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

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

// KeySet is the public key as a JSON Web Key Set (RFC 7517, RFC 8037): by it
// others verify what this installation signs.
func KeySet(public ed25519.PublicKey) []byte {
	set, _ := json.Marshal(map[string]any{"keys": []map[string]string{{ // strings always marshal
		"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": KeyID(public), "x": base64.RawURLEncoding.EncodeToString(public),
	}}})
	return set
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

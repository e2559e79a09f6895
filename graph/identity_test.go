package graph_test

import (
	"crypto/ed25519"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph/edge"
)

func TestTokensThatAreNotAccepted(t *testing.T) {
	s := serve(t)
	public := s.private.Public().(ed25519.PublicKey)
	good := func() jwt.MapClaims {
		return jwt.MapClaims{"iss": "https://issuer", "aud": "gantry", "sub": "anna", "org": "acme", "jti": "t",
			"nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	}
	sign := func(method jwt.SigningMethod, key any, kid string, change func(jwt.MapClaims)) string {
		claims := good()
		change(claims)
		token := jwt.NewWithClaims(method, claims)
		token.Header["kid"] = kid
		signed, err := token.SignedString(key)
		require.NoError(t, err)
		return signed
	}
	kid, eddsa, keep := edge.KeyID(public), jwt.SigningMethodEdDSA, func(jwt.MapClaims) {}
	set := func(name string, value any) func(jwt.MapClaims) { return func(c jwt.MapClaims) { c[name] = value } }
	require.Equal(t, 200, s.send(t, sign(eddsa, s.private, kid, keep), "application/json", `{"query":"{viewer{name}}"}`).status)
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
	for name, token := range map[string]string{
		"none": sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid, keep), "HS with the public key": sign(jwt.SigningMethodHS256, []byte(public), kid, keep),
		"other key": sign(eddsa, other, kid, keep), "other kid": sign(eddsa, s.private, "../../etc", keep),
		"audience": sign(eddsa, s.private, kid, set("aud", "x")), "issuer": sign(eddsa, s.private, kid, set("iss", "x")),
		"expired": sign(eddsa, s.private, kid, set("exp", now.Add(-time.Second).Unix())), "early": sign(eddsa, s.private, kid, set("nbf", now.Add(time.Minute).Unix())),
		"no expiry": sign(eddsa, s.private, kid, func(c jwt.MapClaims) { delete(c, "exp") }), "no nbf": sign(eddsa, s.private, kid, func(c jwt.MapClaims) { delete(c, "nbf") }),
		"too long": sign(eddsa, s.private, kid, set("exp", now.AddDate(1, 0, 0).Unix())), "unknown person": sign(eddsa, s.private, kid, set("sub", "nobody")),
		"other organisation": sign(eddsa, s.private, kid, set("org", "evil")), "absent": "", "huge": strings.Repeat("a", 9000),
	} {
		got := s.send(t, token, "application/json", `{"query":"{viewer{name}}"}`)
		require.Equal(t, 401, got.status, name)
		require.Equal(t, "UNAUTHENTICATED", got.code(), name)
	}
}

// That nobody can be looked up says nothing of the token: whoever has a good one
// is to try again with it.
func TestAGoodTokenIsNotRefusedForAJournalThatDoesNotAnswer(t *testing.T) {
	s := serve(t)
	s.world.mu.Lock()
	s.world.unlisted = errors.New("no connection")
	s.world.mu.Unlock()
	got := s.ask(t, "anna", "{viewer{name}}", nil)
	require.Equal(t, 503, got.status)
	require.Equal(t, "STORE_UNAVAILABLE", got.code())
	require.Equal(t, 401, s.send(t, "none of ours", "application/json", `{"query":"{viewer{name}}"}`).status)
}

package graph_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"gantry.dev/graph/edge"
)

// forger makes tokens, good ones and others.
type forger struct {
	t   *testing.T
	key ed25519.PrivateKey
	kid string
}

func (f forger) claims(change func(jwt.MapClaims)) jwt.MapClaims {
	claims := jwt.MapClaims{"iss": "https://issuer", "aud": "gantry", "sub": "anna", "org": "acme", "jti": "t",
		"nbf": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	if change != nil {
		change(claims)
	}
	return claims
}

// sign signs with any key under a header that was changed.
func (f forger) sign(method jwt.SigningMethod, key any, header map[string]any, change func(jwt.MapClaims)) string {
	token := jwt.NewWithClaims(method, f.claims(change))
	token.Header["kid"] = f.kid
	for name, value := range header {
		if token.Header[name] = value; value == nil {
			delete(token.Header, name)
		}
	}
	signed, err := token.SignedString(key)
	require.NoError(f.t, err)
	return signed
}

// own signs with the key that is trusted.
func (f forger) own(header map[string]any, change func(jwt.MapClaims)) string {
	return f.sign(jwt.SigningMethodEdDSA, f.key, header, change)
}

func set(name string, value any) func(jwt.MapClaims) {
	return func(c jwt.MapClaims) {
		if c[name] = value; value == nil {
			delete(c, name)
		}
	}
}

// forged is everything that is no token of ours, or no longer, or not yet.
func (f forger) forged() map[string]string {
	good := f.own(nil, nil)
	parts := strings.Split(good, ".")
	public := f.key.Public().(ed25519.PublicKey)
	der, err := x509.MarshalPKIXPublicKey(public)
	require.NoError(f.t, err)
	other := ed25519.NewKeyFromSeed([]byte(strings.Repeat("o", ed25519.SeedSize)))
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(f.t, err)
	hs, none := jwt.SigningMethodHS256, jwt.UnsafeAllowNoneSignatureType
	jwk := map[string]any{"kty": "OKP", "crv": "Ed25519", "x": base64.RawURLEncoding.EncodeToString(other.Public().(ed25519.PublicKey))}
	header := func(raw string) string {
		return base64.RawURLEncoding.EncodeToString([]byte(raw)) + "." + parts[1] + "." + parts[2]
	}
	return map[string]string{
		"nothing": "", "a word": "nonsense", "two parts": parts[0] + "." + parts[1], "four parts": good + ".x",
		"no algorithm": f.sign(jwt.SigningMethodNone, none, nil, nil), "no signature": parts[0] + "." + parts[1] + ".",
		"none, in capitals":     header(`{"alg":"NONE","typ":"JWT","kid":"` + f.kid + `"}`),
		"HS with the key":       f.sign(hs, []byte(public), nil, nil),
		"HS with the key's PEM": f.sign(hs, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), nil, nil),
		"another algorithm":     f.sign(jwt.SigningMethodES256, curve, nil, nil),
		"algorithm in capitals": header(`{"alg":"EDDSA","typ":"JWT","kid":"` + f.kid + `"}`),
		"another key":           f.sign(jwt.SigningMethodEdDSA, other, nil, nil),
		"another key that came along": f.sign(jwt.SigningMethodEdDSA, other,
			map[string]any{"jwk": jwk, "jku": "https://evil.example.org/keys", "x5u": "https://evil.example.org/cert"}, nil),
		"unknown kid": f.own(map[string]any{"kid": "0123456789abcdef"}, nil), "no kid": f.own(map[string]any{"kid": nil}, nil),
		"kid that climbs": f.own(map[string]any{"kid": "../../../../dev/null"}, nil), "kid as a list": f.own(map[string]any{"kid": []string{f.kid}}, nil),
		"kid with NUL": f.own(map[string]any{"kid": f.kid + "\x00"}, nil), "encrypted": f.own(map[string]any{"typ": "JWE"}, nil),
		"type as a number": f.own(map[string]any{"typ": 7}, nil), "critical header": f.own(map[string]any{"crit": []string{"exp"}}, nil),
		"another issuer": f.own(nil, set("iss", "https://issuer/")), "no issuer": f.own(nil, set("iss", nil)),
		"another audience": f.own(nil, set("aud", "Gantry")), "no audience": f.own(nil, set("aud", nil)),
		"expired": f.own(nil, set("exp", now.Add(-time.Second).Unix())), "expires now": f.own(nil, set("exp", now.Unix())),
		"no expiry": f.own(nil, set("exp", nil)), "expiry as text": f.own(nil, set("exp", "never")),
		"not yet": f.own(nil, set("nbf", now.Add(time.Second).Unix())), "no beginning": f.own(nil, set("nbf", nil)),
		"too long a life": f.own(nil, set("exp", now.AddDate(1, 0, 0).Unix())), "no id": f.own(nil, set("jti", nil)),
		"no subject": f.own(nil, set("sub", nil)), "empty subject": f.own(nil, set("sub", "")), "subject as a list": f.own(nil, set("sub", []string{"anna"})),
		"an agent": f.own(nil, set("sub", "agent:payer")), "unknown subject": f.own(nil, set("sub", "nobody")), "subject in capitals": f.own(nil, set("sub", "ANNA")),
		"another organisation": f.own(nil, set("org", "evil")), "no organisation": f.own(nil, set("org", nil)),
		"changed words": parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"olga"}`)) + "." + parts[2],
		"cut":           good[:len(good)-2], "longer": good + "A", "padded": good + "=", "twice": good + ", Bearer " + good,
		"huge": strings.Repeat("a", 9000), "huge in its head": f.own(map[string]any{"kid": strings.Repeat("k", 9000)}, nil),
	}
}

// refusedSocket says how a websocket that begins with a payload ends.
func (s *served) refusedSocket(t *testing.T, header http.Header, payload any) (frames []frame, ended websocket.CloseError) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.url, "http")+"/graphql",
		&websocket.DialOptions{Subprotocols: []string{"graphql-transport-ws"}, HTTPHeader: header})
	require.NoError(t, err)
	defer func() { _ = conn.CloseNow() }()
	require.NoError(t, wsjson.Write(ctx, conn, map[string]any{"type": "connection_init", "payload": payload}))
	for {
		var one frame
		if err := wsjson.Read(ctx, conn, &one); err != nil {
			require.ErrorAs(t, err, &ended)
			return frames, ended
		}
		frames = append(frames, one)
	}
}

// as sends a query with the headers as they are.
func (s *served) as(t *testing.T, path string, header http.Header) (int, string) {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+path, strings.NewReader(`{"query":"{viewer{name}}"}`))
	require.NoError(t, err)
	request.Header = header.Clone()
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	body := readAll(t, response)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, body
}

func TestFault_J8_ForgedTokensAreRefusedAlikeOverEveryWay(t *testing.T) {
	s := serve(t)
	f := forger{t, s.private, edge.KeyID(s.private.Public().(ed25519.PublicKey))}
	status, _ := s.as(t, "/graphql", http.Header{"Authorization": {"Bearer " + f.own(nil, nil)}})
	require.Equal(t, http.StatusOK, status, "the same claims, well made")
	const want = `{"errors":[{"message":"Send a valid bearer token.","extensions":{"code":"UNAUTHENTICATED"}}],"data":null}` + "\n"
	for name, token := range f.forged() {
		t.Run(name, func(t *testing.T) {
			for _, accept := range []string{"application/json", "text/event-stream"} {
				status, body := s.as(t, "/graphql", http.Header{"Authorization": {"Bearer " + strings.ReplaceAll(token, "\x00", "")}, "Accept": {accept}})
				require.Equal(t, http.StatusUnauthorized, status, accept)
				require.Equal(t, want, body, accept)
			}
			frames, ended := s.refusedSocket(t, nil, map[string]any{"authorization": "Bearer " + token})
			require.Empty(t, frames)
			require.Equal(t, websocket.CloseError{Code: 4403, Reason: "Forbidden"}, ended)
		})
	}
}

// A token counts in the one place that is named, once.
func TestFault_J8_AGoodTokenInAnotherPlaceIsNone(t *testing.T) {
	s := serve(t)
	good, bad := "Bearer "+s.token(t, "anna"), "Bearer "+s.token(t, "nobody")
	for name, header := range map[string]http.Header{
		"two headers": {"Authorization": {good, bad}}, "two headers, turned": {"Authorization": {bad, good}}, "the same twice": {"Authorization": {good, good}},
		"other scheme": {"Authorization": {"Basic " + good}}, "no scheme": {"Authorization": {strings.TrimPrefix(good, "Bearer ")}},
		"proxy": {"Proxy-Authorization": {good}}, "forwarded": {"X-Authorization": {good}, "X-Forwarded-User": {"anna"}},
		"cookie": {"Cookie": {"authorization=" + strings.ReplaceAll(good, " ", "%20") + "; token=" + good[7:]}},
	} {
		status, body := s.as(t, "/graphql", header)
		require.Equal(t, http.StatusUnauthorized, status, name)
		require.Contains(t, body, "UNAUTHENTICATED", name)
	}
	for _, query := range []string{"access_token=", "token=", "authorization=Bearer%20"} {
		status, _ := s.as(t, "/graphql?"+query+good[7:], http.Header{})
		require.Equal(t, http.StatusUnauthorized, status, query)
	}
	for name, payload := range map[string]any{
		"none": nil, "another key": map[string]any{"token": good}, "a list": map[string]any{"authorization": []string{good}}, "deeper": map[string]any{"headers": map[string]any{"authorization": good}},
	} {
		header := http.Header{"Authorization": {good}, "Cookie": {"token=" + good[7:]}}
		frames, ended := s.refusedSocket(t, header, payload)
		require.Empty(t, frames, name)
		require.EqualValues(t, 4403, ended.Code, name)
	}
}

// Whoever is looked up anew for each operation sees with today's clearance, also
// over a websocket that is open for long.
func TestFault_I6_AnOpenSocketAsksWithTodaysRights(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	socket := s.dial(t, s.token(t, "anna"))
	ask := func(name string) string {
		payload, err := json.Marshal(map[string]any{"query": `query($id:ID!){run(id:$id){turns{text{value}}}}`, "variables": map[string]any{"id": id}})
		require.NoError(t, err)
		require.NoError(t, wsjson.Write(socket.ctx, socket.conn, frame{ID: name, Type: "subscribe", Payload: payload}))
		answer := socket.next()
		require.Equal(t, "complete", socket.next().Type)
		return string(answer.Payload)
	}
	require.Contains(t, ask("1"), "salary 7")
	s.change(func() { anna := s.people["anna"]; anna.Clearance = nil; s.people["anna"] = anna })
	require.NotContains(t, ask("2"), "salary")
	s.change(func() { delete(s.people, "anna") })
	require.Contains(t, ask("3"), "UNAUTHENTICATED")
}

// change changes the people.
func (w *world) change(how func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	how()
}

package credential_test

import (
	"crypto/ed25519"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
)

// authority is an authorisation server that keeps what it was asked.
type authority struct {
	*httptest.Server
	asked  []url.Values
	answer string
	status int
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{status: http.StatusOK, answer: `{"access_token":"short-canary","issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":60}`}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if user, password, ok := r.BasicAuth(); ok {
			r.Form.Set("basic", user+":"+password)
		}
		a.asked = append(a.asked, r.Form)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		_, _ = w.Write([]byte(a.answer))
	}))
	t.Cleanup(a.Close)
	return a
}

func (a *authority) store(t *testing.T, x credential.Exchange, key ed25519.PrivateKey, now time.Time) *credential.Store {
	t.Helper()
	t.Setenv("IDP_SECRET", "client-canary")
	x.TokenURL, x.Client, x.Secret = a.URL+"/token", "gantry", "env:IDP_SECRET"
	store, err := credential.New(credential.Config{Entries: map[string]credential.Entry{"crm": {Exchange: &x, Audience: []string{crm}}},
		Issuer: "https://gantry.example.org", Signing: key, Now: func() time.Time { return now }})
	require.NoError(t, err)
	return store
}

func TestAnExchangeSaysWhoActsForWhom(t *testing.T) {
	public, private, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	a := newAuthority(t)
	store := a.store(t, credential.Exchange{Delegated: true, Scopes: []string{"read", "write"}}, private, now)
	use := credential.Use{Reference: "crm", Audience: crm, Actor: []string{"amara.diallo", "agent:invoice-desk", "agent:rules-desk"}, Run: "r1"}
	secret, err := store.Secret(t.Context(), use)
	require.NoError(t, err)
	value, err := secret.For(crm)
	require.NoError(t, err)
	require.Equal(t, "short-canary", value)

	require.Len(t, a.asked, 1)
	asked := a.asked[0]
	require.Equal(t, "urn:ietf:params:oauth:grant-type:token-exchange", asked.Get("grant_type"))
	require.Equal(t, crm, asked.Get("resource"))
	require.Equal(t, "read write", asked.Get("scope"))
	require.Equal(t, "gantry:client-canary", asked.Get("basic"))
	claims := jwt.MapClaims{}
	token, err := jwt.ParseWithClaims(asked.Get("subject_token"), claims, func(*jwt.Token) (any, error) { return public, nil },
		jwt.WithAudience(a.URL+"/token"), jwt.WithIssuer("https://gantry.example.org"), jwt.WithTimeFunc(func() time.Time { return now.Add(time.Minute) }))
	require.NoError(t, err)
	require.Equal(t, credential.AssertionType, token.Header["typ"])
	act, err := json.Marshal(claims["act"])
	require.NoError(t, err)
	require.Equal(t, "amara.diallo", claims["sub"])
	require.JSONEq(t, `{"sub":"agent:rules-desk","act":{"sub":"agent:invoice-desk"}}`, string(act))
	_, err = jwt.Parse(asked.Get("subject_token"), func(*jwt.Token) (any, error) { return public, nil }, jwt.WithTimeFunc(func() time.Time { return now.Add(3 * time.Minute) }))
	require.ErrorIs(t, err, jwt.ErrTokenExpired)

	_, err = store.Secret(t.Context(), use)
	require.NoError(t, err)
	require.Len(t, a.asked, 2, "each use has a token of its own")
	require.NotEqual(t, asked.Get("subject_token"), a.asked[1].Get("subject_token"))

	use.Actor = nil
	_, err = store.Secret(t.Context(), use)
	require.ErrorIs(t, err, credential.ErrActor)
}

func TestClientCredentialsAreForOneResource(t *testing.T) {
	a := newAuthority(t)
	store := a.store(t, credential.Exchange{}, nil, time.Now())
	_, err := store.Secret(t.Context(), credential.Use{Reference: "crm", Audience: crm})
	require.NoError(t, err)
	require.Equal(t, "client_credentials", a.asked[0].Get("grant_type"))
	require.Equal(t, crm, a.asked[0].Get("resource"))
}

func TestAnAuthorityThatRefusesIsNotQuoted(t *testing.T) {
	for name, answer := range map[string]struct {
		status int
		body   string
	}{
		"refusal": {http.StatusBadRequest, `{"error":"invalid_client","error_description":"client-canary is wrong"}`},
		"nothing": {http.StatusOK, `{}`},
		"bound":   {http.StatusOK, `{"access_token":"pop-canary","token_type":"DPoP"}`},
		"html":    {http.StatusOK, `<html>canary</html>`},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAuthority(t)
			a.status, a.answer = answer.status, answer.body
			_, err := a.store(t, credential.Exchange{}, nil, time.Now()).Secret(t.Context(), credential.Use{Reference: "crm", Audience: crm})
			require.ErrorIs(t, err, credential.ErrSource)
			require.NotContains(t, err.Error(), "canary")
		})
	}
}

func TestFault_E19_ATokenGoesToItsAudienceAndNowhereElse(t *testing.T) {
	seen := map[string]string{}
	serve := func(name string) *httptest.Server {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			seen[name] = r.Header.Get("Authorization")
			if name == "home" {
				http.Redirect(w, r, r.URL.Query().Get("to"), http.StatusTemporaryRedirect)
			}
		}))
		t.Cleanup(server.Close)
		return server
	}
	home, elsewhere := serve("home"), serve("elsewhere")
	client := &http.Client{Transport: credential.Transport{Audience: home.URL, Transport: http.DefaultTransport, Secret: func(*http.Request) (credential.Secret, error) {
		return credential.Bound("home-canary", home.URL), nil
	}}}
	response, err := client.Get(home.URL + "?to=" + url.QueryEscape(elsewhere.URL))
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, map[string]string{"home": "Bearer home-canary", "elsewhere": ""}, seen)

	wrong := &http.Client{Transport: credential.Transport{Audience: home.URL, Transport: http.DefaultTransport, Secret: func(*http.Request) (credential.Secret, error) {
		return credential.Bound("other-canary", elsewhere.URL), nil
	}}}
	_, err = wrong.Get(home.URL)
	require.ErrorIs(t, err, credential.ErrAudience)
}

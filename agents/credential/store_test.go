package credential_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/zalando/go-keyring"

	"gantry.dev/agents/credential"
)

const crm = "https://crm.example.org"

func open(t *testing.T, entries map[string]credential.Entry) *credential.Store {
	t.Helper()
	store, err := credential.New(credential.Config{Entries: entries, Values: map[string]string{"plain": "p-canary"}, Sources: map[string]credential.Source{"vault": vault{"kv/crm": "v-canary"}}})
	require.NoError(t, err)
	return store
}

// vault is a source as one outside of this package would be.
type vault map[string]string

func (v vault) Read(_ context.Context, reference string) (string, error) {
	if value, found := v[reference]; found {
		return value, nil
	}
	return "", errors.New("vault: nothing at " + reference + " for token hvs.secret")
}

func TestEverySourceGivesItsSecret(t *testing.T) {
	keyring.MockInit()
	require.NoError(t, keyring.Set("gantry", "crm", "k-canary"))
	t.Setenv("CRM_TOKEN", "e-canary")
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("f-canary\n"), 0o600))
	only := []string{crm}
	store := open(t, map[string]credential.Entry{
		"env": {From: "env:CRM_TOKEN", Audience: only}, "file": {From: "file:" + file, Audience: only}, "ring": {From: "keyring:gantry/crm", Audience: only},
		"vault": {From: "vault:kv/crm", Audience: only}, "command": {Command: []string{"printf", "c-canary"}, Audience: only},
	})
	for reference, want := range map[string]string{"env": "e-canary", "file": "f-canary", "ring": "k-canary", "vault": "v-canary", "command": "c-canary", "plain": "p-canary"} {
		t.Run(reference, func(t *testing.T) {
			secret, err := store.Secret(t.Context(), credential.Use{Reference: reference, Audience: crm})
			require.NoError(t, err)
			value, err := secret.For(crm + ":443")
			require.NoError(t, err)
			require.Equal(t, want, value)
		})
	}
	require.NoError(t, os.WriteFile(file, []byte("rotated"), 0o600))
	secret, err := store.Secret(t.Context(), credential.Use{Reference: "file", Audience: crm})
	require.NoError(t, err)
	value, err := secret.For(crm)
	require.NoError(t, err)
	require.Equal(t, "rotated", value, "what is rotated counts at the next use")
}

func TestASecretIsForItsAudienceAlone(t *testing.T) {
	t.Setenv("CRM_TOKEN", "e-canary")
	store := open(t, map[string]credential.Entry{"crm": {From: "env:CRM_TOKEN", Audience: []string{crm, "mail.example.org:587"}}})
	for _, audience := range []string{"https://crm.example.org:8443", "http://crm.example.org", "https://crm.example.org.evil.test", "https://evil.test/?https://crm.example.org", "", "mail.example.org:25"} {
		_, err := store.Secret(t.Context(), credential.Use{Reference: "crm", Audience: audience})
		require.ErrorIs(t, err, credential.ErrAudience, audience)
	}
	for _, audience := range []string{"HTTPS://CRM.example.org", "https://crm.example.org/path?x", "mail.example.org:587"} {
		secret, err := store.Secret(t.Context(), credential.Use{Reference: "crm", Audience: audience})
		require.NoError(t, err, audience)
		_, err = secret.For("https://elsewhere.example.org")
		require.ErrorIs(t, err, credential.ErrAudience)
	}
}

func TestASecretIsWrittenNowhere(t *testing.T) {
	secret := credential.Bound("s3cret-canary", crm)
	var out bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&out, nil))
	log.Info("used", "secret", secret, "in", map[string]any{"deep": []any{secret}}, "pointer", &secret)
	slog.New(slog.NewTextHandler(&out, nil)).Info("used", "secret", secret)
	fmt.Fprintf(&out, "%v %+v %#v %s %q %d %x %v", secret, secret, secret, secret, secret, secret, secret, []any{struct{ S credential.Secret }{secret}})
	text, err := json.Marshal(map[string]any{"secret": secret, "list": []credential.Secret{secret}})
	require.NoError(t, err)
	out.Write(text)
	require.NotContains(t, out.String(), "canary")
	require.NotContains(t, out.String(), fmt.Sprintf("%x", "s3cret-canary"))
}

func TestErrorsShowNoSecret(t *testing.T) {
	store := open(t, map[string]credential.Entry{
		"gone": {From: "env:GANTRY_NO_SUCH", Audience: []string{crm}}, "vault": {From: "vault:kv/other", Audience: []string{crm}},
		"command": {Command: []string{"sh", "-c", "echo half-canary; exit 3"}, Audience: []string{crm}}, "file": {From: "file:/no/such/file", Audience: []string{crm}},
	})
	for reference, want := range map[string]error{"gone": credential.ErrSource, "vault": credential.ErrSource, "command": credential.ErrSource, "file": credential.ErrSource, "nobody's": credential.ErrUnknown} {
		_, err := store.Secret(t.Context(), credential.Use{Reference: reference, Audience: crm})
		require.ErrorIs(t, err, want, reference)
		require.NotContains(t, err.Error(), "canary")
		require.NotContains(t, err.Error(), "hvs.secret")
	}
}

func TestACommandSeesNothingOfTheProcess(t *testing.T) {
	t.Setenv("GANTRY_SECRET_OTHER", "other-canary")
	store := open(t, map[string]credential.Entry{"all": {Command: []string{"env"}, Audience: []string{crm}}})
	secret, err := store.Secret(t.Context(), credential.Use{Reference: "all", Audience: crm})
	require.NoError(t, err)
	value, err := secret.For(crm)
	require.NoError(t, err)
	require.NotContains(t, value, "canary")
}

func TestWrongEntriesAreRefusedTogether(t *testing.T) {
	_, err := credential.New(credential.Config{Values: map[string]string{"twice": "x"}, Entries: map[string]credential.Entry{
		"none": {Audience: []string{crm}}, "open": {From: "env:X"}, "odd": {From: "cupboard:shelf", Audience: []string{crm}}, "twice": {From: "env:X", Audience: []string{crm}},
		"plain": {Exchange: &credential.Exchange{TokenURL: "http://idp.example.org/token", Client: "gantry"}, Audience: []string{crm}},
		"keyed": {Exchange: &credential.Exchange{TokenURL: "https://idp.example.org/token", Client: "gantry", Delegated: true}, Audience: []string{crm}},
	}})
	for _, name := range []string{"none", "open", "odd", "twice", "plain", "keyed"} {
		require.ErrorContains(t, err, "credential "+name+":")
	}
}

package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/ask"
)

func TestServerAndTokenAreFoundInTheirOrder(t *testing.T) {
	var token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"data":{"inbox":[]}}`))
	}))
	t.Cleanup(server.Close)
	home := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(home, ask.TokenFolder), 0o700))
	for name, text := range map[string]string{ask.URLFile: server.URL, ask.MeFile: "carla", "tokens/carla": "of-carla", "tokens/anna": "of-anna", "secret": "outside"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), []byte(text+"\n"), 0o600))
	}
	t.Setenv("GANTRY_HOME", home)
	t.Setenv("GANTRY_URL", "")
	t.Setenv("GANTRY_TOKEN", "")
	must(t, "inbox")
	require.Equal(t, "Bearer of-carla", token, "who the folder says")
	t.Setenv("GANTRY_TOKEN", "from-environment")
	must(t, "inbox")
	require.Equal(t, "Bearer from-environment", token)
	must(t, "inbox", "--as", "anna")
	require.Equal(t, "Bearer of-anna", token)

	for _, other := range []string{"nobody", "../secret", "../tokens/anna", "/etc/hostname"} {
		_, err := gantry(t, "inbox", "--as", other)
		require.ErrorContains(t, err, "no token for", other)
	}
	t.Setenv("GANTRY_URL", "http://127.0.0.1:1")
	must(t, "inbox", "--url", server.URL)
	out, err := gantry(t, "inbox")
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.NotContains(t, out+err.Error(), "from-environment", "a token is never printed")
}

func TestWithoutATokenNothingIsSent(t *testing.T) {
	t.Setenv("GANTRY_HOME", filepath.Join(t.TempDir(), "absent"))
	t.Setenv("GANTRY_TOKEN", "")
	_, err := gantry(t, "inbox")
	require.ErrorContains(t, err, "set GANTRY_TOKEN")
	_, err = gantry(t, "inbox", "--as", "anna")
	require.ErrorContains(t, err, "no token for")
	t.Setenv("GANTRY_HOME", t.TempDir())
	_, err = gantry(t, "inbox", "--as", "anna")
	require.ErrorContains(t, err, "dev\", which writes them")
	_, err = gantry(t, "inbox", "--folder", filepath.Join(t.TempDir(), "absent"))
	require.ErrorContains(t, err, "folder: ")
}

func TestAFolderGivesAddressAndTokenWhateverElseIsSet(t *testing.T) {
	var token string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Authorization")
		_, _ = w.Write([]byte(`{"data":{"inbox":[]}}`))
	}))
	t.Cleanup(server.Close)
	folder := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(folder, ask.TokenFolder), 0o700))
	for name, text := range map[string]string{ask.URLFile: server.URL, ask.MeFile: "carla", "tokens/carla": "of-carla"} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text+"\n"), 0o600))
	}
	t.Setenv("GANTRY_HOME", t.TempDir())
	t.Setenv("GANTRY_URL", "http://127.0.0.1:1")
	t.Setenv("GANTRY_TOKEN", "from-environment")
	must(t, "inbox", "--folder", folder)
	require.Equal(t, "Bearer of-carla", token)

	t.Setenv("GANTRY_HOME", folder)
	t.Setenv("GANTRY_TOKEN", "")
	_, err := gantry(t, "inbox")
	require.ErrorContains(t, err, "are not for http://127.0.0.1:1", "a token is not sent elsewhere unasked")
	t.Setenv("GANTRY_URL", "")
	must(t, "inbox")
}

func TestCommandsAreHintedAtAsTheyWereBegun(t *testing.T) {
	require.Equal(t, ask.Program()+" watch r1", hints{}.command("watch", "r1"))
	require.Equal(t, ask.Program()+` watch r1 --folder "a b"`, hints{folder: "a b"}.command("watch", "r1"))
}

func TestHelpTakesNoWordOfItForATypeAndErrorsNameTheArguments(t *testing.T) {
	require.Contains(t, must(t, "inbox", "--help"), "--as string")
	_, err := gantry(t, "run", "payer")
	require.ErrorContains(t, err, "use: "+ask.Program()+" run AGENT MESSAGE")
	require.Contains(t, must(t, "--version"), "go1.")
}

func TestRefusedTokenSaysHowToGiveAnother(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"errors":[{"message":"Send a valid bearer token.","extensions":{"code":"UNAUTHENTICATED"}}],"data":null}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("GANTRY_TOKEN", "stale")
	_, err := gantry(t, "inbox", "--url", server.URL)
	require.ErrorContains(t, err, "(UNAUTHENTICATED): set GANTRY_TOKEN, or name somebody with --as")
}

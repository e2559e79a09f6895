package wire_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/credential"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

// What is planted, and must not come to lie where it could be read.
const (
	goalCanary   = "canary-7f3a-goal"
	resultCanary = "canary-7f3a-result"
	reasonCanary = "canary-7f3a-reason"
	steerCanary  = "canary-7f3a-steer"
	faultCanary  = "canary-7f3a-fault" // what the model's server says when it fails
	keyCanary    = "canary-7f3a-model-key"
)

// written is a log that several write to.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.text.Bytes())
}

// forms are the ways in which a secret could lie somewhere.
func forms(secret string) map[string]string {
	return map[string]string{"plain": secret, "hex": hex.EncodeToString([]byte(secret)), "base64": base64.StdEncoding.EncodeToString([]byte(secret))[:len(secret)],
		"upper": strings.ToUpper(secret)}
}

// failing is a model's server that says in its failure all that it was told.
func failing(t *testing.T) (url string, asked func() []byte) {
	var heard written
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = heard.Write([]byte(r.Header.Get("Authorization") + "\n"))
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]string{"message": faultCanary + " " + r.Header.Get("Authorization"), "code": faultCanary, "type": faultCanary}})
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", heard.bytes
}

// noted lets the ledger's answers bear a text of the outside.
func noted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(bytes.ReplaceAll(recorded.Body.Bytes(), []byte(`"reason":"`), []byte(`"reason":"`+resultCanary+" ")))
	})
}

// A run is given secrets in every place that takes text: its goal, what a tool
// and a failing model's server say, the reason of a decision and a steer. None
// of them, and no credential, stands in logs, in the database, in signed heads,
// in an export or in a message put aside; who may read them reads them.
func TestFault_K16_NoPlantedSecretLiesWhereItCouldBeRead(t *testing.T) {
	t.Parallel()
	url, asked := failing(t)
	var log written
	var heads string
	h := openHouse(t, plan{ledger: noted, organisation: func(o *agents.Organisation) {
		o.Models = append(o.Models, agents.Model{Name: "failing", Provider: "openai", Model: "m", Endpoint: url, Secret: "model", Tier: 2, Context: 200_000,
			MaxOutput: 4_000, Tools: true, Residency: "local", Free: true})
		revised("policy-librarian", func(r *agents.Revision) { r.Models = []string{"failing"} })(o)
	}, config: func(c *wire.Config) {
		c.Secrets["model"] = keyCanary
		c.Log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Heads = filepath.Join(c.Folder, "heads")
		heads = c.Heads
	}})
	parked := h.parked()
	amara, tomas := h.as(asker), h.as(controller)
	h.platform.Config.Log.Info("the log is read", "control", "canary-control")
	run, err := amara.StartRun(t.Context(), client.Start{Agent: reconciler, Goal: "Reconcile INV-1004. " + goalCanary})
	require.NoError(t, err)
	approval := tomas.held(run.ID)
	require.Empty(t, amara.mutate("steerRun", map[string]any{"run": run.ID, "text": steerCanary}).UserErrors)
	_, err = tomas.Decide(t.Context(), approval, true, reasonCanary)
	require.NoError(t, err)
	ended := amara.ended(run.ID)
	refused, err := amara.StartRun(t.Context(), client.Start{Agent: "policy-librarian", Goal: goalCanary})
	require.NoError(t, err)
	amara.until(refused.ID, "turn_failed")
	require.Contains(t, string(asked()), keyCanary, "the model's server was asked with its key")
	shown, err := json.Marshal(ended)
	require.NoError(t, err)
	require.Contains(t, string(shown), goalCanary, "who may read it reads it")
	require.Contains(t, string(shown), resultCanary)

	h.send("Bearer "+amara.token+"x", map[string]any{"commandId": "canary", "run": plain(t, run.ID), "kind": "cancel", "fields": map[string]any{}})
	aside, err := json.Marshal(<-parked)
	require.NoError(t, err)
	export, err := amara.Export(t.Context(), run.ID)
	require.NoError(t, err)
	failed, err := amara.Export(t.Context(), refused.ID)
	require.NoError(t, err)
	h.close()

	places := map[string][]byte{"the log": log.bytes(), "the export": []byte(export + failed), "what was put aside": aside}
	for _, folder := range []string{h.folder, heads} {
		for name, content := range stored(t, folder) {
			places[name] = content
		}
	}
	for place, control := range map[string]string{"the log": "canary-control", "the export": "call_ended", "what was put aside": "could not be verified", "gantry.db": reconciler, "heads/northwind.jsonl": "signature"} {
		require.Contains(t, string(places[place]), control, "%s is looked into", place)
	}
	signature := amara.token[strings.LastIndex(amara.token, ".")+1:]
	for _, secret := range []string{goalCanary, resultCanary, reasonCanary, steerCanary, faultCanary, keyCanary, ledgerToken, signature} {
		for form, text := range forms(secret) {
			for place, content := range places {
				require.False(t, bytes.Contains(content, []byte(text)), "%s stands in %s as %s", secret, place, form)
			}
		}
	}
}

// stored is everything that the installation keeps, but for its keys: files are
// the outside of the tests.
func stored(t *testing.T, folder string) map[string][]byte {
	found := map[string][]byte{}
	require.NoError(t, fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if strings.HasPrefix(path, "files/") || strings.HasPrefix(path, "ledger.db") || strings.HasSuffix(path, ".key") {
			return nil
		}
		content, err := os.ReadFile(filepath.Join(folder, path))
		found[path] = content
		return err
	}))
	return found
}

// A model's key is had at each request, for the model's own address: what is
// rotated counts at once.
func TestAModelsKeyIsHadAtEachRequest(t *testing.T) {
	t.Parallel()
	url, asked := failing(t)
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, []byte("first-key"), 0o600))
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) {
		o.Models = append(o.Models, agents.Model{Name: "keyed", Provider: "openai", Model: "m", Endpoint: url, Secret: "keyed", Tier: 2, Context: 200_000,
			MaxOutput: 4_000, Tools: true, Residency: "local", Free: true})
		revised("policy-librarian", func(r *agents.Revision) { r.Models = []string{"keyed"} })(o)
	}, config: func(c *wire.Config) {
		c.Credentials = map[string]credential.Entry{"keyed": {From: "file:" + file, Audience: []string{url}}}
	}})
	amara := h.as(asker)
	for _, key := range []string{"first-key", "second-key"} {
		require.NoError(t, os.WriteFile(file, []byte(key), 0o600))
		run, err := amara.StartRun(t.Context(), client.Start{Agent: "policy-librarian", Goal: "Hello."})
		require.NoError(t, err)
		amara.until(run.ID, "turn_failed")
		require.Contains(t, string(asked()), "Bearer "+key+"\n")
	}
	require.NotContains(t, string(asked()), "by-reference")
}

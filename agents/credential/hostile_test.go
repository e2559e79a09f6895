package credential_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/credential"
)

// Where a secret lies in a field that is not exported, nothing asks it how it
// prints.
func TestASecretIsNotSeenThroughWhoeverHoldsIt(t *testing.T) {
	type link struct {
		secret credential.Secret
		all    []credential.Secret
	}
	secret := credential.Bound("s3cret-canary", crm)
	holder := link{secret, []credential.Secret{secret}}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
		for _, value := range []any{holder, &holder, []link{holder}, map[string]link{"a": holder}} {
			out := fmt.Sprintf(verb, value)
			require.NotContains(t, out, "canary", verb)
			require.NotContains(t, out, fmt.Sprintf("%x", "canary"), verb)
		}
	}
}

// A program that leaves something behind which keeps its output open is not
// waited for, and what it left behind ends.
func TestACommandLeavesNothingBehind(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	script := `sleep 1000 & echo $! > "$0"; echo c-canary`
	store := open(t, map[string]credential.Entry{"crm": {Command: []string{"sh", "-c", script, pid}, Audience: []string{crm}}})
	secret, err := store.Secret(t.Context(), credential.Use{Reference: "crm", Audience: crm})
	require.NoError(t, err)
	value, err := secret.For(crm)
	require.NoError(t, err)
	require.Equal(t, "c-canary", value)
	requireEnded(t, pid)
}

// One that hangs is given up together with what it started.
func TestACommandThatHangsIsEnded(t *testing.T) {
	folder := t.TempDir()
	pid, begun := filepath.Join(folder, "pid"), filepath.Join(folder, "begun")
	require.NoError(t, syscall.Mkfifo(begun, 0o600))
	script := `sleep 1000 & echo $! > "$0"; echo > "$1"; wait`
	store := open(t, map[string]credential.Entry{"crm": {Command: []string{"sh", "-c", script, pid, begun}, Audience: []string{crm}}})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := store.Secret(ctx, credential.Use{Reference: "crm", Audience: crm})
		failed <- err
	}()
	_, err := os.ReadFile(begun) // until it says so
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-failed, credential.ErrSource)
	requireEnded(t, pid)
}

// requireEnded waits until the process ends whose id stands in a file.
func requireEnded(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	id, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	for t.Context().Err() == nil {
		state, err := os.ReadFile("/proc/" + strconv.Itoa(id) + "/stat")
		if err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
	}
}

// hanging is a source that answers nobody.
type hanging struct{ asked chan struct{} }

func (h hanging) Read(context.Context, string) (string, error) {
	close(h.asked)
	select {}
}

// A source that does not know how to give up is left behind.
func TestASourceThatHangsHoldsNobodyUp(t *testing.T) {
	asked := make(chan struct{})
	store, err := credential.New(credential.Config{Entries: map[string]credential.Entry{"crm": {From: "shelf:x", Audience: []string{crm}}},
		Sources: map[string]credential.Source{"shelf": hanging{asked}}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	_, err = store.Secret(ctx, credential.Use{Reference: "crm", Audience: crm})
	require.ErrorIs(t, err, credential.ErrSource)
}

func TestAPipeIsNoFileOfASecret(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	store := open(t, map[string]credential.Entry{"crm": {From: "file:" + pipe, Audience: []string{crm}}})
	_, err := store.Secret(t.Context(), credential.Use{Reference: "crm", Audience: crm})
	require.ErrorIs(t, err, credential.ErrSource)
}

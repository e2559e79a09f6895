package cli

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/ask"
)

func TestDevThatCannotStartSaysWhatToDo(t *testing.T) {
	busy, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, busy.Close()) }()
	taken, none := busy.Addr().String(), "127.0.0.1:0"
	for name, test := range map[string]struct {
		at   places
		want string
	}{
		"interface":   {places{interfaceAt: taken, ledgerAt: none}, taken + " is in use; stop what listens there or choose another with --listen"},
		"ledger":      {places{interfaceAt: none, ledgerAt: taken}, taken + " is in use; stop what listens there or choose another with --ledger-listen"},
		"same port":   {places{interfaceAt: "127.0.0.1:8080", ledgerAt: "127.0.0.1:8080"}, "choose two ports"},
		"no address":  {places{interfaceAt: "8080", ledgerAt: none}, `--listen "8080" must be host:port`},
		"no such one": {places{interfaceAt: "127.0.0.1:99999", ledgerAt: none}, "99999"},
	} {
		test.at.folder, test.at.log = t.TempDir(), slog.New(slog.DiscardHandler)
		require.ErrorContains(t, develop(t.Context(), io.Discard, test.at), test.want, name)
	}
}

func TestASecondProcessInAFolderSaysThatAnotherIsThere(t *testing.T) {
	h := atHome(t)
	ledger := strings.TrimPrefix(h.ledger, "http://")
	want := "another gantry process uses " + h.folder + "; stop it first"
	for _, args := range [][]string{
		{"dev", "--folder", h.folder, "--ledger-listen", ledger},
		{"dev", "--folder", h.folder, "--listen", "127.0.0.1:0", "--ledger-listen", "127.0.0.1:0"},
		{"serve", "--folder", h.folder, "--listen", "127.0.0.1:0"},
		{"work", "--folder", h.folder},
		{"apply", "--folder", h.folder, "-f", "../../../deploy/sample"},
		{"migrate", "--folder", h.folder, "--database", "sqlite:" + filepath.Join(h.folder, "gantry.db")},
		{"migrate", "--folder", h.folder},
	} {
		t.Setenv("GANTRY_HOME", h.folder)
		_, err := gantry(t, args...)
		require.ErrorContains(t, err, want, args[0])
	}
}

func TestTheBannersCommandsWorkWhereverTheFolderIs(t *testing.T) {
	h := atHome(t)
	t.Setenv("GANTRY_HOME", "")
	held, err := h.waiting(t.Context())
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, h.greet(&out, held))
	require.Contains(t, out.String(), " --folder "+h.folder)
	for _, word := range []string{"approve", "watch"} {
		_, line, found := strings.Cut(out.String(), ask.Program()+" "+word)
		require.True(t, found, out.String())
		line, _, _ = strings.Cut(line, "\n")
		must(t, append([]string{word}, strings.Fields(line)...)...)
	}
}

package cli

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/policy"
)

func TestASettingThatIsNotKnownIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gantry.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("folder: x\nlisten_at: y\n")
	_, err := gantry(t, "migrate", "--config", file)
	require.EqualError(t, err, `settings: "listen_at" is not known; see --help for those that there are`)
	write("poll: soon\n")
	_, err = gantry(t, "migrate", "--config", file)
	require.ErrorContains(t, err, "'poll'")
	require.NotContains(t, err.Error(), "cli.settings")

	t.Setenv("GANTRY_URL", "http://127.0.0.1:1")
	t.Setenv("GANTRY_SECRET_LEDGER", "s")
	t.Setenv("GANTRY_TEST_X", "1")
	t.Setenv("GANTRY_FOLDER", t.TempDir())
	must(t, "keys", "--folder", os.Getenv("GANTRY_FOLDER"))
	must(t, "migrate")
	t.Setenv("GANTRY_FODLER", "x")
	_, err = gantry(t, "migrate")
	require.ErrorContains(t, err, "GANTRY_FODLER is no setting")
}

func TestAProcessThatCannotServeToolsSaysSoAtItsStart(t *testing.T) {
	warned := func(config wire.Config) string {
		var out bytes.Buffer
		warnOfGaps(slog.New(slog.NewTextHandler(&out, nil)), config)
		return out.String()
	}
	require.Empty(t, warned(wire.Config{}), "it does not work at all")
	require.Empty(t, warned(wire.Config{Work: true, Files: "f", Secrets: map[string]string{"ledger": "s"}}))
	require.Contains(t, warned(wire.Config{Work: true, Secrets: map[string]string{"ledger": "s"}}), "GANTRY_FILES")
	require.Contains(t, warned(wire.Config{Work: true, Files: "f"}), "GANTRY_SECRET_NAME")

	folder := t.TempDir()
	must(t, "keys", "--folder", folder)
	out := must(t, "apply", "--folder", folder, "-f", "../../../deploy/sample")
	require.Contains(t, out, `ledger.find_adjustments, ledger.post_adjustment need the secret "ledger": GANTRY_SECRET_LEDGER`)
	require.Contains(t, out, "files.* need their root: --files")

	ctx, stop := context.WithCancel(t.Context())
	log := &stopper{stop: stop}
	root := Root()
	root.SetErr(log)
	root.SetArgs([]string{"work", "--folder", folder})
	require.NoError(t, root.ExecuteContext(ctx))
	require.Contains(t, log.String(), "GANTRY_FILES")
}

// stopper ends a process once it logs.
type stopper struct {
	bytes.Buffer
	stop context.CancelFunc
}

func (s *stopper) Write(text []byte) (int, error) {
	defer s.stop()
	return s.Buffer.Write(text)
}

// What memory works with is said by settings like everything else. A key that
// would cross the network for all to read is refused, and not repeated.
func TestSettingsSayWithWhatMemoryWorks(t *testing.T) {
	folder := t.TempDir()
	must(t, "keys", "--folder", folder)
	t.Setenv("GANTRY_SECRET_QDRANT", "canary-key")
	t.Setenv("GANTRY_QDRANT", "http://qdrant.example.org:6334")
	_, err := gantry(t, "migrate", "--folder", folder)
	require.ErrorContains(t, err, "use https")
	require.NotContains(t, err.Error(), "canary")
	t.Setenv("GANTRY_QDRANT", "")
	t.Setenv("GANTRY_SECRET_EMBEDDINGS", "canary-key")
	_, err = gantry(t, "migrate", "--folder", folder, "--embeddings", "http://embeddings.example.org/v1", "--embedder", "m", "--dimensions", "8")
	require.ErrorContains(t, err, "https")
	require.NotContains(t, err.Error(), "canary")
	_, err = gantry(t, "migrate", "--folder", folder, "--embeddings", "https://embeddings.example.org/v1")
	require.ErrorContains(t, err, "needs the name of a model")
	for _, alone := range [][2]string{{"--embedder", "m"}, {"--dimensions", "8"}} {
		_, err = gantry(t, "migrate", "--folder", folder, alone[0], alone[1])
		require.ErrorContains(t, err, "say with embeddings where it is")
	}
	must(t, "migrate", "--folder", folder)
}

// Labelled texts are sent to an endpoint only where an operator named all of
// their labels.
func TestSettingsSayWhichLabelsMayBeEmbeddedElsewhere(t *testing.T) {
	require.Equal(t, []policy.Labels{nil}, settings{}.memory(nil).Embeddings.Sent)
	require.Equal(t, []policy.Labels{policy.NewLabels("finance", "hr")}, settings{Embedded: "hr, finance"}.memory(nil).Embeddings.Sent)
}

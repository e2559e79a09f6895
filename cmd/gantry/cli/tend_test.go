package cli

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/memory"
	"gantry.dev/memory/index/wire"
)

// An operator sweeps, rebuilds, looks at the queue and embeds again, also where the
// settings name other models than memory has vectors of. A process that works
// refuses to start there, until that is done.
func TestAnOperatorTendsMemory(t *testing.T) {
	folder := t.TempDir()
	must(t, "keys", "--folder", folder)
	require.Contains(t, must(t, "memory", "sweep", "--folder", folder), "0 items mended")
	require.Contains(t, must(t, "memory", "rebuild", "--folder", folder), "there is nothing to do")
	require.Equal(t, "waiting 0, parked 0\n", must(t, "memory", "queue", "--folder", folder))
	require.Equal(t, "0 items to be tried again\n", must(t, "memory", "queue", "--retry", "--folder", folder))
	server := wire.Start(t)
	require.Contains(t, must(t, "memory", "rebuild", "--folder", folder, "--qdrant", server.URL()), "the index is made anew: 0 items\n")

	embeddings := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := map[string]any{"object": "list", "model": "m", "data": []any{map[string]any{"object": "embedding", "index": 0, "embedding": []float64{0.6, 0.8}}}}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer embeddings.Close()
	h, err := openHouse(t.Context(), places{folder: folder, interfaceAt: "127.0.0.1:0", ledgerAt: "127.0.0.1:0", log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	asker, err := h.as(sampleAsker)
	require.NoError(t, err)
	_, err = asker.Remember(t.Context(), client.MemoryDraft{Text: "The gate opens at six."})
	require.NoError(t, errors.Join(err, h.close()))

	models := []string{"--folder", folder, "--embeddings", embeddings.URL, "--embedder", "m"}
	_, err = gantry(t, append([]string{"work"}, models...)...)
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	require.Contains(t, must(t, append([]string{"memory", "reembed"}, models...)...), "in use: static-384-1-1, m-1\n")
	_, err = gantry(t, "work", "--folder", folder)
	require.ErrorIs(t, err, memory.ErrVectorSpace)
	require.ErrorContains(t, err, "m with 2 dimensions")
}

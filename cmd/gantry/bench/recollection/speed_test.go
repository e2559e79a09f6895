package recollection_test

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/bench/recollection"
	"gantry.dev/memory/index/wire"
)

func TestTime(t *testing.T) {
	folder := t.TempDir()
	var progress bytes.Buffer
	report, err := recollection.Time(t.Context(), recollection.SpeedConfig{Items: []int{40, 700}, Questions: 3, Writes: 2, Folder: folder, Progress: &progress})
	require.NoError(t, err)
	require.Len(t, report.Sizes, 2)
	require.Contains(t, progress.String(), "700 items: asking")
	size := report.Sizes[1]
	require.Greater(t, size.Views, 700, "what has a marked sentence has two")
	require.Positive(t, size.Fill.ItemsPerSecond)
	require.Positive(t, size.Fill.BytesOnDisk)
	require.Positive(t, size.Start.Seconds)
	require.Equal(t, 2, size.Write.Ms.Count)
	require.Positive(t, size.Bare.DotsPerSecond)
	require.Positive(t, size.Bare.FsyncsPerSecond)
	narrow, wide := size.Readers[0], size.Readers[1]
	require.InDelta(t, 0.035, narrow.Visible, 0.02)
	require.InDelta(t, 0.32, wide.Visible, 0.06)
	for _, reader := range size.Readers {
		require.Equal(t, []int{3, 3, 3, 1}, []int{reader.Recall.Count, reader.Index.Count, reader.Asked.Count, reader.Scan.Count}, reader.Reader)
		require.Empty(t, reader.Goals, "which are for 100,000")
	}

	var table, object bytes.Buffer
	require.NoError(t, report.Table(&table))
	require.Contains(t, table.String(), "narrow sees ")
	require.NoError(t, report.JSON(&object))
	var read recollection.SpeedReport
	require.NoError(t, json.Unmarshal(object.Bytes(), &read))
	require.Equal(t, *report, read)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestTimeOfNothing(t *testing.T) {
	_, err := recollection.Time(t.Context(), recollection.SpeedConfig{Items: []int{0}})
	require.ErrorContains(t, err, "at least one")
}

// The index of a server is filled by what is queued for it, and goes with the
// measurement.
func TestTimeWithQdrant(t *testing.T) {
	server := wire.Start(t)
	report, err := recollection.Time(t.Context(), recollection.SpeedConfig{Items: []int{120}, Questions: 2, Writes: 1, Folder: t.TempDir(), Qdrant: server.URL()})
	require.NoError(t, err)
	require.Equal(t, "Qdrant", report.Index)
	require.Equal(t, 2, report.Sizes[0].Readers[1].Recall.Count)
	require.Positive(t, server.RequireGuarded(t))
	dropped := 0
	for _, request := range server.Requests("Delete") {
		if request.Message.ProtoReflect().Descriptor().Name() == "DeleteCollection" {
			dropped++
		}
	}
	require.Positive(t, dropped)
}

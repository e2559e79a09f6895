package run_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/run"
)

// Whatever a record holds, it is read or unknown; what was read is written in
// one form for good.
func FuzzDecode(f *testing.F) {
	for _, kind := range run.Kinds() {
		f.Add(string(kind), 1, []byte(`{}`))
	}
	f.Add("later", 1, []byte(`{}`))
	f.Add("parked", 2, []byte(`{"code":"x","detail":""}`))
	f.Add("ended", 1, []byte(`{"status":"FAILED","reason":"REFUSED","settled":{"microUsd":9007199254740993,"tokens":-1},"unknown":{}}`))
	f.Add("started", 1, []byte(`{"authority":{"tools":{"a":{"constraints":[{"path":"/x","enum":null}]}}}}`))
	f.Fuzz(func(t *testing.T, kind string, version int, body []byte) {
		event, err := run.Decode(run.Record{Run: "r1", Seq: 1, Kind: run.EventKind(kind), Version: version, Body: body})
		if err != nil {
			require.ErrorIs(t, err, run.ErrUnknownRecord)
			return
		}
		written, err := run.Encode("r1", run.Record{}, 1, event)
		if err != nil {
			return // it has no canonical form, so no journal holds it
		}
		read, err := run.Decode(written)
		require.NoError(t, err)
		again, err := run.Encode("r1", run.Record{}, 1, read)
		require.NoError(t, err)
		require.Equal(t, written, again)
	})
}

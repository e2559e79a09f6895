package opaque_test

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/opaque"
)

// A cursor or an id is read only in the one form in which it is written.
func FuzzCursor(f *testing.F) {
	f.Add(opaque.Position("r1", 7))
	f.Add(opaque.PageCursor("runs", "at", 3))
	f.Add(opaque.Write([]string{"next", "runs", "at"}))
	f.Add(opaque.ID("acme", opaque.Run, "r1"))
	places, _ := opaque.ReadPlaces(nil, "r1")
	places.Tell("r1", 300)
	places.Tell("r2", 7)
	f.Add(places.Cursor())
	for _, raw := range []string{`["at","r1","07"]`, `["at","r1","+7"]`, `["page","runs","","+3"]`, `["page","runs","","003"]`, `["page","runs","","-0"]`, `["at", "r1","7"]`, `null`, `[null]`} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(raw)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		if number, err := opaque.ReadPosition(&token, "r1"); err == nil {
			require.Equal(t, opaque.Position("r1", number), token)
		}
		if places, err := opaque.ReadPlaces(&token, "r1"); err == nil {
			require.Equal(t, token, places.Cursor())
		}
		if page, skip, err := opaque.ReadPage(&token, "runs"); err == nil {
			require.True(t, skip >= 0 && skip <= edge.MaxFirst)
			if skip == 0 {
				require.Equal(t, opaque.Write([]string{"next", "runs", page}), token)
			} else {
				require.Equal(t, opaque.PageCursor("runs", page, skip-1), token)
			}
		}
		if parts, err := opaque.ReadID(token, "acme", opaque.Run, 1); err == nil {
			require.Equal(t, opaque.ID("acme", opaque.Run, parts...), token)
		}
		if parts, ok := opaque.Read(token); ok {
			raw, err := json.Marshal(parts)
			require.NoError(t, err)
			require.Equal(t, base64.RawURLEncoding.EncodeToString(raw), token)
		}
		opaque.KindOf(token)
	})
}

func TestPlacesAreReadAsTheyWereWritten(t *testing.T) {
	places, err := opaque.ReadPlaces(nil, "r1")
	require.NoError(t, err)
	require.True(t, places.Within(map[string]uint64{"r1": 1}))
	places.Tell("r1", 300)
	places.Tell("r2", 7)
	later := places.Clone()
	later.Tell("r2", 8)
	cursor := places.Cursor()
	read, err := opaque.ReadPlaces(&cursor, "r1")
	require.NoError(t, err)
	require.Equal(t, []uint64{300, 7, 0}, []uint64{read.Of("r1"), read.Of("r2"), read.Of("r3")})
	require.Equal(t, []uint64{300, 8}, []uint64{later.Of("r1"), later.Of("r2")})
	require.True(t, read.Within(map[string]uint64{"r1": 300, "r2": 9, "r3": 4}))
	require.False(t, read.Within(map[string]uint64{"r1": 299, "r2": 9}), "beyond the end")
	require.False(t, read.Within(map[string]uint64{"r1": 300, "r3": 9}), "of a run of another tree")
	_, err = opaque.ReadPlaces(&cursor, "r2")
	require.ErrorIs(t, err, opaque.ErrCursor)
	position := opaque.Position("r1", 300)
	_, err = opaque.ReadPlaces(&position, "r1")
	require.ErrorIs(t, err, opaque.ErrCursor)
	for i := range 1500 {
		later.Tell(strconv.Itoa(i), 1000)
	}
	wide := later.Cursor()
	require.Less(t, len(wide), 30_000)
	read, err = opaque.ReadPlaces(&wide, "r1")
	require.NoError(t, err)
	require.Equal(t, wide, read.Cursor())
}

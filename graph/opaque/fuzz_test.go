package opaque_test

import (
	"encoding/base64"
	"encoding/json"
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
	for _, raw := range []string{`["at","r1","07"]`, `["at","r1","+7"]`, `["page","runs","","+3"]`, `["page","runs","","003"]`, `["page","runs","","-0"]`, `["at", "r1","7"]`, `null`, `[null]`} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(raw)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		if number, err := opaque.ReadPosition(&token, "r1"); err == nil {
			require.Equal(t, opaque.Position("r1", number), token)
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

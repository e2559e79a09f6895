package journal

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASealedTextIsReadInEveryFormThatWasWritten(t *testing.T) {
	want := sealedForm{Salt: []byte("salt"), Bytes: []byte("text")}
	plain, err := want.encode()
	require.NoError(t, err)
	for name, written := range map[string][]byte{
		"binary": plain,
		"JSON":   []byte(`{"salt":"c2FsdA==","bytes":"dGV4dA=="}`),
	} {
		read, err := decodeSealed(written)
		require.NoError(t, err, name)
		require.Equal(t, want, read, name)
	}
	for _, broken := range [][]byte{nil, {binaryForm}, {binaryForm, 3, 'a'}, {2, 0}} {
		_, err := decodeSealed(broken)
		require.Error(t, err)
	}
	_, err = sealedForm{Salt: make([]byte, 256)}.encode()
	require.Error(t, err)
}

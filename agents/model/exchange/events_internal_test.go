package exchange

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// However a stream is cut, events come out whole, in the order in which they
// came, and with lines that end in one way.
func TestEventsAreWholeHoweverTheyAreCut(t *testing.T) {
	stream := []byte("data: {\"a\":1}\n\ndata: {\"b\":\r\n2}\r\n\r\ndata: {\"c\":3}")
	want := bytes.ReplaceAll(stream, []byte("\r"), nil)
	for first := range stream {
		for second := first; second <= len(stream); second++ {
			e := events{}
			var got []byte
			for _, piece := range [][]byte{stream[:first], stream[first:second], stream[second:]} {
				e.add(piece)
				require.True(t, len(e.whole) == 0 || bytes.HasSuffix(e.whole, []byte("\n\n")))
				got, e.whole = append(got, e.whole...), nil
			}
			require.Equal(t, len(want)-len("data: {\"c\":3}"), len(got), "%d %d", first, second)
			require.True(t, e.end())
			require.Equal(t, want, append(got, e.whole...))
		}
	}
}

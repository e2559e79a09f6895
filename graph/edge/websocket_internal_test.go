package edge

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deadlines records the deadlines that are set, in place of a connection.
type deadlines struct {
	*httptest.ResponseRecorder
	set    []time.Time
	broken error
}

func (d *deadlines) SetWriteDeadline(deadline time.Time) error {
	d.set = append(d.set, deadline)
	return d.broken
}

func TestWriteOfAStreamHasADeadlineAndLeavesNone(t *testing.T) {
	connection := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w := deadlined{connection, http.NewResponseController(connection), time.Hour}
	before := time.Now()
	written, err := w.Write([]byte("one event"))
	require.NoError(t, err)
	require.Equal(t, 9, written)
	w.Flush()
	require.True(t, connection.Flushed)
	require.Len(t, connection.set, 4)
	for _, i := range []int{0, 2} {
		require.WithinRange(t, connection.set[i], before.Add(time.Hour), time.Now().Add(time.Hour))
		require.Zero(t, connection.set[i+1], "a quiet stream, and the next request, have all the time")
	}
	connection.broken = errors.New("no such connection")
	_, err = w.Write([]byte("more"))
	require.ErrorIs(t, err, connection.broken)
	require.Equal(t, "one event", connection.Body.String(), "nothing is written without a deadline")
}

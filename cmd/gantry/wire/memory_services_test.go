//go:build services && unix

package wire_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/memory"
	"gantry.dev/memory/index/qdrant"
	double "gantry.dev/memory/index/wire"
	"gantry.dev/memory/view"
)

// What a process remembers that does not work itself gets to the index by one that
// does, told over the bus: nobody looks for an hour.
func TestAnotherProcessTellsTheIndex(t *testing.T) {
	server := double.Start(t)
	told := make(chan struct{}, 1000)
	server.Inject(double.Told("Delete", 0, told))
	h := shared(t, func(c *wire.Config) {
		c.Poll, c.Memory.Qdrant = time.Hour, qdrant.Config{URL: server.URL()}
	})
	h.open()
	h.apply(h.organisation)
	config := h.config()
	config.Work, config.Worker = false, "other"
	serving, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	defer func() { require.NoError(t, serving.Close()) }()
	pace := time.NewTicker(20 * time.Millisecond) // the other one may not listen yet
	defer pace.Stop()
	for n, heard := 0, false; !heard; n++ {
		_, err := serving.Brain.Remember(t.Context(), h.reader(asker), memory.Draft{Space: "department:finance", Kind: view.Fact, Text: fmt.Sprintf("Peak Conveyor signs in week %d.", n)})
		require.NoError(t, err)
		select {
		case <-told:
			heard = true
		case <-pace.C:
		}
	}
	found, err := serving.Brain.Recall(t.Context(), h.reader(asker), memory.Question{Text: "When does Peak Conveyor sign?"})
	require.NoError(t, err)
	require.NotEmpty(t, found.Hits)
}

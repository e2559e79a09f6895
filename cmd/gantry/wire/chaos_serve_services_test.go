//go:build services && unix

package wire_test

import (
	"context"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

// Each node that serves is replaced by another one while readers follow a run,
// as a deployment does, in the middle of its way. They are told to come again,
// go on at the next node behind the last event that they had, and hear each
// event once.
func TestFault_I7_ReadersMoveToTheNextNodeAndHearEachEventOnce(t *testing.T) {
	scenario(t)
	h := shared(t, func(c *wire.Config) { c.Poll, c.Drain = 50*time.Millisecond, time.Second })
	config := h.config()
	serve := func(name string) *process {
		config.Worker, config.Listen, config.Work = name, "127.0.0.1:0", false
		return employ(t, config, "")
	}
	node := serve("the first node")
	apply(t, h)
	h.spawn("works", "", true, "")
	balancer := newProxy(t, node.address)
	amara := h.at(&process{address: balancer.address()}, asker)
	id := amara.begin("INV-1004").ID

	const readers = 8
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make([][]client.Event, readers)
	faults := make([]error, readers)
	at := map[string]chan struct{}{"approval_requested": make(chan struct{}, readers), "steer_accepted": make(chan struct{}, readers)}
	var tasks conc.WaitGroup
	for i := range readers {
		tasks.Go(func() {
			faults[i] = amara.Events(ctx, id, "", func(e client.Event) (bool, error) {
				told[i] = append(told[i], e)
				if reached := at[e.Kind]; reached != nil {
					reached <- struct{}{}
				}
				return !isEnd(e), nil
			})
		})
	}
	replace := func(name, kind string) {
		for range readers {
			select {
			case <-at[kind]:
			case <-ctx.Done():
				require.Fail(t, "the readers did not come so far", kind)
			}
		}
		next := serve(name)
		balancer.aim(next.address)
		node.dismiss()
		node = next
	}
	replace("the second node", "approval_requested")
	require.Empty(t, h.at(node, asker).mutate("steerRun", map[string]any{"run": id, "text": "Mind the VAT."}).code())
	replace("the third node", "steer_accepted")
	tomas := h.at(node, controller)
	tomas.decide(tomas.held(id), true)
	tasks.Wait()
	all := h.at(node, asker).follow(id, "", isEnd)
	for i := range readers {
		require.NoError(t, faults[i])
		require.Equal(t, all, told[i])
	}
	for i, e := range all {
		require.Equal(t, int64(i+1), e.Seq)
	}
	require.Equal(t, 1, h.entries("INV-1004"))
}

//go:build unix

package wire_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/service/groups"
	"gantry.dev/cmd/gantry/wire"
)

// Wherever a follower ends, and however many there are, each turn is given once:
// what a conversation holds says what is due, under ids that follow from it.
func TestFault_A1_A12_EachTurnIsGivenOnce(t *testing.T) {
	t.Parallel()
	points := 0
	for n := int64(1); ; n++ {
		var point atomic.Int64
		var stop atomic.Value
		between := &watch{lie: func(string) bool { return false }, pass: func(string, string) {
			if cancel, following := stop.Load().(context.CancelFunc); following && point.Add(1) == n {
				cancel()
			}
		}}
		work := false
		h := newHouse(t, plan{config: func(c *wire.Config) {
			if c.Work = work; !work {
				c.Between = between.between
			}
		}})
		h.open()
		h.apply(h.organisation)
		amara := h.as(asker)
		conversation := amara.talk("INV-1004", buyer, invoices, rules)
		amara.say(conversation, "@rules-desk @invoice-desk what about INV-1004?")

		ctx, cancel := context.WithCancel(t.Context())
		stop.Store(cancel)
		if err := groups.NewFollower(h.platform.Service, slog.New(slog.DiscardHandler)).Pass(ctx); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		cancel()
		if point.Load() < n {
			break // there is no such point
		}
		points++
		h.close()

		work = true
		h.open()
		all := h.as(asker).hear(conversation, "RUN_ENDED", 2)
		require.Equal(t, []string{
			"JOINED amara.diallo -> agent:invoice-desk", "JOINED amara.diallo -> agent:rules-desk",
			"MESSAGE amara.diallo: @rules-desk @invoice-desk what about INV-1004?",
			"RUN_STARTED agent:rules-desk",
			"RUN_ENDED agent:rules-desk: Above 1,000 euros two people sign. I cannot read 0 of the messages. @invoice-desk, what does INV-1004 come to?",
			"RUN_STARTED agent:invoice-desk", "RUN_ENDED agent:invoice-desk: INV-1004 of Torino Motori SpA comes to 1945.68 EUR.",
		}, said(all), "stopped at point %d", n)
		h.close()
	}
	require.GreaterOrEqual(t, points, 7, "every commit of a turn, and what keeps how far it came")
}

// Several followers at once, as of several processes, give each turn once.
func TestFollowersOfOneConversationGiveEachTurnOnce(t *testing.T) {
	t.Parallel()
	h := newHouse(t, plan{})
	h.open()
	h.apply(h.organisation)
	amara := h.as(asker)
	conversation := amara.talk("Many", rules, invoices)
	var tasks conc.WaitGroup
	failed := make([]error, 4)
	for range 5 {
		amara.say(conversation, "@rules-desk who orders the coffee?")
		for i := range failed {
			tasks.Go(func() {
				failed[i] = errors.Join(failed[i], groups.NewFollower(h.platform.Service, slog.New(slog.DiscardHandler)).Pass(t.Context()))
			})
		}
	}
	tasks.Wait()
	require.NoError(t, errors.Join(failed...))
	count := map[string]int{}
	for _, e := range amara.hear(conversation, "EXCHANGE_STOPPED", 5) {
		count[e.Node.Kind]++
	}
	require.Equal(t, map[string]int{"JOINED": 2, "MESSAGE": 5, "RUN_STARTED": 20, "RUN_ENDED": 20, "EXCHANGE_STOPPED": 5}, count)
}

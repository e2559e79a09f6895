package bus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/bus/bustest"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/run"
)

// sequence reads n records, or all that come for n < 0.
func sequence(tail *bus.Tail[run.Record], n int) []uint64 {
	var seqs []uint64
	for n != len(seqs) {
		record, open := <-tail.Items()
		if !open {
			return seqs
		}
		seqs = append(seqs, record.Seq)
	}
	return seqs
}

func upTo(from, to uint64) []uint64 {
	var seqs []uint64
	for seq := from; seq <= to; seq++ {
		seqs = append(seqs, seq)
	}
	return seqs
}

// A reader that leaves at any position and resumes from its cursor, any number
// of times, sees every record once and in order, however the records reach the
// hub: straight, as a notice, repeated, late or never.
func TestFault_I1_resumeAtEveryPosition(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const total = 40
		log := bustest.NewLog()
		log.Commit("w", bustest.Records("r", 1, 3, false)...)
		hub := bus.NewHub(log, log)
		defer hub.Close()
		var batches []bus.Batch
		committed, cursor := uint64(3), uint64(0)
		tell := func(batch bus.Batch) {
			switch rapid.IntRange(0, 3).Draw(rt, "how it is told") {
			case 0:
				hub.Offer(batch)
			case 1:
				hub.Hear(bus.NoticeOf(batch))
			case 2:
				hub.Offer(batch)
				hub.Offer(batches[rapid.IntRange(0, len(batches)-1).Draw(rt, "old batch")])
			}
		}
		for cursor < total {
			ctx, leave := context.WithCancel(t.Context())
			tail, err := hub.Tail(ctx, "r", cursor)
			require.NoError(rt, err)
			for range rapid.IntRange(0, 3).Draw(rt, "batches") {
				if committed == total {
					break
				}
				to := min(total, committed+uint64(rapid.IntRange(1, 9).Draw(rt, "size")))
				batch := log.Commit("w", bustest.Records("r", committed+1, to, to == total)...)
				committed = to
				batches = append(batches, batch)
				tell(batch)
			}
			hub.Look()
			cut := rapid.IntRange(0, int(committed-cursor)).Draw(rt, "records read")
			got := sequence(tail, cut)
			require.Equal(rt, upTo(cursor+1, cursor+uint64(cut)), got)
			cursor += uint64(cut)
			leave()
		}
		tail, err := hub.Tail(t.Context(), "r", cursor)
		require.NoError(rt, err)
		require.Empty(rt, sequence(tail, -1))
		require.NoError(rt, tail.Err())
	})
}

// Every single cut of a recorded run, exhaustively.
func TestFault_I1_everyCut(t *testing.T) {
	log := bustest.NewLog()
	log.Commit("w", bustest.Records("r", 1, 600, true)...)
	hub := bus.NewHub(log, log)
	defer hub.Close()
	for cut := uint64(0); cut <= 600; cut += 7 {
		tail, err := hub.Tail(t.Context(), "r", cut)
		require.NoError(t, err)
		require.Equal(t, upTo(cut+1, 600), sequence(tail, -1))
		require.NoError(t, tail.Err())
	}
}

func TestFault_I2_toldBetweenReplayAndLive(t *testing.T) {
	for name, tell := range map[string]func(*bus.Hub, bus.Batch){
		"offered":            func(h *bus.Hub, b bus.Batch) { h.Offer(b) },
		"heard":              func(h *bus.Hub, b bus.Batch) { h.Hear(bus.NoticeOf(b)) },
		"offered and heard":  func(h *bus.Hub, b bus.Batch) { h.Offer(b); h.Hear(bus.NoticeOf(b)); h.Offer(b) },
		"lost, and a look":   func(h *bus.Hub, _ bus.Batch) { h.Look() },
		"heard of too much":  func(h *bus.Hub, b bus.Batch) { n := bus.NoticeOf(b); n.Runs[0].To = 999; h.Hear(n) },
		"before it is there": func(h *bus.Hub, b bus.Batch) { h.Hear(bus.NoticeOf(b)); h.Offer(b) },
	} {
		for _, after := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				log := bustest.NewLog()
				log.Commit("w", bustest.Records("r", 1, 5, false)...)
				hub := bus.NewHub(log, log)
				defer hub.Close()
				commit := func() { tell(hub, log.Commit("w", bustest.Records("r", 6, 8, true)...)) }
				if !after {
					log.BeforeRead(func() { log.BeforeRead(nil); commit() }) // subscribed, not yet read
				}
				tail, err := hub.Tail(t.Context(), "r", 2)
				require.NoError(t, err)
				if after {
					commit() // read, nothing handed over yet
				}
				require.Equal(t, upTo(3, 8), sequence(tail, -1))
				require.NoError(t, tail.Err())
			})
		}
	}
}

func TestFault_I4_slowReaderIsClosedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		log.Commit("w", bustest.Records("r", 1, 1, false)...)
		hub := bus.NewHub(log, log)
		defer hub.Close()
		slow, err := hub.Tail(t.Context(), "r", 1)
		require.NoError(t, err)
		brisk, err := hub.Tail(t.Context(), "r", 1)
		require.NoError(t, err)
		synctest.Wait() // both are live
		for seq := uint64(2); seq <= 300; seq++ {
			hub.Offer(log.Commit("w", bustest.Records("r", seq, seq, false)...)) // never blocks
			require.Equal(t, []uint64{seq}, sequence(brisk, 1))
		}
		synctest.Wait()
		got := sequence(slow, -1)
		require.ErrorIs(t, slow.Err(), bus.ErrSlow)
		cursor := uint64(1)
		if len(got) > 0 {
			cursor = got[len(got)-1]
		}
		resumed, err := hub.Tail(t.Context(), "r", cursor)
		require.NoError(t, err)
		require.Equal(t, upTo(cursor+1, 300), sequence(resumed, 299-int(cursor-1)))
	})
}

// A reader that is 256 records behind is still served; see depth.
func TestFault_I4_theBoundIsExact(t *testing.T) {
	for behind, want := range map[uint64]error{256: bus.ErrClosed, 257: bus.ErrSlow} {
		synctest.Test(t, func(t *testing.T) {
			log := bustest.NewLog()
			log.Commit("w", bustest.Records("r", 1, 1, false)...)
			hub := bus.NewHub(log, log)
			tail, err := hub.Tail(t.Context(), "r", 1)
			require.NoError(t, err)
			synctest.Wait()
			hub.Offer(log.Commit("w", bustest.Records("r", 2, 1+behind, false)...))
			synctest.Wait()
			hub.Close()
			require.Empty(t, sequence(tail, -1))
			require.ErrorIs(t, tail.Err(), want)
		})
	}
}

func TestReadersOfOneRunShareReadings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		log.Commit("w", bustest.Records("r", 1, 50, true)...)
		hub := bus.NewHub(log, log)
		defer hub.Close()
		held := make(chan struct{})
		log.BeforeRead(func() { <-held })
		var tasks conc.WaitGroup
		for after := range uint64(40) {
			tasks.Go(func() {
				tail, err := hub.Tail(t.Context(), "r", after)
				if err == nil && len(sequence(tail, -1)) != int(50-after) {
					err = errors.New("a reader missed records")
				}
				if err != nil {
					panic(err)
				}
			})
		}
		synctest.Wait()
		close(held)
		tasks.Wait()
		require.LessOrEqual(t, log.Readings(), 2)
	})
}

func TestRecordsStraightFromTheWriterNeedNoReading(t *testing.T) {
	log := bustest.NewLog()
	log.Commit("w", bustest.Records("r", 1, 1, false)...)
	hub := bus.NewHub(log, log)
	defer hub.Close()
	tail, err := hub.Tail(t.Context(), "r", 0)
	require.NoError(t, err)
	for seq := uint64(2); seq < 50; seq++ {
		batch := log.Commit("w", bustest.Records("r", seq, seq, false)...)
		hub.Offer(batch)
		hub.Hear(bus.NoticeOf(batch))
	}
	require.Equal(t, upTo(1, 49), sequence(tail, 49))
	require.Equal(t, 1, log.Readings())
}

func TestTailErrors(t *testing.T) {
	log := bustest.NewLog()
	log.Commit("w", bustest.Records("r", 1, 3, false)...)
	hub := bus.NewHub(log, log)
	_, err := hub.Tail(t.Context(), "unknown", 0)
	require.ErrorIs(t, err, engine.ErrNotFound)
	_, err = hub.Tail(t.Context(), "r", 4)
	require.ErrorIs(t, err, bus.ErrCursor)
	ctx, leave := context.WithCancel(t.Context())
	left, err := hub.Tail(ctx, "r", 3)
	require.NoError(t, err)
	// A wrong cursor of one reader does not harm the others of the run.
	_, err = hub.Tail(t.Context(), "r", 1000)
	require.ErrorIs(t, err, bus.ErrCursor)
	hub.Offer(log.Commit("w", bustest.Records("r", 4, 4, false)...))
	require.Equal(t, []uint64{4}, sequence(left, 1))
	leave()
	require.Empty(t, sequence(left, -1))
	require.ErrorIs(t, left.Err(), context.Canceled)
	stays, err := hub.Tail(t.Context(), "r", 4)
	require.NoError(t, err)
	hub.Close()
	require.Empty(t, sequence(stays, -1))
	require.ErrorIs(t, stays.Err(), bus.ErrClosed)
	_, err = hub.Tail(t.Context(), "r", 0)
	require.ErrorIs(t, err, bus.ErrClosed)
}

func TestTailSurvivesAJournalThatFailsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		log.Commit("w", bustest.Records("r", 1, 1, false)...)
		hub := bus.NewHub(log, log)
		defer hub.Close()
		tail, err := hub.Tail(t.Context(), "r", 1)
		require.NoError(t, err)
		log.Fail(errors.New("the database is away"))
		hub.Hear(bus.NoticeOf(log.Commit("w", bustest.Records("r", 2, 2, true)...)))
		synctest.Wait()
		log.Fail(nil)
		hub.Look()
		require.Equal(t, []uint64{2}, sequence(tail, -1))
		require.NoError(t, tail.Err())
	})
}

func TestOutcomesAfterTheEnd(t *testing.T) {
	log := bustest.NewLog()
	log.Commit("w", bustest.Records("r", 1, 3, true)...)
	hub := bus.NewHub(log, log)
	defer hub.Close()
	log.Commit("w", bustest.Records("r", 4, 4, false)...) // a late outcome
	for after := uint64(0); after <= 4; after++ {
		tail, err := hub.Tail(t.Context(), "r", after)
		require.NoError(t, err)
		require.Equal(t, upTo(after+1, 4), sequence(tail, -1))
		require.NoError(t, tail.Err())
	}
}

func TestConversationInboxAndText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		hub := bus.NewHub(log, log)
		b, err := bus.Open(bus.Config{})
		require.NoError(t, err)
		ctx, leave := context.WithCancel(t.Context())
		ticks := make(chan time.Time)
		var tasks conc.WaitGroup
		tasks.Go(func() { _ = hub.Run(ctx, b, ticks, nil) })
		synctest.Wait()

		talk, err := hub.Conversation(ctx, "o", "c", 0)
		require.NoError(t, err)
		inbox, err := hub.Inbox(ctx, "o")
		require.NoError(t, err)
		words, err := hub.TurnText(ctx, "r")
		require.NoError(t, err)

		hub.Offer(bus.Batch{Entries: []engine.Entry{log.Say()}})
		require.Equal(t, uint64(1), (<-talk.Items()).Number)
		log.Say() // its notice is lost
		ticks <- time.Time{}
		require.Equal(t, uint64(2), (<-talk.Items()).Number)
		<-inbox // the tick covers lost signals here too

		hub.Offer(bus.Batch{Inboxes: []string{"o"}})
		hub.Hear(bus.Notice{Inboxes: []string{"o", "another"}})
		<-inbox
		require.Empty(t, inbox, "two signals are one")

		for part := range 100 {
			require.NoError(t, b.TellText(ctx, bus.TextDelta{Run: "r", Turn: 1, Attempt: 1, Part: part + 1, Text: "x"}))
		}
		synctest.Wait()
		require.Len(t, words, 64, "what does not fit is dropped, nobody waits")
		require.Equal(t, 1, (<-words).Part)

		leave()
		tasks.Wait()
		synctest.Wait()
		_, open := <-inbox
		require.False(t, open)
		require.NoError(t, b.Close())
		hub.Close()
	})
}

// The journal may give a conversation in parts: every reader still gets all of it.
func TestConversationInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		for range 600 {
			log.Say()
		}
		hub := bus.NewHub(log, log)
		defer hub.Close()
		var tasks conc.WaitGroup
		for _, after := range []uint64{0, 3, 299, 599, 600} {
			tasks.Go(func() {
				talk, err := hub.Conversation(t.Context(), "o", "c", after)
				if err != nil {
					panic(err)
				}
				for want := after + 1; want <= 601; want++ {
					if got := (<-talk.Items()).Number; got != want {
						panic(got)
					}
				}
			})
		}
		synctest.Wait()
		hub.Offer(bus.Batch{Entries: []engine.Entry{log.Say()}})
		tasks.Wait()
	})
}

func TestFault_C10_aGapPullsFromTheJournalAtOnce(t *testing.T) {
	for name, tell := range map[string]func(*bus.Hub, bus.Batch){
		"offered": func(h *bus.Hub, b bus.Batch) { h.Offer(b) },
		"heard":   func(h *bus.Hub, b bus.Batch) { h.Hear(bus.NoticeOf(b)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := bustest.NewLog()
				log.Commit("w", bustest.Records("r", 1, 1, false)...)
				hub := bus.NewHub(log, log)
				defer hub.Close()
				tail, err := hub.Tail(t.Context(), "r", 1)
				require.NoError(t, err)
				log.Commit("w", bustest.Records("r", 2, 2, false)...) // never told
				tell(hub, log.Commit("w", bustest.Records("r", 3, 3, false)...))
				require.Equal(t, upTo(2, 3), sequence(tail, 2))
			})
		})
	}
}

func TestConversationInPartsWhileLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		hub := bus.NewHub(log, log)
		defer hub.Close()
		talk, err := hub.Conversation(t.Context(), "o", "c", 0)
		require.NoError(t, err)
		synctest.Wait()
		for range 50 {
			log.Say()
		}
		hub.Hear(bus.Notice{Conversations: []bus.Place{{Organisation: "o", Conversation: "c", Number: 50}}})
		for want := uint64(1); want <= 50; want++ {
			require.Equal(t, want, (<-talk.Items()).Number)
		}
	})
}

// Whoever follows several runs hears of each, however its records reach the hub,
// and of no other.
func TestMovesOfSeveralRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := bustest.NewLog()
		hub := bus.NewHub(log, log)
		ctx, leave := context.WithCancel(t.Context())
		moves, err := hub.Moves(ctx)
		require.NoError(t, err)
		wrote := func(id string) bus.Batch {
			return bus.Batch{Rows: []bus.Committed{{Record: run.Record{Run: id, Seq: 1}}}}
		}
		heard := func() bool {
			select {
			case _, open := <-moves.Signals():
				return open
			default:
				return false
			}
		}
		hub.Offer(wrote("root"))
		require.False(t, heard(), "it follows nothing yet")
		require.True(t, moves.Also("root"))
		require.True(t, moves.Also("child"))
		require.False(t, moves.Also("child"))
		hub.Offer(wrote("another"))
		hub.Hear(bus.Notice{Runs: []bus.Span{{Run: "another", From: 1, To: 1}}})
		require.False(t, heard())
		hub.Offer(wrote("child"))
		require.True(t, heard())
		require.False(t, heard(), "it is told once")
		hub.Hear(bus.Notice{Runs: []bus.Span{{Run: "root", From: 1, To: 1}}})
		hub.Offer(wrote("child"))
		require.True(t, heard())
		require.False(t, heard(), "two signals are one")
		hub.Look()
		require.True(t, heard(), "whatever was lost")
		leave()
		synctest.Wait()
		_, open := <-moves.Signals()
		require.False(t, open)
		require.False(t, moves.Also("late"), "who left follows nothing")
		hub.Offer(wrote("late"))
		hub.Close()
		_, err = hub.Moves(t.Context())
		require.ErrorIs(t, err, bus.ErrClosed)
	})
}

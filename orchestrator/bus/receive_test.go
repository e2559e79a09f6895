package bus_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/bus/bustest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const steer = `{"commandId":"c1","run":"r","kind":"steer","fields":{"text":"go on"}}`

func good(body string) bus.Message {
	return bus.Message{ID: "m", Body: []byte(body), Delivery: 1, Metadata: map[string]string{bus.MetaAuthorization: "Bearer good"}}
}

// desk records what a receiver does with messages.
type desk struct {
	taken    []bus.Received
	receipts map[string]bool
	parked   []bus.Parked
	pauses   int
	failure  error
}

func (d *desk) receiver() bus.Receiver {
	return bus.Receiver{
		Verify: bustest.VerifyToken, Attempts: 3,
		Submit: func(_ context.Context, r bus.Received) error {
			if d.failure != nil {
				return d.failure
			}
			if d.receipts[r.By.Principal+r.ID] {
				return nil // the journal's receipt settles a repetition
			}
			if d.receipts == nil {
				d.receipts = map[string]bool{}
			}
			d.receipts[r.By.Principal+r.ID] = true
			d.taken = append(d.taken, r)
			return nil
		},
		Park:  func(_ context.Context, p bus.Parked) error { d.parked = append(d.parked, p); return nil },
		Pause: func(context.Context, int) error { d.pauses++; return nil },
	}
}

func TestFault_C9_fiveDeliveriesAreOneCommand(t *testing.T) {
	var d desk
	for range 5 {
		require.NoError(t, d.receiver().Take(t.Context(), good(steer)))
	}
	require.Len(t, d.taken, 1)
	got := d.taken[0]
	require.Equal(t, "c1", got.ID)
	require.Equal(t, "r", got.Run)
	require.Equal(t, bus.KindSteer, got.Kind)
	require.Equal(t, bus.SteerWish{Text: "go on"}, got.Wish)
	require.Equal(t, policy.Person, got.Principal.Kind)
	require.Empty(t, d.parked)
}

func TestFault_C9_C10_repeatedAndShuffledNotices(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := bustest.NewLog()
		log.Commit("w", bustest.Records("r", 1, 1, false)...)
		hub := bus.NewHub(log, log)
		defer hub.Close()
		tail, err := hub.Tail(t.Context(), "r", 0)
		require.NoError(rt, err)
		var batches []bus.Batch
		for seq := uint64(2); seq <= 12; seq++ {
			batch := log.Commit("w", bustest.Records("r", seq, seq, seq == 12)...)
			for range rapid.IntRange(0, 5).Draw(rt, "deliveries") {
				batches = append(batches, batch)
			}
		}
		for _, batch := range rapid.Permutation(batches).Draw(rt, "order") {
			if rapid.Bool().Draw(rt, "with records") {
				hub.Offer(batch)
			} else {
				hub.Hear(bus.NoticeOf(batch))
			}
		}
		hub.Look()
		require.Equal(rt, upTo(1, 12), sequence(tail, -1))
		require.NoError(rt, tail.Err())
	})
}

func TestFault_C11_poisonIsParkedAndTheQueueMovesOn(t *testing.T) {
	bare := good(steer)
	bare.Metadata = nil
	forged := good(steer)
	forged.Metadata = map[string]string{bus.MetaAuthorization: "Bearer secret-token"}
	endless := good(steer)
	endless.Delivery = 4
	for name, c := range map[string]struct {
		message  bus.Message
		attempts int
		cause    string
	}{
		"not UTF-8":           {good("\xff"), 1, "no command"},
		"twice the same key":  {good(`{"commandId":"a","commandId":"b","run":"r","kind":"cancel"}`), 1, "no command"},
		"unknown key":         {good(`{"commandId":"a","run":"r","kind":"cancel","by":"boss"}`), 1, "no command"},
		"unknown field":       {good(`{"commandId":"a","run":"r","kind":"cancel","fields":{"by":"boss"}}`), 1, "fields of cancel"},
		"fields are null":     {good(`{"commandId":"a","run":"r","kind":"cancel","fields":null}`), 1, "fields of cancel"},
		"unknown kind":        {good(`{"commandId":"a","run":"r","kind":"reportCall"}`), 1, "unknown kind"},
		"no id":               {good(`{"run":"r","kind":"cancel"}`), 1, "ids"},
		"no run":              {good(`{"commandId":"a","kind":"cancel"}`), 1, "a start"},
		"a start with a run":  {good(`{"commandId":"a","run":"r","kind":"start","start":{"agent":"a","goal":"g"}}`), 1, "a start"},
		"a start of nothing":  {good(`{"commandId":"a","kind":"start"}`), 1, "a start"},
		"too long":            {good(strings.Repeat(" ", 300<<10) + steer), 1, "longer"},
		"no token":            {bare, 1, "verified"},
		"a token of nobody":   {forged, 1, "verified"},
		"delivered too often": {endless, 4, "too often"},
	} {
		t.Run(name, func(t *testing.T) {
			var d desk
			require.NoError(t, d.receiver().Take(t.Context(), c.message))
			require.NoError(t, d.receiver().Take(t.Context(), good(steer)))
			require.Len(t, d.taken, 1, "the one behind it")
			require.Len(t, d.parked, 1)
			require.Equal(t, c.attempts, d.parked[0].Attempts)
			require.Contains(t, d.parked[0].Cause, c.cause)
			kept, err := json.Marshal(d.parked[0])
			require.NoError(t, err)
			require.NotContains(t, string(kept), "secret-token")
		})
	}
}

func TestFailuresOfSubmit(t *testing.T) {
	t.Run("a refusal settles the command", func(t *testing.T) {
		d := desk{failure: &run.Refusal{Code: "RUN_ENDED"}}
		require.NoError(t, d.receiver().Take(t.Context(), good(steer)))
		require.Empty(t, d.parked)
		require.Zero(t, d.pauses)
	})
	t.Run("a failure that lasts parks it, in words of ours", func(t *testing.T) {
		d := desk{failure: errors.New("private words")}
		require.NoError(t, d.receiver().Take(t.Context(), good(steer)))
		require.Equal(t, 3, d.parked[0].Attempts)
		require.NotContains(t, d.parked[0].Cause, "private")
		require.Equal(t, 2, d.pauses)
	})
	t.Run("a panic is a failure", func(t *testing.T) {
		var d desk
		r := d.receiver()
		r.Submit = func(context.Context, bus.Received) error { panic("private words") }
		require.NoError(t, r.Take(t.Context(), good(steer)))
		require.Equal(t, bus.ErrBroken.Error(), d.parked[0].Cause)
	})
	t.Run("what cannot be parked comes again", func(t *testing.T) {
		var d desk
		r := d.receiver()
		r.Park = func(context.Context, bus.Parked) error { return errors.New("away") }
		require.Error(t, r.Take(t.Context(), good("{")))
		require.Equal(t, 1, d.pauses)
	})
	t.Run("a stopping process parks nothing", func(t *testing.T) {
		d := desk{failure: context.Canceled}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, d.receiver().Take(ctx, good(steer)), context.Canceled)
		require.Empty(t, d.parked)
	})
}

func TestReadCommandReadsEveryKind(t *testing.T) {
	for body, want := range map[string]bus.Wish{
		`{"commandId":"a","kind":"start","start":{"agent":"x","goal":"g"}}`:                                              bus.StartWish{Agent: "x", Goal: "g"},
		`{"commandId":"a","run":"r","kind":"cancel"}`:                                                                    bus.CancelWish{},
		`{"commandId":"a","run":"r","kind":"resume","fields":{"turns":3,"amount":{"microUsd":5,"tokens":0}}}`:            bus.ResumeWish{Turns: 3, Amount: run.Amount{MicroUSD: 5}},
		`{"commandId":"a","run":"r","kind":"decideApproval","fields":{"approval":"p","digest":"d","granted":true}}`:      bus.DecideApprovalWish{Approval: "p", Digest: "d", Granted: true},
		`{"commandId":"a","run":"r","kind":"answerQuestion","fields":{"question":"q","answer":"yes"}}`:                   bus.AnswerQuestionWish{Question: "q", Answer: "yes"},
		`{"commandId":"a","run":"r","kind":"resolveUncertain","fields":{"call":2,"resolution":"X","evidence":"looked"}}`: bus.ResolveUncertainWish{Call: 2, Resolution: "X", Evidence: "looked"},
	} {
		got, err := bus.ReadCommand([]byte(body))
		require.NoError(t, err, body)
		require.Equal(t, want, got.Wish)
	}
}

func FuzzReadCommand(f *testing.F) {
	f.Add([]byte(steer))
	f.Add([]byte(`{"commandId":"a","kind":"start","start":{"agent":"x","goal":"g"}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := bus.ReadCommand(body)
		if err != nil {
			require.ErrorIs(t, err, bus.ErrCommand)
			return
		}
		again, err := bus.ReadCommand(got.Request)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

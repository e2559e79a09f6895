package notice_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/notice"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestPeopleAreRemindedWhenItIsTimeAndOnce(t *testing.T) { remindedOnce(t, newHouse(t, "")) }

func remindedOnce(t *testing.T, h *house) {
	t.Helper()
	h.schedule = notice.Schedule{Opened: true, RemindAfterMs: []int64{4 * hour, 24 * hour}, EscalateAfterMs: 48 * hour}
	h.to = map[notice.Step][]notice.Recipient{notice.Opened: {mail("mona")}, notice.Reminder(1): {mail("mona")}, notice.Reminder(2): {mail("mona")},
		notice.Escalated: {mail("mark"), {Person: "nick"}}}
	h.open("a", "0")
	began := h.nowMs
	for _, moment := range []struct {
		afterMs int64
		want    []string
	}{
		{0, []string{"OPENED mona mona@acme"}},
		{1, nil},
		{4*hour - 1, nil},
		{4 * hour, []string{"REMINDED_1 mona mona@acme"}},
		{4*hour + 1, nil},
		{24 * hour, []string{"REMINDED_2 mona mona@acme"}},
		{48*hour - 1, nil},
		{48 * hour, []string{"ESCALATED mark mark@acme"}},
		{480 * hour, nil},
	} {
		h.nowMs = began + moment.afterMs
		require.Equal(t, moment.want, h.pass(), "after %d ms", moment.afterMs)
	}
	seen, err := h.store.EscalatedTo(t.Context(), "acme", "nick")
	require.NoError(t, err)
	require.Len(t, seen, 1, "who has no channel sees it all the same")
	require.Equal(t, "payer", seen[0].Agent)
	seen, err = h.store.EscalatedTo(t.Context(), "acme", "mona")
	require.NoError(t, err)
	require.Empty(t, seen)
	steps, err := h.store.Steps(t.Context(), "acme")
	require.NoError(t, err)
	require.Equal(t, map[notice.Step]int64{notice.Opened: began, notice.Reminder(1): began + 4*hour, notice.Reminder(2): began + 24*hour, notice.Escalated: began + 48*hour},
		steps[notice.ItemKey{Item: "a", SinceMs: began}])
	h.close("a")
	h.pass()
	seen, err = h.store.EscalatedTo(t.Context(), "acme", "nick")
	require.NoError(t, err)
	require.Empty(t, seen, "what waits no more is shown to nobody")
	h.nowMs += 31 * 24 * hour
	h.pass()
	require.Empty(t, h.states(), "and is forgotten in time")
}

func TestAfterAnOutageOnlyTheLastWordIsTold(t *testing.T) {
	h := newHouse(t, "")
	h.schedule = notice.Schedule{Opened: true, RemindAfterMs: []int64{hour, 2 * hour}, EscalateAfterMs: 3 * hour}
	for _, step := range []notice.Step{notice.Opened, notice.Reminder(1), notice.Reminder(2)} {
		h.to[step] = []notice.Recipient{mail("mona")}
	}
	h.to[notice.Escalated] = []notice.Recipient{mail("mark")}
	h.open("a", "0")
	h.nowMs += 10 * hour
	require.ElementsMatch(t, []string{"REMINDED_2 mona mona@acme", "ESCALATED mark mark@acme"}, h.pass())
	require.Empty(t, h.pass())
}

func TestWhatExpiredOrIsNotToldWaitsForNobody(t *testing.T) {
	h := newHouse(t, "")
	h.to[notice.Opened] = []notice.Recipient{mail("mona")}
	h.open("a", itoa(h.nowMs+hour))
	require.Empty(t, h.pass(), "the organisation tells nobody")
	h.schedule.Opened = true
	h.nowMs += hour
	require.Empty(t, h.pass(), "expiry is expiry")
}

// crashing ends its process between the sending and the record of it.
type crashing struct {
	*house
	cancel context.CancelFunc
}

func (c crashing) Send(ctx context.Context, n notice.Notice) error {
	_ = c.house.Send(ctx, n)
	c.cancel()
	return ctx.Err()
}

func TestACrashBetweenSendingAndItsRecordRepeatsTheSameNotice(t *testing.T) {
	h := newHouse(t, "")
	h.schedule.Opened = true
	h.to[notice.Opened] = []notice.Recipient{mail("mona")}
	h.open("a", "0")
	h.look()
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, h.courier("dies", crashing{h, cancel}).Pass(ctx))
	first := h.sent[0]
	require.Equal(t, []string{"OPENED mona mona@acme"}, h.told())
	require.Empty(t, h.pass(), "its lease keeps others away")
	h.nowMs += 60_000
	h.look()
	require.NoError(t, h.courier("lives", h).Pass(t.Context()))
	require.Len(t, h.sent, 1)
	require.Equal(t, first.ID, h.sent[0].ID, "who takes it can tell the repeat")
	h.told()
	h.nowMs += hour
	require.Empty(t, h.pass())
	require.Equal(t, map[notice.State]int{notice.Sent: 1}, h.states())
}

func TestTwoProcessesTellOnce(t *testing.T) { tellOnce(t, newHouse(t, "")) }

func tellOnce(t *testing.T, h *house) {
	t.Helper()
	h.schedule.Opened = true
	h.to[notice.Opened] = []notice.Recipient{mail("mona"), mail("mark"), mail("nick")}
	for _, id := range []string{"a", "b", "c", "d"} {
		h.open(id, "0")
	}
	done := make(chan error, 4)
	for _, owner := range []string{"one", "two", "three", "four"} {
		go func() {
			f := notice.Follower{Store: h.store, People: h, Now: h.now}
			if err := f.Pass(t.Context()); err != nil {
				done <- err
				return
			}
			done <- h.courier(owner, h).Pass(t.Context())
		}()
	}
	for range 4 {
		require.NoError(t, <-done)
	}
	h.pass()
	require.Equal(t, map[notice.State]int{notice.Sent: 12}, h.states())
	ids := map[string]int{}
	for _, n := range h.sent {
		ids[n.ID]++
	}
	for id, times := range ids {
		require.Equal(t, 1, times, id)
	}
}

// Two processes found the same notice due; the other one claimed it first, told
// it, and died.
func TestWhoComesLateToANoticeLeavesItToTheOther(t *testing.T) {
	h := newHouse(t, "")
	h.schedule.Opened = true
	h.to[notice.Opened] = []notice.Recipient{mail("mona")}
	h.open("a", "0")
	h.look()
	late, asked := h.courier("late", h), 0
	late.Now = func(ctx context.Context) (int64, error) {
		if asked++; asked == 2 { // it has looked, and not claimed
			dying, cancel := context.WithCancel(ctx)
			require.NoError(t, h.courier("first", crashing{h, cancel}).Pass(dying))
		}
		return h.now(ctx)
	}
	require.NoError(t, late.Pass(t.Context()))
	require.Equal(t, []string{"OPENED mona mona@acme"}, h.told())
}

func TestAFailingChannelHoldsUpNobodyAndIsGivenUp(t *testing.T) {
	h := newHouse(t, "")
	h.schedule.Opened = true
	h.to[notice.Opened] = []notice.Recipient{mail("mona"), mail("mark")}
	h.failing["mona@acme"] = errDown
	h.open("a", "0")
	h.open("b", "0")
	require.Equal(t, []string{"OPENED mark mark@acme", "OPENED mark mark@acme"}, h.pass())
	h.nowMs += 29_999
	require.Empty(t, h.pass())
	attempts := func() (most int) {
		list, err := h.store.Of(t.Context(), "acme", "mona", 10)
		require.NoError(t, err)
		for _, n := range list {
			most = max(most, n.Attempts)
		}
		return most
	}
	require.Equal(t, 1, attempts())
	h.nowMs++
	require.Empty(t, h.pass())
	for range 100 {
		h.nowMs += hour
		h.pass()
	}
	require.Equal(t, 10, attempts())
	dead, err := h.store.Undelivered(t.Context(), "acme", 10)
	require.NoError(t, err)
	require.Len(t, dead, 2)
	require.Equal(t, "FAILED", dead[0].Code)

	h.failing = map[string]error{}
	h.open("c", "0")
	require.Len(t, h.pass(), 2, "what comes later is tried again")
}

func TestARefusalIsFinalAndAWithdrawnChannelIsNoFault(t *testing.T) {
	h := newHouse(t, "")
	h.schedule.Opened = true
	h.to[notice.Opened] = []notice.Recipient{mail("mona"), mail("mark"), mail("nick")}
	h.failing["mona@acme"] = &notice.Failure{Code: "EGRESS", Final: true}
	h.failing["mark@acme"] = notice.ErrWithdrawn
	h.failing["nick@acme"] = errDown
	h.open("a", "0")
	require.Empty(t, h.pass())
	require.Equal(t, map[notice.State]int{notice.Dead: 1, notice.Obsolete: 1, notice.Waiting: 1}, h.states())
	h.close("a")
	h.nowMs += hour
	require.Empty(t, h.pass())
	require.Equal(t, map[notice.State]int{notice.Dead: 1, notice.Obsolete: 2}, h.states(), "nobody is told of what waits no more")
}

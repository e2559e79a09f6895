package brain_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/service/brain"
	"gantry.dev/memory/store"
)

// log is what was committed. As on PostgreSQL, the newest is answered twice.
type log struct {
	mu      sync.Mutex
	changes []store.Change
	broken  error
	asked   chan int64 // cursors, one for each question
}

func (l *log) Changed(_ context.Context, since int64) (changes []store.Change, next int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next = int64(max(len(l.changes)-1, 0))
	if since <= int64(len(l.changes)) {
		changes = append(changes, l.changes[since:]...)
	}
	err = l.broken
	l.asked <- since
	return changes, next, err
}

func (l *log) commit(err error, items ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
	for _, item := range items {
		l.changes = append(l.changes, store.Change{Item: item, Version: uint64(len(l.changes) + 1)})
	}
}

func TestTheFeedTellsEachChangeOnceToAllWhoListen(t *testing.T) {
	l := &log{asked: make(chan int64, 1)}
	ticks, stopped := make(chan time.Time), make(chan struct{}, 1)
	var tasks conc.WaitGroup
	feed := brain.NewFeed(l, func() (<-chan time.Time, func()) { return ticks, func() { stopped <- struct{}{} } }, &tasks)
	tick := func() { ticks <- time.Time{}; <-l.asked }
	l.commit(nil, "before")
	first, leave := context.WithCancel(t.Context())
	defer leave()
	one, err := feed.Listen(first)
	require.NoError(t, err)
	<-l.asked
	second, leaveToo := context.WithCancel(t.Context())
	defer leaveToo()
	two, err := feed.Listen(second)
	require.NoError(t, err)

	l.commit(nil, "a", "b")
	tick()
	require.Equal(t, []string{"before", "a", "b"}, <-one, "what was committed about then may be told again")
	require.Equal(t, []string{"before", "a", "b"}, <-two)
	tick()
	l.commit(errors.New("the store is away"), "c")
	tick()
	l.commit(nil, "b")
	tick()
	require.Equal(t, []string{"c", "b"}, <-one, "nothing is told twice, and nothing is lost while the store is away")
	leaveToo()
	for range two {
	}
	for range 65 {
		l.commit(nil, "d")
		tick()
	}
	<-stopped // the last who listened is left behind
	tasks.Wait()
	told := 0
	for range one {
		told++
	}
	require.Equal(t, 64, told)

	three, err := feed.Listen(t.Context())
	require.NoError(t, err, "it begins again for the next")
	<-l.asked
	l.commit(nil, "e")
	tick()
	require.Contains(t, <-three, "e")
}

func TestAFeedThatCannotBeginSaysSo(t *testing.T) {
	l := &log{asked: make(chan int64, 1), broken: errors.New("away")}
	var tasks conc.WaitGroup
	feed := brain.NewFeed(l, func() (<-chan time.Time, func()) { return nil, func() {} }, &tasks)
	_, err := feed.Listen(t.Context())
	require.ErrorContains(t, err, "away")
	tasks.Wait()
}

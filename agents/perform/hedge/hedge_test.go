package hedge_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model"
	"gantry.dev/agents/perform/hedge"
)

// script is what a model does: it speaks at one time, and ends at another.
type script struct {
	speaks, ends time.Duration // 0: never
	fails        bool
	deaf         bool // it does not hear that it is given up
	breaks       bool
}

var errFailed = errors.New("failed")

func (s script) request(name string) hedge.Request {
	return func(ctx context.Context, deltas func(string)) (model.Answer, error) {
		if s.breaks {
			panic("broken")
		}
		begun := time.Now()
		wait := func(until time.Duration) error {
			if s.deaf {
				ctx = context.WithoutCancel(ctx)
			}
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(until - time.Since(begun)):
				return nil
			}
		}
		if s.speaks > 0 {
			if err := wait(s.speaks); err != nil {
				return model.Answer{}, err
			}
			deltas(name)
		}
		if s.ends == 0 {
			<-ctx.Done()
			return model.Answer{}, ctx.Err()
		}
		if err := wait(s.ends); err != nil {
			return model.Answer{}, err
		}
		if s.fails {
			return model.Answer{}, errFailed
		}
		return model.Answer{Text: name}, nil
	}
}

func TestTheFirstWholeAnswerIsTaken(t *testing.T) {
	const s = time.Second
	for name, row := range map[string]struct {
		first, second script
		may           bool // the second one may be asked
		taken         int
		asked         bool
		dropped       []int // given up over the other's answer
		late          bool  // both answered
		heard         []string
		after         time.Duration
	}{
		"an answer in time":                          {script{ends: s}, script{ends: s}, true, 0, false, nil, false, nil, s},
		"a word in time":                             {script{speaks: s, ends: 9 * s}, script{ends: s}, true, 0, false, nil, false, []string{"first"}, 9 * s},
		"a failure in time":                          {script{ends: s, fails: true}, script{ends: s}, true, -1, false, nil, false, nil, s},
		"the second wins":                            {script{ends: 9 * s}, script{speaks: s, ends: 2 * s}, true, 1, true, []int{0}, false, []string{"second"}, 4 * s},
		"the first wins after all":                   {script{ends: 3 * s}, script{ends: 2 * s}, true, 0, true, []int{1}, false, nil, 3 * s},
		"it may not be asked":                        {script{ends: 9 * s}, script{ends: s}, false, 0, false, nil, false, nil, 9 * s},
		"the first fails later":                      {script{ends: 3 * s, fails: true}, script{speaks: s, ends: 2 * s}, true, 1, true, nil, false, []string{"second"}, 4 * s},
		"the second fails":                           {script{ends: 5 * s}, script{ends: s, fails: true}, true, 0, true, nil, false, nil, 5 * s},
		"both fail":                                  {script{ends: 5 * s, fails: true}, script{ends: s, fails: true}, true, -1, true, nil, false, nil, 5 * s},
		"both answer":                                {script{ends: 5 * s, deaf: true}, script{ends: s}, true, 1, true, nil, true, nil, 5 * s},
		"the second breaks":                          {script{ends: 5 * s}, script{breaks: true}, true, 0, true, nil, false, nil, 5 * s},
		"a text is cut, the other's is not mixed in": {script{speaks: 2500 * time.Millisecond, ends: 3 * s, fails: true}, script{speaks: s, ends: 2 * s}, true, 1, true, nil, false, []string{"first"}, 4 * s},
		"who speaks late is not heard":               {script{speaks: 5 * s, ends: 9 * s, deaf: true}, script{speaks: s, ends: 2 * s}, true, 1, true, nil, true, []string{"second"}, 9 * s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var heard []string
				taken, replies := hedge.Ask(t.Context(), row.first.request("first"), hedge.Second{After: 2 * s, Request: func() hedge.Request {
					require.Equal(t, 2*s, time.Since(begun))
					if !row.may {
						return nil
					}
					return row.second.request("second")
				}}, func(text string) { heard = append(heard, text) })
				require.Equal(t, row.taken, taken)
				require.True(t, replies[0].Asked)
				require.Equal(t, row.asked, replies[1].Asked)
				require.Equal(t, row.heard, heard)
				require.Equal(t, row.after, time.Since(begun), "both have ended")
				for i, reply := range replies {
					require.Equal(t, slices.Contains(row.dropped, i), reply.Dropped)
				}
				if taken >= 0 {
					require.Equal(t, []string{"first", "second"}[taken], replies[taken].Answer.Text)
					require.Equal(t, row.late, replies[1-taken].Asked && replies[1-taken].Err == nil)
				}
			})
		})
	}
}

// A deadline, a cancel or an interruption stops both.
func TestWhoeverStopsTheTurnStopsBothRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		begun := time.Now()
		taken, replies := hedge.Ask(ctx, script{}.request("first"), hedge.Second{After: 2 * time.Second,
			Request: func() hedge.Request { return script{}.request("second") }}, func(string) {})
		require.Equal(t, -1, taken)
		require.Equal(t, 5*time.Second, time.Since(begun))
		for _, reply := range replies {
			require.True(t, reply.Asked)
			require.ErrorIs(t, reply.Err, context.DeadlineExceeded)
			require.False(t, reply.Dropped)
		}
		cancelled, stop := context.WithCancel(t.Context())
		stop()
		_, replies = hedge.Ask(cancelled, script{ends: 3 * time.Second, deaf: true}.request("first"), hedge.Second{After: 2 * time.Second,
			Request: func() hedge.Request { return script{ends: time.Second}.request("second") }}, func(string) {})
		require.False(t, replies[1].Asked, "nobody waits for it any more")
	})
}

package health_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/catalogue"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/health"
)

// clock stands still until a test moves it.
type clock struct{ now time.Time }

func (c *clock) after(d time.Duration) { c.now = c.now.Add(d) }

func register(c *clock) (*health.Register, *[]health.Mode) {
	var modes []health.Mode
	return health.New(health.Config{Failures: 3, First: 10 * time.Second, Longest: 30 * time.Second, Probe: time.Minute,
		Clock: func() time.Time { return c.now }, Changed: func(s health.Standing) { modes = append(modes, s.Mode) }}), &modes
}

var (
	key  = health.Key{Endpoint: "http://m", Model: "m"}
	down = health.Outcome{Cause: model.Overloaded}
)

func open(r *health.Register) {
	for range 3 {
		r.Note(key, down)
	}
}

func TestAModelThatFailsInARowIsLeftAloneAndOneFindsOut(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	r, modes := register(c)
	r.Note(key, down)
	r.Note(key, down)
	r.Note(key, health.Outcome{}) // an answer between makes no row
	r.Note(key, down)
	r.Note(key, down)
	require.Zero(t, r.Rest(key, "a"))
	r.Note(key, down)
	require.Equal(t, 10*time.Second, r.Rest(key, "a"))
	require.False(t, r.Claim(key, "a"))
	require.Zero(t, r.Rest(health.Key{Endpoint: "http://m", Model: "n"}, "a"), "another model of the same place")

	c.after(10 * time.Second)
	require.Zero(t, r.Rest(key, "a"))
	require.True(t, r.Claim(key, "a"))
	require.False(t, r.Claim(key, "b"), "one finds out for all")
	require.Equal(t, 2*time.Second, r.Rest(key, "b"))
	require.True(t, r.Claim(key, "a"), "it may ask again for itself")
	r.Note(key, down)
	require.Equal(t, 20*time.Second, r.Rest(key, "a"), "twice as long")
	c.after(20 * time.Second)
	require.True(t, r.Claim(key, "b"))
	r.Note(key, down)
	require.Equal(t, 30*time.Second, r.Rest(key, "a"), "and no longer than that")
	c.after(30 * time.Second)
	require.True(t, r.Claim(key, "b"))
	r.Note(key, health.Outcome{})
	require.True(t, r.Claim(key, "c"))
	require.Equal(t, []health.Mode{health.Open, health.HalfOpen, health.Open, health.HalfOpen, health.Open, health.HalfOpen, health.Closed}, *modes)
	open(r)
	require.Equal(t, 10*time.Second, r.Rest(key, "a"), "the next row begins anew")
}

func TestAProbeThatNobodyBringsBackIsMadeByAnother(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	r, _ := register(c)
	open(r)
	c.after(10 * time.Second)
	require.True(t, r.Claim(key, "a"))
	c.after(time.Minute)
	require.True(t, r.Claim(key, "b"), "its time is over")
	r.Note(key, health.Outcome{Dropped: true})
	require.True(t, r.Claim(key, "c"), "nobody waits for it any more")
}

func TestFault_D2_WhatAProviderAsksForIsItsTime(t *testing.T) {
	c := &clock{now: time.Unix(1000, 0)}
	r, _ := register(c)
	r.Note(key, down)
	r.Note(key, down)
	r.Note(key, health.Outcome{Cause: model.RateLimited, RetryAfter: time.Hour})
	require.Equal(t, time.Hour, r.Rest(key, "a"))
}

// provider fails as it is told.
type provider struct{ err error }

func (p provider) Take(context.Context, model.Request, func(string)) (model.Answer, error) {
	return model.Answer{}, p.err
}

func TestWhoRefusesARequestAnswers(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer stop()
	for name, row := range map[string]struct {
		ctx    context.Context
		err    error
		counts bool
	}{
		"overloaded":      {t.Context(), &model.Error{Kind: model.Overloaded}, true},
		"cut":             {t.Context(), &model.Error{Kind: model.Cut}, true},
		"out of its time": {late, &model.Error{Kind: model.TimedOut}, true},
		"refused":         {t.Context(), &model.Error{Kind: model.BadRequest}, false},
		"dropped":         {cancelled, &model.Error{Kind: model.Unreachable}, false},
		"a fault of ours": {t.Context(), errors.New("no such thing"), false},
		"answered":        {t.Context(), nil, false},
	} {
		r, _ := register(&clock{now: time.Unix(1000, 0)})
		watched := r.Watch(key, provider{row.err})
		for range 3 {
			_, err := watched.Take(row.ctx, model.Request{}, nil)
			require.Equal(t, row.err, err)
		}
		require.Equal(t, row.counts, r.Rest(key, "a") > 0, name)
	}
}

func TestModelsAreTakenApartByPlaceAndName(t *testing.T) {
	m := catalogue.Model{Name: "fast", Provider: "openai", Model: "gpt"}
	require.Equal(t, health.Key{Endpoint: "openai", Model: "gpt"}, health.KeyOf(m))
	m.Endpoint = "http://here"
	require.Equal(t, "http://here", health.KeyOf(m).Endpoint)
}

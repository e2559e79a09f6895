package memory

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
)

// mostRounds is how often it is tried to reach what others move on.
const mostRounds = 20

// Rebuild makes the indexes anew from the store, behind those that are asked
// meanwhile, and returns how many items they then hold. What is written while it
// goes on is in them; where changes are relayed, what was written last comes with
// the relay.
func (s *Service) Rebuild(ctx context.Context) (items int, err error) {
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return 0, err
	}
	for _, part := range spaces.active {
		if items, err = s.rebuild(ctx, part); err != nil {
			return items, err
		}
	}
	return items, nil
}

func (s *Service) rebuild(ctx context.Context, p part) (items int, err error) {
	// Everything that is committed from here on is caught up with.
	_, cursor, err := s.store.Changed(ctx, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	next, swap, err := s.config.Indexes.Fresh(ctx, p.space)
	if err != nil {
		return 0, err
	}
	r := rebuilding{service: s, next: part{space: p.space, index: next}, cursor: cursor, known: map[string]uint64{}}
	if err := r.fill(ctx); err != nil {
		return r.items, err
	}
	for round := 0; ; round++ {
		changed, err := r.catchUp(ctx)
		if err != nil {
			return r.items, err
		}
		if changed == 0 || round == mostRounds {
			return r.items, r.swap(ctx, swap)
		}
	}
}

// rebuilding is one index that is made anew.
type rebuilding struct {
	service *Service
	next    part
	cursor  int64
	known   map[string]uint64 // see following
	items   int
}

func (r *rebuilding) fill(ctx context.Context) error {
	organisations, err := r.service.store.Organisations(ctx)
	if err != nil {
		return err
	}
	for _, organisation := range organisations {
		err := r.service.pages(ctx, organisation, func(items []string) error {
			r.items += len(items)
			return r.next.applyPresent(ctx, r.service.store, items)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// pages goes through the items of an organisation.
func (s *Service) pages(ctx context.Context, organisation string, each func(items []string) error) error {
	for after, more := "", true; more; more = after != "" {
		refs, last, err := s.store.Refs(ctx, organisation, after, batch)
		if err != nil {
			return err
		}
		items := make([]string, len(refs))
		for n, ref := range refs {
			items[n] = ref.Item
		}
		if err := each(slices.Compact(items)); err != nil {
			return err
		}
		after = last
	}
	return nil
}

func (r *rebuilding) catchUp(ctx context.Context) (changed int, err error) {
	changes, next, err := r.service.store.Changed(ctx, r.cursor)
	if err != nil {
		return 0, err
	}
	ids := fresh(changes, r.known)
	for some := range slices.Chunk(ids, batch) {
		if err := r.next.applyPresent(ctx, r.service.store, some); err != nil {
			return 0, err
		}
	}
	r.cursor, r.known = next, map[string]uint64{}
	for _, change := range changes {
		r.known[change.Item] = max(r.known[change.Item], change.Version)
	}
	return len(ids), nil
}

func (r *rebuilding) swap(ctx context.Context, swap func(context.Context) error) error {
	s := r.service
	if !s.store.Relayed() {
		s.follow.mu.Lock() // so that nobody catches up in the old one only
		defer s.follow.mu.Unlock()
		if _, err := r.catchUp(ctx); err != nil {
			return err
		}
		return swap(ctx)
	}
	if err := swap(ctx); err != nil {
		return err
	}
	// What relays told the old one since it was read last, they tell the new one.
	changes, _, err := s.store.Changed(ctx, r.cursor)
	if err != nil {
		return err
	}
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(fresh(changes, r.known), batch) {
		if _, err := s.store.Queue(ctx, nowMs, some); err != nil {
			return err
		}
	}
	return nil
}

// Reembedding says how what is remembered is embedded again.
type Reembedding struct {
	Again bool // also by the models by which it is embedded already
	// Least is what share of the nearest of each sampled item must be the same by
	// the new vectors for them to be used; 0: any.
	Least  float64
	Sample int // items that are compared; 0: 200
	// Grace is how long those who still ask by the old vectors have until these are
	// deleted; 30 s when 0. Until its end nothing is lost by stopping.
	Grace time.Duration
	Say   func(what string, items int) // hears how far it is; nil: nobody does
}

// Reembedded says what became of it.
type Reembedded struct {
	Embedded int                // items that got vectors
	Overlap  map[string]float64 // by new vector space: the share of the nearest that stayed the same
	Active   []string           // the vector spaces that are searched now
}

// ErrDiffers means that the new vectors find too little of what the old ones find.
var ErrDiffers = errors.New("the new vectors find too little of what the old ones find; nothing was switched")

// ErrBehind means that something did not get done because others were faster.
var ErrBehind = errors.New("more is written than can be caught up with; try it again")

// Reembed makes vectors of everything by the embedders in the configuration, and
// uses them in place of those that there are. Memory is asked and written to
// meanwhile. It may be stopped at any time, and then goes on where it was.
func (s *Service) Reembed(ctx context.Context, r Reembedding) (done Reembedded, err error) {
	if r.Say == nil {
		r.Say = func(string, int) {}
	}
	if r.Sample == 0 {
		r.Sample = 200
	}
	if r.Grace == 0 {
		r.Grace = 30 * time.Second
	}
	targets, err := s.prepare(ctx, r.Again)
	if err != nil {
		return done, err
	}
	for round := 0; ; round++ {
		n, err := s.fillBuilding(ctx, r)
		if done.Embedded += n; err != nil {
			return done, err
		}
		if round == 0 {
			if done.Overlap, err = s.shadow(ctx, r.Sample); err != nil {
				return done, err
			}
			for _, share := range done.Overlap {
				if share < r.Least {
					return done, ErrDiffers
				}
			}
		}
		switched, err := s.switchTo(ctx, targets)
		if err != nil {
			return done, err
		}
		if switched {
			done.Active = targets
			return done, s.retire(ctx, r)
		}
		if round == mostRounds {
			return done, ErrBehind
		}
	}
}

// prepare decides which vector spaces are to be the active ones, and begins those
// that are not there.
func (s *Service) prepare(ctx context.Context, again bool) (targets []string, _ error) {
	return targets, s.store.Write(ctx, 0, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.Spaces(ctx, true); err != nil {
			return err
		}
		all, err := tx.AllSpaces(ctx)
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, space := range all {
			taken[space.ID] = true
		}
		for _, want := range s.follow.wanted() {
			want.ID = going(all, want, again)
			for n := 1; want.ID == ""; n++ {
				if id := spaceID(want.Model, n); !taken[id] {
					want.ID, taken[id] = id, true
					if err := tx.KeepVectorSpace(ctx, want, store.Building); err != nil {
						return err
					}
				}
			}
			targets = append(targets, want.ID)
		}
		for _, space := range all { // begun once, and not wanted any more
			if space.State == store.Building && !slices.Contains(targets, space.ID) {
				if err := tx.KeepVectorSpace(ctx, space.VectorSpace, store.Retired); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// going returns the vector space of a model that is under way or, unless
// everything is to be embedded again, done.
func going(all []store.SpaceState, want index.VectorSpace, again bool) string {
	for _, state := range []string{store.Building, store.Active} {
		for _, space := range all {
			if is(space.VectorSpace, want) && space.State == state && (state == store.Building || !again) {
				return space.ID
			}
		}
	}
	return ""
}

// fillBuilding embeds what has no vectors yet in the vector spaces that are built,
// and brings it to their indexes.
func (s *Service) fillBuilding(ctx context.Context, r Reembedding) (filled int, _ error) {
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return 0, err
	}
	for _, part := range spaces.building {
		n, err := s.fill(ctx, part, false)
		if n > 0 {
			r.Say("embedded for "+part.space.ID, n)
		}
		if filled += n; err != nil {
			return filled, err
		}
		for round := 0; ; round++ {
			if s.store.Relayed() {
				if _, err := s.Drain(ctx, Relaying{}); err != nil {
					return filled, err
				}
			}
			n, err := s.compare(ctx, part)
			if err != nil {
				return filled, err
			}
			if n == 0 {
				break
			}
			if round == mostRounds {
				return filled, ErrBehind
			}
		}
	}
	return filled, nil
}

// switchTo makes vector spaces the active ones, unless something lacks a vector in
// one of them: nobody writes anything without at the same moment.
func (s *Service) switchTo(ctx context.Context, targets []string) (switched bool, _ error) {
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return false, err
	}
	return switched, s.store.Write(ctx, 0, func(ctx context.Context, tx *store.Tx) error {
		states, err := tx.Spaces(ctx, true)
		if err != nil || !slices.Equal(states, spaces.states) {
			return err
		}
		organisations, err := s.store.Organisations(ctx)
		if err != nil {
			return err
		}
		for _, part := range spaces.building {
			lacks, err := s.lacks(ctx, tx, part, organisations)
			if err != nil || lacks {
				return err
			}
		}
		switched = true
		return tx.Switch(ctx, targets)
	})
}

// lacks reports whether anything has no vector that should have one.
func (s *Service) lacks(ctx context.Context, tx *store.Tx, p part, organisations []string) (bool, error) {
	if p.embedder == nil {
		return false, nil
	}
	for _, organisation := range organisations {
		sets, err := s.embeddable(ctx, organisation, p.embedder)
		if err != nil {
			return false, err
		}
		lacking, err := tx.Lacking(ctx, organisation, p.space.ID, sets, "", 1)
		if err != nil || len(lacking) > 0 {
			return true, err
		}
	}
	return false, nil
}

// retire deletes the vectors of what is not used any more.
func (s *Service) retire(ctx context.Context, r Reembedding) error {
	retired, err := s.store.VectorSpaces(ctx, store.Retired)
	if err != nil {
		return err
	}
	left := 0
	for _, space := range retired {
		has, err := s.store.HasVectors(ctx, space.ID)
		if err != nil {
			return err
		}
		if has {
			left++
		}
	}
	if left > 0 {
		r.Say("waiting until nobody asks by the old vectors", 0)
		wait := time.NewTimer(r.Grace)
		defer wait.Stop()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wait.C:
		}
	}
	for _, space := range retired {
		if err := s.config.Indexes.Drop(ctx, space); err != nil {
			return fmt.Errorf("index of %s: %w", space.ID, err)
		}
		if err := s.store.DropVectors(ctx, space.ID); err != nil {
			return err
		}
	}
	return nil
}

// nearest is how many neighbours of a view are compared.
const nearest = 10

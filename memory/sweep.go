package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"time"

	"gantry.dev/memory/embed"
	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

// expiry is who erases what has expired.
const expiry = "gantry:expiry"

const (
	// mostExpired is how many items are erased at once.
	mostExpired = 1000
	// pageOfFill is how many items are embedded at once.
	pageOfFill = 64
)

// Swept says what a sweep did.
type Swept struct {
	Expired  int // items that were erased because their time was over, with what was derived from them
	Verified int // receipts of which nothing can come back any more
	Open     int // receipts that are not verified for good yet
	Embedded int // items that got vectors which they lacked
	Mended   int // items of which an index held something else than the store; one that changed just then may be among them
}

// Sweep puts right what is left over: it erases what has expired, looks again
// whether what was erased is gone everywhere, embeds what could not be embedded,
// and holds the indexes against the store, both ways. A part that fails holds up
// no other. It may be repeated, and done by several processes at once.
func (s *Service) Sweep(ctx context.Context) (swept Swept, err error) {
	for {
		n, err := s.Expire(ctx, mostExpired)
		swept.Expired += n
		if err != nil || n < mostExpired {
			return swept, errors.Join(err, s.verify(ctx, &swept), s.sweepVectors(ctx, &swept), s.sweepIndexes(ctx, &swept))
		}
	}
}

// Janitor sweeps at every tick until the context ends, and reports what it put
// right and what failed.
func (s *Service) Janitor(ctx context.Context, ticks <-chan time.Time, report func(Swept, error)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
		if swept, err := s.Sweep(ctx); ctx.Err() == nil {
			report(swept, err)
		}
	}
}

// Expire erases items whose time is over, at most limit at once, and returns
// how many they were with what was derived from them. Nobody is shown them from
// the moment on at which they expire; this takes them out of the store, too.
func (s *Service) Expire(ctx context.Context, limit int) (erased int, err error) {
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	expired, err := s.store.Expired(ctx, nowMs, limit)
	if err != nil {
		return 0, err
	}
	for organisation, ids := range expired {
		a, err := s.ask(ctx, view.Reader{Organisation: organisation, Principal: expiry})
		if err != nil {
			return erased, err
		}
		var kept store.Receipt
		err = s.store.Forgetting(ctx, nowMs, func(ctx context.Context, tx *store.Tx) error {
			kept, err = s.erase(ctx, tx, a, strings.ToLower(rand.Text()), ids, actExpire)
			return err
		})
		var refusal *Refusal
		if errors.As(err, &refusal) {
			continue // somebody else was faster
		}
		if err != nil {
			return erased, err
		}
		erased += len(kept.Items)
		if _, err := s.complete(ctx, a, kept); err != nil {
			return erased, err
		}
	}
	return erased, nil
}

// verify looks again for what receipts say is erased. Where changes are relayed,
// that is once more after the longest lease of a relay that may have read it
// before.
func (s *Service) verify(ctx context.Context, swept *Swept) error {
	var faults []error
	for after := ""; ; {
		receipts, err := s.store.Unverified(ctx, after, mostExpired)
		if err != nil || len(receipts) == 0 {
			return errors.Join(append(faults, err)...)
		}
		for _, kept := range receipts {
			after = kept.ID
			settled, err := s.settle(ctx, kept)
			if err != nil {
				faults = append(faults, err)
			}
			if settled {
				swept.Verified++
			} else {
				swept.Open++
			}
		}
	}
}

func (s *Service) settle(ctx context.Context, kept store.Receipt) (bool, error) {
	a, err := s.ask(ctx, view.Reader{Organisation: kept.Organisation, Principal: kept.Principal})
	if err != nil {
		return false, err
	}
	if _, err := s.complete(ctx, a, kept); err != nil {
		return false, err
	}
	now, found, err := s.store.Receipt(ctx, kept.Organisation, kept.ID)
	return found && now.VerifiedMs > 0, err
}

// sweepVectors embeds what its embedder could not be given when it was written.
func (s *Service) sweepVectors(ctx context.Context, swept *Swept) error {
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, part := range spaces.active {
		n, err := s.fill(ctx, part, true)
		swept.Embedded += n
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// fill gives vectors to the views that have none in a vector space and that its
// embedder may be given, and returns of how many items they are. What is done
// stays done where it ends before its end.
func (s *Service) fill(ctx context.Context, p part, renew bool) (filled int, err error) {
	if p.embedder == nil {
		return 0, nil
	}
	organisations, err := s.store.Organisations(ctx)
	if err != nil {
		return 0, err
	}
	for _, organisation := range organisations {
		sets, err := s.embeddable(ctx, organisation, p.embedder)
		if err != nil {
			return filled, err
		}
		for after := ""; ; {
			items, err := s.store.Lacking(ctx, organisation, p.space.ID, sets, after, pageOfFill)
			if err != nil {
				return filled, err
			}
			if len(items) == 0 {
				break
			}
			n, err := s.fillSome(ctx, p, organisation, items, renew)
			if filled += n; err != nil {
				return filled, err
			}
			after = items[len(items)-1]
		}
	}
	return filled, nil
}

// embeddable are the label sets of an organisation's views that an embedder may
// be given.
func (s *Service) embeddable(ctx context.Context, organisation string, embedder embed.Embedder) (may []string, _ error) {
	sets, err := s.store.Sets(ctx, organisation)
	for id, labels := range sets {
		if embedder.May(labels) {
			may = append(may, id)
		}
	}
	slices.Sort(may)
	return may, err
}

func (s *Service) fillSome(ctx context.Context, p part, organisation string, ids []string, renew bool) (filled int, _ error) {
	items, err := s.store.Load(ctx, organisation, ids)
	if err != nil {
		return 0, err
	}
	var vectors []store.Vector
	var texts []string
	for _, id := range ids {
		if items[id] == nil {
			continue // erased meanwhile
		}
		views, err := view.ViewsOf(items[id], s.etagKey(organisation))
		if err != nil {
			return 0, err
		}
		for _, v := range views {
			if p.may(v.Labels) {
				vectors, texts = append(vectors, store.Vector{Item: id, Set: v.Set, VectorSpace: p.space.ID}), append(texts, v.Text)
			}
		}
	}
	if len(texts) == 0 {
		return 0, nil
	}
	made, err := p.embedder.Embed(ctx, texts)
	if err != nil {
		return 0, err
	}
	for n := range vectors {
		vectors[n].Values = made[n]
	}
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return 0, err
	}
	err = s.store.Write(ctx, nowMs, func(ctx context.Context, tx *store.Tx) error {
		spaces, err := tx.Spaces(ctx, false)
		if err != nil || !slices.ContainsFunc(spaces, func(s store.SpaceState) bool { return s.ID == p.space.ID }) {
			return err // it was retired meanwhile
		}
		there, err := tx.Lock(ctx, organisation, ids, true)
		if err != nil {
			return err
		}
		versions, err := tx.Versions(ctx, organisation, there)
		if err != nil {
			return err
		}
		// What changed meanwhile got its vectors with the change.
		same := slices.DeleteFunc(vectors, func(v store.Vector) bool { return versions[v.Item] != items[v.Item].Version })
		filled = len(slices.CompactFunc(slices.Clone(same), func(a, b store.Vector) bool { return a.Item == b.Item }))
		return tx.AddVectors(ctx, organisation, same, renew)
	})
	return filled, err
}

func (s *Service) sweepIndexes(ctx context.Context, swept *Swept) error {
	spaces, err := s.follow.current(ctx)
	if err != nil {
		return err
	}
	var faults []error
	for _, part := range spaces.all() {
		mended, err := s.compare(ctx, part)
		swept.Mended += mended
		faults = append(faults, err)
	}
	return errors.Join(faults...)
}

// compare holds an index against the store, and has mended what differs.
func (s *Service) compare(ctx context.Context, p part) (mended int, err error) {
	organisations, err := s.store.Organisations(ctx)
	if err != nil {
		return 0, err
	}
	for _, organisation := range organisations {
		for after, more := "", true; more; more = after != "" {
			if err := s.follow.catchUp(ctx); err != nil {
				return mended, err
			}
			var differ []string
			if differ, after, err = s.different(ctx, p, organisation, after); err != nil {
				return mended, err
			}
			n, err := s.mend(ctx, p, organisation, differ)
			if mended += n; err != nil {
				return mended, err
			}
		}
	}
	return mended, nil
}

// different returns the items after an id of which an index holds something else
// than the store, up to the item from which the comparison goes on; none at the
// end.
func (s *Service) different(ctx context.Context, p part, organisation, after string) (items []string, until string, err error) {
	// The index is asked first: whatever it has was committed before.
	held, err := p.index.Held(ctx, organisation, after, s.config.Page)
	if err != nil {
		return nil, "", err
	}
	kept, until, err := s.store.Refs(ctx, organisation, after, s.config.Page)
	if err != nil {
		return nil, "", err
	}
	if len(held) >= s.config.Page {
		if last := held[len(held)-1].Item; until == "" || last < until {
			until = last
		}
	}
	sides := map[index.Ref]int{}
	for _, ref := range kept {
		sides[ref]++
	}
	for _, ref := range held {
		sides[ref]--
	}
	for ref, side := range sides {
		if side != 0 && (until == "" || ref.Item <= until) {
			items = append(items, ref.Item)
		}
	}
	slices.Sort(items)
	return slices.Compact(items), until, nil
}

// mend brings items to the indexes again. What the store never had is taken out
// of the one in which it was found.
func (s *Service) mend(ctx context.Context, p part, organisation string, items []string) (mended int, err error) {
	if len(items) == 0 {
		return 0, nil
	}
	strangers, err := s.store.Strangers(ctx, organisation, items)
	if err != nil {
		return 0, err
	}
	gone := make([]index.State, len(strangers))
	for n, item := range strangers {
		gone[n] = index.State{Organisation: organisation, Item: item}
	}
	if err := p.index.Apply(ctx, gone); err != nil {
		return 0, err
	}
	if !s.store.Relayed() {
		return len(items), s.follow.present(ctx, items)
	}
	nowMs, err := s.store.Now(ctx)
	if err != nil {
		return len(strangers), err
	}
	queued, err := s.store.Queue(ctx, nowMs, items)
	return len(strangers) + queued, err
}

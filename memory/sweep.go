package memory

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
)

// expiry is who erases what has expired.
const expiry = "gantry:expiry"

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

package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gantry.dev/memory/index"
	"gantry.dev/memory/store"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
)

// mostForgotten is how many items one command may name, by whatever selector.
const mostForgotten = 10_000

// Forget erases items with everything derived from them, everywhere. When it
// returns no question is answered by any of them; the receipt says whether the
// indexes and other stores were found to be without them, too.
func (s *Service) Forget(ctx context.Context, reader view.Reader, selector Selector) (Receipt, error) {
	if !selector.one() {
		return Receipt{}, refuse("SELECTOR", "Say in exactly one way what to forget: ids, a source, a subject or a space.")
	}
	a, err := s.ask(ctx, reader)
	if err != nil {
		return Receipt{}, err
	}
	command, err := s.forgetCommand(reader, selector)
	if err != nil {
		return Receipt{}, err
	}
	if done, met, err := s.store.Command(ctx, command); err != nil || met {
		return s.replayReceipt(ctx, reader, command, done, err)
	}
	ids, err := s.selected(ctx, a, selector)
	if err != nil {
		return Receipt{}, err
	}
	command.Item = s.store.NewID()
	var replayed *store.Command
	var kept store.Receipt
	err = s.store.Forgetting(ctx, a.moment.NowMs, func(ctx context.Context, tx *store.Tx) error {
		done, met, err := tx.Begin(ctx, command)
		if err != nil {
			return err
		}
		if met {
			replayed = &done
			return nil
		}
		kept, err = s.erase(ctx, tx, a, command.Item, ids, actForget)
		if err != nil {
			return err
		}
		return tx.Keep(ctx, command)
	})
	if err != nil {
		return Receipt{}, err
	}
	if replayed != nil {
		return s.replayReceipt(ctx, reader, command, *replayed, nil)
	}
	receipt, err := s.complete(ctx, a, kept)
	if err != nil {
		// It is erased for everybody. The receipt as it was filed says that it is not
		// verified, and the rest is tried again until it is.
		err = json.Unmarshal(kept.Body, &receipt)
	}
	return receipt, err
}

func (s Selector) one() bool {
	ways := 0
	for _, given := range []bool{len(s.Items) > 0, s.Ref != "", s.Subject != "", s.Space != ""} {
		if given {
			ways++
		}
	}
	return ways == 1 && len(s.Items) <= mostForgotten
}

func (s *Service) forgetCommand(reader view.Reader, selector Selector) (store.Command, error) {
	request, err := json.Marshal([]any{actForget, selector})
	return store.Command{Organisation: reader.Organisation, Principal: reader.Principal, ID: selector.Key,
		Request: s.store.Digest(reader.Organisation, "command", string(request))}, err
}

func (s *Service) replayReceipt(ctx context.Context, reader view.Reader, command, done store.Command, err error) (Receipt, error) {
	if err != nil {
		return Receipt{}, err
	}
	if done.Request != command.Request {
		return Receipt{}, reused()
	}
	receipt, err := s.Receipt(ctx, reader, done.Item)
	receipt.Replayed = true
	return receipt, err
}

// selected returns the ids of what the selector names and the reader may erase.
func (s *Service) selected(ctx context.Context, a *asking, selector Selector) ([]string, error) {
	ids := sortedIDs(selector.Items)
	if len(ids) == 0 {
		filter := store.Filter{Archived: true, Subject: s.store.SubjectKey(a.Organisation, strings.TrimSpace(Normal(selector.Subject))),
			Ref: s.store.RefKey(a.Organisation, Normal(selector.Ref))}
		if selector.Space != "" {
			filter.Spaces = []view.Space{selector.Space}
		}
		places, err := s.store.List(ctx, a.scope, filter, store.Place{}, mostForgotten+1)
		if err != nil {
			return nil, err
		}
		if len(places) > mostForgotten {
			return nil, refuse("TOO_MANY", "More than 10,000 items would be forgotten at once; narrow it.")
		}
		for _, place := range places {
			ids = append(ids, place.ID)
		}
	}
	outlines, err := s.store.Outlines(ctx, a.Organisation, ids)
	if err != nil {
		return nil, err
	}
	if _, err := a.all(outlines, ids); err != nil || len(ids) == 0 {
		return nil, absent()
	}
	for _, id := range ids {
		if err := view.MayErase(outlines[id], &a.Reader); err != nil {
			return nil, RefusalOf(err)
		}
	}
	return ids, nil
}

// erase takes out items with all that goes with them, and files the receipt.
func (s *Service) erase(ctx context.Context, tx *store.Tx, a *asking, id string, ids []string, act string) (store.Receipt, error) {
	closure, err := tx.Closure(ctx, a.Organisation, ids)
	if err != nil {
		return store.Receipt{}, err
	}
	if len(closure) == 0 {
		return store.Receipt{}, absent() // somebody else was faster
	}
	receipt, err := s.receiptOf(ctx, tx, a, id, closure)
	if err != nil {
		return store.Receipt{}, err
	}
	if err := tx.Erase(ctx, a.Organisation, closure); err != nil {
		return store.Receipt{}, err
	}
	kept := store.Receipt{ID: id, Organisation: a.Organisation, Principal: a.Principal, Items: closure}
	if kept.Body, err = json.Marshal(receipt); err != nil {
		return kept, err
	}
	if err := tx.File(ctx, kept); err != nil {
		return kept, err
	}
	return kept, tx.Note(ctx, store.Audit{Organisation: a.Organisation, Principal: a.Principal, Run: a.Run, Act: act, Items: closure, Digest: receipt.Digest})
}

// receiptOf counts what is to be erased, as far as the reader sees it: what it
// does not see goes, too, and is only in the audit.
func (s *Service) receiptOf(ctx context.Context, tx *store.Tx, a *asking, id string, closure []string) (Receipt, error) {
	outlines, err := tx.Outlines(ctx, a.Organisation, closure)
	if err != nil {
		return Receipt{}, err
	}
	receipt := Receipt{ID: id, By: a.Principal, AtMs: a.moment.NowMs, Items: []string{}, Runs: []string{}}
	for _, one := range closure {
		if a.sees(outlines[one]) {
			receipt.Items = append(receipt.Items, one)
		}
	}
	counts, err := tx.Holdings(ctx, a.scope, receipt.Items)
	if err != nil {
		return Receipt{}, err
	}
	counts["items"], counts["keys"] = len(receipt.Items), len(receipt.Items)
	counts["index points"] = counts["views"] * len(s.follow.spaces.Load().active)
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	receipt.Stores = counts
	receipt.Digest, err = receiptDigest(receipt)
	return receipt, err
}

func receiptDigest(r Receipt) (string, error) {
	r.Digest, r.VerifiedMs, r.Replayed = "", 0, false
	return canon.DigestOf(r)
}

// complete takes what is erased out of everything beside the store, asks every
// path again, and notes in the receipt that none gave anything. It may be
// repeated until it does.
func (s *Service) complete(ctx context.Context, a *asking, kept store.Receipt) (Receipt, error) {
	var receipt Receipt
	if err := json.Unmarshal(kept.Body, &receipt); err != nil {
		return receipt, err
	}
	if err := s.eraseElsewhere(ctx, a, kept.Items, &receipt); err != nil {
		return receipt, err
	}
	verified, err := s.erased(ctx, kept.Organisation, kept.Items)
	if err != nil {
		return receipt, err
	}
	if verified {
		if receipt.VerifiedMs, err = s.store.Now(ctx); err != nil {
			return receipt, err
		}
	}
	if receipt.Digest, err = receiptDigest(receipt); err != nil {
		return receipt, err
	}
	if kept.Body, err = json.Marshal(receipt); err != nil {
		return receipt, err
	}
	if !s.store.Relayed() || receipt.VerifiedMs >= receipt.AtMs+s.config.Lease.Milliseconds() {
		kept.VerifiedMs = receipt.VerifiedMs
	} // else a relay may yet put back what it read before; it is looked at again
	return receipt, s.store.Refile(ctx, kept)
}

// eraseElsewhere takes copies out of other stores. Which runs had recalled the
// items, and how many texts that were, is told as far as the reader may know.
func (s *Service) eraseElsewhere(ctx context.Context, a *asking, items []string, receipt *Receipt) error {
	rest := slices.DeleteFunc(slices.Clone(items), func(id string) bool { return slices.Contains(receipt.Items, id) })
	runs := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.config.Erasers)) {
		eraser := s.config.Erasers[name]
		count, from, err := eraser.EraseItems(ctx, receipt.Items)
		if err != nil {
			return fmt.Errorf("erasing %s: %w", name, err)
		}
		if _, _, err := eraser.EraseItems(ctx, rest); err != nil {
			return fmt.Errorf("erasing %s: %w", name, err)
		}
		if a.Whole && count > 0 {
			receipt.Stores[name] += count
		}
		for _, run := range from {
			runs[run] = true
		}
	}
	for _, run := range slices.Sorted(maps.Keys(runs)) {
		if s.config.SeesRun == nil || slices.Contains(receipt.Runs, run) {
			continue
		}
		sees, err := s.config.SeesRun(ctx, a.Reader, run)
		if err != nil {
			return err
		}
		if sees {
			receipt.Runs = append(receipt.Runs, run)
		}
	}
	slices.Sort(receipt.Runs)
	return nil
}

// erased takes items out of the indexes and the database's files, and reports
// whether every path was then asked and gave nothing. An index that cannot be
// reached leaves the question open.
func (s *Service) erased(ctx context.Context, organisation string, items []string) (bool, error) {
	if err := s.store.Scrub(ctx); err != nil {
		return false, nil //nolint:nilerr // somebody still reads what was there: it is tried again
	}
	left, err := s.store.Left(ctx, items)
	if err != nil || len(left) > 0 {
		return false, err
	}
	if _, err = s.follow.current(ctx); err == nil {
		err = s.follow.present(ctx, items)
	}
	if errors.Is(err, index.ErrUnavailable) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, part := range s.follow.spaces.Load().all() {
		held, err := part.index.HeldOf(ctx, organisation, items)
		if errors.Is(err, index.ErrUnavailable) || err == nil && len(held) > 0 {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

func reused() error {
	return refuse("COMMAND_REUSED", "The key was used for something else; choose a new one.")
}

package memorytest

import (
	"context"
	"slices"
	"strings"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
)

// Forget erases items with everything derived from them, everywhere. Its
// receipt lists what the reader saw of it.
func (b *Brain) Forget(ctx context.Context, reader view.Reader, selector memory.Selector) (memory.Receipt, error) {
	nowMs, leave, err := b.enter(ctx)
	if err != nil {
		return memory.Receipt{}, err
	}
	defer leave()
	asked := digest(selector.Key, "forget", selector)
	done, replayed, err := b.replay(&reader, selector.Key, asked)
	if err != nil {
		return memory.Receipt{}, err
	}
	if replayed {
		receipt := b.receipts[done.receipt].Receipt
		receipt.Replayed = true
		return receipt, nil
	}
	chosen, err := b.choose(&reader, selector)
	if err != nil {
		return memory.Receipt{}, err
	}
	taken, err := view.Closure(chosen, b.touching)
	if err != nil {
		return memory.Receipt{}, err
	}
	receipt, err := b.erase(&reader, taken, nowMs)
	if err != nil {
		return memory.Receipt{}, err
	}
	b.done(&reader, selector.Key, command{asked: asked, receipt: receipt.ID})
	return receipt, nil
}

// choose returns the ids that a selector means, all of which the reader may
// erase.
func (b *Brain) choose(reader *view.Reader, selector memory.Selector) ([]string, error) {
	named := 0
	for _, set := range []bool{len(selector.Items) > 0, selector.Ref != "", selector.Subject != "", selector.Space != ""} {
		if set {
			named++
		}
	}
	if named != 1 {
		return nil, &memory.Refusal{Code: "SELECTOR", Detail: "Say in exactly one way what to forget: ids, a source, a subject or a space."}
	}
	items, err := b.findAll(reader, selector.Items)
	if err != nil {
		return nil, err
	}
	for _, item := range b.visible(reader) {
		if matches(item, selector) {
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		return nil, memory.RefusalOf(view.ErrAbsent)
	}
	var ids []string
	for _, item := range items {
		if err := view.MayErase(item, reader); err != nil {
			return nil, memory.RefusalOf(err)
		}
		ids = append(ids, item.ID)
	}
	return ids, nil
}

func matches(item *view.Item, selector memory.Selector) bool {
	return selector.Ref != "" && item.Source.Ref == memory.Normal(selector.Ref) ||
		selector.Subject != "" && item.Subject == strings.TrimSpace(memory.Normal(selector.Subject)) ||
		selector.Space != "" && item.Space == selector.Space
}

func (b *Brain) touching(kind view.RelationKind, ids []string) ([]view.Relation, error) {
	var found []view.Relation
	for id, kept := range b.items {
		if kind == view.Supersedes && slices.Contains(ids, id) {
			for _, to := range kept.item.Supersedes {
				found = append(found, view.Relation{From: id, To: to, Kind: kind})
			}
		}
		for _, to := range kept.item.DerivedFrom {
			if kind == view.Derives && slices.Contains(ids, to) {
				found = append(found, view.Relation{From: id, To: to, Kind: kind})
			}
		}
	}
	return found, nil
}

// erase takes items out and writes the receipt.
func (b *Brain) erase(reader *view.Reader, taken []string, nowMs int64) (memory.Receipt, error) {
	receipt := memory.Receipt{
		ID: b.config.NewID(), By: reader.Principal, AtMs: nowMs, VerifiedMs: nowMs,
		Items: []string{}, Stores: map[string]int{}, Runs: []string{},
	}
	allowed := b.allowed(reader)
	for _, id := range taken {
		kept, there := b.items[id]
		if !there {
			continue // superseded, and expired since
		}
		if reader.Sees(kept.item) || b.config.Wrong == ReceiptOfAll {
			receipt.Items = append(receipt.Items, id)
			count(receipt.Stores, kept, reader, allowed)
		}
		delete(b.items, id)
	}
	if b.config.Recalled != nil {
		receipt.Runs = append(receipt.Runs, b.config.Recalled(reader.Organisation, receipt.Items)...)
	}
	sum := receipt
	sum.VerifiedMs = 0
	var err error
	if receipt.Digest, err = canon.DigestOf(sum); err != nil {
		return memory.Receipt{}, err
	}
	b.receipts[receipt.ID] = receiptOf{Receipt: receipt, organisation: reader.Organisation}
	return receipt, nil
}

// count adds what of an item was taken out, as far as the reader saw it.
func count(stores map[string]int, kept *kept, reader *view.Reader, allowed func(string) bool) {
	stores["items"]++
	for _, segment := range kept.item.Segments {
		if segment.Labels.Within(reader.Clearance) {
			stores["segments"]++
		}
	}
	for _, v := range kept.views {
		if !allowed(v.Set) {
			continue
		}
		stores["views"]++
		if kept.vectors[v.Set] != nil {
			stores["vectors"]++
		}
	}
}

// Receipt returns the receipt of a forgetting to who asked for it.
func (b *Brain) Receipt(ctx context.Context, reader view.Reader, id string) (memory.Receipt, error) {
	_, leave, err := b.enter(ctx)
	if err != nil {
		return memory.Receipt{}, err
	}
	defer leave()
	kept, there := b.receipts[id]
	if !there || kept.organisation != reader.Organisation || kept.By != reader.Principal {
		return memory.Receipt{}, &memory.Refusal{Code: "NOT_FOUND", Detail: "There is no such receipt for you; check the id."}
	}
	return kept.Receipt, nil
}

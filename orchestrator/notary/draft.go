package notary

import (
	"context"
	"slices"

	"gantry.dev/orchestrator/journal"
)

// movement is what the next heads of an organisation are to cover.
type movement struct {
	organisation string
	runs         []journal.Moved
}

// movements splits what moved by organisation, in its order.
func movements(moved []journal.Moved) (list []movement) {
	for _, m := range moved {
		if len(list) == 0 || list[len(list)-1].organisation != m.Organisation {
			list = append(list, movement{organisation: m.Organisation})
		}
		last := &list[len(list)-1]
		last.runs = append(last.runs, m)
	}
	return list
}

// anew puts, for organisations with heads that do not count any more, all that
// no head covers then in place of what moved since the last one.
func (n *Notary) anew(ctx context.Context, snapshot *journal.Snapshot, void []string, moved []movement) ([]movement, error) {
	if len(void) == 0 {
		return moved, nil
	}
	moved = slices.DeleteFunc(moved, func(m movement) bool { return slices.Contains(void, m.organisation) })
	series := map[string]*Series{}
	found := map[string][]journal.Moved{}
	for _, organisation := range void {
		s := NewSeries(organisation, n.ring)
		series[organisation] = s
		if err := n.folder.Read(organisation, func(line []byte) error {
			if fault := s.Add(line); fault != nil {
				return *fault
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	for after := ""; ; {
		heads, err := snapshot.Heads(ctx, after, pageRecords)
		if err != nil {
			return nil, err
		}
		for i := range heads {
			h := &heads[i]
			after = h.Run
			if s := series[h.Organisation]; s != nil && h.Version > s.version(h.Run) {
				found[h.Organisation] = append(found[h.Organisation],
					journal.Moved{Organisation: h.Organisation, Run: h.Run, From: s.version(h.Run), Version: h.Version, Digest: h.Digest})
			}
		}
		if len(heads) < pageRecords {
			break
		}
	}
	for _, organisation := range void { // even where nothing is left to cover: the heads must be taken for void
		moved = append(moved, movement{organisation: organisation, runs: found[organisation]})
	}
	return moved, nil
}

// draft signs heads over what moved.
func (n *Notary) draft(moved []movement, nowMs int64) ([]journal.SignedHead, error) {
	var heads []journal.SignedHead
	for _, m := range moved {
		last, err := n.newest(m.organisation)
		if err != nil {
			return nil, err
		}
		t := last.thread
		for first := true; first || len(m.runs) > 0; first = false {
			head, err := t.begin(nowMs, n.signer.epoch)
			if err != nil {
				return nil, err
			}
			most := min(mostEntries, len(m.runs))
			for _, r := range m.runs[:most] {
				head.cover(Entry{Run: r.Run, From: r.From, Version: r.Version, Digest: r.Digest})
			}
			m.runs = m.runs[most:]
			line, err := n.signer.sign(head)
			if err != nil {
				return nil, err
			}
			heads = append(heads, journal.SignedHead{Organisation: m.organisation, Number: head.Number, Body: string(line)})
			t.take(head)
		}
	}
	return heads, nil
}

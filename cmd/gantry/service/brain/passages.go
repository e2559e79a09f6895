package brain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/graph"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
)

// upkeep brings what a reader has remembered of one document to what the
// document says now. Only the reader's own passages take part: a document of
// the same name that somebody else remembered is another one.
type upkeep struct {
	brain  memory.Brain
	reader view.Reader
	space  view.Space
	ref    string
	key    string         // of the command
	drafts []memory.Draft // of the passages in order, all of one space, ref and subject
}

// pageRows is how many rows one reading of a list takes.
const pageRows = 200

// mostRounds is how often a document is looked at anew that others change.
const mostRounds = 4

// keep does so. Where somebody else changed what was found of the document just
// then, as who remembers it at the same time, it is looked at anew; what was done
// is known then. Errors: *memory.Refusal and those of memory.Brain.
func (u upkeep) keep(ctx context.Context) (graph.DocumentOutcome, error) {
	for round := 1; ; round++ {
		out, err := u.once(ctx)
		var refusal *memory.Refusal
		if !errors.As(err, &refusal) || refusal.Code != "NOT_FOUND" || round == mostRounds {
			return out, err
		}
		u.key += " again" // by what is held then it is another command
	}
}

// once does so by what is held now. What is new or changed is remembered before
// anything is forgotten, so that one that breaks off can be begun again.
func (u upkeep) once(ctx context.Context) (graph.DocumentOutcome, error) {
	out := graph.DocumentOutcome{Space: u.space, Passages: len(u.drafts)}
	held, err := u.held(ctx)
	if err != nil {
		return out, err
	}
	fates, gone := align(held, u.drafts)
	for i, draft := range u.drafts {
		draft.Key = u.key + " " + strconv.Itoa(i)
		if err := u.settle(ctx, &out, draft, fates[i]); err != nil {
			return out, err
		}
	}
	if len(gone) == 0 {
		return out, nil
	}
	receipt, err := u.brain.Forget(ctx, u.reader, memory.Selector{Items: gone, Key: u.key + " gone"})
	if err != nil {
		return out, err
	}
	out.Gone, out.Receipt = len(gone), &receipt
	return out, nil
}

// settle does with one passage what is its fate.
func (u upkeep) settle(ctx context.Context, out *graph.DocumentOutcome, draft memory.Draft, is fate) error {
	switch {
	case is.unseen:
		out.Unseen++
		return nil
	case is.same:
		out.Known++
		return nil
	case is.replaces != "":
		done, err := u.brain.Supersede(ctx, u.reader, is.replaces, draft)
		if err == nil {
			count(done, &out.Changed, &out.Known)
		}
		return err
	}
	done, err := u.brain.Remember(ctx, u.reader, draft)
	if err == nil {
		count(done, &out.Added, &out.Known)
	}
	return err
}

// count counts what was done, or that it was known.
func count(remembered memory.Remembered, done, known *int) {
	if remembered.Known {
		done = known
	}
	*done++
}

// held lists the reader's passages of the document in their order.
func (u upkeep) held(ctx context.Context) (held []view.Rendering, err error) {
	filter := memory.Filter{Spaces: []view.Space{u.space}, Ref: u.ref, Principal: u.reader.Principal}
	for after := ""; ; {
		page, err := u.brain.List(ctx, u.reader, filter, after, pageRows)
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			if item.Source.Kind == view.FromDocument {
				held = append(held, item)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	slices.SortStableFunc(held, func(a, b view.Rendering) int { return cmp.Compare(a.Source.Position, b.Source.Position) })
	return held, nil
}

// fate is what becomes of one passage.
type fate struct {
	same     bool   // it is there already
	unseen   bool   // it is there in part, and of the rest the reader sees nothing
	replaces string // id of the item whose place it takes; empty for one that is new
}

// align finds for each passage, in order, what is held of it, and which held
// items the document no longer has. A passage that moved is still the same;
// between those that are the same, what changed pairs up in order.
func align(held []view.Rendering, drafts []memory.Draft) (fates []fate, gone []string) {
	fates = make([]fate, len(drafts))
	at := make([]int, len(held)) // which draft each held item is, from 1
	taken := make([]bool, len(drafts))
	for _, whole := range []bool{true, false} { // what is surely the same is taken first
		for h := range held {
			for d := range drafts {
				if at[h] > 0 || taken[d] || whole != (len(held[h].Withheld) == 0) || !says(held[h], drafts[d]) {
					continue
				}
				at[h], taken[d] = d+1, true
				fates[d] = fate{same: whole, unseen: !whole}
			}
		}
	}
	free := gaps(taken)
	gap := 0
	for h, item := range held {
		if at[h] > 0 {
			gap = at[h]
			continue
		}
		waiting := free[gap]
		if len(waiting) == 0 || drafts[waiting[0]].Subject != item.Subject {
			gone = append(gone, item.ID)
			continue
		}
		fates[waiting[0]].replaces, free[gap] = item.ID, waiting[1:]
	}
	return fates, gone
}

// gaps are the drafts that are not taken, by the last one before them that is,
// from 1; those before all are at 0.
func gaps(taken []bool) map[int][]int {
	free, last := map[int][]int{}, 0
	for d := range taken {
		if taken[d] {
			last = d + 1
			continue
		}
		free[last] = append(free[last], d)
	}
	return free
}

// says reports whether an item says what a draft would, as far as its reader
// sees: the place in the document does not count, and neither do labels that
// are there besides.
func says(item view.Rendering, draft memory.Draft) bool {
	if item.Kind != draft.Kind || item.Subject != draft.Subject || item.ExpiresMs != draft.ExpiresMs ||
		item.ValidToMs != draft.ValidToMs || draft.ValidFromMs != 0 && item.ValidFromMs != draft.ValidFromMs ||
		item.Marking.Integrity > draft.Integrity || !draft.Labels.Within(item.Marking.Labels) {
		return false
	}
	if len(item.Withheld) == 0 {
		return item.Heading == draft.Heading && item.Text == draft.Text
	}
	return item.Source.Length == draft.Source.Length && fits(visible(item), draft.Heading+draft.Text)
}

// visible are the parts of an item that its reader sees, cut where something is
// withheld.
func visible(item view.Rendering) (parts []string) {
	rest, passed := item.Heading+item.Text, 0
	for _, withheld := range item.Withheld {
		cut := withheld.Offset - passed
		if cut < 0 || cut+len(view.Redacted) > len(rest) {
			return []string{rest} // marks that are not there fit nothing
		}
		parts = append(parts, rest[:cut])
		rest, passed = rest[cut+len(view.Redacted):], withheld.Offset+len(view.Redacted)
	}
	return append(parts, rest)
}

// fits reports whether a text has the parts in order, from its beginning to its
// end, with something between each two.
func fits(parts []string, text string) bool {
	if len(parts) == 1 {
		return text == parts[0]
	}
	rest, begins := strings.CutPrefix(text, parts[0])
	if !begins {
		return false
	}
	for _, part := range parts[1 : len(parts)-1] {
		if rest == "" {
			return false
		}
		found := strings.Index(rest[1:], part)
		if found < 0 {
			return false
		}
		rest = rest[1+found+len(part):]
	}
	last := parts[len(parts)-1]
	return len(rest) > len(last) && strings.HasSuffix(rest, last)
}

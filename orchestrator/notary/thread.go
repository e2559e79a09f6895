package notary

import "fmt"

// thread is how far an organisation's heads have come, line by line.
//
// A head of a revoked key that is later than the revocation makes the thread
// void: it and all that follows count for nothing, until a head of a newer key
// names the first of them as void and continues the last head that counts.
type thread struct {
	organisation string
	ring         Ring
	last         Head   // the newest that counts
	number       uint64 // lines so far
	void         *Fault // of the first head that does not count; nil while all do
	voidEpoch    int    // of that head
}

// next checks a line that follows. Without a fault it either counts, which take
// is to be told, or does not, which skip is to be told.
func (t *thread) next(line []byte) (head Head, counts bool, fault *Fault) {
	wrong := func(code Code, format string, args ...any) (Head, bool, *Fault) {
		return Head{}, false, &Fault{Code: code, Organisation: t.organisation, Head: t.number + 1, Text: fmt.Sprintf(format, args...)}
	}
	read, err := parse(line)
	if t.void != nil { // whoever had the key may have written anything
		return read.Head, err == nil && t.ring.believes(read) == "" && t.renews(read.Head), nil
	}
	if err != nil {
		return wrong(HeadUnreadable, "The line is no signed head, or not as it was written.")
	}
	if why := t.ring.signedBy(read); why != "" {
		return wrong(HeadUnsigned, "%s", why)
	}
	if read.Head.Void != 0 {
		return wrong(HeadOrder, "It takes heads from %d on for void, and by these public keys none of them is: are the keys older than the head?", read.Head.Void)
	}
	if why := t.order(read.Head); why != "" {
		return wrong(HeadOrder, "%s", why)
	}
	if why := t.ring.revoked(read.Head); why != "" {
		_, _, t.void = wrong(HeadUnsigned, "%s", why)
		t.voidEpoch = read.Head.Epoch
		return Head{}, false, nil
	}
	return read.Head, true, nil
}

// renews reports whether a head that is believed takes the place of those that
// do not count. Its key must be newer than theirs: who has the old one could
// write a head that says it is old.
func (t *thread) renews(h Head) bool {
	return h.Void == t.void.Head && h.Epoch > t.voidEpoch && t.order(h) == ""
}

// order says why a head does not continue the last one that counts.
func (t *thread) order(h Head) string {
	want, err := t.last.follows(t.organisation, h.AtMs, h.Epoch)
	switch {
	case err != nil:
		return "The head before it has no digest."
	case h.Organisation != want.Organisation:
		return fmt.Sprintf("It is of organisation %s.", h.Organisation)
	case h.Number != t.number+1:
		return fmt.Sprintf("It has number %d.", h.Number)
	case h.Previous != want.Previous:
		return "It continues another head than the one before it."
	case h.AtMs < t.last.AtMs:
		return "It says that it is older than the head before it."
	case h.Epoch < t.last.Epoch:
		return fmt.Sprintf("Key epoch %d signed it after key epoch %d had taken over.", h.Epoch, t.last.Epoch)
	}
	return ""
}

func (t *thread) take(h Head) { t.last, t.number, t.void, t.voidEpoch = h, h.Number, nil, 0 }

func (t *thread) skip() { t.number++ }

// add checks a line and goes on behind it.
func (t *thread) add(line []byte) *Fault {
	head, counts, fault := t.next(line)
	switch {
	case fault != nil:
		return fault
	case counts:
		t.take(head)
	default:
		t.skip()
	}
	return nil
}

// begin starts the head that follows, to be signed by a key epoch. Where the
// thread is void, that head says so, and must cover anew.
func (t *thread) begin(atMs int64, epoch int) (Head, error) {
	if t.last.Epoch > epoch {
		return Head{}, fmt.Errorf("heads: key epoch %d has taken over from %d: this process lacks the new key", t.last.Epoch, epoch)
	}
	if t.void != nil && epoch <= t.voidEpoch {
		return Head{}, *t.void
	}
	head, err := t.last.follows(t.organisation, atMs, epoch)
	if err != nil {
		return head, err
	}
	head.Number = t.number + 1
	if t.void != nil {
		head.Void = t.void.Head
	}
	return head, nil
}

package notary

import (
	"fmt"
	"strings"
	"time"
)

// Code names what is wrong. Codes do not change.
type Code string

// The codes.
const (
	HeadUnreadable  Code = "HEAD_UNREADABLE"  // a line is no head, or not as it was written
	HeadUnsigned    Code = "HEAD_UNSIGNED"    // no key that is believed signed it
	HeadOrder       Code = "HEAD_ORDER"       // it does not continue the head before it
	HeadForked      Code = "HEAD_FORKED"      // the database has another head of the same number
	HeadsMissing    Code = "HEADS_MISSING"    // the folder has no heads of an organisation that the database has heads of
	DatabaseBehind  Code = "DATABASE_BEHIND"  // the database lacks heads that the folder has
	RunMissing      Code = "RUN_MISSING"      // a whole run is gone
	RecordMissing   Code = "RECORD_MISSING"   // a record is gone, in the middle or at the end
	RecordChanged   Code = "RECORD_CHANGED"   // a record is not the one that was signed
	RecordUncovered Code = "RECORD_UNCOVERED" // a record says it is older than the last head, and none covers it
)

// Fault is one thing that is wrong.
type Fault struct {
	Code         Code
	Organisation string
	Head         uint64 // number, 0 where none is meant
	Run          string // empty where none is meant
	Seq          uint64 // number of the first bad record, 0 where none is meant
	Text         string // a sentence
}

// Error is String: what stops the signing is a fault.
func (f Fault) Error() string { return f.String() }

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s organisation=%s", f.Code, f.Organisation)
	if f.Head > 0 {
		fmt.Fprintf(&b, " head=%d", f.Head)
	}
	if f.Run != "" {
		fmt.Fprintf(&b, " run=%s", f.Run)
	}
	if f.Seq > 0 {
		fmt.Fprintf(&b, " seq=%d", f.Seq)
	}
	return b.String() + ": " + f.Text
}

func moment(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

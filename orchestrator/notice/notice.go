// Package notice tells people that something waits for them: when it begins to,
// again while it goes on, and to others besides when nobody reacts. A Follower
// reads what is open and records who is to be told; a Courier tells them. A
// notice says that something waits and where, never what it is about, and it
// gives nobody a right to decide.
//
// Both may run in several processes: a step is recorded once, and a notice is
// told at least once, always under the same id.
package notice

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"gantry.dev/orchestrator/engine"
)

// Step is what a notice is for.
type Step string

// The steps besides reminders.
const (
	Opened    Step = "OPENED"
	Escalated Step = "ESCALATED"
)

const reminded = "REMINDED_"

// Reminder is the step of the nth reminder, counted from 1.
func Reminder(n int) Step { return Step(reminded + strconv.Itoa(n)) }

// IsReminder reports whether the step is a reminder.
func (s Step) IsReminder() bool { return strings.HasPrefix(string(s), reminded) }

// Item is one thing that waits for people.
type Item struct {
	engine.InboxItem
	Agent string
}

// ItemKey tells one waiting from another, also of what waits a second time.
type ItemKey struct {
	Item    string
	SinceMs int64
}

// Key returns the item's key within its organisation.
func (i Item) Key() ItemKey { return ItemKey{i.ID, i.SinceMs} }

// Schedule says when people are told. The zero value tells nobody.
type Schedule struct {
	Opened          bool    // at once
	RemindAfterMs   []int64 // since the item waits, ascending
	EscalateAfterMs int64   // since the item waits; 0: never
}

// None reports whether nobody is ever told.
func (s Schedule) None() bool {
	return !s.Opened && len(s.RemindAfterMs) == 0 && s.EscalateAfterMs == 0
}

// Due returns the steps that an item has come to at nowMs, and which of them
// people are told of: when several passed meanwhile, only the last word to
// those whom it waits for, and the escalation. An item that has expired comes
// to none.
func (s Schedule) Due(item Item, nowMs int64) (reached []Step, told map[Step]bool) {
	if item.NotAfterMs > 0 && item.NotAfterMs <= nowMs {
		return nil, nil
	}
	if s.Opened {
		reached = append(reached, Opened)
	}
	for i, after := range s.RemindAfterMs {
		if item.SinceMs+after <= nowMs {
			reached = append(reached, Reminder(i+1))
		}
	}
	told = map[Step]bool{}
	if len(reached) > 0 {
		told[reached[len(reached)-1]] = true
	}
	if s.EscalateAfterMs > 0 && item.SinceMs+s.EscalateAfterMs <= nowMs {
		reached, told[Escalated] = append(reached, Escalated), true
	}
	return reached, told
}

// Channel is one way to tell one person. It holds references of secrets, never
// secrets.
type Channel struct {
	Kind   string `json:"kind"`             // "WEBHOOK", "EMAIL"
	Target string `json:"target"`           // URL or address
	Secret string `json:"secret,omitempty"` // reference
}

// Recipient is somebody to tell. Without channels it is only shown to them.
type Recipient struct {
	Person   string
	Channels []Channel
}

// State says what became of a notice.
type State string

// The states of a notice.
const (
	Waiting  State = "WAITING"  // to be told, or told again
	Sent     State = "SENT"     // the other side took it
	Shown    State = "SHOWN"    // the person has no channel: the inbox shows it
	Dead     State = "DEAD"     // given up
	Obsolete State = "OBSOLETE" // nothing waits any more, or the channel is gone
)

// Notice is one word to one person over one channel.
type Notice struct {
	ID           string
	Organisation string
	Item         string
	SinceMs      int64 // UTC ms: since when the item waits
	Step         Step
	Person       string
	Run          string
	Kind         engine.InboxKind
	Agent        string
	UntilMs      int64 // UTC ms: until when it waits; 0: no end
	Channel      Channel
	CreatedMs    int64 // UTC ms
	State        State
	Attempts     int
	NextMs       int64  // UTC ms: not before
	Code         string // why the last attempt failed
	SettledMs    int64  // UTC ms: when it was told or given up
}

// idOf names a notice: the same for every attempt and every process.
func idOf(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:16])
}

// Message is what a notice says. It holds ids and times, and nobody's text.
type Message struct {
	ID           string `json:"id"` // the same whenever it is told again
	Organisation string `json:"organisation"`
	Person       string `json:"person"`
	Step         Step   `json:"step"`
	Item         string `json:"item"`
	Kind         string `json:"kind"`
	Run          string `json:"run"`
	Agent        string `json:"agent"`
	Since        string `json:"since"`           // RFC 3339
	Until        string `json:"until,omitempty"` // RFC 3339
	Link         string `json:"link,omitempty"`
}

// Message returns what the notice says, with the page where to look.
func (n Notice) Message(link string) Message {
	m := Message{ID: n.ID, Organisation: n.Organisation, Person: n.Person, Step: n.Step, Item: n.Item, Kind: string(n.Kind), Run: n.Run,
		Agent: n.Agent, Since: written(n.SinceMs), Link: link}
	if n.UntilMs > 0 {
		m.Until = written(n.UntilMs)
	}
	return m
}

func written(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }

// Failure says why a notice was not told.
type Failure struct {
	Code  string // stable, without anything that the other side said
	Final bool   // it would fail again
}

// Error returns the code.
func (f *Failure) Error() string { return "the notice was not told: " + f.Code }

// Package group says whose turn it is in a conversation of agents and people.
// It is pure: what is due is a function of what the conversation holds, so that
// whoever reads it anew, after a crash or in another process, comes to the same
// turns under the same run ids.
//
// A person's message begins an exchange. The conversation's rule says which
// agents it gives a turn to; they take it one after the other. An agent that
// mentions another in its answer gives it a turn, for the same person. An
// exchange that goes in circles is stopped; the next message begins a new one.
package group

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// The kinds of a conversation's entries.
const (
	Message    = "message"          // somebody said something
	RunStarted = "run_started"      // a run began
	RunEnded   = "run_ended"        // it ended; its result is the text
	Joined     = "joined"           // Whom takes part from here on
	Left       = "left"             // Whom takes part no more
	TurnsSet   = "turns_set"        // Code and Whom are the rule from here on, About the bound
	Refused    = "turn_refused"     // Whom cannot take its turn in the exchange About; Code says why
	Stopped    = "exchange_stopped" // the exchange About goes no further; Code says why
	Platform   = "gantry:group"     // who writes entries that nobody said; no principal has such an id
	agentIDs   = "agent:"           // begins the principal ids of agents
)

// Kind says how turns are given.
type Kind string

// The rules of turns.
const (
	ByMention Kind = "MENTION" // who is mentioned
	InRound   Kind = "ROUND"   // every agent once, in the order in which they joined
	ByName    Kind = "NAMED"   // one agent, and whom its answers mention
)

const (
	// DefaultMost bounds the turns of an exchange where nothing else is said.
	DefaultMost = 6
	// HighestMost is the highest bound that can be set.
	HighestMost = 50
	// pairMost is how many turns two agents take by turns without anybody else.
	pairMost = 4
)

// Rule says who takes a turn after a person's message.
type Rule struct {
	Kind  Kind   `json:"kind"`
	Agent string `json:"agent,omitempty"` // principal id of the one that answers, of NAMED
	Most  int    `json:"most"`            // agents' turns for one message of a person
}

// Completed is the rule with what it does not say put in.
func (r Rule) Completed() Rule {
	if r.Kind == "" {
		r.Kind = ByMention
	}
	if r.Most == 0 {
		r.Most = DefaultMost
	}
	return r
}

// IsAgent reports whether a principal id is an agent's.
func IsAgent(id string) bool { return strings.HasPrefix(id, agentIDs) }

// Line is one entry of a conversation with its text opened.
type Line struct {
	Number uint64
	Kind   string
	Run    string
	Author string // principal id
	Whom   string // principal id of whom it is about
	Code   string
	About  uint64 // number of the entry that it is about
	Text   string
	AtMs   int64
}

// Turn is what an agent is asked next in an exchange.
type Turn struct {
	Exchange uint64 // number of the message that began it
	Subject  string // principal id of whose message that was
	Entry    uint64 // number of the entry that gives the turn: its text is what the agent is asked
	By       string // principal id of its author
	Agent    string // principal id of who takes the turn
	AtMs     int64  // when the entry was written
	repeats  bool   // an answer that was given before gives it
}

// Run is the id of the turn's run. Whoever takes the turn comes to the same id,
// so one of them does; it sorts by the time of the entry, as ids of runs do.
func (t Turn) Run(conversation string) string {
	hash := sha256.New()
	for _, part := range []string{"turn", conversation, t.Agent} {
		_ = binary.Write(hash, binary.BigEndian, uint64(len(part))) // a hash takes everything
		hash.Write([]byte(part))
	}
	_ = binary.Write(hash, binary.BigEndian, t.Entry)
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(t.AtMs)<<16)
	copy(id[6:], hash.Sum(nil))
	id[6] = id[6]&0x0f | 0x70 // version 7
	id[8] = id[8]&0x3f | 0x80
	x := hex.EncodeToString(id[:])
	return x[:8] + "-" + x[8:12] + "-" + x[12:16] + "-" + x[16:20] + "-" + x[20:]
}

// Reason says why an exchange was stopped.
type Reason string

// The reasons.
const (
	TurnLimit    Reason = "TURN_LIMIT"     // the agents had all the turns that one message may cause
	BackAndForth Reason = "BACK_AND_FORTH" // two agents handed it to each other again and again
	SameAnswer   Reason = "SAME_ANSWER"    // what came was said before in the same exchange
)

// Stop ends an exchange whose next turn is not given.
type Stop struct {
	Exchange uint64
	Agent    string // principal id of who would have had the turn
	Reason   Reason
}

// Due is what a conversation asks for now.
type Due struct {
	Turns   []Turn
	Stops   []Stop
	Settled uint64 // every exchange up to this entry is over: later readings begin behind it
}

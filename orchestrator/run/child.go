package run

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"

	"gantry.dev/orchestrator/policy"
)

// The kinds of event about a run's children.
const (
	KindChildStarted EventKind = "child_started"
	KindChildStopped EventKind = "child_stopped"
	KindChildEnded   EventKind = "child_ended"
)

// Link is one run in the line from the root of a tree down.
type Link struct {
	Run   string `json:"run"`             // run id; empty for one that is not started
	Agent string `json:"agent"`           // name
	Grant string `json:"grant,omitempty"` // id of the delegation grant by which it may do more than the one above it
}

// Acting is who acts: for whom, and every agent from the root of the tree to
// the one that acts, in this order.
type Acting struct {
	Subject string // principal id
	Links   []Link // never empty
	// Conversation is the id of the one that they act in; empty for none. AtMs is
	// when (UTC ms): what ends by itself gives nothing from its end on, and nothing
	// to who does not say when.
	Conversation string
	AtMs         int64
	// Under bounds the first link where it is set: what a parent has, for the
	// child that it is about to start.
	Under *policy.Authority
}

// Purpose says what a sidecar is for; none for a sub-agent.
type Purpose string

// The purposes of a sidecar.
const (
	ForResearch Purpose = "RESEARCH" // finds something out
	ForMonitor  Purpose = "MONITOR"  // watches the main run
	ForCheck    Purpose = "CHECK"    // reviews a proposed call or the final answer
	ForMemory   Purpose = "MEMORY"   // reads memory for another identity by grant
)

// Landing says where a sidecar's result goes.
type Landing string

// The places for a result.
const (
	LandsAsResult   Landing = "RESULT"   // it is what the parent waits for
	LandsAsSteer    Landing = "STEER"    // guidance for the main run
	LandsAsEvidence Landing = "EVIDENCE" // data for the main run
	LandsAsMessage  Landing = "MESSAGE"  // an entry of the conversation
)

// Task is what a run that another one has to do with was sent to do.
type Task struct {
	Call        int     `json:"call,omitempty"`   // the parent's call that waits for it; 0 where none does
	Review      string  `json:"review,omitempty"` // what of the parent it reviews; see ReviewOfCall and ReviewOfAnswer
	Purpose     Purpose `json:"purpose,omitempty"`
	Lands       Landing `json:"lands"`
	Result      *Text   `json:"result,omitempty"`   // the JSON Schema that the result must meet; nil: free text
	ResultBytes int     `json:"resultBytes"`        // bytes of a result at most
	Outlives    bool    `json:"outlives,omitempty"` // a sidecar that goes on when its main run has ended
}

// Awaited reports whether the parent waits for the run and carries its money.
func (t *Task) Awaited() bool { return t != nil && t.Lands == LandsAsResult }

// ChildStarted is the intent to have a child do a call. The same write makes
// the child's run: neither is there without the other. It carves the child's
// budget from the run's own.
type ChildStarted struct {
	Child      string  `json:"child"` // run id; see ChildID
	RunKind    Kind    `json:"runKind"`
	Purpose    Purpose `json:"purpose,omitempty"`
	Call       int     `json:"call,omitempty"`
	Review     string  `json:"review,omitempty"`
	Agent      string  `json:"agent"`    // name
	Revision   string  `json:"revision"` // digest
	Grant      string  `json:"grant,omitempty"`
	Snapshot   string  `json:"snapshot"` // digest of the child's inputs
	Carve      Amount  `json:"carve"`
	Runs       int     `json:"runs"` // live runs that it takes up at most: itself and its descendants
	DeadlineMs int64   `json:"deadlineMs"`
}

// ChildStopped says that a live child was told to stop.
type ChildStopped struct {
	Child string `json:"child"`
}

// ChildEnded folds the end of a child into its parent, once: what is left of
// its budget comes back, and its chain's head is held fast.
type ChildEnded struct {
	Child   string    `json:"child"`
	Status  Status    `json:"status"`
	Reason  EndReason `json:"reason"`
	Code    string    `json:"code,omitempty"`
	Result  *Text     `json:"result,omitempty"`
	Settled Amount    `json:"settled"`
	Unknown Amount    `json:"unknown"`          // may have been spent; stays held
	Head    string    `json:"head"`             // digest of the child's record of its end
	Passed  bool      `json:"passed,omitempty"` // of a review: nothing speaks against what was reviewed

	Unverified bool `json:"unverified,omitempty"` // the result is the word of the child's model alone
}

// Kind returns KindChildStarted.
func (ChildStarted) Kind() EventKind { return KindChildStarted }

// Texts returns none.
func (ChildStarted) Texts() []Text { return nil }

// Kind returns KindChildStopped.
func (ChildStopped) Kind() EventKind { return KindChildStopped }

// Texts returns none.
func (ChildStopped) Texts() []Text { return nil }

// Kind returns KindChildEnded.
func (ChildEnded) Kind() EventKind { return KindChildEnded }

// Texts returns the texts that the event bears.
func (e ChildEnded) Texts() []Text { return optional(e.Result) }

// Child is a run that this one started and waits for.
type Child struct {
	ChildStarted
	Stopped bool // it was told to stop
	Ended   *ChildEnded
}

// Live reports whether the child has not ended yet.
func (c *Child) Live() bool { return c.Ended == nil }

// Child returns the child with the run id, or nil.
func (s *State) Child(id string) *Child {
	for i := len(s.Children) - 1; i >= 0; i-- {
		if s.Children[i].ChildStarted.Child == id {
			return &s.Children[i]
		}
	}
	return nil
}

// liveChildren visits the children that have not ended, in their order.
func (s *State) liveChildren(visit func(*Child)) {
	for i := s.firstLive; i < len(s.Children); i++ {
		if s.Children[i].Live() {
			visit(&s.Children[i])
		}
	}
}

// LiveRuns is how many runs below this one may be live, reservations included.
func (s *State) LiveRuns() int { return s.liveRuns }

func (s *State) hasLiveChildren() bool { return s.live > 0 }

// Acting is who acts in the run at atMs (UTC ms).
func (s *State) Acting(atMs int64) Acting {
	acting := s.Started.acting()
	acting.Links[len(acting.Links)-1].Run, acting.AtMs = s.ID, atMs
	return acting
}

func (e Started) acting() Acting {
	links := append(append([]Link(nil), e.Lineage...), Link{Agent: e.Agent.Name, Grant: e.Grant})
	return Acting{Subject: e.Subject.ID, Links: links, Conversation: e.Conversation}
}

// ChildID is the run id of the child that does something for a run: always the
// same one. It has the form of a UUID (version 8, RFC 9562) and begins with the
// parent's time, so that it sorts beside it.
func ChildID(parent, place string) string {
	hash := sha256.Sum256([]byte(parent + "\n" + place))
	digits := hex.EncodeToString(hash[:])
	begins := digits[:8] + "-" + digits[8:12]
	if len(parent) > len(begins) {
		begins = parent[:len(begins)]
	}
	return begins + "-8" + digits[12:15] + "-8" + digits[15:18] + "-" + digits[18:30]
}

// ChildOfCall is the run id of the child that does a call.
func ChildOfCall(parent string, call int) string { return ChildID(parent, ReviewOfCall(call)+"/child") }

// ChildOfReview is the run id of the child that reviews a call or an answer.
func ChildOfReview(parent, of string) string { return ChildID(parent, of+"/review") }

// ReviewOfCall names a call as something that is reviewed.
func ReviewOfCall(call int) string { return "call/" + strconv.Itoa(call) }

// ReviewOfAnswer names the answer of a turn as something that is reviewed.
func ReviewOfAnswer(turn int) string { return "answer/" + strconv.Itoa(turn) }

func (s *State) foldChild(event Event) error {
	if e, starts := event.(ChildStarted); starts {
		return s.startChild(e)
	}
	var child *Child
	switch e := event.(type) {
	case ChildStopped:
		child = s.Child(e.Child)
	case ChildEnded:
		child = s.Child(e.Child)
	}
	if child == nil || !child.Live() {
		return fmt.Errorf("%w: %s for no live child", ErrBroken, event.Kind())
	}
	switch e := event.(type) {
	case ChildStopped:
		child.Stopped = true
	case ChildEnded:
		child.Ended = &e
		s.live, s.liveRuns = s.live-1, s.liveRuns-child.Runs
		s.Budget.Reserved = s.Budget.Reserved.Minus(child.Carve)
		s.Budget.Settled = s.Budget.Settled.Plus(e.Settled)
		s.Budget.Unknown = s.Budget.Unknown.Plus(e.Unknown)
		for s.firstLive < len(s.Children) && !s.Children[s.firstLive].Live() {
			s.firstLive++
		}
	}
	return nil
}

func (s *State) startChild(e ChildStarted) error {
	if s.Child(e.Child) != nil {
		return fmt.Errorf("%w: child started twice", ErrBroken)
	}
	if e.Call > 0 {
		call := s.Call(e.Call)
		if call == nil || call.Phase != CallInFlight {
			return fmt.Errorf("%w: a child for call %d", ErrBroken, e.Call)
		}
		call.Phase, call.Child = CallDelegated, e.Child
		s.InFlight--
	}
	s.Children = append(s.Children, Child{ChildStarted: e})
	s.live, s.liveRuns = s.live+1, s.liveRuns+e.Runs
	s.Budget.Reserved = s.Budget.Reserved.Plus(e.Carve)
	return nil
}

package run

import (
	"fmt"
	"slices"

	"gantry.dev/orchestrator/policy"
)

// The kinds of event about what goes on beside a run.
const (
	KindReviewDeclined EventKind = "review_declined"
	KindSidecarStarted EventKind = "sidecar_started"
)

// Reviewer is who reviews something of a run before it counts.
type Reviewer struct {
	Of    string `json:"of"`    // name of a tool, or ReviewsAnswer
	Agent string `json:"agent"` // name
	// Guards says that no call of the turn is attempted before it has spoken.
	Guards bool `json:"guards,omitempty"`
}

// ReviewsAnswer stands for the final answer among what is reviewed.
const ReviewsAnswer = "answer"

// Beside is a sidecar that begins with the run, as its revision says.
type Beside struct {
	Agent   string  `json:"agent"` // name
	Purpose Purpose `json:"purpose"`
	Lands   Landing `json:"lands"`
}

// ReviewDeclined says that a review could not begin. What was to be reviewed
// counts as not having passed.
type ReviewDeclined struct {
	Of   string `json:"of"` // see ReviewOfCall and ReviewOfAnswer
	Code string `json:"code"`
}

// SidecarStarted says that a session goes on beside the run, or with a code why
// one could not begin.
type SidecarStarted struct {
	Number   int     `json:"number,omitempty"` // place among those that the revision names, from 1; 0 for one that a person started
	Sidecar  string  `json:"sidecar"`          // run id
	Agent    string  `json:"agent"`            // name
	Purpose  Purpose `json:"purpose"`
	Outlives bool    `json:"outlives,omitempty"` // it goes on when the run has ended
	Code     string  `json:"code,omitempty"`
}

// Kind returns KindReviewDeclined.
func (ReviewDeclined) Kind() EventKind { return KindReviewDeclined }

// Texts returns none.
func (ReviewDeclined) Texts() []Text { return nil }

// Kind returns KindSidecarStarted.
func (SidecarStarted) Kind() EventKind { return KindSidecarStarted }

// Texts returns none.
func (SidecarStarted) Texts() []Text { return nil }

// StartReview asks for the review of a call or an answer.
type StartReview struct{ Of string }

// DispatchSidecar asks for a sidecar that the run's revision names.
type DispatchSidecar struct{ Number int } // from 1

// WatchMain asks a run whether the one that it goes on beside has ended.
type WatchMain struct{}

// Key is "review/" and what is reviewed.
func (e StartReview) Key() string { return "review/" + e.Of }

// Key is "sidecar/NUMBER".
func (e DispatchSidecar) Key() string { return fmt.Sprintf("sidecar/%d", e.Number) }

// Key is "main".
func (WatchMain) Key() string { return "main" }

// BeginReview asks to start the child that reviews something.
type BeginReview struct {
	Of    string
	Child Spawn
}

// DeclineReview says that a review cannot begin.
type DeclineReview struct{ Of, Code string }

// ReportSidecar says that a sidecar began, or with a code why it did not.
type ReportSidecar struct {
	Number   int
	Sidecar  string
	Agent    string
	Purpose  Purpose
	Outlives bool
	Code     string
}

func (BeginReview) command()   {}
func (DeclineReview) command() {}
func (ReportSidecar) command() {}

// reviewer is who reviews something, empty for nobody.
func (s *State) reviewer(of string) string {
	for _, reviewer := range s.Started.Reviewers {
		if reviewer.Of == of {
			return reviewer.Agent
		}
	}
	return ""
}

// Review is where a review stands.
type Review string

// The standings of a review.
const (
	ReviewNone    Review = ""         // nobody reviews it
	ReviewDue     Review = "DUE"      // it has not begun
	ReviewLive    Review = "LIVE"     // its reviewer works
	ReviewPassed  Review = "PASSED"   // nothing speaks against it
	ReviewNotSure Review = "NOT_SURE" // its reviewer gave no verdict
	ReviewHolds   Review = "HOLDS"    // its reviewer speaks against it
)

// ReviewOf tells where the review of something stands. Of what a person agreed
// to nothing is reviewed.
func (s *State) ReviewOf(of string, reviewer string) (Review, *Child) {
	if reviewer == "" {
		return ReviewNone, nil
	}
	child := s.Child(ChildOfReview(s.ID, of))
	switch {
	case slices.ContainsFunc(s.Declined, func(d ReviewDeclined) bool { return d.Of == of }):
		return ReviewNotSure, nil
	case child == nil:
		return ReviewDue, nil
	case child.Live():
		return ReviewLive, child
	case child.Ended.Passed:
		return ReviewPassed, child
	case child.Ended.Status == StatusCompleted && child.Ended.Result != nil:
		return ReviewHolds, child
	}
	return ReviewNotSure, child
}

// ReviewOfTool tells where the review of a call stands.
func (s *State) ReviewOfTool(call *Call) (Review, *Child) {
	reviewer := s.reviewer(call.Tool)
	if reviewer == "" || call.Approval != "" && call.Phase != CallProposedPhase {
		return ReviewNone, nil // nobody looks, or a person does or has
	}
	return s.ReviewOf(ReviewOfCall(call.CallProposed.Call), reviewer)
}

// guarded reports whether the review of some call is to be over before any
// call of the turn is attempted, and is not.
func (s *State) guarded() bool {
	if !slices.ContainsFunc(s.Started.Reviewers, func(r Reviewer) bool { return r.Guards }) {
		return false
	}
	waits := false
	s.openCalls(func(c *Call) {
		guards := slices.ContainsFunc(s.Started.Reviewers, func(r Reviewer) bool { return r.Guards && r.Of == c.Tool })
		review, _ := s.ReviewOfTool(c)
		waits = waits || guards && c.Phase == CallReady && (review == ReviewDue || review == ReviewLive)
	})
	return waits
}

// held reports whether a reviewer's word, or the lack of it, holds a call.
func (s *State) held(call *Call) bool {
	if call == nil {
		return false
	}
	review, _ := s.ReviewOf(ReviewOfCall(call.CallProposed.Call), s.reviewer(call.Tool))
	return review == ReviewHolds || review == ReviewNotSure
}

// reviewOfLast tells where the review of the last answer stands.
func (s *State) reviewOfLast() Review {
	turn := s.LastTurn()
	if turn == nil {
		return ReviewNone
	}
	review, _ := s.ReviewOf(ReviewOfAnswer(turn.Number), s.reviewer(ReviewsAnswer))
	return review
}

func (s *State) foldBeside(event Event) error {
	switch e := event.(type) {
	case ReviewDeclined:
		s.Declined = append(s.Declined, e)
	case SidecarStarted:
		if e.Number > 0 && e.Number != s.named()+1 {
			return fmt.Errorf("%w: sidecar %d out of order", ErrBroken, e.Number)
		}
		s.Sidecars = append(s.Sidecars, e)
	}
	return nil
}

// named is how many of the sidecars that the revision names have had their start.
func (s *State) named() int {
	n := 0
	for _, sidecar := range s.Sidecars {
		if sidecar.Number > 0 {
			n++
		}
	}
	return n
}

// pendingBeside asks for what is to go on beside the run.
func (s *State) pendingBeside(effects []Effect) []Effect {
	if n := s.named(); n < len(s.Started.Sidecars) {
		effects = append(effects, DispatchSidecar{Number: n + 1})
	}
	return effects
}

func (d *decider) decideBeside(command Command) *Refusal {
	switch c := command.(type) {
	case BeginReview:
		return d.beginReview(c)
	case DeclineReview:
		return d.declineReview(c)
	case ReportSidecar:
		return d.reportSidecar(c)
	}
	return nil
}

// reviewDue reports whether the run asks for this review now.
func (d *decider) reviewDue(of string) bool {
	return slices.Contains(Pending(d.s, d.env.NowMs), Effect(StartReview{Of: of}))
}

// beginReview starts the child that reviews a call or an answer, under all that
// bounds a child that does a call.
func (d *decider) beginReview(c BeginReview) *Refusal {
	if !d.reviewDue(c.Of) || c.Child.Child != ChildOfReview(d.s.ID, c.Of) || c.Child.Agent != d.reviewerOf(c.Of) {
		return refuse("NOT_DUE", "The run does not ask for this review.")
	}
	if code := d.outOfBounds(c.Child); code != "" {
		d.withoutReview(c.Of, code)
		return nil
	}
	d.emit(c.Child.started(0, c.Of))
	d.guardIntent()
	return nil
}

// reviewerOf is who reviews a call or an answer.
func (d *decider) reviewerOf(of string) string {
	for i := range d.s.Calls {
		if ReviewOfCall(i+1) == of {
			return d.s.reviewer(d.s.Calls[i].Tool)
		}
	}
	return d.s.reviewer(ReviewsAnswer)
}

func (d *decider) declineReview(c DeclineReview) *Refusal {
	if !d.reviewDue(c.Of) {
		return refuse("STALE", "The run does not ask for this review.")
	}
	d.withoutReview(c.Of, c.Code)
	return nil
}

// withoutReview notes that nobody reviews something: a call is held then.
func (d *decider) withoutReview(of, code string) {
	d.emit(ReviewDeclined{Of: of, Code: code})
	for i := range d.s.Calls {
		if call := &d.s.Calls[i]; call.Phase == CallReady && ReviewOfCall(call.CallProposed.Call) == of {
			d.emit(CallJudged{Call: call.CallProposed.Call, Verdict: d.heldByReview(call)})
		}
	}
}

// reviewed is the call that a child reviews, as long as it waits for that.
func (s *State) reviewed(child *Child) *Call {
	for i := s.firstOpen; i < len(s.Calls); i++ {
		call := &s.Calls[i]
		if child.Review != "" && call.Phase == CallReady && ReviewOfCall(call.CallProposed.Call) == child.Review {
			return call
		}
	}
	return nil
}

// passes reports whether a reviewer found nothing that speaks against it.
func (e ChildEnd) passes() bool {
	return e.Passed && e.Fault == "" && e.Status == StatusCompleted && e.Result != nil
}

// heldByReview is the verdict on a call that its reviewer did not let pass.
func (d *decider) heldByReview(call *Call) policy.Verdict {
	tool, _ := d.env.Rules.Tool(call.Tool)
	return d.askOwner(policy.Verdict{Answer: policy.Permit, Revision: d.env.Rules.PolicyRevision()}, tool)
}

// askOwner turns what policy permits into what a person has to permit.
func (d *decider) askOwner(verdict policy.Verdict, tool policy.ToolFacts) policy.Verdict {
	verdict.Answer, verdict.Quorum = policy.Hold, 1
	verdict.Approvers = []policy.Approver{{Principal: tool.Owner, Why: "tool owner"}, {Principal: d.s.Started.Contact, Why: "incident contact"}}
	verdict.Reasons = append(slices.Clip(verdict.Reasons), policy.Reason{Policy: "gantry:review", Text: "A checking sidecar did not let the call pass."})
	return verdict
}

// MostBeside is how many sessions there may have been beside one run before a
// person can start no more.
const MostBeside = 64

// reportSidecar notes a session beside the run, so that it can be told when the
// run ends.
func (d *decider) reportSidecar(c ReportSidecar) *Refusal {
	for _, known := range d.s.Sidecars {
		if known.Sidecar == c.Sidecar && c.Sidecar != "" {
			return refuse("STALE", "The sidecar is known.")
		}
	}
	if c.Number == 0 && len(d.s.Sidecars) >= MostBeside {
		return refuse("TOO_MANY_SIDECARS", "As many sessions as allowed were started beside the run.")
	}
	if c.Number > 0 && c.Number != d.s.named()+1 {
		return refuse("STALE", "The run does not ask for this sidecar.")
	}
	d.emit(SidecarStarted(c))
	return nil
}

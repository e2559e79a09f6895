package run

import (
	"fmt"
	"slices"

	"gantry.dev/orchestrator/policy"
)

// The kinds of event about what a run asks for that it may not use yet.
const (
	KindAccessRequested EventKind = "access_requested"
	KindAccessDecided   EventKind = "access_decided"
	KindAccessVoided    EventKind = "access_voided"
)

// Thing is a kind of thing that a run may ask for.
type Thing string

// The things.
const (
	ThingTool   Thing = "TOOL"
	ThingSpace  Thing = "SPACE" // a space of memory, to read
	ThingLabel  Thing = "LABEL"
	ThingModel  Thing = "MODEL"
	ThingBudget Thing = "BUDGET"
)

// Scope says how far a yes reaches.
type Scope string

// The scopes of a yes. One for the agent is one for the run, and proposes a
// revision of the agent that every run has it by.
const (
	ForRun          Scope = "" // that asked
	ForConversation Scope = "CONVERSATION"
	ForAgent        Scope = "AGENT"
)

// Scopes lists how far a yes to what a run asks for may reach. More money is
// only ever one run's, and a conversation is needed to consent for one.
func (s *State) Scopes(want Want) []Scope {
	switch {
	case want.Thing == ThingBudget:
		return []Scope{ForRun}
	case s.Started.Conversation == "":
		return []Scope{ForRun, ForAgent}
	}
	return []Scope{ForRun, ForConversation, ForAgent}
}

// Reaches refuses a scope that a yes to what a run asks for cannot have.
func (s *State) Reaches(want Want, scope Scope) *Refusal {
	switch {
	case slices.Contains(s.Scopes(want), scope):
		return nil
	case want.Thing == ThingBudget:
		return refuse("ONLY_THIS_RUN", "More money is for one run only; consent for the run.")
	case scope == ForConversation:
		return refuse("NO_CONVERSATION", "The run is in no conversation; consent for the run, or for the agent.")
	}
	return refuse("INVALID", "A consent is for the run, its conversation or its agent.")
}

// NothingToAskFor is the code of a request for what is not there, or what the
// run may not ask for: the two look alike.
const NothingToAskFor = "NOTHING_TO_ASK_FOR"

// Want is what a run asks for. Gives is all that it would add to the run's
// authority: tools pinned by the digest of their definition, labels, spaces and
// models; of a BUDGET only money and tokens.
type Want struct {
	Thing Thing            `json:"thing"`
	Name  string           `json:"name,omitempty"` // empty for a BUDGET
	Gives policy.Authority `json:"gives"`
	// Of a TOOL, for whoever decides: how a broken call of it is recovered, and
	// micro-dollars that one may cost at most.
	Class     policy.EffectClass `json:"class,omitzero"`
	CostBound int64              `json:"costBound,omitempty"`
	// Of a MODEL, for whoever decides: what a million tokens cost the run.
	Prices *Prices `json:"prices,omitempty"`
}

// Prices are micro-dollars for a million tokens.
type Prices struct {
	Input      int64 `json:"input"`
	CacheRead  int64 `json:"cacheRead"`
	CacheWrite int64 `json:"cacheWrite"`
	Output     int64 `json:"output"`
}

func (w Want) amount() Amount { return amountOf(w.Gives) }

// AccessRequested asks the owner of something to let the run use it. The call
// waits: it is the request itself, or what the run wants to do with the thing.
type AccessRequested struct {
	Access     string            `json:"access"` // id
	Call       int               `json:"call"`
	Want       Want              `json:"want"`
	Digest     string            `json:"digest"` // see AccessDigest
	Nonce      string            `json:"nonce"`
	Approvers  []policy.Approver `json:"approvers"`
	NotAfterMs int64             `json:"notAfterMs"`
}

// AccessDecided is the owner's word. A yes is a sealed amendment of what the
// run may do; it lasts as long as the grant in the configuration does.
type AccessDecided struct {
	Access    string   `json:"access"`
	By        Identity `json:"by"`
	Granted   bool     `json:"granted"`
	Grant     string   `json:"grant,omitempty"` // id of the grant; empty for a BUDGET and for a no
	Reason    *Text    `json:"reason,omitempty"`
	Amendment string   `json:"amendment,omitempty"` // digest over the request, its grant and scope, who gave it and the snapshot
	Scope     Scope    `json:"scope,omitempty"`     // of a yes
	Proposed  string   `json:"proposed,omitempty"`  // digest of the revision that was proposed with it; only ForAgent
}

// AccessVoided ends a request undecided.
type AccessVoided struct {
	Access string `json:"access"`
	Cause  Void   `json:"cause"`
}

// Kind returns KindAccessRequested.
func (AccessRequested) Kind() EventKind { return KindAccessRequested }

// Texts returns none.
func (AccessRequested) Texts() []Text { return nil }

// Kind returns KindAccessDecided.
func (AccessDecided) Kind() EventKind { return KindAccessDecided }

// Texts returns the texts that the event bears.
func (e AccessDecided) Texts() []Text { return optional(e.Reason) }

// Kind returns KindAccessVoided.
func (AccessVoided) Kind() EventKind { return KindAccessVoided }

// Texts returns none.
func (AccessVoided) Texts() []Text { return nil }

// AccessStatus is where a request for access stands.
type AccessStatus string

// The statuses of a request for access.
const (
	AccessOpen    AccessStatus = "OPEN"
	AccessGranted AccessStatus = "GRANTED"
	AccessDenied  AccessStatus = "DENIED"
	AccessVoid    AccessStatus = "VOID"
)

// Access is a request for something that the run may not use yet.
type Access struct {
	AccessRequested
	Status   AccessStatus
	Cause    Void
	Decision *AccessDecided
}

// Access returns the request with the id, or nil.
func (s *State) Access(id string) *Access {
	for i := len(s.Accesses) - 1; i >= 0; i-- {
		if s.Accesses[i].AccessRequested.Access == id {
			return &s.Accesses[i]
		}
	}
	return nil
}

// Given lists what people let the run use that it was not admitted with. Whether
// it still may is what the rules in force say.
func (s *State) Given() (given []policy.Authority) {
	for i := range s.Accesses {
		if a := &s.Accesses[i]; a.Status == AccessGranted && a.Want.Thing != ThingBudget {
			given = append(given, a.Want.Gives)
		}
	}
	return given
}

// DecideAccess is the owner's word on one request. Grant names the grant in the
// configuration that a yes rests on.
type DecideAccess struct {
	Access   string
	Digest   string
	Granted  bool
	Grant    string
	Scope    Scope  // of a yes
	Proposed string // digest of the revision that is proposed with it
	By       Identity
	Person   policy.Principal // By, as the directory knows them now
	Reason   *Text
}

func (DecideAccess) command() {}

// AccessDigest binds a word to one exact request: this requester, these argument
// bytes, this definition, these people, once.
func AccessDigest(s *State, e AccessRequested, arguments Text) string {
	return digestOf(struct {
		Organisation string            `json:"organisation"`
		Run          string            `json:"run"`
		Call         int               `json:"call"`
		Chain        []string          `json:"chain"`
		Agent        string            `json:"agent"`
		Arguments    string            `json:"arguments"`
		Want         Want              `json:"want"`
		Approvers    []policy.Approver `json:"approvers"`
		NotAfterMs   int64             `json:"notAfterMs"`
		Nonce        string            `json:"nonce"`
	}{s.Started.Organisation, s.ID, e.Call, s.Started.Chain, s.Started.Agent.Revision, arguments.Commitment,
		e.Want, e.Approvers, e.NotAfterMs, e.Nonce})
}

func consentDigest(snapshot string, request AccessRequested, decided AccessDecided) string {
	return digestOf(struct {
		Snapshot string          `json:"snapshot"`
		Request  AccessRequested `json:"request"`
		Grant    string          `json:"grant"`
		By       Identity        `json:"by"`
		Scope    Scope           `json:"scope,omitempty"`
		Proposed string          `json:"proposed,omitempty"`
	}{snapshot, request, decided.Grant, decided.By, decided.Scope, decided.Proposed})
}

// Sealed reports whether a yes is as it was sealed, to the run whose snapshot
// has the digest.
func (e AccessDecided) Sealed(snapshot string, request AccessRequested) bool {
	return e.Amendment == consentDigest(snapshot, request, e)
}

// want asks for what a call needs and the run may not use yet. Nobody is asked
// about a call that policy forbids anyway.
func (d *decider) want(j judged) {
	under := policy.Widen(d.authority(), j.want.Gives)
	verdict := d.verdictUnder(under, j)
	if verdict.Answer == policy.Forbid {
		d.emit(CallJudged{Call: j.call, Verdict: verdict})
		d.stop(j.call, OutcomeForbidden, "FORBIDDEN", nil)
		return
	}
	if d.s.asked+d.asked >= d.s.Limits.approvals() {
		d.flooded = true
		return
	}
	d.asked++
	e := AccessRequested{Access: j.approval, Call: j.call, Want: *j.want, Nonce: j.nonce, Approvers: j.to,
		NotAfterMs: min(d.env.NowMs+d.s.Limits.ApprovalMs, d.s.Authority.DeadlineMs)}
	e.Digest = AccessDigest(d.s, e, j.arguments)
	d.emit(e)
}

// wants reports whether a judgement is about something that the run must ask
// for first. Once it was asked for, the answer stands.
func (d *decider) wants(j judged) bool {
	if j.want == nil || len(j.to) == 0 {
		return false
	}
	call := d.s.Call(j.call)
	return (call == nil || call.Access == "") && (j.want.Thing == ThingBudget || !d.authority().Includes(j.want.Gives))
}

func (d *decider) decideAccess(c DecideAccess) *Refusal {
	if d.s.Cancel != nil {
		return refuse("RUN_CANCELLED", "The run is being cancelled; nothing is given to it.")
	}
	access := d.s.Access(c.Access)
	if access == nil {
		return refuse("NOT_FOUND", "There is no such request.")
	}
	voices := d.voices(access.Approvers, c.Person)
	if len(voices) == 0 {
		return refuse("NOT_FOUND", "There is no such request.")
	}
	call := d.s.Call(access.Call)
	switch {
	case c.Granted && !c.Person.Sees(call.Arguments.Marking.Labels):
		return refuse("NOT_CLEARED", "You cannot see the call's arguments; somebody who can has to consent.")
	case access.Status != AccessOpen:
		return refuse("ALREADY_DECIDED", "The request is "+access.outcome()+".")
	case access.Digest != c.Digest:
		return refuse("DIGEST_MISMATCH", "You saw another request than the one that waits; read it again.")
	case access.NotAfterMs <= d.env.NowMs:
		return refuse("ACCESS_EXPIRED", "The request expired; nothing was given.")
	}
	c.By.OnBehalfOf = behalf(c.Person.ID, voices)
	if c.Granted {
		return d.give(c, access, call)
	}
	d.emit(AccessDecided{Access: c.Access, By: c.By, Reason: c.Reason})
	d.stop(access.Call, OutcomeDenied, "ACCESS_DENIED", c.Reason)
	d.Guards = append(d.Guards, Guard{BeforeMs: access.NotAfterMs})
	return nil
}

func (a *Access) outcome() string {
	switch {
	case a.Decision != nil:
		return string(a.Status) + ", decided by " + a.Decision.By.Principal
	case a.Cause != "":
		return string(a.Status) + " (" + string(a.Cause) + ")"
	}
	return string(a.Status)
}

// give lets the run use what it asked for. What it rests on, the grant and the
// tool's definition, is looked at here, and the write makes it its condition.
func (d *decider) give(c DecideAccess, access *Access, call *Call) *Refusal {
	for name, grant := range access.Want.Gives.Tools {
		if tool, known := d.env.Rules.Tool(name); !known || tool.Revision != grant.Revision {
			d.emit(AccessVoided{Access: c.Access, Cause: VoidToolChanged})
			d.Unmet = refuse("ACCESS_STALE", "The tool is not the one that you saw any more: nothing was given, and the call is judged anew.")
			return nil
		}
	}
	if refusal := d.s.Reaches(access.Want, c.Scope); refusal != nil {
		return refusal
	}
	e := AccessDecided{Access: c.Access, By: c.By, Granted: true, Grant: c.Grant, Reason: c.Reason, Scope: c.Scope}
	if c.Scope == ForAgent {
		e.Proposed = c.Proposed
	}
	amount := access.Want.amount()
	if access.Want.Thing == ThingBudget {
		e.Grant = ""
		switch {
		case d.s.Reached != nil || d.s.Parked != nil:
			return refuse("NOT_DUE", "The run waits at a limit or for an operator; let it go on first.")
		case amount.invalid() || amount.Plus(d.s.Budget.Limit).invalid():
			return refuse("INVALID_AMOUNT", "No budget can be as high as that.")
		}
	} else if !d.env.Rules.Ceiling(d.s.Acting(d.env.NowMs)).Includes(access.Want.Gives) {
		return refuse("NOT_GIVEN", "No grant in force gives the run this; consent again.")
	}
	e.Amendment = consentDigest(d.s.Started.SnapshotDigest, access.AccessRequested, e)
	d.emit(e)
	if access.Want.Thing == ThingBudget {
		raised := LimitRaised{Limit: LimitBudget, By: c.By, Amount: amount}
		raised.Amendment = amendmentDigest(d.s.Started.SnapshotDigest, raised)
		d.emit(raised)
		for _, node := range d.s.Started.Accounts {
			d.Budget = append(d.Budget, BudgetMove{Node: node, Reserve: amount})
		}
	}
	if call.Requests {
		d.emit(CallEnded{Call: access.Call, Outcome: OutcomeAnswered, Code: "GRANTED"})
	}
	d.Guards = append(d.Guards, Guard{Gate: ConfigGate(d.s.Started.Organisation), Value: d.env.Rules.Revision(), BeforeMs: access.NotAfterMs})
	return nil
}

// expireAccess lets a request expire that nobody decided in time.
func (d *decider) expireAccess(call *Call) {
	if access := d.s.Access(call.Access); access.NotAfterMs <= d.env.NowMs {
		d.emit(AccessVoided{Access: call.Access, Cause: VoidExpired})
		d.stop(call.CallProposed.Call, OutcomeExpired, "EXPIRED", nil)
	}
}

func (s *State) foldAccess(event Event) error {
	if e, asks := event.(AccessRequested); asks {
		call := s.Call(e.Call)
		if call == nil || call.Phase != CallProposedPhase || call.Access != "" {
			return fmt.Errorf("%w: access for call %d", ErrBroken, e.Call)
		}
		s.Accesses = append(s.Accesses, Access{AccessRequested: e, Status: AccessOpen})
		s.asked++
		call.Phase, call.Access = CallWanting, e.Access
		return nil
	}
	var access *Access
	switch e := event.(type) {
	case AccessDecided:
		access = s.Access(e.Access)
	case AccessVoided:
		access = s.Access(e.Access)
	}
	if access == nil || access.Status != AccessOpen {
		return fmt.Errorf("%w: %s for no open request", ErrBroken, event.Kind())
	}
	call := s.Call(access.Call)
	switch e := event.(type) {
	case AccessDecided:
		access.Decision, access.Status = &e, AccessDenied
		if !e.Granted {
			break
		}
		access.Status = AccessGranted
		if access.Want.Thing != ThingBudget {
			s.Authority = policy.Widen(s.Authority, access.Want.Gives)
		}
		if !call.Requests {
			call.Phase = CallProposedPhase // now it is judged like any other
		}
	case AccessVoided:
		access.Status, access.Cause = AccessVoid, e.Cause
		if e.Cause == VoidToolChanged {
			call.Phase, call.Access = CallProposedPhase, ""
		}
	}
	return nil
}

// Package evaluate says how well a revision of an agent does: cases that it is
// tried on, what is found of each, and when that is enough.
package evaluate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/agents/expression"
	"gantry.dev/agents/manifest"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// Kind says what a case is there for.
type Kind string

// The kinds of case.
const (
	Representative Kind = "REPRESENTATIVE" // what the agent is asked every day
	Failure        Kind = "FAILURE"        // something is missing, wrong, or wants it to go astray
)

// Approver says what people do about what is held in a case.
type Approver string

// The ways to decide.
const (
	Grants Approver = "GRANT" // everything is granted, by whoever may
	Denies Approver = "DENY"
	Nobody Approver = "NONE" // nobody decides: the case ends where it waits
)

// Ledger is the sample's ledger as the outside of a case.
const Ledger = "ledger"

// Case is one task that an agent is tried on.
type Case struct {
	Name     string            `json:"name"`
	Kind     Kind              `json:"kind"`
	As       string            `json:"as"` // principal id: for whom the run is
	Goal     string            `json:"goal"`
	Files    map[string]string `json:"files,omitempty"`    // texts that lie under the organisation's files, by path
	Approver Approver          `json:"approver,omitempty"` // empty: NONE
	Answer   string            `json:"answer,omitempty"`   // to every question; empty: nobody answers, and the case ends where it waits
	Outside  string            `json:"outside,omitempty"`  // "ledger", or empty: nothing is there, and what acts is only simulated
	Stage    *policy.Stage     `json:"stage,omitempty"`    // nil: OBSERVE without an outside, APPROVE with one
	Expect   []string          `json:"expect"`             // CEL over Facts: all must hold for the case to count as useful
	Unsafe   []Unsafe          `json:"unsafe,omitempty"`
	Repeats  int               `json:"repeats,omitempty"` // how often it is played; 0: once
}

// Unsafe is something that must not happen in a case. One of Call and When is
// given.
type Unsafe struct {
	Name string `json:"name"`
	Call string `json:"call,omitempty"` // CEL over Facts and call: a call for which it holds is an attempt, and a success where it was done or may have been
	When string `json:"when,omitempty"` // CEL over Facts: where it holds it has happened
}

// Set is the cases that an agent is tried on.
type Set struct {
	Agent string `json:"agent"` // name
	Cases []Case `json:"cases"`
}

// What the expressions of a case look at.
//
//	output     the run's answer as JSON, or as text; "" without one
//	outcome    {status, reason, code}, of the run
//	calls      [{agent, tool, arguments, outcome, code, result}], of the run and those below it
//	approvals  [{agent, tool, status}]
//	call       one of calls; only in an unsafe call
var (
	facts   = expression.Over(expression.Anything("output"), expression.Object("outcome"), expression.Objects("calls"), expression.Objects("approvals"))
	oneCall = facts.With(expression.Object("call"))
)

var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,99}$`)

// Read reads a set of cases. Faults name file, line and place.
func Read(file string, raw []byte) (Set, []manifest.Fault) {
	document, faults := manifest.Parse(file, raw)
	if len(faults) > 0 {
		return Set{}, faults
	}
	var set Set
	if faults := document.Decode(&set); len(faults) > 0 {
		return Set{}, faults
	}
	check := checking{document: document}
	check.set(&set)
	return set, check.faults
}

// checking finds everything that is wrong with a set.
type checking struct {
	document *manifest.Document
	faults   []manifest.Fault
}

func (c *checking) require(holds bool, path, format string, args ...any) {
	if !holds {
		c.faults = append(c.faults, c.document.Fault(path, fmt.Sprintf(format, args...)))
	}
}

func (c *checking) set(set *Set) {
	c.require(plainName.MatchString(set.Agent), "agent", "name the agent that the cases are for")
	c.require(len(set.Cases) > 0, "cases", "give a case")
	names := map[string]bool{}
	for i := range set.Cases {
		one, at := &set.Cases[i], fmt.Sprintf("cases[%d].", i)
		one.complete()
		c.require(plainName.MatchString(one.Name) && !names[one.Name], at+"name", "must be lower-case letters, digits, dots and dashes, once")
		names[one.Name] = true
		c.one(at, one)
	}
}

func (c *checking) one(at string, one *Case) {
	c.require(one.Kind == Representative || one.Kind == Failure, at+"kind", "must be %s or %s", Representative, Failure)
	c.require(one.As != "", at+"as", "say for whom the run is")
	c.require(strings.TrimSpace(one.Goal) != "", at+"goal", "say what is asked")
	c.require(slices.Contains([]Approver{Grants, Denies, Nobody}, one.Approver), at+"approver", "must be %s, %s or %s", Grants, Denies, Nobody)
	c.require(one.Outside == "" || one.Outside == Ledger, at+"outside", "must be %s, or nothing", Ledger)
	c.require(one.Outside != "" || *one.Stage == policy.Observe, at+"stage", "without an outside must be OBSERVE")
	c.require(one.Repeats >= 1 && one.Repeats <= 100, at+"repeats", "must be 1 to 100")
	c.require(len(one.Expect) > 0, at+"expect", "say what must hold")
	for i, text := range one.Expect {
		if err := facts.Truth(text); err != nil {
			c.require(false, fmt.Sprintf("%sexpect[%d]", at, i), "%v", err)
		}
	}
	names := map[string]bool{}
	for i, unsafe := range one.Unsafe {
		place := fmt.Sprintf("%sunsafe[%d].", at, i)
		c.require(plainName.MatchString(unsafe.Name) && !names[unsafe.Name], place+"name", "must be lower-case letters, digits, dots and dashes, once")
		names[unsafe.Name] = true
		c.require((unsafe.Call == "") != (unsafe.When == ""), place+"call", "give one of call and when")
		if unsafe.Call != "" {
			if err := oneCall.Truth(unsafe.Call); err != nil {
				c.require(false, place+"call", "%v", err)
			}
		}
		if unsafe.When != "" {
			if err := facts.Truth(unsafe.When); err != nil {
				c.require(false, place+"when", "%v", err)
			}
		}
	}
}

// complete says what a case leaves out.
func (c *Case) complete() {
	if c.Approver == "" {
		c.Approver = Nobody
	}
	if c.Stage == nil {
		stage := policy.Observe
		if c.Outside != "" {
			stage = policy.Approve
		}
		c.Stage = &stage
	}
	if c.Repeats == 0 {
		c.Repeats = 1
	}
}

// Digest names exactly these cases.
func (s Set) Digest() (string, error) { return canon.DigestOf(s) }

// Facts are what is found when a case is played.
type Facts struct {
	Output    []byte // the answer: JSON or text
	Outcome   Outcome
	Calls     []Call
	Approvals []Approval
	Models    []string // that answered, sorted
	Turns     int
	MicroUSD  int64 // settled
	LatencyMs int64 // from admission to the end
}

// Outcome is how the run of a case ended, or where it waits.
type Outcome struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	Code   string `json:"code"`
}

// Call is one proposed call of the run of a case, or of one below it.
type Call struct {
	Agent     string          `json:"agent"`
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // JSON, or text as a JSON string
	Outcome   string          `json:"outcome"`
	Code      string          `json:"code"`
	Result    json.RawMessage `json:"result"`
}

// done reports whether a call had its effect, or may have had.
func (c Call) done() bool { return c.Outcome == "OK" || c.Outcome == "UNKNOWN" }

// Approval is one request that people decide.
type Approval struct {
	Agent  string `json:"agent"`
	Tool   string `json:"tool"`
	Status string `json:"status"`
}

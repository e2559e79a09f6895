package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cedar-policy/cedar-go"
)

// The ids of the reasons that are no policy of the organisation.
const (
	ReasonNothingPermits = "gantry:nothing-permits"
	ReasonUnknownTool    = "gantry:unknown-tool"
	ReasonToolChanged    = "gantry:tool-changed"
	ReasonRequestInvalid = "gantry:request-invalid"
	ReasonNoApprover     = "gantry:no-approver"
	ReasonUntrusted      = "gantry:untrusted-control"
	ReasonStageUnknown   = "gantry:stage-unknown"
	ReasonStageObserve   = "gantry:stage-observe"
	ReasonStageConstrain = "gantry:stage-constrain"
	ReasonStageApprove   = "gantry:stage-approve"
)

// Evaluate returns what the organisation's policies alone say: a request that
// does not fit the schema, an evaluation error, a deny and silence forbid; a
// hold among the reasons of an allow holds; else it is permitted. A hold that
// nobody could decide forbids. Most callers want Decide.
func (s *Set) Evaluate(request Request, dir Directory) Verdict {
	if reason := s.unfit(request); reason != nil {
		return s.forbid(*reason)
	}
	asked := s.cedarRequest(request)
	if err := s.rules.validator.Request(asked); err != nil {
		// The validator quotes the context, which may hold untrusted text.
		return s.forbid(Reason{ReasonRequestInvalid, "the facts do not have the types that the tool declares"})
	}
	decision, diagnostic := cedar.Authorize(s.policies, &entities{set: s, request: request, asked: asked}, asked)
	failed := len(diagnostic.Errors) > 0
	if failed && decision == cedar.Allow {
		diagnostic.Reasons = nil // what permitted it did not decide
	}
	reasons := s.reasons(diagnostic)
	if failed || decision == cedar.Deny {
		if len(reasons) == 0 {
			reasons = []Reason{{ReasonNothingPermits, "no policy permits it"}}
		}
		return s.forbid(reasons...)
	}
	return s.allowed(request, reasons, dir)
}

// allowed weighs the permits that decided: each hold among them must be met.
func (s *Set) allowed(request Request, reasons []Reason, dir Directory) Verdict {
	verdict := Verdict{Answer: Permit, Reasons: reasons, Revision: s.revision}
	for _, reason := range reasons {
		held := s.notes[cedar.PolicyID(reason.Policy)]
		if held.hold == "" {
			continue
		}
		approvers, decidable := holders(held, request, dir)
		if !decidable {
			return s.forbid(append(reasons, noApprover(held.hold))...)
		}
		verdict = verdict.held(approvers, held.expiresMs)
	}
	return verdict
}

func noApprover(hold string) Reason {
	return Reason{ReasonNoApprover, "it must wait for " + hold + ", and nobody who is that may decide it"}
}

func (s *Set) forbid(reasons ...Reason) Verdict {
	sortReasons(reasons)
	return Verdict{Answer: Forbid, Reasons: reasons, Revision: s.revision}
}

func sortReasons(reasons []Reason) {
	slices.SortFunc(reasons, func(a, b Reason) int { return cmp.Compare(a.Policy, b.Policy) })
}

// reasons lists the policies that decided or failed, sorted: Cedar reports
// them in the order of a map.
func (s *Set) reasons(diagnostic cedar.Diagnostic) []Reason {
	var reasons []Reason
	for _, failed := range diagnostic.Errors {
		// The message of the error may quote an argument.
		reasons = append(reasons, Reason{string(failed.PolicyID), "could not be evaluated for this call"})
	}
	for _, decided := range diagnostic.Reasons {
		text := s.notes[decided.PolicyID].reason
		if text == "" {
			text = effectText(s.policies[decided.PolicyID].Effect())
		}
		reasons = append(reasons, Reason{string(decided.PolicyID), text})
	}
	sortReasons(reasons)
	return reasons
}

func effectText(effect cedar.Effect) string {
	if effect == cedar.Forbid {
		return "a policy forbids it"
	}
	return "a policy permits it"
}

// unfit returns why a request cannot be judged, or nil.
func (s *Set) unfit(request Request) *Reason {
	shape, known := s.tools[request.Tool.Name]
	switch {
	case !known:
		return &Reason{ReasonUnknownTool, "no such tool is registered"}
	case shape.Impact.OrWorst() != request.Tool.Impact.OrWorst(), shape.Revision != request.Tool.Revision:
		return &Reason{ReasonToolChanged, "the policies were validated against another definition of this tool"}
	case request.Stage > Automate:
		return &Reason{ReasonStageUnknown, "the stage is none of the four"}
	case request.Marking.Integrity > Untrusted:
		return &Reason{ReasonRequestInvalid, "the integrity is none of the three"}
	case request.Subject.ID == "" || len(request.Chain) == 0 || request.Chain[0].ID != request.Subject.ID:
		return &Reason{ReasonRequestInvalid, "the acting chain does not begin with the subject"}
	case request.CostBound < 0:
		return &Reason{ReasonRequestInvalid, "the cost bound is negative"}
	}
	return nil
}

func (s *Set) cedarRequest(request Request) cedar.Request {
	return cedar.Request{
		Principal: agentUID(request),
		Action:    cedar.NewEntityUID("Action", cedar.String(request.Tool.Name)),
		Resource:  resourceUID(request),
		Context: cedar.NewRecord(cedar.RecordMap{
			"facts":            factRecord(request.Facts),
			"impact":           cedar.String(request.Tool.Impact.OrWorst().String()),
			"stage":            cedar.String(request.Stage.String()),
			"costBound":        cedar.Long(request.CostBound),
			"labels":           stringSet(request.Marking.Labels),
			"integrity":        cedar.String(request.Marking.Integrity.String()),
			"untrustedControl": cedar.Boolean(request.Untrusted),
			"atMs":             cedar.Long(request.AtMs),
			"at":               cedar.NewDatetimeFromMillis(request.AtMs),
		}),
	}
}

// entities are everything the request speaks of. Nothing else exists for the
// policies, so no verdict depends on what happens to be loaded. Each is made
// when a policy first asks for it: few ask for more than who and where.
type entities struct {
	set             *Set
	request         Request
	asked           cedar.Request
	agent, resource *cedar.Entity
}

// Get returns the entity with this id, if the request speaks of it.
func (e *entities) Get(uid cedar.EntityUID) (cedar.Entity, bool) {
	switch uid {
	case e.asked.Action:
		return e.set.rules.actions[uid].Entity, true
	case e.asked.Principal:
		if e.agent == nil {
			e.agent = agentOf(e.request)
		}
		return *e.agent, true
	case e.asked.Resource:
		if e.resource == nil {
			e.resource = resourceOf(e.request)
		}
		return *e.resource, true
	}
	return cedar.Entity{}, false
}

func agentOf(request Request) *cedar.Entity {
	chain := make([]string, len(request.Chain))
	for i, actor := range request.Chain {
		chain[i] = actor.ID
	}
	return &cedar.Entity{
		UID:     agentUID(request),
		Parents: cedar.NewEntityUIDSet(cedar.NewEntityUID("Department", cedar.String(request.Agent.Department))),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"name":              cedar.String(request.Agent.Name),
			"revision":          cedar.String(request.Agent.Revision),
			"department":        cedar.String(request.Agent.Department),
			"owner":             cedar.String(request.Agent.Owner),
			"subject":           cedar.String(request.Subject.ID),
			"subjectKind":       cedar.String(request.Subject.Kind),
			"subjectDepartment": cedar.String(request.Subject.Department),
			"subjectRoles":      stringSet(request.Subject.Roles),
			"subjectClearance":  stringSet(request.Subject.Clearance),
			"chain":             stringSet(chain),
		}),
	}
}

func resourceOf(request Request) *cedar.Entity {
	return &cedar.Entity{
		UID:     resourceUID(request),
		Parents: cedar.NewEntityUIDSet(cedar.NewEntityUID("Tool", cedar.String(request.Tool.Name))),
		Attributes: cedar.NewRecord(cedar.RecordMap{
			"id":    cedar.String(request.Resource),
			"tool":  cedar.String(request.Tool.Name),
			"owner": cedar.String(request.Tool.Owner),
			"class": cedar.String(request.Tool.Class.OrWorst().String()),
		}),
	}
}

func resourceUID(request Request) cedar.EntityUID {
	return cedar.NewEntityUID("Resource", cedar.String(request.Resource))
}

func agentUID(request Request) cedar.EntityUID {
	return cedar.NewEntityUID("Agent", cedar.String(request.Agent.Name))
}

// factRecord leaves a value of an unknown Go type as a record of its own, so
// that validation refuses it wherever it stands.
func factRecord(facts Facts) cedar.Record {
	fields := cedar.RecordMap{}
	for name, value := range facts {
		switch value := value.(type) {
		case string:
			fields[cedar.String(name)] = cedar.String(value)
		case int64:
			fields[cedar.String(name)] = cedar.Long(value)
		case bool:
			fields[cedar.String(name)] = cedar.Boolean(value)
		case []string:
			fields[cedar.String(name)] = stringSet(value)
		default:
			fields[cedar.String(fmt.Sprintf("%s of a type that no fact has", name))] = cedar.Record{}
		}
	}
	return cedar.NewRecord(fields)
}

func stringSet[S ~[]E, E ~string](elements S) cedar.Set {
	values := make([]cedar.Value, len(elements))
	for i, element := range elements {
		values[i] = cedar.String(element)
	}
	return cedar.NewSet(values...)
}

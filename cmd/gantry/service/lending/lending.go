// Package lending answers the port of grants: who asks for an agent, who agrees,
// what is in force, and its end.
package lending

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Lending answers for grants.
type Lending struct{ *service.Service }

var _ graph.Lending = Lending{}

// proposedGrant is the kind of proposal of a grant that somebody must still
// agree to. Its name is the grant's id, its digest that of its body: so a word
// is given on exactly what was read.
const proposedGrant = "grant"

// maxAsked is how many grants a person may have asked for that wait.
const maxAsked = 20

// asked is the body of a proposal.
type asked struct {
	Grant   agents.Grant     `json:"grant"`
	By      string           `json:"by"`
	Refused *agents.Recalled `json:"refused,omitempty"`
}

// List returns the grants that the caller may know of, those that wait first,
// each kind by id.
func (l Lending) List(ctx context.Context, caller graph.Caller) ([]graph.Grant, error) {
	o, person, err := l.Fresh(ctx, caller)
	if err != nil {
		return nil, err
	}
	nowMs, err := l.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := l.waiting(ctx, o)
	if err != nil {
		return nil, err
	}
	var list []graph.Grant
	for _, a := range waiting {
		if a.knownTo(o, person) {
			list = append(list, a.shown(o, person))
		}
	}
	for _, g := range o.Grants {
		if !o.Concerned(g, person) && !g.To.Covers(person) {
			continue
		}
		status := graph.GrantInForce
		switch {
		case g.Recalled != nil:
			status = graph.GrantRecalled
		case !g.Holds(nowMs):
			status = graph.GrantExpired
		}
		list = append(list, graph.Grant{Grant: g, By: g.Words[0].Person, Status: status, Ended: g.Recalled})
	}
	slices.SortStableFunc(list, func(a, b graph.Grant) int {
		return cmp.Or(cmp.Compare(rank(a.Status), rank(b.Status)), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

func rank(status graph.GrantStatus) int {
	return slices.Index([]graph.GrantStatus{graph.GrantAsked, graph.GrantInForce, graph.GrantRefused, graph.GrantExpired, graph.GrantRecalled}, status)
}

func (l Lending) waiting(ctx context.Context, o agents.Organisation) ([]asked, error) {
	proposals, err := l.Store.Proposals(ctx, o.Name, proposedGrant)
	if err != nil {
		return nil, err
	}
	list := make([]asked, 0, len(proposals))
	for _, proposal := range proposals {
		a, err := read(proposal)
		if err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func read(proposal journal.Proposal) (asked, error) {
	var a asked
	if err := json.Unmarshal(proposal.Body, &a); err != nil {
		return asked{}, fmt.Errorf("proposal of a grant: %w", err)
	}
	return a, nil
}

// knownTo reports whether a person may know of what was asked for: who asked or
// agreed, and who answers for something that it is about.
func (a asked) knownTo(o agents.Organisation, person policy.Principal) bool {
	return a.By == person.ID || a.Grant.To.Person == person.ID || o.Agrees(a.Grant, person) || o.Answers(person, a.Grant.Agent) ||
		slices.ContainsFunc(a.Grant.Words, func(w agents.Word) bool { return w.Person == person.ID })
}

func (a asked) shown(o agents.Organisation, person policy.Principal) graph.Grant {
	out := graph.Grant{Grant: a.Grant, By: a.By, Status: graph.GrantAsked, Missing: o.Missing(a.Grant), MayAgree: o.MayAgree(a.Grant, person)}
	if a.Refused != nil {
		out.Status, out.Ended, out.Missing, out.MayAgree = graph.GrantRefused, a.Refused, nil, false
	}
	return out
}

func (a asked) proposal() (*journal.Proposal, error) {
	digest, err := canon.DigestOf(a)
	if err != nil {
		return nil, &run.Refusal{Code: "INVALID", Detail: "The request is not valid UTF-8 text."}
	}
	body, err := json.Marshal(a)
	return &journal.Proposal{Kind: proposedGrant, Name: a.Grant.ID, Digest: digest, By: a.By, Body: body}, err
}

// Ask asks for a grant. Where the caller answers for something of it, that is
// the caller's word; when nobody else's is missing it is in force at once.
func (l Lending) Ask(ctx context.Context, caller graph.Caller, commandID string, order graph.GrantOrder) (string, graph.Change, error) {
	request := []any{"grant", order}
	id, err := idOf(caller, commandID)
	if err != nil {
		return "", graph.Change{}, err
	}
	nowMs, err := l.Store.Now(ctx)
	if err != nil {
		return "", graph.Change{}, err
	}
	change, err := l.Alter(ctx, caller, commandID, request, func(o agents.Organisation) (service.Step, bool, error) {
		person, known := o.Principal(caller.Principal.ID)
		if !known {
			return service.Step{}, false, engine.ErrNotFound
		}
		g, err := formed(o, person, order, id)
		if err != nil {
			return service.Step{}, false, err
		}
		refused, err := l.mayAsk(ctx, o, person, order, g)
		if err != nil {
			return service.Step{}, false, err
		}
		return tried(o, person, asked{Grant: g, By: person.ID}, refused, nowMs)
	})
	return id, change, err
}

// idOf gives a repeated command the same id.
func idOf(caller graph.Caller, commandID string) (string, error) {
	digest, err := canon.DigestOf([]string{"grant", caller.Principal.Organisation, caller.Principal.ID, commandID})
	if err != nil {
		return "", &run.Refusal{Code: "INVALID", Detail: "The command id is not valid UTF-8 text."}
	}
	return digest[:24], nil
}

// mayAsk refuses what a person may not ask for. An agent that they may not find
// looks like one that is not there. It returns the oldest of their requests that
// was refused, which makes room for the new one.
func (l Lending) mayAsk(ctx context.Context, o agents.Organisation, person policy.Principal, order graph.GrantOrder, g agents.Grant) (*journal.Proposal, error) {
	if person.Kind != policy.Person {
		return nil, agents.ErrNotAPerson
	}
	revision, known := o.Agent(g.Agent)
	if !known || !revision.Listed && !o.Sees(person, g.Agent) || g.From != "" && !o.Sees(person, g.From) {
		return nil, engine.ErrNotFound
	}
	if order.Owner && !o.Agrees(agents.Grant{Kind: g.Kind, Agent: g.Agent, From: g.From}, person) {
		return nil, agents.ErrNotEntitled
	}
	proposals, err := l.Store.Proposals(ctx, o.Name, proposedGrant)
	if err != nil {
		return nil, err
	}
	open, refused := 0, (*journal.Proposal)(nil)
	for _, proposal := range proposals {
		a, err := read(proposal)
		switch {
		case err != nil:
			return nil, err
		case a.By == person.ID && a.Refused == nil:
			open++
		case a.By == person.ID && refused == nil:
			refused = &proposal
		}
	}
	if open >= maxAsked {
		return nil, &run.Refusal{Code: "TOO_MANY_REQUESTS", Detail: fmt.Sprintf("%d of your requests wait already; withdraw one.", maxAsked)}
	}
	return refused, nil
}

// tried adds the person's word, and puts the grant in force where nobody else's
// is missing. What could not come into force whoever agrees is refused at once.
func tried(o agents.Organisation, person policy.Principal, a asked, settle *journal.Proposal, nowMs int64) (service.Step, bool, error) {
	if o.MayAgree(a.Grant, person) {
		a.Grant.Words = append(slices.Clone(a.Grant.Words), agents.Word{Person: person.ID, AtMs: nowMs})
	}
	a.Grant.AtMs = nowMs
	if len(o.Missing(a.Grant)) == 0 {
		next, err := agents.Lend(o, a.Grant)
		return service.Step{Next: &next, Settle: settle}, false, err
	}
	if err := agents.Fits(o, a.Grant); err != nil {
		return service.Step{}, false, err
	}
	proposal, err := a.proposal()
	return service.Step{Propose: proposal, Settle: settle}, true, err
}

// Shares returns the shares of an agent, to whom answers for it.
func (l Lending) Shares(ctx context.Context, caller graph.Caller, agent string) ([]graph.Grant, error) {
	o, person, err := l.Fresh(ctx, caller)
	if err != nil || !o.Answers(person, agent) {
		return nil, err
	}
	list, err := l.List(ctx, caller)
	return slices.DeleteFunc(list, func(g graph.Grant) bool { return g.Kind != agents.Share || g.Agent != agent }), err
}

// Decide agrees to what somebody asked for, or refuses it. Who asked withdraws
// it by refusing.
func (l Lending) Decide(ctx context.Context, caller graph.Caller, commandID, id string, agree bool, reason string) (graph.Change, error) {
	nowMs, err := l.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	return l.Alter(ctx, caller, commandID, []any{"decide-grant", id, agree, reason}, func(o agents.Organisation) (service.Step, bool, error) {
		person, known := o.Principal(caller.Principal.ID)
		if !known {
			return service.Step{}, false, engine.ErrNotFound
		}
		earlier, a, err := l.open(ctx, o, id)
		if err != nil {
			return service.Step{}, false, err
		}
		switch {
		case agree && o.MayAgree(a.Grant, person):
			return tried(o, person, a, &earlier, nowMs)
		case !agree && (a.By == person.ID || o.Agrees(a.Grant, person) || o.Answers(person, a.Grant.Agent)):
			a.Refused = &agents.Recalled{By: person.ID, Reason: reason, AtMs: nowMs}
			proposal, err := a.proposal()
			return service.Step{Propose: proposal, Settle: &earlier}, false, err
		case a.knownTo(o, person):
			return service.Step{}, false, agents.ErrNotEntitled
		}
		return service.Step{}, false, engine.ErrNotFound
	})
}

// open finds what was asked for and is not decided.
func (l Lending) open(ctx context.Context, o agents.Organisation, id string) (journal.Proposal, asked, error) {
	proposals, err := l.Store.Proposals(ctx, o.Name, proposedGrant)
	if err != nil {
		return journal.Proposal{}, asked{}, err
	}
	for _, proposal := range proposals {
		if proposal.Name != id {
			continue
		}
		a, err := read(proposal)
		if err != nil || a.Refused == nil {
			return proposal, a, err
		}
	}
	return journal.Proposal{}, asked{}, engine.ErrNotFound
}

// Recall ends a grant: from the next intent on it gives nothing.
func (l Lending) Recall(ctx context.Context, caller graph.Caller, commandID, id, reason string) (graph.Change, error) {
	nowMs, err := l.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	return l.Alter(ctx, caller, commandID, []any{"recall-grant", id, reason}, func(o agents.Organisation) (service.Step, bool, error) {
		next, err := agents.RecallGrant(o, id, agents.Recalled{By: caller.Principal.ID, Reason: reason, AtMs: nowMs})
		if errors.Is(err, agents.ErrUnknown) {
			err = engine.ErrNotFound
		}
		return service.Step{Next: &next}, false, err
	})
}

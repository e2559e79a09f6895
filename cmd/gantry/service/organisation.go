package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gantry.dev/agents"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Agents answers for agents, and changes them.
type Agents struct{ *Service }

// List returns the agents that serve the caller, that the caller borrows or
// answers for, and those that everybody may find. Who borrows sees the revision
// that is lent.
func (a Agents) List(ctx context.Context, caller graph.Caller) ([]graph.Agent, error) {
	o, err := a.Organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return nil, err
	}
	nowMs, err := a.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var list []graph.Agent
	for _, current := range o.Agents {
		revision, share, served := o.Serves(current.Name, caller.Principal, nowMs)
		answers := o.Answers(caller.Principal, current.Name)
		if !served && !answers && !current.Listed {
			continue
		}
		if !served || answers {
			revision = current
		}
		digest, err := revision.Digest()
		if err != nil {
			return nil, err
		}
		_, stopped := o.Stopped(revision)
		agent := graph.Agent{Revision: revision, Digest: digest, Stage: o.Stage(revision), Stopped: stopped}
		if served {
			agent.Available = []graph.Availability{{Share: share.ID, UntilMs: share.UntilMs}}
		}
		list = append(list, agent)
	}
	return list, nil
}

// Get returns one of the agents of List.
func (a Agents) Get(ctx context.Context, caller graph.Caller, name string) (graph.Agent, error) {
	list, err := a.List(ctx, caller)
	if err != nil {
		return graph.Agent{}, err
	}
	at := slices.IndexFunc(list, func(agent graph.Agent) bool { return agent.Revision.Name == name })
	if at < 0 {
		return graph.Agent{}, engine.ErrNotFound
	}
	return list[at], nil
}

// The kinds of proposal.
const (
	proposedRevision = "publish"
	proposedStage    = "stage"
	proposedLift     = "lift"
	proposedPin      = "pin"
)

// Publish proposes a revision, or puts the same one in force that another
// person proposed.
func (a Agents) Publish(ctx context.Context, caller graph.Caller, commandID string, manifest []byte) (string, graph.Change, error) {
	revision, err := agents.ReadRevision("manifest", manifest)
	if err != nil {
		return "", graph.Change{}, err
	}
	digest, err := revision.Digest()
	if err != nil {
		return "", graph.Change{}, &run.Refusal{Code: "INVALID", Detail: "The manifest is not valid UTF-8 text."}
	}
	change, err := a.Alter(ctx, caller, commandID, []any{"publish", digest}, func(o agents.Organisation) (Step, bool, error) {
		tried := func() (agents.Organisation, string, error) {
			view, err := o.Proposable(caller.Principal, revision)
			return view, view.SecondPerson(caller.Principal.ID, revision), err
		}
		return a.publish(ctx, o, caller, revision, digest, manifest, tried)
	})
	return revision.Name, change, err
}

func (s *Service) publish(ctx context.Context, o agents.Organisation, caller graph.Caller, revision agents.Revision, digest string, manifest []byte, tried trial) (Step, bool, error) {
	if err := s.measured(ctx, o.Name, revision); err != nil {
		return Step{}, false, err
	}
	return s.second(ctx, o, tried, journal.Proposal{Kind: proposedRevision, Name: revision.Name, Digest: digest, By: caller.Principal.ID, Body: manifest},
		func(o agents.Organisation, by, approvedBy string, _ journal.Proposal) (agents.Organisation, error) {
			return agents.Publish(o, revision, by, approvedBy)
		})
}

// Revise proposes what a person says an agent is to be from now on, who need not
// be one who sees the agent: whoever runs of it asked. It returns the digest of
// the revision. Errors: those of revise; those of Agents.Publish.
func (s *Service) Revise(ctx context.Context, caller graph.Caller, commandID string, request []any, revise func(agents.Organisation) (agents.Revision, error)) (string, error) {
	formed := func(o agents.Organisation) (revision agents.Revision, digest string, err error) {
		if revision, err = revise(o); err == nil {
			digest, err = revision.Digest()
		}
		return revision, digest, err
	}
	digest := ""
	change, err := s.Alter(ctx, caller, commandID, request, func(o agents.Organisation) (Step, bool, error) {
		var revision agents.Revision
		var err error
		if revision, digest, err = formed(o); err != nil {
			return Step{}, false, err
		}
		manifest, err := json.Marshal(revision)
		if err != nil {
			return Step{}, false, err
		}
		return s.publish(ctx, o, caller, revision, digest, manifest, with(o, o.SecondPerson(caller.Principal.ID, revision)))
	})
	if err != nil || !change.Replayed {
		return digest, err
	}
	o, err := s.Organisation(ctx, caller.Principal.Organisation)
	if err == nil {
		_, digest, err = formed(o)
	}
	return digest, err
}

// Proposed returns who proposed a revision that waits for a second person, and
// its manifest; empty for none.
func (s *Service) Proposed(ctx context.Context, organisation, agent, digest string) (by, manifest string, err error) {
	proposal, err := s.Store.Proposal(ctx, organisation, proposedRevision, agent, digest)
	if errors.Is(err, engine.ErrNotFound) {
		return "", "", nil
	}
	return proposal.By, string(proposal.Body), err
}

// staged is the body of a proposed stage.
type staged struct {
	Stage    policy.Stage `json:"stage"`
	Evidence string       `json:"evidence"`
}

// SetStage makes an agent's stage stricter at once, and freer once a second
// person asks for the same.
func (a Agents) SetStage(ctx context.Context, caller graph.Caller, commandID, name string, stage policy.Stage, evidence string) (graph.Change, error) {
	if _, err := a.Get(ctx, caller, name); err != nil {
		return graph.Change{}, err
	}
	nowMs, err := a.Store.Now(ctx)
	if err != nil {
		return graph.Change{}, err
	}
	return a.Alter(ctx, caller, commandID, []any{"stage", name, stage, evidence}, func(o agents.Organisation) (Step, bool, error) {
		revision, _ := o.Agent(name)
		decide := func(o agents.Organisation, by, approvedBy, evidence string) (agents.Organisation, error) {
			return agents.SetStage(o, agents.StageDecision{Agent: name, Stage: stage, Evidence: evidence, By: by, ApprovedBy: approvedBy, AtMs: nowMs})
		}
		if stage <= o.Stage(revision) {
			next, err := decide(o, caller.Principal.ID, "", evidence)
			return Step{Next: &next}, false, err
		}
		if err := a.measured(ctx, o.Name, revision); err != nil {
			return Step{}, false, err
		}
		body, err := json.Marshal(staged{stage, evidence})
		if err != nil {
			return Step{}, false, err
		}
		digest, err := canon.DigestOf([]any{revision, stage})
		if err != nil {
			return Step{}, false, err
		}
		return a.second(ctx, o, with(o, o.SecondPerson(caller.Principal.ID, revision)), journal.Proposal{Kind: proposedStage, Name: name, Digest: digest, By: caller.Principal.ID, Body: body},
			func(o agents.Organisation, by, approvedBy string, proposal journal.Proposal) (agents.Organisation, error) {
				var first staged
				if err := json.Unmarshal(proposal.Body, &first); err != nil {
					return agents.Organisation{}, fmt.Errorf("proposal: %w", err)
				}
				return decide(o, by, approvedBy, first.Evidence)
			})
	})
}

// altered is what a repeated change is answered with.
type altered struct {
	Pending bool `json:"pending"`
}

// Alter decides and commits a change under a command id. Request is everything
// that the caller asked for. Errors: those of decide; *run.Refusal for an id that
// was used for another request.
func (s *Service) Alter(ctx context.Context, caller graph.Caller, commandID string, request []any,
	decide func(agents.Organisation) (next Step, pending bool, err error)) (graph.Change, error) {
	remembered, err := Receipt(caller, commandID, "", altered{}, request...)
	if err != nil {
		return graph.Change{}, err
	}
	var first altered
	if again, err := s.Replayed(ctx, remembered, &first); again || err != nil {
		return graph.Change{Replayed: again, Pending: first.Pending}, err
	}
	var answer altered
	_, err = s.Kits.change(ctx, caller.Principal.Organisation, &remembered, func(o agents.Organisation) (Step, error) {
		decided, pending, err := decide(o)
		if err != nil {
			return Step{}, err
		}
		answer.Pending = pending
		remembered.Answer, err = json.Marshal(answer)
		return decided, err
	})
	if errors.Is(err, engine.ErrReplayed) {
		err = s.Replay(ctx, remembered, &first)
		return graph.Change{Replayed: err == nil, Pending: first.Pending}, err
	}
	return graph.Change{Pending: answer.Pending}, err
}

// trial is on what, and with whom as the second person, a proposal is tried out.
type trial = func() (view agents.Organisation, other string, err error)

// with is the trial on the organisation as it is.
func with(o agents.Organisation, other string) trial {
	return func() (agents.Organisation, string, error) { return o, other, nil }
}

// second puts in force what another person proposed alike; else it proposes.
// What could not be put in force is not proposed.
func (s *Service) second(ctx context.Context, o agents.Organisation, tried trial, proposal journal.Proposal,
	decide func(o agents.Organisation, by, approvedBy string, proposal journal.Proposal) (agents.Organisation, error)) (Step, bool, error) {
	earlier, err := s.Store.Proposal(ctx, o.Name, proposal.Kind, proposal.Name, proposal.Digest)
	if err != nil && !errors.Is(err, engine.ErrNotFound) {
		return Step{}, false, err
	}
	if err == nil && earlier.By != proposal.By {
		next, err := decide(o, earlier.By, proposal.By, earlier)
		return Step{Next: &next, Settle: &earlier}, false, err
	}
	view, other, err := tried()
	if err != nil {
		return Step{}, false, err
	}
	next, err := decide(view, proposal.By, other, proposal)
	if err != nil {
		return Step{}, false, err
	}
	unchanged, err := same(view, next)
	if err != nil || unchanged {
		return Step{}, false, err
	}
	return Step{Propose: &proposal}, true, nil
}

func same(a, b agents.Organisation) (bool, error) {
	before, err := a.Digest()
	if err != nil {
		return false, err
	}
	after, err := b.Digest()
	return before == after, err
}

// Tools describes calls.
type Tools struct{ *Service }

// Operation describes a call of exactly this definition.
func (t Tools) Operation(ctx context.Context, caller graph.Caller, name, revision string, arguments []byte) (graph.Operation, error) {
	kit, err := t.Kits.Current(ctx, caller.Principal.Organisation)
	if err != nil {
		return graph.Operation{}, err
	}
	definition, _, known := kit.Box.Definition(name)
	if !known || definition.Digest() != revision {
		return graph.Operation{}, engine.ErrNotFound
	}
	if arguments == nil {
		return graph.Operation{Description: definition.Description}, nil
	}
	checked, refusal := kit.Box.Check(name, arguments)
	if refusal != nil {
		return graph.Operation{}, engine.ErrNotFound
	}
	return graph.Operation{Description: definition.Description, Resource: checked.Resource}, nil
}

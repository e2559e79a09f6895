package lending

import (
	"context"
	"errors"
	"slices"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Consents answers the port of what runs ask for.
type Consents struct{ *service.Service }

var _ graph.Consents = Consents{}

// mostEnded is how many grants of runs that have ended one consent clears away.
const mostEnded = 16

// Decide takes the word to the run. A yes first puts a grant for the run in
// force, which gives nothing until the run's own record says so, too: whoever
// was cut off between the two says it again.
func (c Consents) Decide(ctx context.Context, caller graph.Caller, in graph.Consent) (graph.Outcome, error) {
	runs := service.Runs{Service: c.Service}
	state, err := runs.State(ctx, caller, in.Run)
	if err != nil {
		return graph.Outcome{}, err
	}
	access := state.Access(in.Access)
	if access == nil {
		return graph.Outcome{}, engine.ErrNotFound
	}
	if err := fits(in); err != nil {
		return graph.Outcome{}, err
	}
	grant, proposed := "", ""
	if in.Granted && access.Status == run.AccessOpen && access.Want.Thing != run.ThingBudget {
		if grant, err = c.give(ctx, caller, in, state, *access); err != nil {
			return graph.Outcome{}, err
		}
	}
	if grant != "" && in.Scope == run.ForAgent {
		if proposed, err = c.propose(ctx, caller, in, state, *access); err != nil {
			return graph.Outcome{}, errors.Join(err, c.undo(ctx, caller, in, grant))
		}
	}
	outcome, err := runs.Command(ctx, caller, in.CommandID, in.Run, func(seal func(string) run.Text, person policy.Principal) run.Command {
		command := run.DecideAccess{Access: in.Access, Digest: in.Digest, Granted: in.Granted, Grant: grant, By: caller.Identity, Person: person}
		if in.Granted {
			command.Scope, command.Proposed = in.Scope, proposed
		}
		if in.Reason != "" {
			reason := seal(in.Reason)
			command.Reason = &reason
		}
		return command
	})
	var refused *run.Refusal
	if grant != "" && errors.As(err, &refused) {
		return outcome, errors.Join(err, c.undo(ctx, caller, in, grant))
	}
	return outcome, err
}

// fits refuses words that do not go together.
func fits(in graph.Consent) error {
	switch {
	case !in.Granted && (in.Scope != run.ForRun || in.UntilMs != 0):
		return &run.Refusal{Code: "INVALID", Detail: "A no is for this request alone; leave out for what and until when."}
	case in.UntilMs != 0 && in.Scope != run.ForConversation:
		return &run.Refusal{Code: "INVALID", Detail: "Only a consent for a conversation has an end of its own; leave out until when."}
	}
	return nil
}

// propose proposes a revision of the agent that has what was asked for. It waits
// for a second person like any other.
func (c Consents) propose(ctx context.Context, caller graph.Caller, in graph.Consent, state *run.State, access run.Access) (string, error) {
	digest, err := c.Revise(ctx, caller, in.CommandID+"/revise", []any{"access-agent", access.Digest}, func(o agents.Organisation) (agents.Revision, error) {
		return o.Revised(state.Started.Agent.Name, access.Want)
	})
	return digest, stale(err)
}

// Proposed returns the manifest that a yes proposed, to whoever proposed it or
// answers for the agent: it is all of the agent.
func (c Consents) Proposed(ctx context.Context, caller graph.Caller, agent, digest string) (string, error) {
	o, person, err := c.Fresh(ctx, caller)
	if err != nil {
		return "", err
	}
	by, manifest, err := c.Service.Proposed(ctx, o.Name, agent, digest)
	if err != nil || by != person.ID && !o.Answers(person, agent) {
		return "", err
	}
	return manifest, nil
}

// give puts the grant in force that a yes rests on. Whoever may not decide is
// told so by the run, and puts nothing in force.
func (c Consents) give(ctx context.Context, caller graph.Caller, in graph.Consent, state *run.State, access run.Access) (string, error) {
	started := state.Started
	nowMs, err := c.Store.Now(ctx)
	if err != nil {
		return "", err
	}
	kit, err := c.Kits.At(ctx, started.Organisation, started.Snapshot.Config)
	if err != nil {
		return "", err
	}
	revision, known := kit.Organisation.RevisionAt(started.Agent.Name, started.Agent.Revision)
	rules, err := c.Kits.Rules(ctx, started.Organisation)
	if err != nil {
		return "", err
	}
	voices, refused := rules.Voices(access.Approvers, caller.Principal, started.Chain, nowMs)
	if !known || refused != nil || state.Reaches(access.Want, in.Scope) != nil || state.Cancel != nil || access.Digest != in.Digest || access.NotAfterMs <= nowMs || !caller.Principal.Sees(state.Call(access.Call).Arguments.Marking.Labels) {
		return "", nil //nolint:nilerr // the run says what is wrong
	}
	word := agents.Word{Person: caller.Principal.ID, AtMs: nowMs}
	if !slices.Contains(voices, word.Person) {
		word = agents.Word{Person: voices[0], By: caller.Principal.ID, AtMs: nowMs}
	}
	conversation := ""
	if in.Scope == run.ForConversation {
		conversation = started.Conversation
	}
	grant, err := agents.AccessGrant(revision, state, access, conversation, in.UntilMs, word)
	if err != nil {
		return "", stale(err)
	}
	ended, err := c.ended(ctx, started.Organisation)
	if err != nil {
		return "", err
	}
	_, err = c.Alter(ctx, caller, in.CommandID+"/grant", []any{"access", grant.ID, access.Digest, in.Scope, in.UntilMs}, func(o agents.Organisation) (service.Step, bool, error) {
		if _, there := o.Grant(grant.ID); there {
			return service.Step{}, false, nil
		}
		if same, stands := o.Standing(grant, nowMs); stands {
			return service.Step{}, false, alreadyGiven{same.ID}
		}
		o.Grants = slices.DeleteFunc(slices.Clone(o.Grants), func(g agents.Grant) bool { return slices.Contains(ended, g.ID) })
		next, err := agents.Lend(o, grant)
		return service.Step{Next: &next}, false, err
	})
	var already alreadyGiven
	if errors.As(err, &already) {
		return already.grant, nil
	}
	return grant.ID, stale(err)
}

// alreadyGiven names the grant that gives a conversation the same already: two of
// them would be two to take back.
type alreadyGiven struct{ grant string }

// Error names it.
func (a alreadyGiven) Error() string { return "given by " + a.grant }

// stale says that what was asked for is not there as it was.
func stale(err error) error {
	if errors.Is(err, agents.ErrUnknown) || errors.Is(err, agents.ErrNotAgreed) {
		return &run.Refusal{Code: "ACCESS_STALE", Detail: "What was asked for, or who owns it, has changed: nothing was given. Refuse the request, and let the run ask again."}
	}
	return err
}

// ended are grants of runs that have ended: they give nothing to anybody, and
// stay in the run's record and in the earlier configurations.
func (c Consents) ended(ctx context.Context, organisation string) ([]string, error) {
	o, err := c.Organisation(ctx, organisation)
	if err != nil {
		return nil, err
	}
	var ids []string
	looked := 0
	for _, g := range o.Grants {
		if g.Kind != agents.Access || g.Run == "" || looked == mostEnded {
			continue
		}
		looked++
		state, err := c.Engine.State(ctx, g.Run)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			return nil, err
		}
		if err != nil || state.Ended != nil {
			ids = append(ids, g.ID)
		}
	}
	return ids, nil
}

// undo takes a grant back that the run did not take.
func (c Consents) undo(ctx context.Context, caller graph.Caller, in graph.Consent, grant string) error {
	state, err := c.Engine.State(ctx, in.Run)
	if err != nil {
		return err
	}
	if access := state.Access(in.Access); access != nil && access.Status == run.AccessGranted || !strings.HasSuffix(grant, strings.ToLower(in.Access)) {
		return nil // somebody else's yes rests on it
	}
	_, err = c.Alter(ctx, caller, in.CommandID+"/undo", []any{"access-undo", grant}, func(o agents.Organisation) (service.Step, bool, error) {
		next := o
		next.Grants = slices.DeleteFunc(slices.Clone(o.Grants), func(g agents.Grant) bool { return g.ID == grant })
		return service.Step{Next: &next}, false, nil
	})
	return err
}

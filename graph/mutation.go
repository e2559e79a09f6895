package graph

import (
	"context"
	"unicode/utf8"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/generated"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const (
	maxText    = 64 << 10 // bytes of a text from a person
	maxTitle   = 200      // bytes of a conversation's title
	maxCommand = 128      // bytes of a command id
)

// command names one mutation: its caller and the id under which a repeat is
// recognised.
type command struct {
	caller Caller
	id     string
}

func (r root) command(ctx context.Context, id *string) (command, error) {
	caller, err := edge.CallerOf(ctx)
	if err != nil {
		return command{}, err
	}
	if id == nil {
		return command{caller, r.config.NewID()}, nil
	}
	if *id == "" || len(*id) > maxCommand {
		return command{}, &inputError{"INVALID", "commandId", "A command id has 1 to 128 bytes."}
	}
	return command{caller, *id}, nil
}

func checkText(field, text string, limit int) error {
	if text == "" || len(text) > limit || !utf8.ValidString(text) {
		return &inputError{"INVALID", field, "It must be UTF-8 text, not empty, and not too long."}
	}
	return nil
}

func mutationOutcome(replayed bool) *generated.MutationOutcome {
	outcome := generated.MutationOutcomeAccepted
	if replayed {
		outcome = generated.MutationOutcomeReplayed
	}
	return &outcome
}

// accepted says who made a mutation that was accepted. One that was refused has
// refusals to show and no caller.
func accepted(ctx context.Context, err error) (Caller, []*generated.UserError, error) {
	refusals, err := userErrors(err)
	if err != nil || len(refusals) > 0 {
		return Caller{}, refusals, err
	}
	caller, err := edge.CallerOf(ctx)
	return caller, refusals, err
}

// runPayload says what became of a command to a run.
func (r root) runPayload(ctx context.Context, client *string, outcome Outcome, err error) (*generated.RunPayload, error) {
	caller, refusals, err := accepted(ctx, err)
	if err != nil {
		return nil, err
	}
	payload := &generated.RunPayload{UserErrors: refusals, ClientMutationID: client}
	if len(refusals) > 0 {
		return payload, nil
	}
	payload.Outcome = mutationOutcome(outcome.Replayed)
	payload.Run, err = r.run(ctx, caller, outcome.Run)
	return payload, err
}

// builder makes a command from the caller's identity, the sealer and the person.
type builder func(by run.Identity, seal func(string) run.Text, person policy.Principal) run.Command

// submit takes a command to the run that a global id names.
func (r root) submit(ctx context.Context, commandID *string, kind opaque.Kind, id string, build func(rest []string) builder) (Outcome, error) {
	c, err := r.command(ctx, commandID)
	if err != nil {
		return Outcome{}, err
	}
	parts := 1
	if kind != opaque.Run {
		parts = 2
	}
	named, err := opaque.ReadID(id, c.caller.Principal.Organisation, kind, parts)
	if err != nil {
		return Outcome{}, err
	}
	command := build(named[1:])
	return r.config.Runs.Command(ctx, c.caller, c.id, named[0], func(seal func(string) run.Text, person policy.Principal) run.Command {
		return command(c.caller.Identity, seal, person)
	})
}

func sealOptional(seal func(string) run.Text, text *string) *run.Text {
	if text == nil || *text == "" {
		return nil
	}
	sealed := seal(*text)
	return &sealed
}

// StartRun starts a run.
func (r mutations) StartRun(ctx context.Context, in generated.StartRunInput) (*generated.RunPayload, error) {
	outcome, err := r.startRun(ctx, in)
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

func (r mutations) startRun(ctx context.Context, in generated.StartRunInput) (Outcome, error) {
	c, err := r.command(ctx, in.CommandID)
	if err != nil {
		return Outcome{}, err
	}
	if err := checkText("goal", in.Goal, maxText); err != nil {
		return Outcome{}, err
	}
	if in.Money != nil && *in.Money < 0 {
		return Outcome{}, &inputError{"INVALID", "money", "Money is not negative."}
	}
	start := StartInput{Agent: in.Agent, Goal: in.Goal, CommandID: c.id, MicroUSD: in.Money}
	if in.Conversation != nil {
		parts, err := opaque.ReadID(*in.Conversation, c.caller.Principal.Organisation, opaque.Conversation, 1)
		if err != nil {
			return Outcome{}, err
		}
		start.Conversation = parts[0]
	}
	return r.config.Runs.Start(ctx, c.caller, start)
}

// SteerRun gives guidance to a run.
func (r mutations) SteerRun(ctx context.Context, in generated.SteerRunInput) (*generated.RunPayload, error) {
	if err := checkText("text", in.Text, maxText); err != nil {
		return r.runPayload(ctx, in.ClientMutationID, Outcome{}, err)
	}
	outcome, err := r.submit(ctx, in.CommandID, opaque.Run, in.Run, func([]string) builder {
		return func(by run.Identity, seal func(string) run.Text, _ policy.Principal) run.Command {
			return run.Steer{Steer: r.config.NewID(), By: by, Text: seal(in.Text), Interrupt: in.Interrupt, Void: in.Void}
		}
	})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

// DispatchSidecar starts a sidecar beside a run.
func (r mutations) DispatchSidecar(ctx context.Context, in generated.DispatchSidecarInput) (*generated.RunPayload, error) {
	outcome, err := r.beside(ctx, in.CommandID, in.Run, SidecarInput{Kind: run.Sidecar, Agent: in.Agent, Purpose: run.Purpose(in.Purpose),
		Brief: in.Brief, Lands: run.Landing(in.Lands), Outlives: in.Outlives})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

// Delegate has a piece of work done beside a run.
func (r mutations) Delegate(ctx context.Context, in generated.DelegateInput) (*generated.RunPayload, error) {
	outcome, err := r.beside(ctx, in.CommandID, in.Run, SidecarInput{Kind: run.SubAgent, Agent: in.Agent, Brief: in.Brief, Lands: run.LandsAsEvidence})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

func (r root) beside(ctx context.Context, commandID *string, id string, in SidecarInput) (Outcome, error) {
	c, err := r.command(ctx, commandID)
	if err != nil {
		return Outcome{}, err
	}
	if err := checkText("brief", in.Brief, maxText); err != nil {
		return Outcome{}, err
	}
	switch {
	case in.Kind == run.Sidecar && in.Purpose != run.ForResearch && in.Purpose != run.ForMonitor:
		return Outcome{}, &inputError{"INVALID", "purpose", "People start what researches or monitors; choose RESEARCH or MONITOR."}
	case in.Lands == run.LandsAsResult:
		return Outcome{}, &inputError{"INVALID", "lands", "No call waits for the result; choose STEER, EVIDENCE or MESSAGE."}
	}
	parts, err := opaque.ReadID(id, c.caller.Principal.Organisation, opaque.Run, 1)
	if err != nil {
		return Outcome{}, err
	}
	in.Main, in.CommandID = parts[0], c.id
	return r.config.Sidecars.Dispatch(ctx, c.caller, in)
}

// CancelRun cancels a run.
func (r mutations) CancelRun(ctx context.Context, in generated.CancelRunInput) (*generated.RunPayload, error) {
	outcome, err := r.submit(ctx, in.CommandID, opaque.Run, in.Run, func([]string) builder {
		return func(by run.Identity, seal func(string) run.Text, _ policy.Principal) run.Command {
			return run.Cancel{By: by, Reason: sealOptional(seal, in.Reason)}
		}
	})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

// ResumeRun lets a run go on, or ends it.
func (r mutations) ResumeRun(ctx context.Context, in generated.ResumeRunInput) (*generated.RunPayload, error) {
	if in.Turns < 0 || in.Money < 0 || in.Tokens < 0 {
		return r.runPayload(ctx, in.ClientMutationID, Outcome{}, &inputError{"INVALID", "input", "A limit is raised, not lowered: no number may be negative."})
	}
	outcome, err := r.submit(ctx, in.CommandID, opaque.Run, in.Run, func([]string) builder {
		return func(by run.Identity, _ func(string) run.Text, person policy.Principal) run.Command {
			resume := run.Resume{By: by, Person: person, Turns: in.Turns, Amount: run.Amount{MicroUSD: in.Money, Tokens: in.Tokens}, Accept: in.Accept, End: in.End}
			if in.Deadline != nil {
				resume.DeadlineMs = in.Deadline.UnixMilli()
			}
			return resume
		}
	})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

// DecideApproval decides a held call.
func (r mutations) DecideApproval(ctx context.Context, in generated.DecideApprovalInput) (*generated.RunPayload, error) {
	outcome, err := r.submit(ctx, in.CommandID, opaque.Approval, in.ID, func(rest []string) builder {
		return func(by run.Identity, seal func(string) run.Text, person policy.Principal) run.Command {
			return run.DecideApproval{Approval: rest[0], Digest: in.Digest, Granted: in.Decision == generated.ApprovalDecisionApprove,
				By: by, Person: person, Reason: sealOptional(seal, in.Reason)}
		}
	})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

// AnswerQuestion answers the model's question.
func (r mutations) AnswerQuestion(ctx context.Context, in generated.AnswerQuestionInput) (*generated.RunPayload, error) {
	if err := checkText("answer", in.Answer, maxText); err != nil {
		return r.runPayload(ctx, in.ClientMutationID, Outcome{}, err)
	}
	outcome, err := r.submit(ctx, in.CommandID, opaque.Question, in.ID, func(rest []string) builder {
		return func(by run.Identity, seal func(string) run.Text, person policy.Principal) run.Command {
			answer := run.AnswerQuestion{Question: rest[0], By: by, Person: person, Answer: seal(in.Answer)}
			if in.Action != nil {
				answer.Action = run.Action(*in.Action)
			}
			return answer
		}
	})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

// ResolveUncertain records a person's finding.
func (r mutations) ResolveUncertain(ctx context.Context, in generated.ResolveUncertainInput) (*generated.RunPayload, error) {
	if err := checkText("evidence", in.Evidence, maxText); err != nil {
		return r.runPayload(ctx, in.ClientMutationID, Outcome{}, err)
	}
	outcome, err := r.submit(ctx, in.CommandID, opaque.Run, in.Run, func([]string) builder {
		return func(by run.Identity, seal func(string) run.Text, person policy.Principal) run.Command {
			return run.ResolveUncertain{Call: in.Call, By: by, Person: person, Resolution: run.Resolution(in.Resolution),
				Override: in.Override, Evidence: seal(in.Evidence)}
		}
	})
	return r.runPayload(ctx, in.ClientMutationID, outcome, err)
}

package service

import (
	"context"
	"errors"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Take takes a command that came by message, under the rules of every other
// command. Nil settles it: what cannot be found will not be found later, and
// what was replayed is done.
func (s *Service) Take(ctx context.Context, received bus.Received) error {
	caller := graph.Caller{Principal: received.Principal, Identity: received.By}
	_, err := s.take(ctx, caller, received.Command)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

func (s *Service) take(ctx context.Context, caller graph.Caller, command bus.Command) (graph.Outcome, error) {
	runs := Runs{s}
	if wish, starts := command.Wish.(bus.StartWish); starts {
		return runs.Start(ctx, caller, graph.StartInput{Agent: wish.Agent, Goal: wish.Goal, Conversation: wish.Conversation, CommandID: command.ID})
	}
	return runs.Command(ctx, caller, command.ID, command.Run, func(seal func(string) run.Text, person policy.Principal) run.Command {
		return s.commandOf(caller.Identity, command.Wish, seal, person)
	})
}

func (s *Service) commandOf(by run.Identity, wish bus.Wish, seal func(string) run.Text, person policy.Principal) run.Command {
	optional := func(text string) *run.Text {
		if text == "" {
			return nil
		}
		sealed := seal(text)
		return &sealed
	}
	switch w := wish.(type) {
	case bus.SteerWish:
		return run.Steer{Steer: s.Source.ID(), By: by, Text: seal(w.Text), Interrupt: w.Interrupt, Void: w.Void}
	case bus.CancelWish:
		return run.Cancel{By: by, Reason: optional(w.Reason)}
	case bus.ResumeWish:
		return run.Resume{By: by, Person: person, Turns: w.Turns, Amount: w.Amount, DeadlineMs: w.DeadlineMs, Accept: w.Accept, End: w.End}
	case bus.DecideApprovalWish:
		return run.DecideApproval{Approval: w.Approval, Digest: w.Digest, Granted: w.Granted, By: by, Person: person, Reason: optional(w.Reason)}
	case bus.AnswerQuestionWish:
		return run.AnswerQuestion{Question: w.Question, By: by, Person: person, Answer: seal(w.Answer), Action: w.Action}
	case bus.ResolveUncertainWish:
		return run.ResolveUncertain{Call: w.Call, By: by, Person: person, Resolution: w.Resolution, Override: w.Override, Evidence: seal(w.Evidence)}
	}
	return nil
}

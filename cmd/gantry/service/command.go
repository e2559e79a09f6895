package service

import (
	"context"
	"errors"

	"gantry.dev/agents/tool/elicit"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// build makes a command from the sealer of texts and the caller as the
// directory knows them now.
type build = func(seal func(text string) run.Text, person policy.Principal) run.Command

// commanded is what a repeated command is answered with.
type commanded struct {
	Run string `json:"run"`
}

// maxText bounds what a person says in one command, in bytes.
const maxText = 64 << 10

// Command takes a command to a run that the caller may see.
func (r Runs) Command(ctx context.Context, caller graph.Caller, commandID, runID string, form build) (graph.Outcome, error) {
	state, err := r.State(ctx, caller, runID)
	if err != nil {
		return graph.Outcome{}, err
	}
	_, person, err := r.Fresh(ctx, caller)
	if err != nil {
		return graph.Outcome{}, err
	}
	submission := engine.Submission{Organisation: person.Organisation, Run: runID}
	fits := true
	submission.Command = form(func(text string) run.Text {
		fits = fits && text != "" && len(text) <= maxText
		ref, payload := engine.Seal(r.Source, runID, person.ID, quotes(state, person), []byte(text))
		submission.Payloads = append(submission.Payloads, payload)
		return ref
	}, person)
	if !fits {
		return graph.Outcome{}, &run.Refusal{Code: "INVALID", Detail: "A text has 1 to 65536 bytes."}
	}
	kind, asked := request(form)
	remembered, err := Receipt(caller, commandID, runID, commanded{runID}, kind, runID, asked)
	if err != nil {
		return graph.Outcome{}, err
	}
	// Before anything is decided: what was done once would be refused the second time.
	var first commanded
	if again, err := r.Replayed(ctx, remembered, &first); again || err != nil {
		return graph.Outcome{Run: first.Run, Replayed: again}, err
	}
	if err := r.MayAsk(ctx, person, state, submission.Command); err != nil {
		return graph.Outcome{}, err
	}
	if err := r.meets(ctx, state, person, submission); err != nil {
		return graph.Outcome{}, err
	}
	submission.Receipt = &remembered
	_, err = r.Engine.Submit(ctx, submission)
	if errors.Is(err, engine.ErrReplayed) {
		err = r.Replay(ctx, remembered, &first)
		return graph.Outcome{Run: first.Run, Replayed: err == nil}, err
	}
	return graph.Outcome{Run: runID}, err
}

// meets refuses values that do not meet the form that a server asks them by.
// What the person may not answer or see is left to the rules of the run.
func (r Runs) meets(ctx context.Context, state *run.State, person policy.Principal, submission engine.Submission) error {
	c, answers := submission.Command.(run.AnswerQuestion)
	if !answers || c.Action != run.Accept {
		return nil
	}
	question := state.Question(c.Question)
	if question == nil || question.Status != run.QuestionOpen || question.Ask == nil || question.Ask.Kind != run.AskForm {
		return nil
	}
	form := *question.Ask.Form
	if !person.Sees(form.Marking.Labels) {
		return nil
	}
	opened, err := r.Store.Payloads(ctx, []string{form.ID})
	if err != nil {
		return err
	}
	kept, err := elicit.Open(opened[form.ID].Bytes)
	if err != nil {
		return &run.Refusal{Code: "FORM_GONE", Detail: "What the server asked was erased; decline it."}
	}
	for _, payload := range submission.Payloads {
		if payload.Text.ID != c.Answer.ID {
			continue
		}
		if _, err := kept.Check(payload.Bytes); err != nil {
			return &run.Refusal{Code: "VALUES_INVALID", Detail: "The values do not meet the form: " + err.Error() + "."}
		}
	}
	return nil
}

// quotes is the marking of a person's words about a run: they are a person's,
// and may repeat whatever of the run the person can read.
func quotes(state *run.State, person policy.Principal) policy.Marking {
	return policy.Marking{Labels: state.Marking.Labels.Meet(person.Clearance), Integrity: policy.Trusted}
}

// request is what a command asks for, without what differs between a command
// and its repeat: fresh ids, the token, what the directory says.
func request(form build) (kind string, asked any) {
	plain := func(text string) run.Text { return run.Text{ID: canon.Digest([]byte(text))} }
	switch c := form(plain, policy.Principal{}).(type) {
	case run.Steer:
		c.Steer, c.By = "", run.Identity{}
		return "steer", c
	case run.Cancel:
		c.By = run.Identity{}
		return "cancel", c
	case run.Resume:
		c.By = run.Identity{}
		return "resume", c
	case run.DecideApproval:
		c.By = run.Identity{}
		return "decide", c
	case run.DecideAccess:
		c.By, c.Grant, c.Proposed = run.Identity{}, "", ""
		return "access", c
	case run.AnswerQuestion:
		c.By = run.Identity{}
		return "answer", c
	case run.ResolveUncertain:
		c.By = run.Identity{}
		return "resolve", c
	}
	return "", nil
}

// MayAsk says who may steer and cancel: for whom the run works, who takes part
// in its conversation; and, to cancel, who answers for its agent. Who may do so
// to a run may to those below it. Who may decide and answer is the run's own
// rule.
func (s *Service) MayAsk(ctx context.Context, person policy.Principal, state *run.State, command run.Command) error {
	_, steers := command.(run.Steer)
	_, cancels := command.(run.Cancel)
	if !steers && !cancels {
		return nil
	}
	o, err := s.Organisation(ctx, person.Organisation)
	if err != nil {
		return err
	}
	may, err := s.upward(ctx, state, func(one *run.State) (bool, error) {
		if one.Started.Subject.ID == person.ID || cancels && o.Answers(person, one.Started.Agent.Name) {
			return true, nil
		}
		return s.Participates(ctx, person, one.Started.Conversation)
	})
	if err != nil || may {
		return err
	}
	return &run.Refusal{Code: "NOT_ENTITLED", Detail: "The run is not yours to guide; ask for whom it works, or who answers for its agent."}
}

package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

const (
	asker   = "liam.byrne"      // sales: for whom the visit is noted
	decider = "sofia.marchetti" // answers for the agent: decides what the checker held
	desk    = "visit-desk"
	monitor = "visit-monitor"
)

// House is a running installation with the sample organisation.
type House struct {
	As func(principal string) (*client.Client, error) // speaks to it as somebody
}

// Result is what was shown.
type Result struct {
	Run    client.Run `json:"run"`    // the main run
	Late   client.Run `json:"late"`   // the sidecar whose finding came too late
	Checks []string   `json:"checks"` // what was looked at and found as it must be
}

// DemoCommand returns "gantry demo sidecar"; show runs the demonstration over a
// fresh installation.
func DemoCommand(show func(ctx context.Context, out io.Writer) (Result, error)) *cobra.Command {
	return ask.Demonstration("sidecar", "Have a run watched and one of its calls reviewed, and a finding come too late", show)
}

// show is the demonstration under way.
type show struct {
	ask.Witness
	asker, decider *client.Client
}

// Run has a visit noted. The error says what was not as it must be.
func Run(ctx context.Context, house House, out io.Writer) (result Result, err error) {
	s := &show{Witness: ask.Witness{Out: out}}
	if s.asker, err = house.As(asker); err != nil {
		return result, err
	}
	if s.decider, err = house.As(decider); err != nil {
		return result, err
	}
	main, err := s.asker.StartRun(ctx, client.Start{Agent: desk, Goal: "Note what came of the visit to Aalborg Pumps."})
	if err != nil {
		return result, err
	}
	if err := s.Say("%s notes a visit for %s; %s goes on beside it", desk, asker, monitor); err != nil {
		return result, err
	}
	late, err := s.asker.Dispatch(ctx, main.ID, client.Dispatch{Agent: monitor, Purpose: "RESEARCH", Lands: "EVIDENCE", Outlives: true,
		Brief: "Say what stood out after the end of the run."})
	if err != nil {
		return result, err
	}
	if err := s.play(ctx, main.ID); err != nil {
		return result, err
	}
	if result.Run, err = s.asker.Run(ctx, main.ID); err != nil {
		return result, err
	}
	if err := s.ended(ctx, late.ID); err != nil {
		return result, err
	}
	if result.Late, err = s.asker.Run(ctx, late.ID); err != nil {
		return result, err
	}
	if err := s.judge(result); err != nil {
		return result, err
	}
	result.Checks = s.Checked
	return result, s.Conclude()
}

// play answers once the monitor has spoken, and decides what the checker held.
func (s *show) play(ctx context.Context, id string) error {
	var question string
	steered := false
	return s.asker.Events(ctx, id, "", func(event client.Event) (bool, error) {
		if err := s.tell(event); err != nil {
			return false, err
		}
		var fact struct{ Question, Approval string }
		if event.Kind == "question_asked" || event.Kind == "approval_requested" {
			if err := event.Decode(&fact); err != nil {
				return false, err
			}
		}
		switch event.Kind {
		case "question_asked":
			question = fact.Question
		case "steer_accepted":
			steered = true
		case "approval_requested":
			return true, s.decide(ctx, fact.Approval)
		case "limit_reached", "parked":
			return false, fmt.Errorf("the run does not go on by itself: %s", event.Summary)
		}
		if question != "" && steered {
			asked, err := s.asker.Question(ctx, question)
			if err != nil {
				return false, err
			}
			question = ""
			_, err = s.asker.Answer(ctx, asked, "Liam Byrne")
			return true, err
		}
		return event.Kind != "ended", nil
	})
}

// tell prints what matters here.
func (s *show) tell(event client.Event) error {
	var fact struct {
		Text *client.Text
		By   *struct{ Principal string }
		Tool string
	}
	switch event.Kind {
	case "sidecar_started", "question_asked", "child_started", "child_ended", "approval_requested", "approval_decided", "ended":
		return s.Say("  %3d %s", event.Seq, event.Summary)
	case "steer_accepted":
		if err := event.Decode(&fact); err != nil || fact.Text == nil || fact.By == nil {
			return errors.Join(errors.New("a steer without its words"), err)
		}
		return s.Say("  %3d %s: %s", event.Seq, fact.By.Principal, fact.Text.Display)
	}
	return nil
}

func (s *show) decide(ctx context.Context, approval string) error {
	held, err := s.decider.Approval(ctx, approval)
	if err != nil {
		return err
	}
	if err := s.Say("      held: %s", held.Arguments.Display); err != nil {
		return err
	}
	_, err = s.decider.Decide(ctx, held, true, "She is the buyer; her name may stand there.")
	return err
}

// ended waits for the end of a run.
func (s *show) ended(ctx context.Context, id string) error {
	return s.asker.Events(ctx, id, "", func(event client.Event) (bool, error) { return event.Kind != "ended", nil })
}

// judge looks whether it all came as it must.
func (s *show) judge(result Result) error {
	main := result.Run
	steered, refused := false, true
	for _, steer := range main.Steers {
		steered = steered || steer.By.Principal == "agent:"+monitor && !steer.Evidence && steer.From != "" && steer.Disposition == "ABSORBED"
		refused = refused && steer.From != result.Late.ID
	}
	heeded, reviewed := false, false
	for _, call := range main.Calls {
		heeded = heeded || call.Tool == "memory.remember" && call.Outcome == "OK" && strings.Contains(call.Arguments.Value, "No price was promised.")
	}
	for _, review := range main.Reviews {
		reviewed = reviewed || review.Call > 0 && review.Standing == "HOLDS" && review.Reason != nil && strings.Contains(review.Reason.Value, "names a person")
	}
	for _, check := range []struct {
		ok   bool
		what string
	}{
		{steered, "the monitor's word came to the run while it waited, and a turn absorbed it"},
		{heeded, "the run did something else because of it"},
		{reviewed, "the checker held the call, with its reason"},
		{len(main.Approvals) == 1 && main.Approvals[0].Status == "SPENT" && main.Status == "COMPLETED", "a person decided, and the run went on"},
		{refused && result.Late.Status == "FAILED", "a finding that came after the end was refused"},
	} {
		if err := s.Check(check.ok, "%s", check.what); err != nil {
			return err
		}
	}
	return nil
}

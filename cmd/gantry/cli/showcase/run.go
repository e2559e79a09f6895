package showcase

import (
	"context"
	"fmt"
	"strings"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/run"
)

// librarian is the agent of the sample that answers about company policy. It
// is cleared for nothing, whoever asks it.
const librarian = "policy-librarian"

// through asks the agent the same question for two people, and checks that each
// run got what both the person and the agent may see.
func (s *show) through(ctx context.Context, question string) error {
	if err := s.Say("\n%s", rule("the same, asked of the agent "+librarian+", which is cleared for nothing")); err != nil {
		return err
	}
	for _, row := range []struct{ who, own, other string }{
		{"jonas.petersen", "five more days of leave", canaries[0]}, {"ruth.abelson", canaries[2], "five more days of leave"},
	} {
		answer, err := s.answer(ctx, row.who, question)
		if err != nil {
			return err
		}
		if err := s.Say("for %s:\n%s", row.who, indented(answer)); err != nil {
			return err
		}
		if !strings.Contains(answer, row.own) || strings.Contains(answer, row.other) || strings.Contains(answer, canaries[0]) || strings.Contains(answer, canaries[1]) {
			return fmt.Errorf("not so: the run for %s gets what both may see", row.who)
		}
	}
	return s.Check(true, "a run gets what both its person and its agent may see")
}

// answer starts a run of the librarian and waits for its answer.
func (s *show) answer(ctx context.Context, who, question string) (string, error) {
	c := s.people[who]
	started, err := c.StartRun(ctx, client.Start{Agent: librarian, Goal: question})
	if err != nil {
		return "", err
	}
	err = c.Events(ctx, started.ID, "", func(event client.Event) (bool, error) {
		switch run.EventKind(event.Kind) {
		case run.KindLimitReached, run.KindParked:
			return false, fmt.Errorf("the run does not go on by itself: %s", event.Summary)
		}
		return event.Kind != string(run.KindEnded), nil
	})
	if err != nil {
		return "", err
	}
	ended, err := c.Run(ctx, started.ID)
	if err != nil || ended.End == nil || ended.End.Result == nil {
		return "", fmt.Errorf("the run gave no answer: %w", err)
	}
	s.runs[who] = started.ID
	return ended.End.Result.Value, nil
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

package run_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// tracing holds the account of a run against what its records say, event by
// event.
type tracing struct {
	t       *rapid.T
	s       *run.State
	answers map[string]string // by question
}

// traced folds the records as they are stored; nothing else is known of the run.
func traced(t *rapid.T, records []run.Record) tracing {
	s := &run.State{ID: records[0].Run}
	require.NoError(t, run.Replay(s, records))
	read := func(text run.Text) string { return "<" + text.ID + ">" }
	answers := map[string]string{}
	for _, answer := range account.Explain(s, read) {
		answers[answer.Question] = strings.Join(answer.Lines, "\n")
	}
	for _, turn := range s.Turns {
		answer, known := account.Turn(s, turn.Number, read)
		require.True(t, known)
		answers[fmt.Sprint("turn ", turn.Number)] = strings.Join(answer.Lines, "\n")
	}
	return tracing{t, s, answers}
}

func (c tracing) says(question, format string, args ...any) {
	require.Contains(c.t, c.answers[question], fmt.Sprintf(format, args...), question)
}

const (
	asked      = "What was asked?"
	happened   = "Which turns happened?"
	proposed   = "Which calls were proposed, and which ran?"
	intervened = "Which policies and people intervened?"
	came       = "What came back?"
	stopped    = "Why did it stop?"
)

// event looks for the one thing that an event adds to the account.
func (c tracing) event(event run.Event) {
	switch e := event.(type) {
	case run.Started: // who asked, for what, and on whose authority
		c.says(asked, "%s (%s) asked agent %s", e.Subject.ID, e.Subject.Department, e.Agent.Name)
		c.says(asked, "<%s>", e.Goal.ID)
		c.says(asked, "acts as %s", strings.Join(e.Chain, ", then "))
		for name, grant := range e.Authority.Tools {
			c.says(asked, "%s (%s, %d×)", name, grant.Impact, grant.Calls)
		}
	case run.TurnStarted:
		c.says(happened, "turn %d with %s", e.Turn, e.Model)
		c.says(fmt.Sprint("turn ", e.Turn), "goal: <%s>", c.s.Started.Goal.ID)
		for _, id := range e.Steers { // what the model saw
			for _, steer := range c.s.Steers {
				if steer.Steer == id && steer.Disposition == run.Absorbed {
					c.says(fmt.Sprint("turn ", steer.Turn), "<%s>", steer.Text.ID)
				}
			}
		}
	case run.TurnAnswered:
		c.says(happened, "turn %d with %s", e.Turn, c.s.Turns[e.Turn-1].Model)
		c.says(fmt.Sprint("turn ", e.Turn), "answered %s", e.Class)
	case run.CallProposed:
		c.says(proposed, "call %d of turn %d: %s <%s>", e.Call, e.Turn, e.Tool, e.Arguments.ID)
	case run.CallJudged: // what policy said; a later verdict takes its place
		verdict := c.s.Call(e.Call).Verdict
		c.says(intervened, "call %d: %s by ", e.Call, verdict.Answer)
		c.says(intervened, "policy %s", verdict.Revision)
	default:
		c.person(event)
		c.outcome(event)
	}
}

// person looks for what people did, and over which exact bytes.
func (c tracing) person(event run.Event) {
	switch e := event.(type) {
	case run.ApprovalDecided:
		approval, word := c.s.Approval(e.Approval), map[bool]string{true: "granted", false: "denied"}[e.Granted]
		c.says(intervened, "call %d: %s %s it (digest %.12s over arguments %.12s)", approval.Call, e.By.Principal, word, approval.Digest,
			c.s.Call(approval.Call).Arguments.Commitment)
		c.says(intervened, "<%s>", e.Reason.ID)
	case run.ApprovalVoided:
		c.says(intervened, "call %d: the approval became void: %s", c.s.Approval(e.Approval).Call, e.Cause)
	case run.QuestionAnswered:
		c.says(intervened, "%s answered: %s<%s>", e.By.Principal, strings.TrimPrefix(string(e.Action)+" ", " "), e.Answer.ID)
	case run.QuestionAsked:
		if e.Ask != nil {
			c.says(intervened, "call %d: server %s asked", e.Call, e.Ask.Origin)
		}
	case run.SteerAccepted:
		c.says(intervened, "%s steered", e.By.Principal)
		c.says(intervened, "<%s>", e.Text.ID)
	case run.CancelAccepted:
		c.says(intervened, "%s cancelled the run", e.By.Principal)
	case run.UncertainResolved:
		c.says(intervened, "call %d: %s found %s: <%s>", e.Call, e.By.Principal, e.Resolution, e.Evidence.ID)
	}
}

// outcome looks for what happened outside and how it was verified.
func (c tracing) outcome(event run.Event) {
	switch e := event.(type) {
	case run.CallIntended:
		c.says(proposed, "attempted %d×", c.s.Call(e.Call).Intent)
		c.says(came, "call %d", e.Call)
	case run.CallEnded:
		c.says(proposed, "call %d of turn", e.Call)
		if e.Result != nil {
			c.says(came, "call %d %s: <%s>", e.Call, e.Outcome, e.Result.ID)
		}
	case run.LateOutcome:
		c.says(came, "call %d, attempt %d, too late to count: %s", e.Call, e.Intent, e.Outcome)
	case run.Verified:
		if c.s.LastChecks == nil || c.s.LastChecks.Turn != e.Turn {
			return // the answer that was checked was not the last
		}
		for _, check := range c.s.LastChecks.Checks {
			c.says(stopped, "check %s: %s", check.Name, check.Verdict)
		}
	case run.Ended:
		c.says(stopped, "%s: %s", e.Status, e.Reason)
	}
}

// Who asked and on whose authority, what the model saw and proposed, what policy
// said and why, who approved which exact bytes, what happened outside, and how
// it was verified: a hundred random runs answer from their records alone.
func TestFault_N5_TheRecordsAloneAnswerWhoAskedWhoAllowedAndWhatHappened(t *testing.T) {
	met := map[run.EventKind]int{}
	rapid.Check(t, func(t *rapid.T) {
		p := play(t, 60)
		c := traced(t, p.records)
		for _, record := range p.records {
			event, err := run.Decode(record)
			require.NoError(t, err)
			met[event.Kind()]++
			c.event(event)
		}
	})
	for _, kind := range []run.EventKind{run.KindStarted, run.KindTurnAnswered, run.KindCallProposed, run.KindCallJudged, run.KindApprovalDecided,
		run.KindCallIntended, run.KindCallEnded, run.KindVerified, run.KindEnded} {
		require.NotZero(t, met[kind], "no run had an event of kind %s: nothing was shown", kind)
	}
}

package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// shown prints events as the server tells them: texts stand in them whole.
func shown(t *testing.T, hints *hints, events ...run.Event) string {
	var out bytes.Buffer
	lines := timeline{out: &out, hints: hints}
	for i, event := range events {
		body, err := json.Marshal(event)
		require.NoError(t, err)
		require.NoError(t, lines.print(client.Event{Seq: int64(i + 1), Kind: string(event.Kind()), Summary: "Something.", Body: body}))
	}
	return out.String()
}

func TestTimelineSaysWhatHappenedInOneLineEach(t *testing.T) {
	tomas := run.Identity{Principal: "tomas"}
	who := []policy.Approver{{Principal: "tomas", Why: "tool owner"}, {Role: "controller", Why: "policy"}}
	got := shown(t, &hints{folder: "x"},
		run.Started{Subject: policy.Principal{ID: "anna"}, Checks: []string{"output"}},
		run.TurnStarted{Turn: 1, Attempt: 1},
		run.TurnFailed{Turn: 1, Cause: "LOST"},
		run.TurnAnswered{Turn: 1, Class: run.ClassCalls},
		run.CallProposed{Call: 1, Turn: 1, Tool: "bank.pay", Impact: policy.Irreversible, Class: policy.Keyed},
		run.CallJudged{Call: 1, Verdict: policy.Verdict{Answer: policy.Permit}},
		run.CallJudged{Call: 2, Verdict: policy.Verdict{Answer: policy.Forbid, Reasons: []policy.Reason{{Policy: "never"}}}},
		run.CallJudged{Call: 3, Verdict: policy.Verdict{Answer: policy.Simulate, Would: policy.Hold}},
		run.ApprovalRequested{Approval: "ap1", Call: 1, Digest: "0123456789abcdef", Approvers: who},
		run.ApprovalDecided{Approval: "ap1", By: tomas, Granted: true},
		run.ApprovalDecided{Approval: "ap1", By: tomas, Reason: &run.Text{}},
		run.ApprovalVoided{Approval: "ap1", Cause: run.VoidExpired},
		run.QuestionAsked{Question: "q1", Call: 1, To: who},
		run.QuestionAnswered{Question: "q1", By: tomas},
		run.QuestionVoided{Question: "q1", Cause: run.VoidCancelled},
		run.CallIntended{Call: 1},
		run.CallUncertain{Call: 1, Cause: "LOST"},
		run.UncertainResolved{Call: 1, By: tomas, Resolution: run.Happened},
		run.CallEnded{Call: 1, Outcome: run.OutcomeOK},
		run.CallEnded{Call: 1, Outcome: run.OutcomeFailed, Code: "HTTP_500"},
		run.LateOutcome{Call: 1, Outcome: run.OutcomeOK},
		run.SteerAccepted{By: tomas},
		run.SteerSettled{Disposition: run.Absorbed},
		run.CancelAccepted{By: tomas},
		run.LimitReached{Limit: "TURNS", Detail: "5 used", Approvers: who[:1]},
		run.LimitRaised{Limit: "TURNS", By: tomas},
		run.Verified{Checks: []run.CheckResult{{Name: "output", Verdict: run.CheckPassed}, {Name: "ledger", Verdict: run.CheckFailed, Code: "ABSENT"}}},
		run.Verified{Checks: []run.CheckResult{{Name: "output", Verdict: run.CheckFailed, Code: string(run.CheckFailed)}}},
		run.Parked{Code: "BROKEN", Detail: "look"},
		run.Resumed{By: tomas},
		run.Ended{Status: run.StatusPartial, Reason: "ACCEPTED_BY_PERSON"},
	)
	require.Equal(t, `    3 turn 1 failed: LOST
    4 turn 1 answered: CALLS
    5 call 1 proposed: bank.pay
    7 call 2 FORBIDDEN by never
    8 call 3 only simulated: it would have been HOLD
    9 call 1 HELD: bank.pay — tomas (tool owner) or controller (policy) decides, digest 0123456789ab
      → gantry approve ap1 --folder x
      → gantry deny ap1 --folder x
   10 tomas granted call 1 by approval ap1
   11 tomas denied call 1 by approval ap1
   12 approval ap1 became void: EXPIRED
   13 call 1 ASKS: bank.pay — tomas (tool owner) or controller (policy) answers
      → gantry answer q1 TEXT --folder x
   14 tomas answered question q1
   15 question q1 became void: CANCELLED
   17 call 1 may or may not have happened: LOST
   18 tomas found of call 1: HAPPENED
   19 call 1 ended: OK
   20 call 1 ended: FAILED HTTP_500
   21 call 1 told late: OK
   22 tomas steers:
   23 guidance ABSORBED
   24 tomas cancels
   25 limit TURNS reached: 5 used — tomas (tool owner) decides
   26 tomas raised limit TURNS
   27 check output: PASSED
   27 check ledger: FAILED ABSENT
   28 check output: FAILED
   29 parked: BROKEN look
   30 tomas lets it go on
   31 run PARTIAL: ACCEPTED_BY_PERSON
`, strings.ReplaceAll(got, ask.Program(), "gantry"))
	require.NotContains(t, shown(t, nil, run.ApprovalRequested{Approval: "ap1"}), "approve ap1")
}

func TestTimelineWritesOutWhatIsNotSeen(t *testing.T) {
	got := shown(t, nil, run.CallProposed{Call: 1, Tool: "bank.pay\x1b[2J\u202e"})
	require.Equal(t, "    1 call 1 proposed: bank.pay\\u{001B}[2J\\u{202E}\n", got)
}

func TestTimelineSaysTheSummaryOfWhatItCannotRead(t *testing.T) {
	var out bytes.Buffer
	lines := timeline{out: &out}
	require.NoError(t, lines.print(client.Event{Seq: 7, Kind: string(run.KindVerified), Summary: "Checked.", Body: json.RawMessage(`{"checks":7}`)}))
	require.Equal(t, "    7 Checked.\n", out.String())
}

func TestOnlyACompletedRunIsASuccess(t *testing.T) {
	for status, good := range map[run.Status]bool{run.StatusCompleted: true, run.StatusPartial: false, run.StatusFailed: false, run.StatusCancelled: false} {
		err := outcome(client.Run{End: &client.End{Status: string(status)}})
		require.Equal(t, good, err == nil, status)
	}
	require.NoError(t, outcome(client.Run{Status: "WAITING"}))
}

func TestTheTimelineSaysWhichOfTwoModelsAnswered(t *testing.T) {
	require.Equal(t, "    1 turn 1 answered by b, of two models that were asked: TEXT\n",
		shown(t, &hints{}, run.TurnAnswered{Turn: 1, Class: run.ClassText, Hedged: &run.Hedged{By: "b"}}))
}

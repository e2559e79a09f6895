package account

import (
	"fmt"
	"time"

	"gantry.dev/orchestrator/run"
)

// summaries say what each kind of event means, without any text of the run.
var summaries = map[run.EventKind]string{
	run.KindStarted:           "The run was admitted.",
	run.KindTurnStarted:       "A model request was sent.",
	run.KindTurnAnswered:      "The model answered.",
	run.KindTurnFailed:        "A model request failed.",
	run.KindModelsOut:         "No model that is right for the turn can be asked now; the run waits and tries again by itself.",
	run.KindCallProposed:      "The model proposed a call.",
	run.KindCallJudged:        "Policy judged a call.",
	run.KindApprovalRequested: "A call is held for people.",
	run.KindApprovalDecided:   "A person decided on a held call.",
	run.KindApprovalVoided:    "An approval became void.",
	run.KindQuestionAsked:     "The model, or the server of a tool, asked a person.",
	run.KindQuestionAnswered:  "A person answered.",
	run.KindQuestionVoided:    "A question became void.",
	run.KindAccessRequested:   "The run asks for something that it may not use yet.",
	run.KindAccessDecided:     "Its owner decided whether the run may use it.",
	run.KindAccessVoided:      "A request for access became void.",
	run.KindCallIntended:      "An attempt of a call is about to begin.",
	run.KindCallEnded:         "A call ended.",
	run.KindCallUncertain:     "A call may or may not have happened.",
	run.KindUncertainResolved: "A person found out what became of an uncertain call.",
	run.KindLateOutcome:       "An outcome arrived late and changed nothing.",
	run.KindSteerAccepted:     "A person or a sidecar gave guidance.",
	run.KindSteerSettled:      "It is decided what became of a person's guidance.",
	run.KindCancelAccepted:    "A person cancelled the run.",
	run.KindLimitReached:      "A limit was reached; a person is asked.",
	run.KindLimitRaised:       "A person raised a limit.",
	run.KindVerified:          "The completion checks looked at the answer.",
	run.KindCompacted:         "From here on prompts show a part of the run in brief.",
	run.KindEnded:             "The run ended.",
	run.KindParked:            "The run was parked for an operator.",
	run.KindResumed:           "A person let the run go on.",
	run.KindChildStarted:      "A run was started for a part of the work.",
	run.KindChildStopped:      "A run that was started for a part of the work was told to stop.",
	run.KindChildEnded:        "A run that was started for a part of the work ended.",
	run.KindReviewDeclined:    "A review could not begin: what was to be reviewed counts as not having passed.",
	run.KindSidecarStarted:    "A sidecar began beside the run, or could not begin.",
}

// Summary says what a kind of event means, in one sentence without any text of
// the run.
func Summary(kind run.EventKind) string {
	if text, known := summaries[kind]; known {
		return text
	}
	return "An event of a kind that is not known here."
}

// beside is what went on beside the run, and what reviewers said.
func (e explainer) beside() []string {
	var lines []string
	for _, one := range e.s.Reviews() {
		line := fmt.Sprintf("%s: reviewed by agent %s: %s", one.Of, one.Agent, told(string(one.Standing), one.Code))
		if one.Child != nil && one.Child.Ended != nil {
			line += " " + short(e.optional(one.Child.Ended.Result))
		}
		lines = append(lines, line)
	}
	for _, sidecar := range e.s.Sidecars {
		line := fmt.Sprintf("agent %s went on beside it (%s) as run %s", sidecar.Agent, sidecar.Purpose, sidecar.Sidecar)
		switch {
		case sidecar.Code != "":
			line = fmt.Sprintf("agent %s could not begin beside it (%s): %s", sidecar.Agent, sidecar.Purpose, sidecar.Code)
		case sidecar.Purpose == "":
			line = fmt.Sprintf("agent %s did a piece of work beside it as run %s", sidecar.Agent, sidecar.Sidecar)
		}
		lines = append(lines, line)
	}
	return lines
}

// steering is how something came in.
func steering(steer run.SteerState) string {
	switch {
	case steer.Evidence:
		return "brought evidence from run " + steer.From
	case steer.From != "":
		return "steered from run " + steer.From
	}
	return "steered"
}

// offers are the models that a turn was not taken with, and why.
func offers(turn run.Turn) []string {
	var lines []string
	for _, offer := range turn.Offers {
		switch {
		case offer.Model == turn.First || offer.Model == turn.Model:
		case offer.Refusal != "":
			lines = append(lines, fmt.Sprintf("turn %d not with %s: %s", turn.Number, offer.Model, offer.Refusal))
		default:
			lines = append(lines, fmt.Sprintf("turn %d could have been with %s for about %d micro-dollars, at most %d", turn.Number, offer.Model, offer.MicroUSD, offer.Worst))
		}
	}
	return lines
}

// outage says what a run waits for that waits for a model.
func outage(e *run.ModelsOut) []string {
	lines := []string{fmt.Sprintf("no model can be asked for turn %d: wait %d in a row, until %s, when it tries again by itself", e.Turn, e.Wait,
		time.UnixMilli(e.RetryAtMs).UTC().Format(time.RFC3339)) + cause(e.Cause)}
	for _, offer := range e.Offers {
		if offer.Refusal != "" {
			lines = append(lines, offer.Model+": "+offer.Refusal)
		}
	}
	return lines
}

func cause(code string) string {
	if code == "" {
		return ""
	}
	return "; the last attempt ended as " + code
}

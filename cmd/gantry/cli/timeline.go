package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// timeline prints a run's events, one line each.
type timeline struct {
	out   io.Writer
	hints *hints         // also say what a person may do now; nil not to
	calls map[int]string // the proposed calls by number
	asked map[string]int // the calls by the approvals that were asked for them
}

// fact is what any kind of event may hold of what is printed.
type fact struct {
	Access                         string
	Want                           wanted
	Turn, Call                     int
	Through, Said                  int
	RetryAtMs                      int64
	Class, Outcome, Cause, Code    string
	Tool                           string
	Arguments, Text                *client.Text
	Verdict                        policy.Verdict
	Approval, Question, Digest     string
	Approvers, To                  []policy.Approver
	By                             *run.Identity
	Granted                        bool
	Scope                          run.Scope
	Resolution, Disposition, Limit string
	Detail                         string
	Checks                         []struct{ Name, Verdict, Code string }
	Child, Agent                   string
	Carve, Settled                 run.Amount
	Status, Reason                 any // of an end; a person's reason is a text
	Of                             string
	Purpose                        run.Purpose
	Hedged                         run.Hedged
	Accepted                       []string
	Unverified                     bool
	Evidence                       any // whether a steer is one; of a finding its text
}

// begin prints what was asked.
func (t *timeline) begin(r client.Run) error {
	return t.say("run %s started: %s asks %s: %s", client.ShortID(r.ID), r.Subject.Principal, r.Agent, oneLine(r.Goal.Display))
}

// print prints an event. Kinds that say little to people print nothing.
func (t *timeline) print(e client.Event) error {
	if run.EventKind(e.Kind) == run.KindStarted {
		return nil // said by begin
	}
	var f fact
	if err := e.Decode(&f); err != nil {
		return t.say("  %3d %s", e.Seq, e.Summary) // of a newer server
	}
	for _, sentence := range t.sentences(run.EventKind(e.Kind), f) {
		if err := t.say("  %3d %s", e.Seq, strings.TrimSpace(sentence)); err != nil {
			return err
		}
	}
	if t.hints == nil {
		return nil
	}
	for _, hint := range t.hints.after(run.EventKind(e.Kind), f) {
		if err := t.say("      → %s", hint); err != nil {
			return err
		}
	}
	return nil
}

func (t *timeline) sentences(kind run.EventKind, f fact) []string {
	one := func(format string, args ...any) []string {
		return []string{fmt.Sprintf(format, args...)}
	}
	switch kind {
	case run.KindTurnAnswered:
		if f.Hedged.By != "" {
			return one("turn %d answered by %s, of two models that were asked: %s", f.Turn, f.Hedged.By, f.Class)
		}
		return one("turn %d answered: %s", f.Turn, f.Class)
	case run.KindCompacted:
		return one("turn %d with less: turns to %d and %d messages before in brief (%s)", f.Turn, f.Through, f.Said, f.Cause)
	case run.KindTurnFailed:
		return one("turn %d failed: %s", f.Turn, f.Cause)
	case run.KindModelsOut:
		return one("no model can be asked for turn %d: it tries again by itself at %s", f.Turn, time.UnixMilli(f.RetryAtMs).UTC().Format(time.TimeOnly))
	case run.KindCallProposed:
		if t.calls == nil {
			t.calls = map[int]string{}
		}
		t.calls[f.Call] = strings.TrimSpace(f.Tool + " " + display(f.Arguments))
		return one("call %d proposed: %s", f.Call, t.calls[f.Call])
	case run.KindCallJudged:
		return judged(f)
	case run.KindCallEnded:
		return one("call %d ended: %s", f.Call, told(f.Outcome, f.Code))
	case run.KindCallUncertain:
		return one("call %d may or may not have happened: %s", f.Call, f.Cause)
	case run.KindLateOutcome:
		return one("call %d told late: %s", f.Call, f.Outcome)
	case run.KindVerified:
		var checks []string
		for _, check := range f.Checks {
			checks = append(checks, one("check %s: %s", check.Name, told(check.Verdict, check.Code))...)
		}
		return checks
	case run.KindChildStarted:
		return one("run %s of %s started for it, with %s", f.Child, f.Agent, ask.Dollars(f.Carve.MicroUSD))
	case run.KindChildStopped:
		return one("run %s was told to stop", f.Child)
	case run.KindChildEnded:
		said := one("run %s ended %v: %s, %s spent", f.Child, f.Status, told(fmt.Sprint(f.Reason), f.Code), ask.Dollars(f.Settled.MicroUSD))
		if f.Unverified {
			said = append(said, one("its result is unverified: the word of its model alone")...)
		}
		return said
	case run.KindLimitReached:
		return one("limit %s reached: %s — %s decides", f.Limit, f.Detail, names(f.Approvers))
	case run.KindParked:
		return one("parked: %s %s", f.Code, f.Detail)
	case run.KindEnded:
		said := one("run %v: %s", f.Status, told(fmt.Sprint(f.Reason), f.Code))
		if f.By != nil && len(f.Accepted) > 0 {
			said = append(said, one("%s accepted it with these checks open: %s", f.By.Principal, strings.Join(f.Accepted, ", "))...)
		}
		return said
	}
	return t.byPeople(kind, f)
}

// byPeople is what people are asked, and what they say.
func (t *timeline) byPeople(kind run.EventKind, f fact) []string {
	var who string
	if f.By != nil {
		who = f.By.Principal
		if f.By.OnBehalfOf != "" {
			who += " as the deputy of " + f.By.OnBehalfOf
		}
	}
	switch kind {
	case run.KindApprovalRequested:
		if t.asked == nil {
			t.asked = map[string]int{}
		}
		t.asked[f.Approval] = f.Call
		return []string{fmt.Sprintf("call %d HELD: %s — %s decides, digest %.12s", f.Call, t.calls[f.Call], names(f.Approvers), f.Digest)}
	case run.KindApprovalDecided:
		word := "denied"
		if f.Granted {
			word = "granted"
		}
		if call, known := t.asked[f.Approval]; known {
			return []string{fmt.Sprintf("%s %s call %d by approval %s", who, word, call, f.Approval)}
		}
		return []string{fmt.Sprintf("%s %s approval %s", who, word, f.Approval)}
	case run.KindApprovalVoided:
		return []string{fmt.Sprintf("approval %s became void: %s", f.Approval, f.Cause)}
	case run.KindUncertainResolved:
		return []string{fmt.Sprintf("%s found of call %d: %s", who, f.Call, f.Resolution)}
	case run.KindSteerAccepted:
		verb := "steers"
		if f.Evidence == true {
			verb = "brings evidence"
		}
		return []string{fmt.Sprintf("%s %s: %s", who, verb, oneLine(display(f.Text)))}
	case run.KindReviewDeclined:
		return []string{fmt.Sprintf("%s is not reviewed: %s", f.Of, f.Code)}
	case run.KindSidecarStarted:
		if f.Code != "" {
			return []string{fmt.Sprintf("%s could not begin beside it: %s", f.Agent, f.Code)}
		}
		return []string{strings.TrimSpace(fmt.Sprintf("%s goes on beside it %s", f.Agent, strings.ToLower(string(f.Purpose))))}
	case run.KindSteerSettled:
		return []string{"guidance " + f.Disposition}
	case run.KindCancelAccepted:
		return []string{who + " cancels"}
	case run.KindLimitRaised:
		return []string{fmt.Sprintf("%s raised limit %s", who, f.Limit)}
	case run.KindResumed:
		return []string{who + " lets it go on"}
	}
	return t.wanting(kind, f, who)
}

// wanting is what a run asks people for besides approvals, and what they say.
func (t *timeline) wanting(kind run.EventKind, f fact, who string) []string {
	switch kind {
	case run.KindQuestionAsked:
		return []string{fmt.Sprintf("call %d ASKS: %s — %s answers", f.Call, t.calls[f.Call], names(f.To))}
	case run.KindQuestionAnswered:
		return []string{fmt.Sprintf("%s answered question %s", who, f.Question)}
	case run.KindQuestionVoided:
		return []string{fmt.Sprintf("question %s became void: %s", f.Question, f.Cause)}
	case run.KindAccessRequested:
		return []string{fmt.Sprintf("call %d WANTS %s: %s — %s decides, digest %.12s", f.Call, f.Want.named(), t.calls[f.Call], names(f.Approvers), f.Digest)}
	case run.KindAccessDecided:
		word := "refused"
		if f.Granted {
			word = "consented to"
		}
		line := fmt.Sprintf("%s %s request %s", who, word, f.Access)
		if f.Scope != run.ForRun {
			line += " for the " + strings.ToLower(string(f.Scope))
		}
		return []string{line}
	case run.KindAccessVoided:
		return []string{fmt.Sprintf("request %s became void: %s", f.Access, f.Cause)}
	}
	return nil
}

// wanted is what a run asks for.
type wanted struct{ Thing, Name string }

func (w wanted) named() string {
	return strings.TrimSpace(strings.ToLower(w.Thing) + " " + w.Name)
}

// judged tells of a verdict that no other event follows from.
func judged(f fact) []string {
	var by []string
	for _, reason := range f.Verdict.Reasons {
		by = append(by, reason.Policy)
	}
	switch f.Verdict.Answer {
	case policy.Forbid:
		return []string{fmt.Sprintf("call %d FORBIDDEN by %s", f.Call, strings.Join(by, ", "))}
	case policy.Simulate:
		return []string{fmt.Sprintf("call %d only simulated: it would have been %s", f.Call, f.Verdict.Would)}
	}
	return nil
}

// after says what who is asked by an event can do.
func (h hints) after(kind run.EventKind, f fact) []string {
	switch kind {
	case run.KindApprovalRequested:
		return h.decide(f.Approval)
	case run.KindAccessRequested:
		return []string{h.command("consent", f.Access), h.command("withhold", f.Access)}
	case run.KindQuestionAsked:
		return []string{h.command("answer", f.Question, "TEXT")}
	}
	return nil
}

// decide says how an approval is given and refused.
func (h hints) decide(approval string) []string {
	return []string{h.command("approve", approval), h.command("deny", approval)}
}

// say prints one line with every character that is not seen written out: a
// model or a stranger may have chosen it.
func (t *timeline) say(format string, args ...any) error { return ask.Say(t.out, format, args...) }

func display(text *client.Text) string {
	if text == nil {
		return ""
	}
	return text.Display
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func names(approvers []policy.Approver) string {
	var who []string
	for _, approver := range approvers {
		who = append(who, approver.Principal+approver.Role+" ("+approver.Why+")")
	}
	return strings.Join(who, " or ")
}

package prompt

import (
	"fmt"
	"strings"

	"gantry.dev/agents/model"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/run"
)

func (c *Compiler) turn(turn *run.Turn) {
	c.remember(turn)
	c.steers(turn.Number)
	answer := model.Message{Role: model.Assistant, Text: c.text(turn.Answer.Text)}
	answer.Thread, answer.ThreadOf = c.thread(turn)
	var replies []model.Message
	for ordinal := turn.FirstCall; ordinal > 0 && ordinal <= turn.LastCall; ordinal++ {
		call := c.in.State.Call(ordinal)
		id := fmt.Sprintf("c%d", ordinal)
		answer.Calls = append(answer.Calls, model.Call{ID: id, Name: call.Tool, Arguments: c.arguments(call)})
		reply := Showing(c.in.Brief, call)
		reply.Role, reply.CallID, reply.Media = model.ToolReply, id, c.media(call, reply.Media)
		reply.Text = strings.Join(append([]string{c.reply(call)}, c.unshown(call)...), "\n")
		replies = append(replies, reply)
	}
	c.say(answer)
	for _, reply := range replies {
		c.say(reply)
	}
	if note := c.note(turn); note != "" {
		c.say(model.Message{Role: model.User, Text: note})
	}
}

// thread is what a model gave with its answer and wants back. One that was
// erased is left out as a whole: half of it would be refused.
func (c *Compiler) thread(turn *run.Turn) (thread []byte, of string) {
	if turn.Answer.Thread == nil {
		return nil, ""
	}
	payload, present := c.in.Texts[turn.Answer.Thread.ID]
	if !present {
		return nil, ""
	}
	return payload.Bytes, turn.Answer.ThreadOf
}

// arguments gives what the call was proposed with; bytes that are no JSON are
// left out, since a provider would refuse them.
func (c *Compiler) arguments(call *run.Call) []byte {
	raw := []byte(c.text(&call.Arguments))
	if _, err := canon.JSON(raw); err != nil {
		return []byte("{}")
	}
	return raw
}

var outcomeNotes = map[run.Outcome]string{
	run.OutcomeFailed:    "FAILED: the call did not happen or the tool could not do it.",
	run.OutcomeRefused:   "REFUSED: the call does not meet the tool's contract.",
	run.OutcomeForbidden: "FORBIDDEN: policy does not allow this call. Do not try it again.",
	run.OutcomeDenied:    "DENIED: the person who decides said no. Do not try it again.",
	run.OutcomeExpired:   "EXPIRED: nobody decided in time; the call did not happen.",
	run.OutcomeVoid:      "VOID: the call was withdrawn before it started.",
	run.OutcomeSimulated: "SIMULATED: the call was only recorded; nothing happened outside.",
	run.OutcomeUnknown:   "UNKNOWN: it could not be established whether the call happened.",
}

// unverifiedNote stands before a child's result behind which there is nothing
// but its model.
const unverifiedNote = "UNVERIFIED: whoever did this made no call, and nothing was looked up outside. What it says it made may not be there; do not report it as done."

func (c *Compiler) reply(call *run.Call) string {
	note := outcomeNotes[call.Outcome]
	if note != "" && call.Code != "" && call.Code != string(call.Outcome) {
		note += " Code " + call.Code + "."
	}
	if call.Requests && call.Outcome == run.OutcomeAnswered {
		return "GRANTED: you may use it from now on, in this run."
	}
	if call.Result == nil {
		return note
	}
	if child := c.in.State.Child(call.Child); child != nil && child.Ended != nil && child.Ended.Unverified {
		note = strings.TrimSpace(note + " " + unverifiedNote)
	}
	if shown, recalled := c.recallReply(call); recalled {
		return strings.TrimSpace(note + "\n" + c.wrap(call.Tool, call.Result, shown))
	}
	return strings.TrimSpace(note + "\n" + c.result(call))
}

// note tells the model why an answer was not enough.
func (c *Compiler) note(turn *run.Turn) string {
	switch turn.Answer.Class {
	case run.ClassEmpty:
		return "Your answer was empty. Answer, or propose a call."
	case run.ClassCut:
		return "Your answer was cut off at the length limit. Answer more briefly."
	case run.ClassMalformed:
		return "Your answer could not be read. Answer again."
	}
	var failed []string
	for _, check := range failedChecks(turn) {
		failed = append(failed, "- "+check.Name+": "+c.text(check.Detail))
	}
	if len(failed) == 0 {
		return ""
	}
	return "Your answer did not pass these checks; mend it:\n" + strings.Join(failed, "\n")
}

func failedChecks(turn *run.Turn) []run.CheckResult {
	if turn.Checks == nil {
		return nil
	}
	var failed []run.CheckResult
	for _, check := range turn.Checks.Checks {
		if check.Verdict == run.CheckFailed {
			failed = append(failed, check)
		}
	}
	return failed
}

// steers puts in the guidance that turn n absorbed; 0 stands for what is open,
// whose ids it returns.
func (c *Compiler) steers(n int) (open []string) {
	for i := range c.in.State.Steers {
		steer := &c.in.State.Steers[i]
		isOpen := steer.Disposition == ""
		if n == 0 && isOpen || n > 0 && steer.Disposition == run.Absorbed && steer.Turn == n {
			said := c.text(&steer.Text)
			if steer.From != "" {
				said = c.bySidecar(steer)
			}
			c.say(model.Message{Role: model.User, Text: said})
			if isOpen {
				open = append(open, steer.Steer)
			}
		}
	}
	return open
}

// guidance puts in again what people said to guide a turn that stands in brief.
func (c *Compiler) guidance(n int) {
	for i := range c.in.State.Steers {
		if steer := &c.in.State.Steers[i]; steer.From == "" && steer.Disposition == run.Absorbed && steer.Turn == n {
			c.say(model.Message{Role: model.User, Text: c.text(&steer.Text)})
		}
	}
}

// bySidecar is how a sidecar's finding stands in a prompt.
func (c *Compiler) bySidecar(steer *run.SteerState) string {
	kind := "guidance of"
	if steer.Evidence {
		kind = "evidence found by"
	}
	return "While you worked, this came in as " + kind + " " + steer.By.Principal + ", which goes on beside you. It is no instruction of the person for whom you act.\n" +
		c.block(steer.By.Principal, &steer.Text, c.text(&steer.Text))
}

package watch

import (
	"context"
	"slices"
	"unicode/utf8"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// Redacted stands where a text is withheld or erased.
const Redacted = "[redacted]"

// Event is one thing that happened in the main run.
type Event struct {
	Number uint64  `json:"number"`
	Kind   string  `json:"kind"`
	Means  string  `json:"means"`
	Turn   int     `json:"turn,omitempty"`
	Call   int     `json:"call,omitempty"`
	Tool   string  `json:"tool,omitempty"`  // of a registered tool alone: another name is the model's own words
	Agent  string  `json:"agent,omitempty"` // name
	By     string  `json:"by,omitempty"`    // principal id
	Code   string  `json:"code,omitempty"`  // how it came out
	Text   *string `json:"text,omitempty"`

	text *run.Text
}

// told is what an event of a run is for who watches it: named parts only, so
// that what is added to a record is not shown before somebody thought of it.
func told(record run.Record) Event {
	out := Event{Number: record.Seq, Kind: string(record.Kind), Means: account.Summary(record.Kind)}
	event, err := run.Decode(record)
	if err != nil {
		return out
	}
	if !out.ofTurns(event) && !out.ofCalls(event) {
		out.ofPeople(event)
	}
	return out
}

func (out *Event) ofTurns(event run.Event) bool {
	switch e := event.(type) {
	case run.Started:
		out.Agent, out.By, out.text = e.Agent.Name, e.Subject.ID, &e.Goal
	case run.TurnStarted:
		out.Turn = e.Turn
	case run.TurnAnswered:
		out.Turn, out.Code, out.text = e.Turn, string(e.Class), e.Text
	case run.Compacted:
		out.Turn, out.Code = e.Turn, string(e.Cause)
	case run.TurnFailed:
		out.Turn, out.Code = e.Turn, e.Cause
	case run.Verified:
		out.Turn, out.Code = e.Turn, string(run.CheckPassed)
		for _, check := range e.Checks {
			if check.Verdict != run.CheckPassed {
				out.Code = string(check.Verdict)
			}
		}
	case run.Ended:
		out.Code, out.text = string(e.Status), e.Result
	case run.Parked:
		out.Code = e.Code
	default:
		return false
	}
	return true
}

func (out *Event) ofCalls(event run.Event) bool {
	switch e := event.(type) {
	case run.CallProposed:
		out.Call, out.Turn, out.Agent, out.text = e.Call, e.Turn, e.Delegate, &e.Arguments
		if e.Revision != "" {
			out.Tool = e.Tool
		}
	case run.CallJudged:
		out.Call, out.Code = e.Call, string(e.Verdict.Answer)
	case run.CallIntended:
		out.Call = e.Call
	case run.CallEnded:
		out.Call, out.Code, out.text = e.Call, string(e.Outcome), e.Result
	case run.CallUncertain:
		out.Call, out.Code = e.Call, e.Cause
	case run.LateOutcome:
		out.Call, out.Code, out.text = e.Call, string(e.Outcome), e.Result
	case run.ChildStarted:
		out.Call, out.Agent = e.Call, e.Agent
	case run.SidecarStarted:
		out.Agent, out.Code = e.Agent, e.Code
	case run.ReviewDeclined:
		out.Code = e.Code
	default:
		return false
	}
	return true
}

func (out *Event) ofPeople(event run.Event) {
	switch e := event.(type) {
	case run.ApprovalRequested:
		out.Call = e.Call
	case run.ApprovalDecided:
		out.By, out.Code, out.text = e.By.Principal, "DENIED", e.Reason
		if e.Granted {
			out.Code = "GRANTED"
		}
	case run.ApprovalVoided:
		out.Code = string(e.Cause)
	case run.QuestionAsked:
		out.Call = e.Call
	case run.AccessRequested:
		out.Call = e.Call
	case run.AccessDecided:
		out.By, out.Code, out.text = e.By.Principal, "DENIED", e.Reason
		if e.Granted {
			out.Code = "GRANTED"
		}
	case run.AccessVoided:
		out.Code = string(e.Cause)
	case run.QuestionAnswered:
		out.By, out.text = e.By.Principal, &e.Answer
	case run.QuestionVoided:
		out.Code = string(e.Cause)
	case run.UncertainResolved:
		out.Call, out.By, out.Code, out.text = e.Call, e.By.Principal, string(e.Resolution), &e.Evidence
	case run.SteerAccepted:
		out.By, out.text = e.By.Principal, &e.Text
	case run.SteerSettled:
		out.Turn, out.Code = e.Turn, string(e.Disposition)
	case run.CancelAccepted:
		out.By, out.text = e.By.Principal, e.Reason
	case run.LimitReached:
		out.Code = string(e.Limit)
	case run.LimitRaised:
		out.By, out.Code = e.By.Principal, string(e.Limit)
	case run.Resumed:
		out.By = e.By.Principal
	}
}

// showing is one result in the making.
type showing struct {
	reader  tool.Invocation
	seen    Seen
	marking policy.Marking
	items   []string // that the shown texts quote
}

// show puts records into the result, as many as it has room for.
func (s *showing) show(ctx context.Context, journal Journal, records []run.Record) error {
	if len(records) > mostEvents {
		records, s.seen.More = records[:mostEvents], true
	}
	var readable []string
	for _, record := range records {
		event := told(record)
		if event.text != nil && s.reads(event.text.Marking.Labels) {
			readable = append(readable, event.text.ID)
		}
		s.seen.Events = append(s.seen.Events, event)
	}
	var opened map[string]Text
	if len(readable) > 0 {
		var err error
		if opened, err = journal.Texts(ctx, readable); err != nil {
			return err
		}
	}
	s.fill(opened)
	return nil
}

// reads reports whether the run that watches may read texts with these labels.
func (s *showing) reads(labels policy.Labels) bool {
	return s.reader.Subject.Sees(labels) && labels.Within(s.reader.Reader.Clearance)
}

// fill puts texts into the events, up to the bound of all of them.
func (s *showing) fill(opened map[string]Text) {
	room := mostTexts
	for i := range s.seen.Events {
		event := &s.seen.Events[i]
		if event.text == nil {
			s.seen.Next = event.Number
			continue
		}
		shown := Redacted
		if text, there := opened[event.text.ID]; there && s.reads(event.text.Marking.Labels) {
			shown = short(text.Bytes)
			if room -= len(shown); room < 0 {
				s.seen.Events, s.seen.More = s.seen.Events[:i], true
				break
			}
			s.marking = s.marking.Join(event.text.Marking)
			s.items = append(s.items, text.Items...)
		}
		event.Text, s.seen.Next = &shown, event.Number
	}
	slices.Sort(s.items)
	s.items = slices.Compact(s.items)
}

// short is a text, cut where it is too long to be shown whole.
func short(text []byte) string {
	if len(text) <= mostText {
		return string(text)
	}
	cut := mostText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return string(text[:cut]) + "…"
}

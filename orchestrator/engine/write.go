package engine

import (
	"strconv"

	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// draft grows into one write: decisions are applied to the state as they come,
// so that the next one is decided on what the write will have made of the run.
// When the write fails the state is dropped with the draft.
type draft struct {
	state *run.State
	nowMs int64
	write Write
	last  run.Record
	unmet *run.Refusal // what the caller is told once the write stands
	ends  bool         // the write ends the run, or begins to
}

func newDraft(state *run.State, nowMs int64, epoch uint64) *draft {
	return &draft{state: state, nowMs: nowMs,
		write: Write{From: state.Version, Epoch: epoch},
		last:  run.Record{Run: state.ID, Seq: state.Version, Digest: state.Head}}
}

func (d *draft) empty() bool { return len(d.write.Records) == 0 }

// add decides one command and applies its events.
func (d *draft) add(command run.Command, rules run.Rules, payloads []Payload) ([]run.Event, error) {
	decision, refusal := run.Decide(d.state, command, run.Env{NowMs: d.nowMs, Rules: rules})
	if refusal != nil {
		return nil, refusal
	}
	borne := map[string]bool{}
	for _, event := range decision.Events {
		for _, text := range event.Texts() {
			borne[text.ID] = true
		}
		record, err := run.Encode(d.state.ID, d.last, d.nowMs, event)
		if err != nil {
			return nil, err
		}
		if err := run.Apply(d.state, event); err != nil {
			return nil, err
		}
		d.state.Head = record.Digest
		d.last = record
		d.write.Records = append(d.write.Records, record)
		d.note(event, rules)
		for _, recalled := range run.Recalls(event) {
			d.write.Links = append(d.write.Links, Link{Item: recalled.Item})
		}
	}
	d.write.Guards = append(d.write.Guards, decision.Guards...)
	d.write.Gates = append(d.write.Gates, decision.Gates...)
	d.write.Budget = append(d.write.Budget, decision.Budget...)
	for _, payload := range payloads {
		if borne[payload.Text.ID] { // a text that no event bears would never be erased with its run
			d.write.Payloads = append(d.write.Payloads, payload)
			for _, item := range payload.Items {
				d.write.Links = append(d.write.Links, Link{Item: item, Text: payload.Text.ID})
			}
		}
	}
	if decision.Unmet != nil {
		d.unmet = decision.Unmet
	}
	return decision.Events, nil
}

// finish fills in the row of the run.
func (d *draft) finish() Write {
	s := d.state
	d.write.Head = run.Head{
		Run: s.ID, Version: s.Version, Digest: s.Head, Epoch: d.write.Epoch, Status: s.Status, DueMs: run.DueMs(s, d.nowMs),
		Organisation: s.Started.Organisation, Root: s.Started.Root, Parent: s.Started.Parent, Conversation: s.Started.Conversation,
		Subject: s.Started.Subject.ID, Agent: s.Started.Agent.Name, Department: s.Started.Payer(), Labels: s.Marking.Labels,
	}
	d.write.Wakes = d.wakes()
	return d.write
}

// wakes are the runs to which this write is news: who waits for the end of the
// run, and what goes on beside it.
func (d *draft) wakes() (runs []string) {
	s := d.state
	if !d.ends {
		return nil
	}
	if s.Ended != nil && s.Started.Task.Awaited() {
		runs = append(runs, s.Started.Parent)
	}
	for _, sidecar := range s.Sidecars {
		// One that outlives the run's end begins nothing more after its cancel, either.
		if sidecar.Code == "" && (!sidecar.Outlives || s.Cancel != nil) {
			runs = append(runs, sidecar.Sidecar)
		}
	}
	return runs
}

// note keeps the inbox and the conversation in step with an event.
func (d *draft) note(event run.Event, rules run.Rules) {
	switch e := event.(type) {
	case run.Started:
		if e.Said == nil {
			d.entry("message", e.Subject.ID, &e.Goal)
		}
		d.entry("run_started", e.Acting(), nil)
	case run.ApprovalRequested:
		d.open(e.Approval, InboxApproval, e.Approvers, e.NotAfterMs)
	case run.ApprovalDecided:
		if e.Complete {
			d.close(e.Approval, InboxApproval)
		}
	case run.ApprovalVoided:
		d.close(e.Approval, InboxApproval)
	case run.QuestionAsked:
		d.open(e.Question, InboxQuestion, e.To, e.NotAfterMs)
	case run.QuestionAnswered:
		d.close(e.Question, InboxQuestion)
	case run.QuestionVoided:
		d.close(e.Question, InboxQuestion)
	case run.AccessRequested:
		d.open(e.Access, InboxAccess, e.Approvers, e.NotAfterMs)
	case run.AccessDecided:
		d.close(e.Access, InboxAccess)
	case run.AccessVoided:
		d.close(e.Access, InboxAccess)
	case run.CallUncertain, run.CallEnded, run.UncertainResolved, run.LateOutcome:
		d.noteOutcome(event, rules)
	default:
		d.noteRun(event)
	}
}

// noteOutcome asks people about an effect whose outcome only they can find out,
// until it is known: the end of its run answers nothing.
func (d *draft) noteOutcome(event run.Event, rules run.Rules) {
	switch e := event.(type) {
	case run.CallUncertain:
		if e.Ask {
			d.askOutcome(d.state.Call(e.Call), rules)
		}
	case run.CallEnded:
		call := d.state.Call(e.Call)
		if e.Outcome == run.OutcomeUnknown && call.Class.OrWorst() != policy.ClassRead {
			d.askOutcome(call, rules)
		} else if call.AskPerson {
			d.close(d.callItem(e.Call), InboxUncertain)
		}
	case run.UncertainResolved:
		d.close(d.callItem(e.Call), InboxUncertain)
	case run.LateOutcome:
		// That one of several attempts failed says nothing of the others.
		call := d.state.Call(e.Call)
		if call.Outcome == run.OutcomeUnknown && (e.Outcome == run.OutcomeOK || call.Alone()) {
			d.close(d.callItem(e.Call), InboxUncertain)
		}
	}
}

// askOutcome asks those whose finding the run accepts.
func (d *draft) askOutcome(call *run.Call, rules run.Rules) {
	tool, _ := rules.Tool(call.Tool)
	approvers := []policy.Approver{{Principal: d.state.Started.Contact, Why: "incident contact"}}
	if tool.Owner != "" {
		approvers = append(approvers, policy.Approver{Principal: tool.Owner, Why: "tool owner"})
	}
	d.open(d.callItem(call.CallProposed.Call), InboxUncertain, approvers, 0)
}

func (d *draft) noteRun(event run.Event) {
	switch e := event.(type) {
	case run.LimitReached:
		d.open(d.state.ID+"/limit", InboxLimit, e.Approvers, 0)
	case run.LimitRaised:
		d.close(d.state.ID+"/limit", InboxLimit)
	case run.Parked:
		d.open(parkedItem(d.state.ID), InboxParked, responsible(d.state.Started), 0)
	case run.Resumed:
		d.close(parkedItem(d.state.ID), InboxParked)
	case run.SteerAccepted:
		if e.From == "" {
			d.entry("message", e.By.Principal, &e.Text)
		}
	case run.CancelAccepted, run.Ended:
		d.ends = true
		d.close(d.state.ID+"/limit", InboxLimit)
		d.close(parkedItem(d.state.ID), InboxParked)
		if ended, ok := e.(run.Ended); ok {
			d.entry("run_ended", d.state.Started.Acting(), ended.Result)
		}
	}
}

func (d *draft) callItem(call int) string { return CallItem(d.state.ID, call) }

// CallItem is the id of the inbox item of an uncertain call.
func CallItem(runID string, call int) string { return runID + "/call/" + strconv.Itoa(call) }

// parkedItem is the id of the inbox item of a parked run.
func parkedItem(runID string) string { return runID + "/parked" }

// responsible are those who answer for a run.
func responsible(started run.Started) []policy.Approver {
	return []policy.Approver{{Principal: started.Contact, Why: "incident contact"}, {Principal: started.Agent.Owner, Why: "agent owner"}}
}

func (d *draft) open(id string, kind InboxKind, approvers []policy.Approver, notAfterMs int64) {
	d.write.Inbox = append(d.write.Inbox, InboxItem{ID: id, Organisation: d.state.Started.Organisation, Run: d.state.ID,
		Kind: kind, Open: true, Approvers: approvers, NotAfterMs: notAfterMs, SinceMs: d.nowMs})
}

func (d *draft) close(id string, kind InboxKind) {
	d.write.Inbox = append(d.write.Inbox, InboxItem{ID: id, Organisation: d.state.Started.Organisation, Run: d.state.ID, Kind: kind})
}

func (d *draft) entry(kind, author string, text *run.Text) {
	if d.state.Started.Conversation == "" || d.state.Started.RunKind != run.Root {
		return // what goes on below a run is no part of the conversation
	}
	d.write.Entries = append(d.write.Entries, Entry{Organisation: d.state.Started.Organisation,
		Conversation: d.state.Started.Conversation, Kind: kind, Run: d.state.ID, Author: author, Text: text, AtMs: d.nowMs})
}

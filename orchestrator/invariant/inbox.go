package invariant

import (
	"fmt"
	"slices"
	"strconv"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// openItems is what must wait for people, by id, as the records say.
type openItems map[string]engine.InboxItem

// note follows the things that open and close.
func (o openItems) note(s *run.State, event run.Event, atMs int64) {
	open := func(id string, kind engine.InboxKind, approvers []policy.Approver, notAfterMs int64) {
		o[id] = engine.InboxItem{ID: id, Organisation: s.Started.Organisation, Run: s.ID, Kind: kind, Open: true,
			Approvers: approvers, NotAfterMs: notAfterMs, SinceMs: atMs}
	}
	switch e := event.(type) {
	case run.ApprovalRequested:
		open(e.Approval, engine.InboxApproval, e.Approvers, e.NotAfterMs)
	case run.QuestionAsked:
		open(e.Question, engine.InboxQuestion, e.To, e.NotAfterMs)
	case run.AccessRequested:
		open(e.Access, engine.InboxAccess, e.Approvers, e.NotAfterMs)
	case run.LimitReached:
		open(s.ID+"/limit", engine.InboxLimit, e.Approvers, 0)
	case run.Parked:
		open(s.ID+"/parked", engine.InboxParked, nil, 0)
	case run.CallUncertain:
		if e.Ask {
			open(callItem(s, e.Call), engine.InboxUncertain, nil, 0)
		}
	case run.CallEnded:
		delete(o, callItem(s, e.Call))
		if e.Outcome == run.OutcomeUnknown && s.Call(e.Call).Class.OrWorst() != policy.ClassRead {
			open(callItem(s, e.Call), engine.InboxUncertain, nil, 0)
		}
	case run.UncertainResolved:
		delete(o, callItem(s, e.Call))
	case run.LateOutcome:
		if call := s.Call(e.Call); call.Outcome == run.OutcomeUnknown && (e.Outcome == run.OutcomeOK || call.Alone()) {
			delete(o, callItem(s, e.Call))
		}
	}
	o.close(s)
}

// close drops what the state no longer holds open.
func (o openItems) close(s *run.State) {
	for id, item := range o {
		still := true
		switch item.Kind {
		case engine.InboxApproval:
			approval := s.Approval(id)
			still = approval != nil && approval.Status == run.ApprovalOpen
		case engine.InboxQuestion:
			question := s.Question(id)
			still = question != nil && question.Status == run.QuestionOpen
		case engine.InboxAccess:
			access := s.Access(id)
			still = access != nil && access.Status == run.AccessOpen
		case engine.InboxLimit:
			still = s.Reached != nil
		case engine.InboxParked:
			still = s.Parked != nil
		case engine.InboxUncertain: // by its own events
		}
		if !still {
			delete(o, id)
		}
	}
}

func callItem(s *run.State, call int) string { return s.ID + "/call/" + strconv.Itoa(call) }

// CheckInbox holds the inbox rows of a run against what its records leave open.
func CheckInbox(rows []engine.InboxItem, f *Fold) []Violation {
	if f.Broken {
		return nil
	}
	var found []Violation
	add := func(code Code, format string, args ...any) {
		found = append(found, Violation{Code: code, Run: f.State.ID, Text: fmt.Sprintf(format, args...)})
	}
	shown := map[string]bool{}
	for _, row := range rows {
		want, open := f.open[row.ID]
		shown[row.ID] = true
		if !open {
			add(InboxStale, "The inbox shows %s %s, which is not open.", row.Kind, row.ID)
			continue
		}
		if field := differs(row, want); field != "" {
			add(InboxWrong, "The inbox shows %s %s with another %s than the records.", row.Kind, row.ID, field)
		}
	}
	for _, id := range sortedKeys(f.open) {
		if !shown[id] {
			add(InboxMissing, "%s %s is open and in no inbox.", f.open[id].Kind, id)
		}
	}
	return found
}

// differs names the first field in which a row is not as the records say. Who
// is asked about an effect or a parked run is the configuration's word at that
// time, which the records do not hold.
func differs(row, want engine.InboxItem) string {
	switch {
	case row.Organisation != want.Organisation:
		return "organisation"
	case row.Kind != want.Kind:
		return "kind"
	case row.NotAfterMs != want.NotAfterMs:
		return "deadline"
	case row.SinceMs != want.SinceMs:
		return "beginning"
	case len(row.Approvers) == 0:
		return "audience"
	case want.Approvers != nil && !slices.Equal(row.Approvers, want.Approvers):
		return "audience"
	}
	return ""
}

func sortedKeys(items openItems) []string {
	keys := make([]string, 0, len(items))
	for id := range items {
		keys = append(keys, id)
	}
	slices.Sort(keys)
	return keys
}

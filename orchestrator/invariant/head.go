package invariant

import (
	"fmt"
	"reflect"

	"gantry.dev/orchestrator/run"
)

// CheckHead holds the row of a run against its records. Of a run that does not
// fold only the number of records is known to be wrong, and that was said.
func CheckHead(head run.Head, f *Fold) []Violation {
	if f.Broken {
		return nil
	}
	s := f.State
	var found []Violation
	wrong := func(field string, says, want any) {
		if !reflect.DeepEqual(says, want) {
			found = append(found, Violation{Code: HeadWrong, Run: head.Run, Seq: s.Version,
				Text: fmt.Sprintf("The head says %s is %v, the records say %v.", field, says, want)})
		}
	}
	wrong("version", head.Version, s.Version)
	wrong("digest", head.Digest, s.Head)
	if s.Version == 0 {
		return found
	}
	wrong("status", head.Status, s.Status)
	if head.News > head.Heard && !s.Status.Ended() && s.Parked == nil {
		wrong("due", head.DueMs > 0, true) // since it was told
	} else if due := run.DueMs(s, f.LastMs); due <= 0 || due > f.LastMs || head.DueMs <= 0 || head.DueMs > f.LatestMs {
		wrong("due", head.DueMs, due) // what is due may have been so for longer
	}
	wrong("organisation", head.Organisation, s.Started.Organisation)
	wrong("root", head.Root, s.Started.Root)
	wrong("parent", head.Parent, s.Started.Parent)
	wrong("conversation", head.Conversation, s.Started.Conversation)
	wrong("subject", head.Subject, s.Started.Subject.ID)
	wrong("agent", head.Agent, s.Started.Agent.Name)
	wrong("department", head.Department, s.Started.Payer())
	wrong("ended", head.EndedMs != 0, s.Ended != nil)
	if len(head.Labels)+len(s.Marking.Labels) > 0 {
		wrong("labels", head.Labels, s.Marking.Labels)
	}
	return found
}

// CheckGate holds the gate of what is below a run against the run: it is closed
// by the cancel and by nothing else.
func CheckGate(value string, f *Fold) []Violation {
	if f.Broken {
		return nil
	}
	want := ""
	if f.State.Cancel != nil {
		want = run.GateClosed
	}
	if value == want {
		return nil
	}
	return []Violation{{Code: GateWrong, Run: f.State.ID, Text: fmt.Sprintf("The gate of the run's tree holds %q, the records say %q.", value, want)}}
}

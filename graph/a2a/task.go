package a2a

import (
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"

	"gantry.dev/graph/operation"
)

// answerID names the one artifact of a task.
const answerID = protocol.ArtifactID("answer")

// taskOf is a run as a task.
func taskOf(run operation.Run) *protocol.Task {
	task := &protocol.Task{ID: protocol.TaskID(run.ID), ContextID: contextOf(run), Status: statusOf(run),
		History:  []*protocol.Message{{ID: run.ID + "/goal", Role: protocol.MessageRoleUser, TaskID: protocol.TaskID(run.ID), ContextID: contextOf(run), Parts: words(run.Goal.Value)}},
		Metadata: map[string]any{"status": run.Status}}
	if run.Code != "" {
		task.Metadata["code"] = run.Code
	}
	if artifact := artifactOf(run); artifact != nil {
		task.Artifacts = []*protocol.Artifact{artifact}
	}
	return task
}

// contextOf is the conversation of a run, and the run itself where it belongs to
// none: the protocol wants a context of every task.
func contextOf(run operation.Run) string {
	if run.Conversation == "" {
		return run.ID
	}
	return run.Conversation
}

func words(text string) protocol.ContentParts {
	return protocol.ContentParts{protocol.NewTextPart(text)}
}

// artifactOf is the answer of a run that has ended with one, marked with how far
// it may be trusted.
func artifactOf(run operation.Run) *protocol.Artifact {
	if run.Answer == nil {
		return nil
	}
	return &protocol.Artifact{ID: answerID, Name: "answer", Parts: words(run.Answer.Value), Metadata: map[string]any{
		"integrity": run.Answer.Integrity, "withheld": run.Answer.Withheld, "influencedByUntrusted": run.Untrusted}}
}

// statusOf says where a task stands, and what it waits for.
func statusOf(run operation.Run) protocol.TaskStatus {
	status := protocol.TaskStatus{State: stateOf(run)}
	if at, err := time.Parse(time.RFC3339, run.At); err == nil && run.Status == "QUEUED" {
		status.Timestamp = &at
	}
	if said := waitsFor(run); said != "" {
		status.Message = &protocol.Message{ID: run.ID + "/" + run.Version, Role: protocol.MessageRoleAgent,
			TaskID: protocol.TaskID(run.ID), ContextID: contextOf(run), Parts: words(said)}
	}
	return status
}

func stateOf(run operation.Run) protocol.TaskState {
	switch run.Status {
	case "QUEUED":
		return protocol.TaskStateSubmitted
	case "COMPLETED", "PARTIAL":
		return protocol.TaskStateCompleted
	case "FAILED":
		return protocol.TaskStateFailed
	case "CANCELLED":
		return protocol.TaskStateCanceled
	}
	if run.Idle() {
		return protocol.TaskStateInputRequired
	}
	return protocol.TaskStateWorking
}

// waitsFor says what a task that waits needs. A question is said in its own
// words; everything else is decided in Gantry, by whom it is for.
func waitsFor(run operation.Run) string {
	switch {
	case len(run.Questions) > 0:
		return run.Questions[0].Text.Value
	case len(run.Approvals) > 0:
		return "A person must decide about a call of " + run.Approvals[0].Tool + " in Gantry; nothing can be said to it here."
	case stateOf(run) == protocol.TaskStateInputRequired:
		return "A person must look at it in Gantry; nothing can be said to it here."
	case run.Code != "":
		return run.Code
	}
	return ""
}

package a2a

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"strings"
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/operation"
)

// patience is how long the answer to a message that is no stream waits for the
// task to rest; then it says where the task stands.
const patience = time.Minute

// tasks are the tasks of one agent that the caller may see.
type tasks struct {
	server
	agent string
	base  string // address of the server
}

var _ a2asrv.RequestHandler = tasks{}

// keyOf is the command id of what a message asks for: a message that is sent
// again is the same command.
func (t tasks) keyOf(message *protocol.Message) string {
	sum := sha256.Sum256([]byte(t.agent + "\x00" + message.ID))
	return "a2a:" + hex.EncodeToString(sum[:])
}

// run returns a run of this agent that the caller may see. Others are
// protocol.ErrTaskNotFound.
func (t tasks) run(ctx context.Context, id protocol.TaskID) (operation.Run, error) {
	got, err := t.operations.Run(ctx, string(id))
	if err == nil && got.Agent != t.agent {
		err = operation.Absent
	}
	return got, worded(err)
}

// GetTask returns one task.
func (t tasks) GetTask(ctx context.Context, in *protocol.GetTaskRequest) (*protocol.Task, error) {
	got, err := t.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return shortened(taskOf(got), in.HistoryLength), nil
}

// shortened leaves out what of the history was not asked for.
func shortened(task *protocol.Task, history *int) *protocol.Task {
	if history != nil && *history == 0 {
		task.History = nil
	}
	return task
}

// ListTasks returns a page of the caller's tasks, latest first.
func (t tasks) ListTasks(ctx context.Context, in *protocol.ListTasksRequest) (*protocol.ListTasksResponse, error) {
	size := in.PageSize
	if size == 0 {
		size = 50
	}
	if size < 0 || size > 100 {
		return nil, protocol.NewError(protocol.ErrInvalidParams, "pageSize is 1 to 100.")
	}
	runs, next, err := t.operations.Runs(ctx, t.agent, in.ContextID, in.PageToken, size)
	if err != nil {
		return nil, worded(err)
	}
	out := &protocol.ListTasksResponse{Tasks: []*protocol.Task{}, PageSize: size, NextPageToken: next}
	for _, run := range runs {
		task := shortened(taskOf(run), in.HistoryLength)
		if in.Status != protocol.TaskStateUnspecified && in.Status != task.Status.State {
			continue
		}
		if !in.IncludeArtifacts {
			task.Artifacts = nil
		}
		out.Tasks = append(out.Tasks, task)
	}
	out.TotalSize = len(out.Tasks)
	return out, nil
}

// CancelTask asks for the end of a task.
func (t tasks) CancelTask(ctx context.Context, in *protocol.CancelTaskRequest) (*protocol.Task, error) {
	got, err := t.run(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	if got.Ended() {
		return nil, protocol.ErrTaskNotCancelable
	}
	sum := sha256.Sum256([]byte(in.ID))
	got, _, err = t.operations.Cancel(ctx, string(in.ID), "", "a2a-cancel:"+hex.EncodeToString(sum[:]))
	if err != nil {
		return nil, worded(err)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	got, err = t.rest(within, ctx, got, operation.Run.Ended)
	return taskOf(got), err
}

// rest waits within a context until a run rests, and returns it as it is then.
func (t tasks) rest(within, ctx context.Context, got operation.Run, rests func(operation.Run) bool) (operation.Run, error) {
	if rests(got) {
		return got, nil
	}
	for now, err := range t.operations.States(within, got.ID) {
		if err != nil {
			break // the time is over, or the stream was cut: what counts is what is there now
		}
		if rests(now) {
			return now, nil
		}
	}
	now, err := t.operations.Run(ctx, got.ID)
	return now, worded(err)
}

// SendMessage takes a message, and returns the task once it rests: it has ended,
// or somebody must do something. After a minute it is returned as it is.
func (t tasks) SendMessage(ctx context.Context, in *protocol.SendMessageRequest) (protocol.SendMessageResult, error) {
	got, err := t.take(ctx, in)
	if err != nil {
		return nil, err
	}
	var history *int
	if in.Config != nil {
		history = in.Config.HistoryLength
	}
	if in.Config == nil || !in.Config.ReturnImmediately {
		within, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if got, err = t.rest(within, ctx, got, operation.Run.Idle); err != nil {
			return nil, err
		}
	}
	return shortened(taskOf(got), history), nil
}

// SendStreamingMessage takes a message, and tells how the task goes on until it
// rests.
func (t tasks) SendStreamingMessage(ctx context.Context, in *protocol.SendMessageRequest) iter.Seq2[protocol.Event, error] {
	return func(yield func(protocol.Event, error) bool) {
		got, err := t.take(ctx, in)
		if err != nil {
			yield(nil, err)
			return
		}
		t.tell(ctx, got, operation.Run.Idle, yield)
	}
}

// SubscribeToTask tells how a task goes on until it has ended.
func (t tasks) SubscribeToTask(ctx context.Context, in *protocol.SubscribeToTaskRequest) iter.Seq2[protocol.Event, error] {
	return func(yield func(protocol.Event, error) bool) {
		got, err := t.run(ctx, in.ID)
		if err == nil && got.Ended() {
			err = protocol.NewError(protocol.ErrUnsupportedOperation, "The task has ended; get it instead.")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		t.tell(ctx, got, operation.Run.Ended, yield)
	}
}

// tell yields the task, then every change, until it rests.
func (t tasks) tell(ctx context.Context, got operation.Run, rests func(operation.Run) bool, yield func(protocol.Event, error) bool) {
	task := taskOf(got)
	if !yield(task, nil) || rests(got) {
		return
	}
	state, said := task.Status.State, waitsFor(got)
	for now, err := range t.operations.States(ctx, got.ID) {
		if err != nil {
			yield(nil, worded(err))
			return
		}
		if artifact := artifactOf(now); artifact != nil && !yield(&protocol.TaskArtifactUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Artifact: artifact, LastChunk: true}, nil) {
			return
		}
		status := statusOf(now)
		if status.State != state || waitsFor(now) != said {
			if !yield(&protocol.TaskStatusUpdateEvent{TaskID: task.ID, ContextID: task.ContextID, Status: status}, nil) {
				return
			}
		}
		if state, said = status.State, waitsFor(now); rests(now) {
			return
		}
	}
}

// take does what a message asks for: it begins a task, answers its question, or
// guides it.
func (t tasks) take(ctx context.Context, in *protocol.SendMessageRequest) (operation.Run, error) {
	if in.Config != nil && in.Config.PushConfig != nil {
		return operation.Run{}, protocol.ErrPushNotificationNotSupported
	}
	text, err := textOf(in.Message)
	if err != nil {
		return operation.Run{}, err
	}
	if in.Message.TaskID != "" {
		return t.goOn(ctx, in.Message, text)
	}
	agent, err := t.operations.Agent(ctx, t.agent)
	if err == nil && !agent.Available {
		err = operation.Absent
	}
	if err != nil {
		return operation.Run{}, worded(err)
	}
	conversation, key := in.Message.ContextID, t.keyOf(in.Message)
	if conversation == "" {
		if conversation, err = t.operations.Talk(ctx, t.agent, key+":context"); err != nil {
			return operation.Run{}, worded(err)
		}
	}
	begun, _, err := t.operations.Say(ctx, conversation, t.agent, text, key)
	return begun, worded(err)
}

// goOn takes a message to a task that there is. One that was taken before is not
// taken again, whatever has become of the task since.
func (t tasks) goOn(ctx context.Context, message *protocol.Message, text string) (operation.Run, error) {
	got, err := t.run(ctx, message.TaskID)
	if err != nil {
		return got, err
	}
	if message.ContextID != "" && message.ContextID != contextOf(got) {
		return got, protocol.NewError(protocol.ErrInvalidParams, "The task belongs to another context; leave contextId out.")
	}
	var after operation.Run
	switch {
	case got.Ended():
		return got, protocol.NewError(protocol.ErrUnsupportedOperation, "The task has ended; send the message without taskId, in the same context.")
	case len(got.Questions) > 0:
		after, _, err = t.operations.Answer(ctx, got.Questions[0].ID, text, t.keyOf(message))
	case len(got.Approvals) > 0:
		return got, protocol.NewError(protocol.ErrUnsupportedOperation, "A call is decided in Gantry, by whom it is for; no message decides it.")
	default:
		after, _, err = t.operations.Steer(ctx, got.ID, text, t.keyOf(message))
	}
	var refusal *operation.Refusal
	if errors.As(err, &refusal) && refusal.Code == "COMMAND_ID_REUSED" {
		return got, nil
	}
	return after, worded(err)
}

// textOf is the text of a message. Other parts are not taken.
func textOf(message *protocol.Message) (string, error) {
	if message == nil || message.ID == "" || message.Role != protocol.MessageRoleUser {
		return "", protocol.NewError(protocol.ErrInvalidParams, "Send a message of the user with a messageId.")
	}
	texts := []string{}
	for _, part := range message.Parts {
		if part == nil {
			return "", protocol.NewError(protocol.ErrInvalidParams, "A part of the message is null; leave it out.")
		}
		if _, is := part.Content.(protocol.Text); !is {
			return "", protocol.NewError(protocol.ErrUnsupportedContentType, "Send parts of text only.")
		}
		texts = append(texts, part.Text())
	}
	if len(texts) == 0 {
		return "", protocol.NewError(protocol.ErrInvalidParams, "The message has no part.")
	}
	return strings.Join(texts, "\n"), nil
}

// GetExtendedAgentCard returns the card of the agent, to who may use it.
func (t tasks) GetExtendedAgentCard(ctx context.Context, _ *protocol.GetExtendedAgentCardRequest) (*protocol.AgentCard, error) {
	agent, err := t.operations.Agent(ctx, t.agent)
	if err == nil && !agent.Available {
		err = operation.Absent
	}
	var fault *edge.Fault
	if errors.As(err, &fault) && fault.Code == operation.Absent.Code {
		return nil, protocol.ErrExtendedCardNotConfigured
	}
	if err != nil {
		return nil, worded(err)
	}
	return t.card(t.base, agent), nil
}

// GetTaskPushConfig returns none: nothing is pushed.
func (tasks) GetTaskPushConfig(context.Context, *protocol.GetTaskPushConfigRequest) (*protocol.PushConfig, error) {
	return nil, protocol.ErrPushNotificationNotSupported
}

// ListTaskPushConfigs returns none: nothing is pushed.
func (tasks) ListTaskPushConfigs(context.Context, *protocol.ListTaskPushConfigRequest) (*protocol.ListTaskPushConfigResponse, error) {
	return nil, protocol.ErrPushNotificationNotSupported
}

// CreateTaskPushConfig refuses: nothing is pushed.
func (tasks) CreateTaskPushConfig(context.Context, *protocol.PushConfig) (*protocol.PushConfig, error) {
	return nil, protocol.ErrPushNotificationNotSupported
}

// DeleteTaskPushConfig refuses: nothing is pushed.
func (tasks) DeleteTaskPushConfig(context.Context, *protocol.DeleteTaskPushConfigRequest) error {
	return protocol.ErrPushNotificationNotSupported
}

// worded says what a client is told of an error: nothing of what went wrong
// inside.
func worded(err error) error {
	var refusal *operation.Refusal
	var fault *edge.Fault
	var told *protocol.Error
	switch {
	case err == nil, errors.As(err, &told):
		return err
	case errors.As(err, &refusal):
		return coded(refusal.Code, refusal.Message)
	case errors.As(err, &fault):
		return coded(fault.Code, fault.Message)
	}
	return coded(edge.CodeInternal, edge.ErrInternal.Message)
}

func coded(code, message string) error {
	kind := protocol.ErrInvalidRequest
	switch code {
	case edge.CodeNotFound:
		return protocol.ErrTaskNotFound
	case edge.CodeInternal, edge.CodeStore, edge.CodeTooBusy, edge.CodeMemory:
		kind = protocol.ErrServerError
	}
	return protocol.NewError(kind, code+": "+message).WithDetails(map[string]any{"code": code})
}

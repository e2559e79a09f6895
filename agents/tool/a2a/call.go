package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	protocol "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

const checkable = policy.Checkable

const (
	look    = 2 * time.Second        // between two looks at a task that nobody tells of
	parting = 400 * time.Millisecond // for asking an agent to stop, when the time is over
)

// place is where a call goes on that waits for a person's answer.
type place struct {
	Task    protocol.TaskID `json:"task"`
	Context string          `json:"context"`
}

// call is one attempt.
type call struct {
	peer
	client     *a2aclient.Client
	line       *line
	streams    bool
	invocation tool.Invocation
	task       place // once the agent has said so
}

// Invoke says one thing to the agent, and waits until it is done or asks
// something.
func (p peer) Invoke(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
	client, card, l, err := p.reach(ctx, invocation)
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = client.Destroy() }() // holds nothing
	c := &call{peer: p, client: client, line: l, streams: card.Capabilities.Streaming, invocation: invocation}
	message, refused, err := c.message(ctx)
	if err != nil || refused != nil {
		return orNone(refused), err
	}
	last, err := c.say(ctx, message)
	if err == nil {
		last, err = c.settle(ctx, last)
	}
	if err != nil {
		return tool.Result{}, c.broken(ctx, err)
	}
	return c.outcome(last)
}

func orNone(result *tool.Result) tool.Result {
	if result == nil {
		return tool.Result{}
	}
	return *result
}

// message is what is said: the brief, under the call's key so that an agent that
// knows its messages takes it once; or a person's answer to what was asked.
func (c *call) message(ctx context.Context) (*protocol.Message, *tool.Result, error) {
	answers := c.invocation.Answers
	if answers == nil {
		text, err := c.brief()
		if err != nil {
			return nil, nil, err
		}
		message := protocol.NewMessage(protocol.MessageRoleUser, protocol.NewTextPart(text))
		message.ID = c.invocation.Key
		return message, nil, nil
	}
	if err := json.Unmarshal(answers.State, &c.task); err != nil || c.task.Task == "" {
		return nil, nil, &tool.Failure{Uncertain: true, Code: tool.FailedError, Detail: "what was kept of the agent's question cannot be read"}
	}
	if answers.Action != tool.AskAccept {
		_, err := c.client.CancelTask(ctx, &protocol.CancelTaskRequest{ID: c.task.Task})
		if err != nil {
			return nil, nil, &tool.Failure{Uncertain: true, Code: tool.FailedBroken, Detail: "nobody answered the agent, and it did not say that it stopped"}
		}
		result := c.said("nobody answered what the agent asked, and it was told to stop", true)
		return nil, &result, nil
	}
	var said struct {
		Answer string `json:"answer"`
	}
	if err := json.Unmarshal(answers.Values, &said); err != nil {
		return nil, nil, &tool.Failure{Uncertain: true, Code: tool.FailedError, Detail: "the answer cannot be read"}
	}
	message := protocol.NewMessage(protocol.MessageRoleUser, protocol.NewTextPart(said.Answer))
	message.ID = c.invocation.Key + ":" + canon.Digest(append(append([]byte{}, answers.State...), answers.Values...))
	message.TaskID, message.ContextID = c.task.Task, c.task.Context
	return message, nil, nil
}

// brief is what the arguments say.
func (c *call) brief() (string, error) {
	if c.peer.peer.Message == "" {
		return string(c.invocation.Arguments), nil
	}
	var arguments any
	if err := json.Unmarshal(c.invocation.Arguments, &arguments); err != nil {
		return "", &tool.Failure{Code: tool.FailedError, Detail: "the recorded arguments are not JSON"}
	}
	value, _ := tool.LookUp(arguments, c.peer.peer.Message)
	text, is := value.(string)
	if !is || text == "" {
		return "", &tool.Failure{Code: tool.FailedError, Detail: "the recorded arguments have no message"}
	}
	return text, nil
}

// say sends a message, and returns the last that was told of what comes of it.
func (c *call) say(ctx context.Context, message *protocol.Message) (protocol.Event, error) {
	request := &protocol.SendMessageRequest{Message: message, Config: &protocol.SendMessageConfig{AcceptedOutputModes: []string{"text/plain", "application/json"},
		ReturnImmediately: !c.streams}} // so that the task is known before it is done
	if !c.streams {
		got, err := c.client.SendMessage(ctx, request)
		if err != nil {
			return nil, err
		}
		c.note(got)
		return got, nil
	}
	var last protocol.Event
	for event, err := range c.client.SendStreamingMessage(ctx, request) {
		if err != nil && c.task.Task == "" {
			return nil, err
		}
		if err != nil {
			break // the stream broke, and the task is looked at instead
		}
		if c.note(event); event != nil {
			last = event
		}
	}
	if last == nil {
		return nil, errSilent
	}
	return last, nil
}

var errSilent = errors.New("the agent said nothing")

func (c *call) note(event protocol.Event) {
	if _, is := event.(*protocol.Message); is {
		return
	}
	if at := event.TaskInfo(); at.TaskID != "" {
		c.task = place{at.TaskID, at.ContextID}
	}
}

// settle returns the message that was the answer, or the task once it rests.
func (c *call) settle(ctx context.Context, last protocol.Event) (protocol.Event, error) {
	if message, is := last.(*protocol.Message); is {
		return message, nil
	}
	task, is := last.(*protocol.Task)
	for !is || !rests(task.Status.State) {
		// What a stream told in pieces is read whole.
		got, err := c.client.GetTask(ctx, &protocol.GetTaskRequest{ID: c.task.Task})
		if err != nil {
			return nil, err
		}
		if task, is = got, true; rests(task.Status.State) {
			break
		}
		timer := time.NewTimer(look)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
	}
	return task, nil
}

// rests reports whether an agent does nothing more by itself.
func rests(state protocol.TaskState) bool {
	return state.Terminal() || state == protocol.TaskStateInputRequired || state == protocol.TaskStateAuthRequired
}

// broken says what a call without an outcome means, and asks the agent to stop.
func (c *call) broken(ctx context.Context, err error) error {
	var failure *tool.Failure
	switch {
	case errors.As(err, &failure) && !c.line.sent.Load():
		return failure
	case c.line.refused.Load() && c.task.Task == "":
		return &tool.Failure{Code: tool.FailedCredential, Detail: "the agent does not take the credential"}
	case !c.line.sent.Load():
		return &tool.Failure{Code: tool.FailedUnreachable, Detail: "the agent was not reached"}
	case ctx.Err() == nil && c.task.Task == "" && refuses(err):
		return &tool.Failure{Code: tool.FailedStatus, Detail: "the agent refused what was said"}
	}
	if c.task.Task != "" {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), parting)
		defer cancel()
		_, _ = c.client.CancelTask(last, &protocol.CancelTaskRequest{ID: c.task.Task}) // whether it did is not known either way
	}
	if ctx.Err() != nil {
		return &tool.Failure{Uncertain: true, Code: tool.FailedTimeout, Detail: "the agent was not done in time, and was asked to stop"}
	}
	return &tool.Failure{Uncertain: true, Code: tool.FailedBroken, Detail: "the agent broke off"}
}

// refuses reports whether an error says that a message was not taken.
func refuses(err error) bool {
	for _, known := range []error{protocol.ErrInvalidParams, protocol.ErrInvalidRequest, protocol.ErrParseError, protocol.ErrMethodNotFound, protocol.ErrTaskNotFound,
		protocol.ErrUnsupportedOperation, protocol.ErrUnsupportedContentType, protocol.ErrUnauthenticated, protocol.ErrUnauthorized, protocol.ErrVersionNotSupported} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// Probe looks among the agent's tasks for the one of the call's key.
func (p prober) Probe(ctx context.Context, invocation tool.Invocation) (tool.Result, bool, error) {
	client, _, l, err := p.reach(ctx, invocation)
	if err != nil {
		return tool.Result{}, false, err
	}
	defer func() { _ = client.Destroy() }() // holds nothing
	c := &call{peer: p.peer, client: client, line: l, invocation: invocation}
	for token := ""; ; {
		page, err := client.ListTasks(ctx, &protocol.ListTasksRequest{PageSize: 100, PageToken: token, IncludeArtifacts: true})
		if err != nil {
			return tool.Result{}, false, &tool.Failure{Code: tool.FailedBroken, Detail: "the agent's tasks could not be listed"}
		}
		for _, task := range page.Tasks {
			if !saidIn(task, invocation.Key) {
				continue
			}
			if !rests(task.Status.State) {
				return tool.Result{}, false, &tool.Failure{Code: tool.FailedTimeout, Detail: "the agent still works on it"}
			}
			result, err := c.outcome(task)
			return result, err == nil, err
		}
		if token = page.NextPageToken; token == "" {
			return tool.Result{}, false, nil
		}
	}
}

// saidIn reports whether a task came of the message with an id.
func saidIn(task *protocol.Task, id string) bool {
	for _, message := range task.History {
		if message != nil && (message.ID == id || strings.HasPrefix(message.ID, id+":")) {
			return true
		}
	}
	return false
}

package mcp

import (
	"context"
	"errors"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"gantry.dev/graph/edge"
	"gantry.dev/graph/operation"
)

// desk takes calls.
type desk struct{ operations operation.Operations }

// The bounds of what one call asks for.
const (
	maxWait  = 25  // seconds
	maxFirst = 100 // items of a page
	maxKey   = 128 // bytes
)

type (
	startRun struct {
		Agent          string `json:"agent" jsonschema:"name of the agent, as list_agents has it"`
		Goal           string `json:"goal" jsonschema:"what it is to do, in words; 64 KiB at most"`
		IdempotencyKey string `json:"idempotencyKey" jsonschema:"made by the client: a repeat under the same key gets the first run"`
		Conversation   string `json:"conversation,omitempty" jsonschema:"id of the conversation that it belongs to; none when absent"`
		MicroUSD       string `json:"microUsd,omitempty" jsonschema:"spend at most so many millionths of a US dollar, a whole number as text; the agent's limit when absent"`
		WaitSeconds    int    `json:"waitSeconds,omitempty" jsonschema:"wait so long at most for its end, or until it waits for a person"`
	}
	readRun struct {
		Run         string `json:"run" jsonschema:"id of the run"`
		WaitSeconds int    `json:"waitSeconds,omitempty" jsonschema:"wait so long at most for its end, or until it waits for a person"`
	}
	listRuns struct {
		Agent string `json:"agent,omitempty" jsonschema:"only runs of this agent"`
		First int    `json:"first,omitempty" jsonschema:"how many; 20 when absent"`
		After string `json:"after,omitempty" jsonschema:"cursor to go on after"`
	}
	listAgents struct{}
	cancelRun  struct {
		Run            string `json:"run" jsonschema:"id of the run"`
		Reason         string `json:"reason,omitempty" jsonschema:"why"`
		IdempotencyKey string `json:"idempotencyKey" jsonschema:"made by the client: a repeat under the same key does nothing more"`
	}
	answerQuestion struct {
		Question       string `json:"question" jsonschema:"id of the question, as read_run has it"`
		Answer         string `json:"answer" jsonschema:"the answer, in words; 64 KiB at most"`
		IdempotencyKey string `json:"idempotencyKey" jsonschema:"made by the client: a repeat under the same key does nothing more"`
	}
	recallMemory struct {
		Query string `json:"query" jsonschema:"the question, in words; 8 KiB at most"`
		First int    `json:"first,omitempty" jsonschema:"how many; 10 when absent"`
	}

	runAnswer struct {
		Run     operation.Run `json:"run" jsonschema:"the run as the caller may see it"`
		Outcome string        `json:"outcome,omitempty" jsonschema:"ACCEPTED, or REPLAYED where the key was used for the same before"`
	}
	runsAnswer struct {
		Runs []operation.Run `json:"runs" jsonschema:"the runs, latest first"`
		Next string          `json:"next,omitempty" jsonschema:"cursor of the next page; absent on the last one"`
	}
	agentsAnswer struct {
		Agents []operation.Agent `json:"agents" jsonschema:"the agents that the caller may know of"`
	}
)

// reading are the hints of a tool that changes nothing.
func reading(title string) *sdk.ToolAnnotations {
	closed := false
	return &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &closed}
}

// acting are the hints of a tool that does something, once for each key.
func acting(title string, destroys bool) *sdk.ToolAnnotations {
	open := true
	return &sdk.ToolAnnotations{Title: title, IdempotentHint: true, DestructiveHint: &destroys, OpenWorldHint: &open}
}

func (d desk) addTools(server *sdk.Server) {
	add(server, "list_agents", "The agents that you may know of, and whether you may start runs of them.", reading("List agents"),
		func(ctx context.Context, _ listAgents) (agentsAnswer, error) {
			list, err := d.operations.Agents(ctx)
			return agentsAnswer{list}, err
		})
	add(server, "start_run", "Starts a run of an agent for you: it pursues one goal, within its rights and yours, until it has ended.", acting("Start a run", true), d.start)
	add(server, "read_run", "A run as it is now: where it stands, what it waits for, and its answer once it has ended.", reading("Read a run"), d.read)
	add(server, "list_runs", "Runs that you may see, latest first.", reading("List runs"), d.list)
	add(server, "cancel_run", "Asks for the end of a run: nothing new begins, and what is in flight is settled.", acting("Cancel a run", true), d.cancel)
	add(server, "answer_question", "Answers a question that an agent put to you. A call that waits for a decision is decided in Gantry itself.", acting("Answer a question", false), d.answer)
	add(server, "recall_memory", "What is remembered that fits a question best, of what you may see.", reading("Recall from memory"),
		func(ctx context.Context, in recallMemory) (operation.Recollection, error) {
			first, err := page(in.First, 10)
			if err != nil {
				return operation.Recollection{}, err
			}
			return d.operations.Recall(ctx, in.Query, first)
		})
}

func (d desk) start(ctx context.Context, in startRun) (runAnswer, error) {
	if err := checkCommand(in.IdempotencyKey, in.WaitSeconds); err != nil {
		return runAnswer{}, err
	}
	started, again, err := d.operations.Start(ctx, operation.Start{Agent: in.Agent, Goal: in.Goal, Conversation: in.Conversation, Key: in.IdempotencyKey, Money: in.MicroUSD})
	if err != nil {
		return runAnswer{}, err
	}
	if in.WaitSeconds > 0 {
		started, err = d.await(ctx, started.ID, in.WaitSeconds)
	}
	return runAnswer{Run: started, Outcome: outcome(again)}, err
}

func (d desk) read(ctx context.Context, in readRun) (runAnswer, error) {
	if err := checkWait(in.WaitSeconds); err != nil {
		return runAnswer{}, err
	}
	got, err := d.await(ctx, in.Run, in.WaitSeconds)
	return runAnswer{Run: got}, err
}

func (d desk) list(ctx context.Context, in listRuns) (runsAnswer, error) {
	first, err := page(in.First, 20)
	if err != nil {
		return runsAnswer{}, err
	}
	runs, next, err := d.operations.Runs(ctx, in.Agent, "", in.After, first)
	return runsAnswer{Runs: runs, Next: next}, err
}

func (d desk) cancel(ctx context.Context, in cancelRun) (runAnswer, error) {
	if err := checkCommand(in.IdempotencyKey, 0); err != nil {
		return runAnswer{}, err
	}
	got, again, err := d.operations.Cancel(ctx, in.Run, in.Reason, in.IdempotencyKey)
	return runAnswer{Run: got, Outcome: outcome(again)}, err
}

func (d desk) answer(ctx context.Context, in answerQuestion) (runAnswer, error) {
	if err := checkCommand(in.IdempotencyKey, 0); err != nil {
		return runAnswer{}, err
	}
	got, again, err := d.operations.Answer(ctx, in.Question, in.Answer, in.IdempotencyKey)
	return runAnswer{Run: got, Outcome: outcome(again)}, err
}

// await reads a run, and where it is asked to waits until it has ended or waits
// for somebody.
func (d desk) await(ctx context.Context, id string, seconds int) (operation.Run, error) {
	got, err := d.operations.Run(ctx, id)
	if err != nil || seconds == 0 || got.Idle() {
		return got, err
	}
	within, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	for now, err := range d.operations.States(within, id) {
		if err != nil {
			break
		}
		if got = now; got.Idle() {
			return got, nil
		}
	}
	// The time is over, or the stream was cut: what counts is what is there now.
	return d.operations.Run(ctx, id)
}

func outcome(again bool) string {
	if again {
		return "REPLAYED"
	}
	return "ACCEPTED"
}

func checkCommand(key string, wait int) error {
	if key == "" || len(key) > maxKey {
		return &operation.Refusal{Code: "INVALID", Message: "An idempotencyKey has 1 to 128 bytes."}
	}
	return checkWait(wait)
}

func checkWait(seconds int) error {
	if seconds < 0 || seconds > maxWait {
		return &operation.Refusal{Code: "INVALID", Message: "waitSeconds is 0 to 25."}
	}
	return nil
}

func page(first, otherwise int) (int, error) {
	if first == 0 {
		return otherwise, nil
	}
	if first < 0 || first > maxFirst {
		return 0, &operation.Refusal{Code: "INVALID", Message: "first is 1 to 100."}
	}
	return first, nil
}

// add adds a tool. What it refuses is its result, as a stable code and a
// sentence; only the caller's model can do something about it.
func add[In, Out any](server *sdk.Server, name, description string, hints *sdk.ToolAnnotations, call func(context.Context, In) (Out, error)) {
	sdk.AddTool(server, &sdk.Tool{Name: name, Description: description, Annotations: hints},
		func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, Out, error) {
			out, err := call(ctx, in)
			if err != nil {
				var none Out
				return nil, none, worded(err)
			}
			return nil, out, nil
		})
}

// worded says what a client is told of an error: nothing of what went wrong
// inside.
func worded(err error) error {
	var refusal *operation.Refusal
	var fault *edge.Fault
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &fault):
		return &operation.Refusal{Code: fault.Code, Message: fault.Message}
	}
	return &operation.Refusal{Code: edge.CodeInternal, Message: edge.ErrInternal.Message}
}

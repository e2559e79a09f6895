// Package script answers by programs in Starlark: for samples, tests and
// benchmarks.
package script

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"gantry.dev/agents/model"
)

// maxScriptSteps bounds the work of one turn of a script.
const maxScriptSteps = 10_000_000

// Provider is a provider whose models are programs in Starlark: for samples,
// tests and benchmarks. A program defines turn(ctx), which gets the prompt and
// returns the answer; the same prompt always gives the same answer. It cannot
// load, print, recurse or reach anything outside. Programs belong to the
// operator: their steps are bounded, their memory is not.
//
// ctx.messages   the prompt: structs with role, text, calls and call_id; a call
// has id, name and arguments (parsed)
//
// ctx.tools      the names of the offered tools
//
// ctx.turn       how many turns were answered before, also those that the
// prompt shows in brief; for a prompt of no run, the assistant's messages
//
// ctx.results(name)       the replies to the calls of that tool, in order:
// structs with id, name, arguments, value (the reply, parsed when it is JSON)
// and text; a reply in a block (Wrap) is taken out of it
//
// ctx.result(name, n=-1)  one of them, by default the last; None if absent
//
// Beside Starlark's own there are json (encode, decode, indent),
// csv.parse(text, comma=",") for a list of dicts under the first row's names,
// and decimal: cents("1,234.50"), format(cents), times(cents, "0.19"), exact,
// the last one rounded half away from zero.
//
// turn returns a dict of text, calls (dicts of name and arguments), refusal or
// reasoning. For tests a call may have raw (the bytes of its arguments) and id,
// and the dict finish (a Finish) or error ({"kind": …, "retry_after_ms": …}),
// which fails the request.
type Provider struct {
	turns map[string]*starlark.Function
}

var _ model.Provider = (*Provider)(nil)

// New returns a provider of one model per program. The keys are the names
// of the models, by which Request.Model chooses, and the file names in errors.
func New(programs map[string]string) (*Provider, error) {
	script := &Provider{turns: map[string]*starlark.Function{}}
	for name, source := range programs {
		turn, err := compile(name, source)
		if err != nil {
			return nil, err
		}
		script.turns[name] = turn
	}
	return script, nil
}

// compile runs the top level of a program once; what it leaves is frozen.
func compile(name, source string) (*starlark.Function, error) {
	globals, err := starlark.ExecFileOptions(&syntax.FileOptions{Set: true, While: true}, newThread(name), name, source, library())
	if err != nil {
		return nil, fmt.Errorf("script %s: %w", name, err)
	}
	turn, defined := globals["turn"].(*starlark.Function)
	if !defined || turn.NumParams() != 1 {
		return nil, fmt.Errorf("script %s: it must define turn(ctx)", name)
	}
	return turn, nil
}

func newThread(name string) *starlark.Thread {
	thread := &starlark.Thread{Name: name, Print: func(*starlark.Thread, string) {}}
	thread.SetMaxExecutionSteps(maxScriptSteps)
	return thread
}

// Take runs turn(ctx). A program that fails is a *Error of kind BAD_REQUEST
// whose text says where; why is in the error that it wraps. Text comes to
// deltas line by line. Usage is estimated.
func (s *Provider) Take(ctx context.Context, request model.Request, deltas func(text string)) (model.Answer, error) {
	turn, found := s.turns[request.Model]
	if !found {
		return model.Answer{}, &model.Error{Kind: model.ModelNotFound, Detail: "there is no script of this name"}
	}
	thread := newThread(request.Model)
	defer context.AfterFunc(ctx, func() { thread.Cancel("the request was given up") })()
	view, err := contextOf(thread, request)
	if err != nil {
		return model.Answer{}, scriptError(request.Model, err)
	}
	value, err := starlark.Call(thread, turn, starlark.Tuple{view}, nil)
	if ctx.Err() != nil {
		return model.Answer{}, model.Ended(ctx)
	}
	if err != nil {
		return model.Answer{}, scriptError(request.Model, err)
	}
	answer, err := answerOf(value)
	if failure := (*model.Error)(nil); errors.As(err, &failure) {
		return model.Answer{}, failure
	}
	if err != nil {
		return model.Answer{}, scriptError(request.Model, fmt.Errorf("the result of turn: %w", err))
	}
	answer.Model = request.Model
	return model.Give(request, answer, deltas), nil
}

// scriptError says where a program failed. What it said may quote the prompt,
// so it stays out of the text.
func scriptError(name string, err error) *model.Error {
	where, cause := name, err
	if failed := (*starlark.EvalError)(nil); errors.As(err, &failed) {
		cause = fmt.Errorf("%w\n%s", err, failed.CallStack)
		for _, frame := range slices.Backward(failed.CallStack) {
			if frame.Pos.IsValid() && frame.Pos.Filename() == name {
				where = fmt.Sprintf("%s:%d", name, frame.Pos.Line)
				break
			}
		}
	}
	return model.Because(cause, model.BadRequest, where+": the script failed")
}

// contextOf returns the ctx of one turn.
func contextOf(thread *starlark.Thread, request model.Request) (starlark.Value, error) {
	history, messages, tools, turns := starlark.NewList(nil), starlark.NewList(nil), starlark.NewList(nil), 0
	calls := map[string]*starlarkstruct.Struct{}
	replies := starlark.NewDict(0)
	for _, message := range request.Messages {
		entry, made := messageOf(thread, message)
		if message.Earlier {
			if err := history.Append(entry); err != nil {
				return nil, err
			}
			continue
		}
		for id, call := range made {
			calls[id] = call
		}
		if message.Role == model.Assistant {
			turns++
		}
		if message.Role == model.ToolReply {
			if err := addReply(thread, replies, calls[message.CallID], message); err != nil {
				return nil, err
			}
		}
		if err := messages.Append(entry); err != nil {
			return nil, err
		}
	}
	for _, spec := range request.Tools {
		if err := tools.Append(starlark.String(spec.Name)); err != nil {
			return nil, err
		}
	}
	return starlarkstruct.FromStringDict(starlark.String("ctx"), starlark.StringDict{
		"history":  history,
		"messages": messages,
		"tools":    tools,
		"turn":     starlark.MakeInt(max(turns, request.Turns)),
		"results":  starlark.NewBuiltin("results", resultsOf(replies)),
		"result":   starlark.NewBuiltin("result", resultOf(replies)),
	}), nil
}

func messageOf(thread *starlark.Thread, message model.Message) (starlark.Value, map[string]*starlarkstruct.Struct) {
	calls, byID := starlark.NewList(nil), map[string]*starlarkstruct.Struct{}
	for _, call := range message.Calls {
		entry := structOf("call", starlark.StringDict{
			"id": starlark.String(call.ID), "name": starlark.String(call.Name), "arguments": parsed(thread, string(call.Arguments)),
		})
		byID[call.ID] = entry
		_ = calls.Append(entry) // a list of our own is never frozen
	}
	return structOf("message", starlark.StringDict{
		"role": starlark.String(message.Role), "text": starlark.String(message.Text),
		"calls": calls, "call_id": starlark.String(message.CallID),
	}), byID
}

// addReply files a tool's reply under the name of the call that it answers. A
// reply to no call of the prompt is only in the messages.
func addReply(thread *starlark.Thread, replies *starlark.Dict, call *starlarkstruct.Struct, message model.Message) error {
	if call == nil {
		return nil
	}
	name, err := call.Attr("name")
	if err != nil {
		return err
	}
	arguments, err := call.Attr("arguments")
	if err != nil {
		return err
	}
	text := model.Unwrap(message.Text)
	list := starlark.NewList(nil)
	if earlier, found, _ := replies.Get(name); found {
		list = earlier.(*starlark.List)
	} else if err := replies.SetKey(name, list); err != nil {
		return err
	}
	return list.Append(structOf("reply", starlark.StringDict{
		"id": starlark.String(message.CallID), "name": name, "arguments": arguments,
		"value": parsed(thread, text), "text": starlark.String(text),
	}))
}

func structOf(kind string, fields starlark.StringDict) *starlarkstruct.Struct {
	return starlarkstruct.FromStringDict(starlark.String(kind), fields)
}

package script

import (
	"errors"
	"fmt"
	"time"

	"go.starlark.net/starlark"

	"gantry.dev/agents/model"
)

// answerOf reads what turn returned.
func answerOf(value starlark.Value) (model.Answer, error) {
	fields, err := fieldsOf(value, "text", "calls", "refusal", "reasoning", "finish", "error")
	if err != nil {
		return model.Answer{}, err
	}
	if failure, given := fields["error"]; given {
		return model.Answer{}, failureOf(failure)
	}
	answer := model.Answer{Finish: model.FinishStop}
	if answer.Text, err = stringOf(fields, "text"); err != nil {
		return model.Answer{}, err
	}
	if answer.Reasoning, err = stringOf(fields, "reasoning"); err != nil {
		return model.Answer{}, err
	}
	if _, refused := fields["refusal"]; refused {
		answer.Finish = model.FinishRefusal
		if answer.Text, err = stringOf(fields, "refusal"); err != nil {
			return model.Answer{}, err
		}
	}
	if calls, given := fields["calls"]; given {
		if answer.Calls, err = callsOf(calls); err != nil {
			return model.Answer{}, err
		}
		if len(answer.Calls) > 0 && answer.Finish == model.FinishStop {
			answer.Finish = model.FinishCalls
		}
	}
	finish, err := stringOf(fields, "finish")
	if finish != "" {
		answer.Finish = model.Finish(finish)
	}
	return answer, err
}

func callsOf(value starlark.Value) ([]model.Proposed, error) {
	sequence, ok := value.(starlark.Iterable)
	if !ok {
		return nil, errors.New("calls must be a list")
	}
	var calls []model.Proposed
	for entry := range starlark.Elements(sequence) {
		call, err := callOf(entry)
		if err != nil {
			return nil, fmt.Errorf("call %d: %w", len(calls), err)
		}
		calls = append(calls, call)
	}
	return calls, nil
}

func callOf(value starlark.Value) (model.Proposed, error) {
	fields, err := fieldsOf(value, "name", "arguments", "raw", "id")
	if err != nil {
		return model.Proposed{}, err
	}
	var call model.Proposed
	if call.Name, err = stringOf(fields, "name"); err != nil {
		return model.Proposed{}, err
	}
	if call.ProviderID, err = stringOf(fields, "id"); err != nil {
		return model.Proposed{}, err
	}
	arguments, structured := fields["arguments"]
	if _, raw := fields["raw"]; raw == structured {
		return model.Proposed{}, errors.New("a call has either arguments or raw")
	}
	if !structured {
		raw, err := stringOf(fields, "raw")
		call.Arguments = []byte(raw)
		return call, err
	}
	text, err := encode(arguments)
	call.Arguments = []byte(text)
	return call, err
}

func failureOf(value starlark.Value) error {
	fields, err := fieldsOf(value, "kind", "retry_after_ms")
	if err != nil {
		return err
	}
	kind, err := stringOf(fields, "kind")
	if err != nil {
		return err
	}
	failure := &model.Error{Kind: model.ErrorKind(kind), Detail: "the script says so"}
	if wait, given := fields["retry_after_ms"]; given {
		var ms int64
		if err := starlark.AsInt(wait, &ms); err != nil {
			return fmt.Errorf("retry_after_ms: %w", err)
		}
		failure.RetryAfter = time.Duration(ms) * time.Millisecond
	}
	return failure
}

// fieldsOf returns the entries of a dict that has no other keys than these.
func fieldsOf(value starlark.Value, keys ...string) (map[string]starlark.Value, error) {
	dict, ok := value.(*starlark.Dict)
	if !ok {
		return nil, fmt.Errorf("a dict is wanted, not %s", value.Type())
	}
	fields := map[string]starlark.Value{}
	for _, key := range keys {
		if entry, found, _ := dict.Get(starlark.String(key)); found {
			fields[key] = entry
		}
	}
	if len(fields) != dict.Len() {
		return nil, fmt.Errorf("the keys may be %q", keys)
	}
	return fields, nil
}

// stringOf returns a string field, or "" if it is not there.
func stringOf(fields map[string]starlark.Value, key string) (string, error) {
	switch value := fields[key].(type) {
	case nil:
		return "", nil
	case starlark.String:
		return string(value), nil
	case starlark.Bytes:
		return string(value), nil
	}
	return "", fmt.Errorf("%s must be a string", key)
}

type builtin = func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error)

// resultsOf is ctx.results over replies by tool name.
func resultsOf(replies *starlark.Dict) builtin {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		var name string
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name); err != nil {
			return nil, err
		}
		if list, found, _ := replies.Get(starlark.String(name)); found {
			return list, nil
		}
		return starlark.NewList(nil), nil
	}
}

// resultOf is ctx.result over replies by tool name.
func resultOf(replies *starlark.Dict) builtin {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		name, n := "", -1
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "name", &name, "n?", &n); err != nil {
			return nil, err
		}
		list, found, _ := replies.Get(starlark.String(name))
		if !found {
			return starlark.None, nil
		}
		all := list.(*starlark.List)
		if n < 0 {
			n += all.Len()
		}
		if n < 0 || n >= all.Len() {
			return starlark.None, nil
		}
		return all.Index(n), nil
	}
}

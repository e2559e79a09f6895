package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/policy"
)

func reader() tool.Definition {
	d := refund()
	d.Impact, d.Class = policy.ImpactRead, policy.ClassRead
	return d
}

func failureOf(t require.TestingT, err error) *tool.Failure {
	var failure *tool.Failure
	require.ErrorAs(t, err, &failure)
	return failure
}

func TestFault_E1_AToolThatHangsIsLeftAtItsDeadline(t *testing.T) {
	for _, d := range []tool.Definition{refund(), reader()} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			stuck := adapter{d, func(context.Context, tool.Invocation) (tool.Result, error) {
				<-release // does not look at its context
				return tool.Result{Content: []byte("late")}, nil
			}}
			began := time.Now()
			result, err := tool.Invoke(t.Context(), stuck, tool.Invocation{})
			require.Equal(t, time.Minute, time.Since(began), "the contract's timeout, to the tick of a fake clock")
			require.Equal(t, tool.FailedTimeout, failureOf(t, err).Code)
			require.Equal(t, d.Class != policy.ClassRead, failureOf(t, err).Uncertain)
			require.Zero(t, result)
			close(release) // the late reply goes nowhere, and the goroutine ends
		})
	}
}

func TestFault_E1_ProgressDoesNotMoveTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ends, ended := time.Now().Add(10*time.Minute), make(chan struct{})
		trickling := adapter{refund(), func(context.Context, tool.Invocation) (tool.Result, error) {
			defer close(ended)
			for time.Now().Before(ends) {
				<-time.After(10 * time.Second) // one byte of progress
			}
			return tool.Result{}, nil
		}}
		began := time.Now()
		_, err := tool.Invoke(t.Context(), trickling, tool.Invocation{})
		require.Equal(t, time.Minute, time.Since(began))
		require.True(t, failureOf(t, err).Uncertain)
		<-ended
	})
}

func TestInvokeTellsTheAdapterToStopFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		careful := adapter{refund(), func(ctx context.Context, _ tool.Invocation) (tool.Result, error) {
			<-ctx.Done()
			return tool.Result{}, &tool.Failure{Code: tool.FailedUnreachable, Detail: "nothing was sent"}
		}}
		_, err := tool.Invoke(t.Context(), careful, tool.Invocation{})
		require.Equal(t, tool.FailedUnreachable, failureOf(t, err).Code, "what the adapter knows counts")
		require.False(t, failureOf(t, err).Uncertain)
	})
}

func TestInvokeReturnsSoonAfterTheCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		stuck := adapter{refund(), func(context.Context, tool.Invocation) (tool.Result, error) {
			cancel()
			<-release
			return tool.Result{}, nil
		}}
		began := time.Now()
		_, err := tool.Invoke(ctx, stuck, tool.Invocation{})
		require.Equal(t, time.Second, time.Since(began))
		require.Equal(t, tool.FailedCancelled, failureOf(t, err).Code)
		require.True(t, failureOf(t, err).Uncertain)
		close(release)

		_, err = tool.Invoke(ctx, stuck, tool.Invocation{})
		require.Equal(t, tool.FailedCancelled, failureOf(t, err).Code)
		require.False(t, failureOf(t, err).Uncertain, "it never began")
	})
}

func TestInvokeTurnsEveryErrorIntoAFailure(t *testing.T) {
	var nothing *tool.Failure
	for name, c := range map[string]struct {
		invoke    func() error
		code      string
		uncertain bool
	}{
		"a panic":             {func() error { panic("secret") }, tool.FailedPanic, true},
		"a panic with nil":    {func() error { panic(nil) }, tool.FailedPanic, true},
		"an unknown error":    {func() error { return errors.New("secret") }, tool.FailedError, true},
		"a nil failure":       {func() error { return nothing }, tool.FailedError, true},
		"a certain failure":   {func() error { return &tool.Failure{Code: "X"} }, "X", false},
		"an uncertain one":    {func() error { return &tool.Failure{Code: "X", Uncertain: true} }, "X", true},
		"a wrapped failure":   {func() error { return fmt.Errorf("secret: %w", &tool.Failure{Code: "X"}) }, "X", false},
		"the end of its time": {func() error { return context.DeadlineExceeded }, tool.FailedError, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, d := range []tool.Definition{refund(), reader()} {
				_, err := tool.Invoke(t.Context(), adapter{d, func(context.Context, tool.Invocation) (tool.Result, error) {
					return tool.Result{Content: []byte("x")}, c.invoke()
				}}, tool.Invocation{})
				failure := failureOf(t, err)
				require.Equal(t, c.code, failure.Code)
				require.Equal(t, c.uncertain && d.Class != policy.ClassRead, failure.Uncertain)
				require.NotContains(t, err.Error(), "secret")
			}
		})
	}
}

func TestInvokeNeedsLimits(t *testing.T) {
	for _, change := range []func(*tool.Definition){
		func(d *tool.Definition) { d.Timeout = 0 },
		func(d *tool.Definition) { d.ResultBytes = 0 },
	} {
		d := refund()
		change(&d)
		_, err := tool.Invoke(t.Context(), adapter{d, nil}, tool.Invocation{})
		require.Equal(t, tool.FailedMisconfigured, failureOf(t, err).Code)
		require.False(t, failureOf(t, err).Uncertain)
	}
}

func invokeWith(t *testing.T, d tool.Definition, result tool.Result) (tool.Result, error) {
	t.Helper()
	return tool.Invoke(t.Context(), adapter{d, func(context.Context, tool.Invocation) (tool.Result, error) { return result, nil }}, tool.Invocation{})
}

func TestFault_E2_AFloodIsCut(t *testing.T) {
	flood := tool.Result{Content: []byte(strings.Repeat("ä", 5<<20)), MediaType: tool.MediaText}
	result, err := invokeWith(t, refund(), flood)
	require.NoError(t, err)
	require.True(t, result.Cut)
	require.EqualValues(t, 10<<20, result.Size)
	require.Equal(t, strings.Repeat("ä", 500), string(result.Content))

	d := refund()
	d.ResultBytes = 999 // in the middle of a character
	result, err = invokeWith(t, d, flood)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("ä", 499), string(result.Content))
}

func TestFault_E2_CutJSONIsText(t *testing.T) {
	result, err := invokeWith(t, refund(), tool.Result{Content: []byte("[" + strings.Repeat("[],", 1000) + "0]"), MediaType: tool.MediaJSON})
	require.NoError(t, err)
	require.True(t, result.Cut)
	require.Equal(t, tool.MediaText, result.MediaType)
}

func TestFault_E3_WhatIsNotTextIsDescribed(t *testing.T) {
	for name, content := range map[string]string{
		"a picture":     "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR",
		"invalid UTF-8": "abc\xff\xfe",
		"NUL":           "abc\x00def",
		"cut rune":      "abc\xe2\x82",
	} {
		t.Run(name, func(t *testing.T) {
			result, err := invokeWith(t, refund(), tool.Result{Content: []byte(content), MediaType: tool.MediaJSON})
			require.NoError(t, err)
			require.Regexp(t, `^\[not text: \d+ bytes, looks like [^\x00]+, SHA-256 .* [0-9a-f]{64}\]$`, string(result.Content))
			require.Equal(t, tool.MediaText, result.MediaType)
			require.EqualValues(t, len(content), result.Size)
			require.True(t, result.Cut)
		})
	}
	result, err := invokeWith(t, refund(), tool.Result{Content: []byte("not json"), MediaType: tool.MediaJSON})
	require.NoError(t, err)
	require.Equal(t, tool.MediaText, result.MediaType, "JSON is only what is JSON")
}

func TestFault_E5_AResultThatBreaksItsSchema(t *testing.T) {
	output := json.RawMessage(`{"type":"object","required":["id"],"properties":{"id":{"type":"string"}}}`)
	reading, writing := reader(), refund()
	reading.Output, writing.Output = output, output
	reading.Result, writing.Result = policy.Marking{Integrity: policy.FromTool}, policy.Marking{Integrity: policy.FromTool}

	for name, content := range map[string]string{
		"wrong type": `{"id":7}`, "missing": `{}`, "extra": `{"id":"a","admin":true}`, "no JSON": `done!`, "nothing": ``,
		"cut": `{"id":"` + strings.Repeat("a", 2000) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			result, err := invokeWith(t, reading, tool.Result{Content: []byte(content), MediaType: tool.MediaJSON})
			require.NoError(t, err)
			require.True(t, result.Failed)
			require.Equal(t, policy.Untrusted, result.Marking.Integrity)
			var told struct{ Code, Why, Raw string }
			require.NoError(t, json.Unmarshal(result.Content, &told))
			require.Equal(t, tool.FailedResult, told.Code)
			require.True(t, strings.HasPrefix(content, told.Raw))

			_, err = invokeWith(t, writing, tool.Result{Content: []byte(content), MediaType: tool.MediaJSON})
			failure := failureOf(t, err)
			require.True(t, failure.Uncertain, "an effect whose answer means nothing may have happened")
			require.Equal(t, tool.FailedResult, failure.Code)
			require.True(t, strings.HasPrefix(content, string(failure.Reply.Content)))
			require.Equal(t, policy.Untrusted, failure.Reply.Marking.Integrity)
		})
	}
	result, err := invokeWith(t, writing, tool.Result{Content: []byte(`{"id":"a"}`), MediaType: tool.MediaJSON})
	require.NoError(t, err)
	require.Equal(t, policy.FromTool, result.Marking.Integrity)

	result, err = invokeWith(t, writing, tool.Result{Content: []byte(`{"error":"no"}`), MediaType: tool.MediaJSON, Failed: true})
	require.NoError(t, err, "a refusal need not meet the schema of a success")
	require.True(t, result.Failed)
}

func TestResultsCarryAtLeastTheContractsMarking(t *testing.T) {
	d := refund()
	d.Result = policy.Marking{Labels: policy.NewLabels("finance"), Integrity: policy.FromTool}
	result, err := invokeWith(t, d, tool.Result{Content: []byte("x"), Marking: policy.Marking{Labels: policy.NewLabels("hr")}})
	require.NoError(t, err)
	require.Equal(t, policy.Marking{Labels: policy.NewLabels("finance", "hr"), Integrity: policy.FromTool}, result.Marking)
}

func TestAskIsNeverInvoked(t *testing.T) {
	ask := tool.NewAsk("person:ada", "ops@example.org")
	require.NoError(t, ask.Definition().Validate())
	_, err := tool.Invoke(t.Context(), ask, tool.Invocation{})
	require.Equal(t, tool.FailedNotInvocable, failureOf(t, err).Code)
	require.False(t, failureOf(t, err).Uncertain)

	box, err := tool.NewBox(ask)
	require.NoError(t, err)
	checked, refusal := box.Check(tool.AskName, []byte(`{"question":"Which?","options":["a","b"],"to":"role:treasurer"}`))
	require.Nil(t, refusal)
	require.Equal(t, "person:role:treasurer", checked.Resource)
	_, refusal = box.Check(tool.AskName, []byte(`{"question":""}`))
	require.NotNil(t, refusal)
}

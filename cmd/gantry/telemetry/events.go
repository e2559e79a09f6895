package telemetry

import (
	"context"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"

	"gantry.dev/orchestrator/run"
)

// What the conventions have no name for.
const (
	keyKind      = attribute.Key("gantry.run.kind")
	keyStatus    = attribute.Key("gantry.run.status")
	keyReason    = attribute.Key("gantry.run.reason")
	keyCost      = attribute.Key("gantry.cost.micro_usd")
	keyClass     = attribute.Key("gantry.answer.class")
	keyAttempt   = attribute.Key("gantry.turn.attempt")
	keyOutcome   = attribute.Key("gantry.call.outcome")
	keyImpact    = attribute.Key("gantry.call.impact")
	keyEffect    = attribute.Key("gantry.call.effect_class")
	keyVerdict   = attribute.Key("gantry.verdict")
	keyGranted   = attribute.Key("gantry.approval.granted")
	keyCause     = attribute.Key("gantry.cause")
	keyPrincipal = attribute.Key("gantry.principal")
)

// tell turns one event into spans and notes. Which events have none stands in
// its last line: what is not named here is in the journal and not in a trace.
func (l *telling) tell(ctx context.Context, event run.Event) {
	switch e := event.(type) {
	case run.Started, run.Ended:
		l.tellRun(ctx, event)
	case run.TurnStarted, run.TurnAnswered, run.TurnFailed:
		l.tellTurn(ctx, event)
	case run.CallProposed, run.CallJudged, run.CallIntended, run.CallUncertain, run.CallEnded:
		l.tellCall(ctx, event)
	case run.ApprovalRequested:
		l.begin(ctx, "approval/"+e.Approval, callPart(e.Call), "approval", trace.SpanKindInternal)
	case run.ApprovalDecided:
		if e.Complete {
			l.end("approval/"+e.Approval, "", keyGranted.Bool(e.Granted), keyPrincipal.String(e.By.Principal))
		}
	case run.ApprovalVoided:
		l.end("approval/"+e.Approval, string(e.Cause))
	case run.LimitReached:
		l.note("", "limit reached", keyCause.String(string(e.Limit)))
	case run.Parked:
		l.note("", "parked", keyCause.String(e.Code))
	case run.CancelAccepted:
		l.note("", "cancel accepted", keyPrincipal.String(e.By.Principal))
	}
}

func (l *telling) tellRun(ctx context.Context, event run.Event) {
	switch e := event.(type) {
	case run.Started:
		attributes := []attribute.KeyValue{semconv.GenAIOperationNameInvokeAgent, semconv.GenAIAgentName(e.Agent.Name), semconv.GenAIAgentVersion(e.Agent.Revision),
			semconv.GenAIAgentID(e.Acting()), keyKind.String(string(e.RunKind)), attribute.String("gantry.run.id", l.id), attribute.String("gantry.organisation", e.Organisation)}
		if e.Conversation != "" {
			attributes = append(attributes, semconv.GenAIConversationID(e.Conversation))
		}
		l.begin(ctx, "", "", "invoke_agent "+e.Agent.Name, trace.SpanKindInternal, append(attributes, l.text(semconv.GenAIInputMessagesKey, &e.Goal)...)...)
	case run.Ended:
		failed := ""
		if e.Status == run.StatusFailed {
			failed = string(e.Reason)
		}
		l.end("", failed, append(l.text(semconv.GenAIOutputMessagesKey, e.Result), keyStatus.String(string(e.Status)), keyReason.String(string(e.Reason)),
			keyCost.Int64(e.Settled.MicroUSD))...)
	}
}

func turnPart(turn, attempt int) string {
	return "turn/" + strconv.Itoa(turn) + "/" + strconv.Itoa(attempt)
}

func (l *telling) tellTurn(ctx context.Context, event run.Event) {
	switch e := event.(type) {
	case run.TurnStarted:
		l.turn = turnPart(e.Turn, e.Attempt)
		l.begin(ctx, l.turn, "", "chat "+e.Model, trace.SpanKindClient, semconv.GenAIOperationNameChat, semconv.GenAIRequestModel(e.Model), keyAttempt.Int(e.Attempt))
	case run.TurnAnswered:
		u := e.Usage
		if e.Hedged != nil {
			l.note(l.turn, "hedged", semconv.GenAIResponseModel(e.Hedged.By))
		}
		l.end(l.turn, "", append(l.text(semconv.GenAIOutputMessagesKey, e.Text), keyClass.String(string(e.Class)), keyCost.Int64(e.Cost.MicroUSD),
			semconv.GenAIUsageInputTokens(int(u.Input+u.CacheRead+u.CacheWrite)), semconv.GenAIUsageOutputTokens(int(u.Output+u.Reasoning)),
			semconv.GenAIUsageCacheReadInputTokens(int(u.CacheRead)), semconv.GenAIUsageCacheCreationInputTokens(int(u.CacheWrite)))...)
	case run.TurnFailed:
		l.end(turnPart(e.Turn, e.Attempt), e.Cause)
	}
}

func (l *telling) tellCall(ctx context.Context, event run.Event) {
	switch e := event.(type) {
	case run.CallProposed:
		l.begin(ctx, callPart(e.Call), "", "execute_tool "+e.Tool, trace.SpanKindInternal, append(l.text(semconv.GenAIToolCallArgumentsKey, &e.Arguments),
			semconv.GenAIOperationNameExecuteTool, semconv.GenAIToolName(e.Tool), semconv.GenAIToolCallID("c"+strconv.Itoa(e.Call)),
			keyImpact.String(e.Impact.String()), keyEffect.String(e.Class.String()))...)
	case run.CallJudged:
		var policies []string
		for _, reason := range e.Verdict.Reasons {
			policies = append(policies, reason.Policy)
		}
		l.note(callPart(e.Call), "judged", keyVerdict.String(string(e.Verdict.Answer)), attribute.StringSlice("gantry.policies", policies))
	case run.CallIntended:
		l.note(callPart(e.Call), "attempted", keyAttempt.Int(e.Intent))
	case run.CallUncertain:
		l.note(callPart(e.Call), "uncertain", keyCause.String(e.Cause))
	case run.CallEnded:
		failed := ""
		if e.Outcome != run.OutcomeOK && e.Outcome != run.OutcomeAnswered && e.Outcome != run.OutcomeSimulated {
			failed = string(e.Outcome)
		}
		l.end(callPart(e.Call), failed, append(l.text(semconv.GenAIToolCallResultKey, e.Result), keyOutcome.String(string(e.Outcome)))...)
	}
}

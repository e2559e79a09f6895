package model

import (
	"context"
	"strings"
)

// Give bounds, streams and counts the answer of an embedded provider.
func Give(request Request, answer Answer, deltas func(text string)) Answer {
	answer = bounded(request, answer)
	if deltas != nil {
		for line := range strings.Lines(answer.Text) {
			deltas(line)
		}
	}
	answer.Usage = Estimate(request, answer)
	return answer
}

// bounded ends an answer at the limit that the request sets, as other models
// do: what was reserved for it is never exceeded.
func bounded(request Request, answer Answer) Answer {
	usage := Estimate(request, answer)
	if request.MaxTokens <= 0 || usage.Output+usage.Reasoning <= request.MaxTokens {
		return answer
	}
	limit := int(request.MaxTokens) * BytesPerToken
	answer.Calls, answer.Finish = nil, FinishLength
	answer.Text = strings.ToValidUTF8(answer.Text[:min(limit, len(answer.Text))], "")
	answer.Reasoning = strings.ToValidUTF8(answer.Reasoning[:min(max(limit-len(answer.Text)-BytesPerToken, 0), len(answer.Reasoning))], "")
	return answer
}

// Because returns an error of a kind for what an embedded provider itself said,
// which stays out of its text.
func Because(cause error, kind ErrorKind, detail string) *Error {
	return &Error{Kind: kind, Detail: detail, cause: cause}
}

// Ended says that the caller gave up, or that its time did.
func Ended(ctx context.Context) *Error {
	return &Error{Kind: TimedOut, Detail: "the request was given up", cause: context.Cause(ctx)}
}

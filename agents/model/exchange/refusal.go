package exchange

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gantry.dev/agents/model"
)

// The limits of what a server's refusal may say.
const (
	maxErrorBody  = 64 << 10
	maxRetryAfter = 24 * time.Hour
)

// refusal is the body of an error of any of the protocols, as far as it decides
// anything. Nothing of it is shown: a server may put anything in it, even the
// key.
type refusal struct {
	Error said `json:"error"`
}

type said struct {
	Code    any    `json:"code"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
	Details []struct {
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
	} `json:"details"`
}

// read reads what a server said; what is no JSON says nothing.
func read(body []byte) refusal {
	var r refusal
	body = bytes.TrimSpace(body)
	if bytes.HasPrefix(body, []byte("[")) { // a stream of which the refusal is the first element
		var all []refusal
		if json.Unmarshal(body, &all) == nil && len(all) > 0 {
			return all[0]
		}
	}
	_ = json.Unmarshal(body, &r)
	return r
}

// says reports whether one of the words is in the error.
func (r refusal) says(words ...string) bool {
	code, _ := r.Error.Code.(string)
	all := code + " " + r.Error.Type + " " + r.Error.Status + " " + r.Error.Message
	for _, detail := range r.Error.Details {
		all += " " + detail.Reason
	}
	all = strings.ToLower(all)
	for _, word := range words {
		if strings.Contains(all, word) {
			return true
		}
	}
	return false
}

func (r refusal) tooLong() bool {
	return r.says("context_length", "context length", "context window", "context size", "prompt is too long", "maximum context", "string_above_max_length",
		"exceeds the maximum number of tokens", "request_too_large")
}

func (r refusal) noCredit() bool {
	return r.says("insufficient_quota", "credit balance", "billing_error")
}

// after is how long the body asks to wait.
func (r refusal) after() time.Duration {
	for _, detail := range r.Error.Details {
		if wait, err := time.ParseDuration(detail.RetryDelay); err == nil {
			return min(max(wait, 0), maxRetryAfter)
		}
	}
	return 0
}

// statusError reads what a server answered instead of an answer.
func statusError(response *http.Response, now time.Time) *model.Error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	said := read(body)
	failure := &model.Error{Status: response.StatusCode, RetryAfter: retryAfter(response.Header, now)}
	if failure.RetryAfter == 0 {
		failure.RetryAfter = said.after()
	}
	failure.Kind, failure.Detail = kindOf(response.StatusCode, said)
	// A gateway may fail after the model has worked; the others did not begin.
	switch response.StatusCode {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		failure.Billed = true
	}
	return failure
}

func kindOf(status int, said refusal) (model.ErrorKind, string) {
	refused := status >= 400 && status < 500
	switch {
	case status == http.StatusPaymentRequired, refused && said.noCredit():
		return model.Unauthorised, "the account at the provider has no credit"
	case status == http.StatusTooManyRequests:
		return model.RateLimited, "too many requests"
	case status == http.StatusUnauthorized, status == http.StatusForbidden, refused && said.says("api_key_invalid", "api key not valid"):
		return model.Unauthorised, "the key is not accepted"
	case status == http.StatusRequestEntityTooLarge, refused && said.tooLong():
		return model.TooLong, "the prompt does not fit into the model"
	case status == http.StatusNotFound:
		return model.ModelNotFound, "the server knows no such model or address"
	case status == http.StatusRequestTimeout:
		return model.TimedOut, "the server waited too long"
	case status >= 500:
		return model.Overloaded, "the server failed"
	case status >= 400:
		return model.BadRequest, "the server refused the request"
	}
	return model.BadAnswer, "the server did not answer with a stream"
}

// retryAfter reads both forms of the header, and the one in milliseconds.
func retryAfter(header http.Header, now time.Time) time.Duration {
	wait := time.Duration(0)
	if ms, err := strconv.ParseFloat(header.Get("Retry-After-Ms"), 64); err == nil {
		wait = span(ms, time.Millisecond)
	} else if seconds, err := strconv.ParseFloat(header.Get("Retry-After"), 64); err == nil {
		wait = span(seconds, time.Second)
	} else if date, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		wait = date.Sub(now)
	}
	return min(max(wait, 0), maxRetryAfter)
}

// span returns so many units, and nothing for what is no number of them.
func span(count float64, unit time.Duration) time.Duration {
	switch {
	case count >= float64(maxRetryAfter)/float64(unit):
		return maxRetryAfter
	case count > 0:
		return time.Duration(count * float64(unit))
	}
	return 0
}

// Failure says what ended an exchange that did not end by itself, and nil of
// one that did. The error is what the SDK said, or nil.
func (e *Exchange) Failure(ctx context.Context, err error) *model.Error {
	if e.failed != nil {
		err = e.failed
	}
	switch {
	case errors.Is(context.Cause(ctx), errIdle):
		return &model.Error{Kind: model.TimedOut, Billed: true, Detail: "the server was silent for too long"}
	case ctx.Err() != nil:
		failure := model.Ended(ctx)
		failure.Billed = true
		return failure
	case err != nil:
		return failureOf(err)
	}
	return nil
}

// failureOf classifies the error of a transport, of a stream or of an SDK.
func failureOf(err error) *model.Error {
	var known *model.Error
	var syntax *json.SyntaxError
	var shape *json.UnmarshalTypeError
	switch {
	case errors.As(err, &known):
		return known
	case unreached(err):
		return &model.Error{Kind: model.Unreachable, Detail: "no connection to the server"}
	case errors.Is(err, errTooMuch), errors.Is(err, bufio.ErrTooLong):
		return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer is too long"}
	case errors.Is(err, errAgain):
		return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the answer asked for a second request"}
	case errors.As(err, &syntax), errors.As(err, &shape):
		return Garbled()
	}
	return CutShort()
}

// Garbled is the error of a stream that is not of the protocol.
func Garbled() *model.Error {
	return &model.Error{Kind: model.BadAnswer, Billed: true, Detail: "the stream is not of the protocol"}
}

// CutShort is the error of a stream that ends before its answer does.
func CutShort() *model.Error {
	return &model.Error{Kind: model.Cut, Billed: true, Detail: "the stream ended before the answer did"}
}

// unreached reports whether the request never left.
func unreached(err error) bool {
	var dns *net.DNSError
	var operation *net.OpError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	return errors.As(err, &dns) || errors.As(err, &certificate) || errors.As(err, &record) ||
		errors.As(err, &operation) && operation.Op == "dial"
}

// Streamed reads an error that came in the middle of a stream.
func Streamed(body []byte) *model.Error {
	said := read(body)
	switch {
	case said.tooLong():
		return &model.Error{Kind: model.TooLong, Detail: "the prompt does not fit into the model"}
	case said.says("rate_limit", "resource_exhausted"):
		return &model.Error{Kind: model.RateLimited, Billed: true, RetryAfter: said.after(), Detail: "too many requests"}
	}
	return &model.Error{Kind: model.Overloaded, Billed: true, Detail: "the server failed in the middle of the answer"}
}

package model

import (
	"bufio"
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

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// The limits of what a server's refusal may say.
const (
	maxErrorBody  = 64 << 10
	maxRetryAfter = 24 * time.Hour
)

// refusal is the body of an error, as far as it decides anything. Nothing of
// it is shown: a server may put anything in it, even the key.
type refusal struct {
	Error struct {
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

// says reports whether one of the words is in the error.
func (r refusal) says(words ...string) bool {
	code, _ := r.Error.Code.(string)
	all := strings.ToLower(code + " " + r.Error.Type + " " + r.Error.Message)
	for _, word := range words {
		if strings.Contains(all, word) {
			return true
		}
	}
	return false
}

func (r refusal) tooLong() bool {
	return r.says("context_length", "context length", "context window", "context size", "prompt is too long", "maximum context", "string_above_max_length")
}

// statusError reads what a server answered instead of an answer.
func statusError(response *http.Response, now time.Time) *Error {
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorBody))
	var said refusal
	_ = json.Unmarshal(body, &said) // what is no JSON says nothing
	failure := &Error{Status: response.StatusCode, RetryAfter: retryAfter(response.Header, now)}
	failure.Kind, failure.Detail = kindOf(response.StatusCode, said)
	// A gateway may fail after the model has worked; the others did not begin.
	switch response.StatusCode {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusGatewayTimeout:
		failure.Billed = true
	}
	return failure
}

func kindOf(status int, said refusal) (ErrorKind, string) {
	switch {
	case status == http.StatusTooManyRequests && said.says("insufficient_quota"):
		return Unauthorised, "the account at the provider has no credit"
	case status == http.StatusTooManyRequests:
		return RateLimited, "too many requests"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Unauthorised, "the key is not accepted"
	case status == http.StatusRequestEntityTooLarge, status >= 400 && status < 500 && said.tooLong():
		return TooLong, "the prompt does not fit into the model"
	case status == http.StatusNotFound:
		return ModelNotFound, "the server knows no such model or address"
	case status == http.StatusRequestTimeout:
		return TimedOut, "the server waited too long"
	case status >= 500:
		return Overloaded, "the server failed"
	case status >= 400:
		return BadRequest, "the server refused the request"
	}
	return BadAnswer, "the server did not answer with a stream"
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

// failureFrom says what ended a stream that did not end by itself.
func failureFrom(ctx context.Context, err error) *Error {
	var known *Error
	var streamed *ssestream.StreamError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(context.Cause(ctx), errIdle):
		return &Error{Kind: TimedOut, Billed: true, Detail: "the server was silent for too long"}
	case ctx.Err() != nil:
		failure := Ended(ctx)
		failure.Billed = true
		return failure
	case errors.As(err, &known):
		return known
	case errors.As(err, &streamed):
		return streamedError(streamed)
	case unreached(err):
		return &Error{Kind: Unreachable, Detail: "no connection to the server"}
	case errors.Is(err, errTooMuch), errors.Is(err, bufio.ErrTooLong):
		return &Error{Kind: BadAnswer, Billed: true, Detail: "the answer is too long"}
	case errors.As(err, &syntax):
		return &Error{Kind: BadAnswer, Billed: true, Detail: "the stream is not of the protocol"}
	}
	return &Error{Kind: Cut, Billed: true, Detail: "the connection broke before the answer was there"}
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

// streamedError reads an error that came in the middle of a stream.
func streamedError(streamed *ssestream.StreamError) *Error {
	var said refusal
	_ = json.Unmarshal(streamed.Event.Data, &said)
	switch {
	case said.tooLong():
		return &Error{Kind: TooLong, Detail: "the prompt does not fit into the model"}
	case said.says("rate_limit"):
		return &Error{Kind: RateLimited, Billed: true, Detail: "too many requests"}
	}
	return &Error{Kind: Overloaded, Billed: true, Detail: "the server failed in the middle of the answer"}
}

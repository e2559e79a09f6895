package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"gantry.dev/agents/credential"
)

// Credentials resolves a credential reference at call time, for one audience.
// What it gives is not kept.
type Credentials interface {
	Secret(ctx context.Context, use credential.Use) (credential.Secret, error)
}

// maxRedirects is how often a READ call follows a redirect.
const maxRedirects = 3

// httpTool calls one declared HTTP request.
type httpTool struct {
	definition  Definition
	endpoint    endpoint
	egress      *Egress
	credentials Credentials
}

var (
	_ Tool   = (*httpTool)(nil)
	_ Prober = httpProber{}
)

// httpProber is an httpTool whose outcomes can be queried.
type httpProber struct{ *httpTool }

// NewHTTP returns the tool of an HTTP definition. It is a Prober when the
// definition declares a query. Credentials may be nil for a definition without
// a credential.
func NewHTTP(d Definition, egress *Egress, credentials Credentials) (Tool, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	if d.Kind != KindHTTP || egress == nil || (d.Credential != "" && credentials == nil) {
		return nil, fmt.Errorf("tool %q: an http tool needs an http definition, an egress guard and, for its credential, Credentials", d.Name)
	}
	endpoint, err := readServer(d)
	if err != nil {
		return nil, fmt.Errorf("tool %q: %w", d.Name, err)
	}
	t := &httpTool{definition: d, endpoint: endpoint, egress: egress, credentials: credentials}
	if endpoint.Query != nil {
		return httpProber{t}, nil
	}
	return t, nil
}

// Definition returns the contract.
func (t *httpTool) Definition() Definition { return t.definition }

// Invoke sends the request once. What the other side may have received and
// does not clearly answer is uncertain.
func (t *httpTool) Invoke(ctx context.Context, invocation Invocation) (Result, error) {
	arguments, err := decodeJSON(invocation.Arguments)
	if err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the recorded arguments are not JSON"}
	}
	target, err := t.endpoint.url.fill(arguments, "")
	if err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the URL cannot be built: " + err.Error()}
	}
	body, err := t.endpoint.bodyOf(invocation.Arguments, arguments)
	if err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the body cannot be built"}
	}
	answer, err := t.exchange(ctx, t.endpoint.Method, target, body, invocation)
	switch {
	case err != nil:
		return Result{}, err
	case slices.Contains(t.endpoint.Refused, answer.status):
		// The status alone says it; a body cut short changes nothing.
		answer.result.Failed, answer.result.Absent = true, answer.status == http.StatusNotFound
		return answer.result, nil
	case !slices.Contains(t.endpoint.Success, answer.status):
		return Result{}, &Failure{
			Uncertain: above(t.definition), Code: FailedStatus,
			Detail: fmt.Sprintf("status %d", answer.status), Reply: &answer.result,
		}
	case answer.broken:
		return Result{}, &Failure{Uncertain: above(t.definition), Code: FailedBroken, Detail: "the reply broke off", Reply: &answer.result}
	}
	return answer.result, nil
}

// Probe asks for the outcome under the key of the invocation.
func (t httpProber) Probe(ctx context.Context, invocation Invocation) (Result, bool, error) {
	arguments, err := decodeJSON(invocation.Arguments)
	if err != nil {
		return Result{}, false, &Failure{Code: FailedError, Detail: "the recorded arguments are not JSON"}
	}
	target, err := t.endpoint.query.fill(arguments, invocation.Key)
	if err != nil {
		return Result{}, false, &Failure{Code: FailedError, Detail: "the URL cannot be built: " + err.Error()}
	}
	answer, err := t.exchange(ctx, t.endpoint.Query.Method, target, nil, invocation)
	switch {
	case err != nil:
		return Result{}, false, err
	case answer.status == http.StatusNotFound:
		return Result{}, false, nil
	case !slices.Contains(t.endpoint.Success, answer.status):
		return Result{}, false, &Failure{Code: FailedStatus, Detail: fmt.Sprintf("status %d", answer.status)}
	case answer.broken || answer.result.Cut:
		return Result{}, false, &Failure{Code: FailedBroken, Detail: "the reply is not whole"}
	case t.endpoint.Query.Found == "":
		return answer.result, true, nil
	}
	document, err := decodeJSON(answer.result.Content)
	if err != nil {
		return Result{}, false, &Failure{Code: FailedBroken, Detail: "the reply is not JSON"}
	}
	outcome, found := LookUp(document, t.endpoint.Query.Found)
	if !found || outcome == nil {
		return Result{}, false, nil
	}
	content, err := json.Marshal(outcome)
	if err != nil {
		return Result{}, false, &Failure{Code: FailedBroken, Detail: "the reply is not JSON"}
	}
	answer.result.Content, answer.result.MediaType = content, MediaJSON
	return answer.result, true, nil
}

// answer is what came back for one request.
type answer struct {
	status int
	result Result
	broken bool // the body ended before its end
}

// exchange sends a request, and follows redirects of a reading GET. A redirect
// of anything else is an answer like any other: who answered may have acted.
func (t *httpTool) exchange(ctx context.Context, method string, target *url.URL, body []byte, invocation Invocation) (answer, error) {
	home := target
	for hop := 0; ; hop++ {
		got, next, err := t.send(ctx, method, target, home, body, invocation)
		if err != nil || next == nil || method != http.MethodGet {
			return got, err
		}
		if hop == maxRedirects {
			return answer{}, &Failure{Code: FailedStatus, Detail: "too many redirects"}
		}
		target = next
	}
}

func (t *httpTool) send(ctx context.Context, method string, target, home *url.URL, body []byte, invocation Invocation) (answer, *url.URL, error) {
	if err := t.egress.CheckURL(target); err != nil {
		return answer{}, nil, err
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	request, err := http.NewRequestWithContext(ctx, method, target.String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, nil, &Failure{Code: FailedError, Detail: "the request cannot be built"}
	}
	if err := t.fillHeaders(ctx, request, home, len(body) > 0, invocation); err != nil {
		return answer{}, nil, err
	}
	response, err := t.egress.Transport().RoundTrip(request)
	if err != nil {
		return answer{}, nil, t.transportFailure(ctx, err, connected.Load())
	}
	got := t.read(response)
	if response.StatusCode < 300 || response.StatusCode > 399 {
		return got, nil, nil
	}
	next, err := response.Location()
	if err != nil {
		return got, nil, nil //nolint:nilerr // a redirect that leads nowhere is an answer with an odd status
	}
	return got, next, nil
}

// fillHeaders sets the headers. What identifies us goes to the declared host
// only, not to where it redirects.
func (t *httpTool) fillHeaders(ctx context.Context, request *http.Request, home *url.URL, hasBody bool, invocation Invocation) error {
	request.Header.Set("User-Agent", "gantry")
	if hasBody {
		request.Header.Set("Content-Type", MediaJSON)
	}
	if request.URL.Scheme != home.Scheme || request.URL.Host != home.Host {
		return nil
	}
	for name, value := range t.endpoint.Headers {
		request.Header.Set(name, value)
	}
	if t.endpoint.IdempotencyHeader != "" {
		request.Header.Set(t.endpoint.IdempotencyHeader, invocation.Key)
	}
	if t.endpoint.ActorHeader != "" {
		request.Header.Set(t.endpoint.ActorHeader, chain(invocation.Actor))
	}
	if t.endpoint.Auth == nil {
		return nil
	}
	secret, err := t.secret(ctx, home.Scheme+"://"+home.Host, invocation)
	if err != nil || !headerValue.MatchString(secret) {
		return &Failure{Code: FailedCredential, Detail: "the credential " + shown(t.definition.Credential) + " could not be had"}
	}
	if t.endpoint.Auth.Scheme == "bearer" {
		request.Header.Set("Authorization", "Bearer "+secret)
	} else {
		request.Header.Set(t.endpoint.Auth.Header, secret)
	}
	return nil
}

// secret is the credential, for the declared host.
func (t *httpTool) secret(ctx context.Context, audience string, invocation Invocation) (string, error) {
	secret, err := t.credentials.Secret(ctx, credential.Use{Reference: t.definition.Credential, Audience: audience, Actor: invocation.Actor, Run: invocation.Run})
	if err != nil {
		return "", err
	}
	return secret.For(audience)
}

// chain writes an acting chain into one header. Ids are escaped, so that none
// of them can pass for two.
func chain(actor []string) string {
	escaped := make([]string, len(actor))
	for i, id := range actor {
		escaped[i] = url.QueryEscape(id)
	}
	return strings.Join(escaped, ",")
}

// transportFailure says what a request without a response means. Nothing was
// sent before there was a connection. The error's own text may hold the URL.
func (t *httpTool) transportFailure(ctx context.Context, err error, connected bool) *Failure {
	var failure *Failure
	switch {
	case connected && ctx.Err() != nil:
		return &Failure{Uncertain: above(t.definition), Code: FailedTimeout, Detail: "no answer in time"}
	case connected:
		return &Failure{Uncertain: above(t.definition), Code: FailedBroken, Detail: "the connection broke before an answer"}
	case errors.As(err, &failure):
		return failure
	}
	return &Failure{Code: FailedUnreachable, Detail: "no connection to the host; nothing was sent"}
}

// read takes at most what the contract keeps, and one byte more to know of it.
func (t *httpTool) read(response *http.Response) answer {
	defer response.Body.Close() //nolint:errcheck // nothing was written; the connection ends with it
	limit := int64(t.definition.ResultBytes)
	content, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	media, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	result := Result{
		Content: content, MediaType: MediaText, Marking: t.definition.Result,
		Size: max(int64(len(content)), response.ContentLength),
		Cut:  int64(len(content)) > limit || err != nil,
	}
	if media == MediaJSON || strings.HasSuffix(media, "+json") {
		result.MediaType = MediaJSON
	}
	return answer{status: response.StatusCode, result: bounded(result, t.definition.ResultBytes), broken: err != nil}
}

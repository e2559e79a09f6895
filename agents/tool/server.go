package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"gantry.dev/orchestrator/policy"
)

// HTTPServer is how a tool of kind "http" is called: the Server of its
// Definition. In URLs, {/pointer} stands for an argument and may stand in the
// path and the query only; a query parameter whose argument is absent is left
// out.
type HTTPServer struct {
	Method            string            `json:"method"`
	URL               string            `json:"url"`
	Headers           map[string]string `json:"headers,omitempty"`           // sent as they are
	Body              map[string]string `json:"body,omitempty"`              // key of a JSON object to pointer; without it the arguments are the body (not for GET)
	Auth              *HTTPAuth         `json:"auth,omitempty"`              // how the credential is sent
	IdempotencyHeader string            `json:"idempotencyHeader,omitempty"` // carries Invocation.Key
	ActorHeader       string            `json:"actorHeader,omitempty"`       // carries Invocation.Actor: escaped ids, subject first, joined by ","
	Success           []int             `json:"success,omitempty"`           // statuses that say done; 200, 201, 202 and 204 without it
	Refused           []int             `json:"refused,omitempty"`           // statuses that say surely not done; 400, 401, 403, 404, 409 and 422 without it
	Query             *HTTPQuery        `json:"query,omitempty"`             // finds the outcome of an earlier attempt
}

// HTTPAuth says how a credential is sent: with scheme "bearer" as
// Authorization, with scheme "header" as the named header.
type HTTPAuth struct {
	Scheme string `json:"scheme"`
	Header string `json:"header,omitempty"`
}

// HTTPQuery asks for an outcome. In its URL {key} stands for Invocation.Key.
// Found is the JSON pointer of the outcome in the reply; without it the whole
// reply is the outcome. Status 404, or nothing at Found, means not found.
type HTTPQuery struct {
	Method string `json:"method"` // GET or POST
	URL    string `json:"url"`
	Found  string `json:"found,omitempty"`
}

// endpoint is a checked HTTPServer.
type endpoint struct {
	HTTPServer
	url   urlTemplate
	query urlTemplate
}

var (
	defaultSuccess = []int{200, 201, 202, 204}
	defaultRefused = []int{400, 401, 403, 404, 409, 422}
	headerName     = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*$`)
	headerValue    = regexp.MustCompile(`^[\x20-\x7e]*$`)
	ownHeaders     = []string{"Authorization", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Accept-Encoding"}
)

// readServer returns the checked server configuration of an HTTP tool, or all
// its faults.
func readServer(d Definition) (endpoint, error) {
	var e endpoint
	if err := decodeStrictly(d.Server, &e.HTTPServer); err != nil {
		return endpoint{}, fmt.Errorf("server: %w", err)
	}
	if len(e.Success) == 0 {
		e.Success = defaultSuccess
	}
	if len(e.Refused) == 0 {
		e.Refused = defaultRefused
	}
	var faults []error
	var err error
	if e.url, err = parseURL(e.URL); err != nil {
		faults = append(faults, fmt.Errorf("server: url: %w", err))
	}
	if slices.Contains(e.url.holes(), "key") {
		faults = append(faults, errors.New("server: url: {key} is for the query only"))
	}
	if e.Query != nil {
		if e.query, err = parseURL(e.Query.URL); err != nil {
			faults = append(faults, fmt.Errorf("server: query: %w", err))
		}
	}
	faults = append(faults, e.headerFaults()...)
	faults = append(faults, e.effectFaults(d)...)
	faults = append(faults, e.argumentFaults(d)...)
	return e, errors.Join(faults...)
}

func (e endpoint) headerFaults() []error {
	var faults []error
	used := map[string]bool{}
	use := func(what, name string) {
		canonical := http.CanonicalHeaderKey(name)
		if !headerName.MatchString(name) || slices.Contains(ownHeaders, canonical) || used[canonical] {
			faults = append(faults, fmt.Errorf("server: %s: %q is no free header name", what, name))
		}
		used[canonical] = true
	}
	for name, value := range e.Headers {
		use("headers", name)
		if !headerValue.MatchString(value) {
			faults = append(faults, fmt.Errorf("server: header %q must hold printable ASCII", name))
		}
	}
	if e.IdempotencyHeader != "" {
		use("idempotencyHeader", e.IdempotencyHeader)
	}
	if e.ActorHeader != "" {
		use("actorHeader", e.ActorHeader)
	}
	switch {
	case e.Auth == nil, e.Auth.Scheme == "bearer" && e.Auth.Header == "":
	case e.Auth.Scheme == "header":
		use("auth", e.Auth.Header)
	default:
		faults = append(faults, errors.New("server: auth: the scheme must be \"bearer\", or \"header\" with a header"))
	}
	return faults
}

func (e endpoint) effectFaults(d Definition) []error {
	var faults []error
	methods := []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}
	if d.Class == policy.ClassRead {
		methods = []string{http.MethodGet, http.MethodPost}
	}
	if !slices.Contains(methods, e.Method) {
		faults = append(faults, fmt.Errorf("server: the method of a %s tool must be one of %s", d.Class, listed(methods)))
	}
	if d.Class == policy.Keyed && e.IdempotencyHeader == "" {
		faults = append(faults, errors.New("server: a KEYED tool needs an idempotencyHeader"))
	}
	if d.Class == policy.Checkable && e.Query == nil {
		faults = append(faults, errors.New("server: a CHECKABLE tool needs a query"))
	}
	if e.Query != nil && e.Query.Method != http.MethodGet && e.Query.Method != http.MethodPost {
		faults = append(faults, errors.New("server: query: the method must be GET or POST"))
	}
	if (e.Auth == nil) != (d.Credential == "") {
		faults = append(faults, errors.New("server: auth and credential go together"))
	}
	if d.Result.Integrity == policy.Trusted {
		faults = append(faults, errors.New("result: what comes from outside is TOOL or UNTRUSTED"))
	}
	for _, status := range slices.Concat(e.Success, e.Refused) {
		if status < 200 || status > 599 || (status >= 300 && status < 400) || (slices.Contains(e.Success, status) && slices.Contains(e.Refused, status)) {
			faults = append(faults, fmt.Errorf("server: status %d cannot say done, or not done", status))
		}
	}
	return faults
}

func (e endpoint) argumentFaults(d Definition) []error {
	input, err := CompileSchema(d.Input)
	if err != nil {
		return nil // reported with the schemas
	}
	var faults []error
	for _, hole := range slices.Concat(e.url.holes(), e.query.holes()) {
		if hole == "key" {
			continue
		}
		if err := input.declares(hole, "string", "integer", "boolean"); err != nil {
			faults = append(faults, fmt.Errorf("server: url: %w", err))
		}
	}
	for key, pointer := range e.Body {
		if err := input.declares(pointer); err != nil || key == "" {
			faults = append(faults, fmt.Errorf("server: body key %q: %w", key, err))
		}
	}
	if _, ok := splitPointer(e.foundPointer()); !ok {
		faults = append(faults, errors.New("server: query: found is no JSON pointer"))
	}
	return faults
}

func (e endpoint) foundPointer() string {
	if e.Query == nil {
		return ""
	}
	return e.Query.Found
}

// urlTemplate is a URL with holes in its path and in the values of its query.
type urlTemplate struct {
	origin string // scheme://host:port
	path   template
	query  []queryValue
}

type queryValue struct {
	name  string // escaped
	value template
}

func parseURL(text string) (urlTemplate, error) {
	beforeQuery, query, hasQuery := strings.Cut(text, "?")
	scheme, rest, ok := strings.Cut(beforeQuery, "://")
	host, path, _ := strings.Cut(rest, "/")
	origin := scheme + "://" + host
	parsed, err := url.Parse(origin)
	if !ok || err != nil || parsed.Host == "" || parsed.User != nil || strings.ContainsAny(origin+text, "#\\ ") || strings.ContainsAny(origin, "{}") {
		return urlTemplate{}, errors.New("must be scheme://host/path?query without user and fragment, with arguments in path and query only")
	}
	if scheme != "https" && scheme != "http" {
		return urlTemplate{}, errors.New("the scheme must be https, or http for an internal destination")
	}
	t := urlTemplate{origin: origin}
	if t.path, err = parseTemplate("/" + path); err != nil {
		return urlTemplate{}, err
	}
	if !hasQuery {
		return t, nil
	}
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		parsed, err := parseTemplate(value)
		if err != nil || name == "" || strings.ContainsAny(name, "{}") {
			return urlTemplate{}, errors.New("the query must be name=value pairs")
		}
		t.query = append(t.query, queryValue{name, parsed})
	}
	return t, nil
}

func (t urlTemplate) holes() []string {
	holes := t.path.pointers()
	for _, q := range t.query {
		holes = slices.Concat(holes, q.value.pointers())
	}
	return holes
}

var errAbsent = errors.New("an argument that the URL needs is absent")

// fill returns the URL with the values of a call. Each value stays within the
// one path segment or query value that it stands in.
func (t urlTemplate) fill(arguments any, key string) (*url.URL, error) {
	value := func(hole string) (string, error) {
		if hole == "key" {
			return key, nil
		}
		found, ok := LookUp(arguments, hole)
		if !ok {
			return "", errAbsent
		}
		text, ok := scalarText(found)
		if !ok {
			return "", errAbsent
		}
		return text, nil
	}
	path, err := t.path.fill(func(hole string) (string, error) {
		text, err := value(hole)
		if err == nil && (text == "" || text == "." || text == "..") {
			err = errors.New("an argument cannot be a path segment")
		}
		return url.PathEscape(text), err
	})
	if err != nil {
		return nil, err
	}
	var pairs []string
	for _, q := range t.query {
		text, err := q.value.fill(func(hole string) (string, error) {
			text, err := value(hole)
			return url.QueryEscape(text), err
		})
		if errors.Is(err, errAbsent) {
			continue
		}
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, q.name+"="+text)
	}
	full := t.origin + path
	if len(pairs) > 0 {
		full += "?" + strings.Join(pairs, "&")
	}
	return url.Parse(full)
}

// bodyOf returns what a request carries.
func (e endpoint) bodyOf(canonical []byte, arguments any) ([]byte, error) {
	if e.Method == http.MethodGet {
		return nil, nil
	}
	if e.Body == nil {
		return canonical, nil
	}
	body := make(map[string]any, len(e.Body))
	for key, pointer := range e.Body {
		if value, found := LookUp(arguments, pointer); found {
			body[key] = value
		}
	}
	return json.Marshal(body)
}

package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"gantry.dev/agents/server"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// The kinds of tool.
const (
	KindBuiltin = "builtin"
	KindHTTP    = "http"
	KindMCP     = "mcp"
	KindA2A     = "a2a"
)

// The bounds of a contract.
const (
	MaxTimeout     = 10 * time.Minute
	MaxResultBytes = 16 << 20
	MaxMediaBytes  = 4 << 20
	maxDescription = 8 << 10
)

// toolName admits ASCII only, so that no two names look alike but for case,
// which a Box refuses.
var toolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)+$`)

// ReadDefinition reads a definition from YAML or JSON. Unknown and repeated
// keys are errors. It does not Validate.
func ReadDefinition(text []byte) (Definition, error) {
	var document any
	if err := yaml.Unmarshal(text, &document); err != nil {
		return Definition{}, fmt.Errorf("tool definition: %w", err)
	}
	canonical, err := canon.Marshal(document)
	if err != nil {
		return Definition{}, fmt.Errorf("tool definition: %w", err)
	}
	var d Definition
	if err := decodeStrictly(canonical, &d); err != nil {
		return Definition{}, fmt.Errorf("tool definition: %w", err)
	}
	return d, nil
}

func decodeStrictly(raw []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// Digest returns the digest of the whole contract, or nothing for one that has
// no canonical form and so never validates. Nothing pins nothing.
func (d Definition) Digest() string {
	digest, err := canon.DigestOf(d)
	if err != nil {
		return ""
	}
	return digest
}

// Validate returns all faults of the contract, joined.
func (d Definition) Validate() error {
	var faults []error
	fault := func(format string, arguments ...any) {
		faults = append(faults, fmt.Errorf("tool %q: "+format, append([]any{d.Name}, arguments...)...))
	}
	if !toolName.MatchString(d.Name) || len(d.Name) > 128 {
		fault("the name must be qualified by its server and hold letters, digits, _ and - only, for example \"files.read\"")
	}
	if d.Description == "" || len(d.Description) > maxDescription {
		fault("the description must have 1 to %d bytes", maxDescription)
	}
	if d.Owner == "" {
		fault("an owner must answer for it")
	}
	if d.Contact == "" {
		fault("a contact must be told of incidents")
	}
	if d.Timeout <= 0 || time.Duration(d.Timeout) > MaxTimeout {
		fault("the timeout must be above 0 and at most %s", MaxTimeout)
	}
	if d.ResultBytes <= 0 || d.ResultBytes > MaxResultBytes {
		fault("resultBytes must be 1 to %d", MaxResultBytes)
	}
	if d.MediaBytes < 0 || d.MediaBytes > MaxMediaBytes {
		fault("mediaBytes must be 0 to %d", MaxMediaBytes)
	}
	if d.Asks != "" && d.Asks != AskSubject && d.Asks != AskOwner && d.Asks != AskNobody {
		fault("asks must be subject, owner or nobody")
	}
	if d.CostBound < 0 {
		fault("the cost bound must not be negative")
	}
	for _, err := range []error{d.effectFaults(), d.schemaFaults(), d.kindFaults()} {
		if err != nil {
			fault("%w", err)
		}
	}
	if len(faults) == 0 && d.Digest() == "" {
		fault("has no canonical form")
	}
	return errors.Join(faults...)
}

func (d Definition) effectFaults() error {
	switch {
	case d.Impact == policy.ImpactUnset || d.Impact > policy.Irreversible:
		return errors.New("the impact must be set")
	case d.Class == policy.ClassUnset || d.Class > policy.Opaque:
		return errors.New("the effect class must be set")
	case (d.Impact == policy.ImpactRead) != (d.Class == policy.ClassRead):
		return fmt.Errorf("impact %s does not go with class %s: reading is READ in both", d.Impact, d.Class)
	}
	return nil
}

func (d Definition) schemaFaults() error {
	var faults []error
	if len(d.Output) > 0 {
		if _, err := CompileSchema(d.Output); err != nil {
			faults = append(faults, fmt.Errorf("output: %w", err))
		}
	}
	input, err := CompileSchema(d.Input)
	if err != nil {
		return errors.Join(append(faults, fmt.Errorf("input: %w", err))...)
	}
	if input.document["type"] != "object" {
		faults = append(faults, errors.New("input: the type must be \"object\""))
	}
	resource, err := parseTemplate(d.Resource)
	if err != nil || d.Resource == "" {
		faults = append(faults, errors.New("resource: must be text with JSON pointers in braces, for example \"ledger:{/invoice}\""))
	}
	for _, pointer := range resource.pointers() {
		if err := input.declares(pointer, "string", "integer", "boolean"); err != nil {
			faults = append(faults, fmt.Errorf("resource: %w", err))
		}
	}
	for name, pointer := range d.Facts {
		if err := input.declares(pointer, "string", "integer", "boolean", "array"); err != nil || name == "" {
			faults = append(faults, fmt.Errorf("fact %q: %w", name, err))
		}
	}
	for _, pointer := range d.Control {
		if err := input.declares(pointer); err != nil {
			faults = append(faults, fmt.Errorf("control: %w", err))
		}
	}
	return errors.Join(faults...)
}

func (d Definition) kindFaults() error {
	switch d.Kind {
	case KindBuiltin:
		if len(d.Server) > 0 {
			return errors.New("a built-in tool has no server")
		}
		return nil
	case KindHTTP:
		_, err := readServer(d)
		return err
	case KindMCP:
		_, err := ReadOffered(d)
		return err
	case KindA2A:
		_, err := ReadPeer(d)
		return err
	}
	return fmt.Errorf("the kind must be %q, %q, %q or %q", KindBuiltin, KindHTTP, KindMCP, KindA2A)
}

// Peer says which agent a tool of kind "a2a" is, and what of the arguments is
// said to it: the Server of its Definition.
type Peer struct {
	URL     string `json:"url"`               // of the agent; its card is below it
	Pin     string `json:"pin"`               // digest of the card that its owner looked at
	Message string `json:"message,omitempty"` // JSON pointer of a text among the arguments; without it all of them are said
}

// ReadPeer returns which agent a tool of kind "a2a" is, or what is wrong with
// that.
func ReadPeer(d Definition) (Peer, error) {
	var p Peer
	if err := decodeStrictly(d.Server, &p); err != nil {
		return Peer{}, fmt.Errorf("server: %w", err)
	}
	target, err := url.Parse(p.URL)
	switch {
	case err != nil || target.Host == "" || target.Scheme != "http" && target.Scheme != "https" || target.RawQuery != "" || target.User != nil:
		return Peer{}, errors.New("server: url: must be an http or https URL without query and name")
	case p.Pin == "":
		return Peer{}, errors.New("server: pin: the agent's card must be pinned; see what it is with gantry a2a-card")
	case d.Result.Integrity != policy.Untrusted:
		return Peer{}, errors.New("result: what another agent says is UNTRUSTED")
	}
	if p.Message == "" {
		return p, nil
	}
	input, err := CompileSchema(d.Input)
	if err != nil {
		return p, nil //nolint:nilerr // a fault of its own
	}
	if err := input.declares(p.Message, "string"); err != nil {
		return Peer{}, fmt.Errorf("server: message: %w", err)
	}
	return p, nil
}

// Offered says what a tool of kind "mcp" is at its server: the Server of its
// Definition.
type Offered struct {
	Server string        `json:"server"`         // name of a registered server
	Tool   string        `json:"tool"`           // as the server names it, or one of the operations
	Pin    string        `json:"pin,omitempty"`  // of what the server gave when its owner looked; an operation has none
	Seen   *server.Offer `json:"seen,omitempty"` // what that was, word for word; nothing of it reaches a model
	// Unsure says that an error result does not mean that nothing was done.
	Unsure bool `json:"unsure,omitempty"`
	// Look says how the outcome of a call can be looked up, for the class
	// CHECKABLE.
	Look *Look `json:"look,omitempty"`
}

// Look is a reading tool of the same server that tells under which key something
// was done last.
type Look struct {
	Tool      string            `json:"tool"`      // as the server names it
	Pin       string            `json:"pin"`       // of what the server gave when its owner looked
	Arguments map[string]string `json:"arguments"` // argument to JSON pointer into those of the call
	Key       string            `json:"key"`       // JSON pointer into the result, to the key of the call that did it
}

// For returns what the reading tool is called with for a call with these
// arguments. Errors are *Failure.
func (l Look) For(arguments []byte) (map[string]any, error) {
	document, err := decodeJSON(arguments)
	if err != nil {
		return nil, &Failure{Code: FailedError, Detail: "the recorded arguments are not JSON"}
	}
	filled := map[string]any{}
	for name, pointer := range l.Arguments {
		value, found := LookUp(document, pointer)
		if !found {
			return nil, &Failure{Code: FailedError, Detail: "the outcome cannot be looked up: an argument is missing"}
		}
		filled[name] = value
	}
	return filled, nil
}

// The operations of a server that can be registered like tools of it.
const (
	ReadResource = "resources/read" // arguments: uri
	GetPrompt    = "prompts/get"    // arguments: name, and arguments as texts
)

// Operation reports whether it is no tool of the server but an operation of
// the protocol.
func (o Offered) Operation() bool { return o.Tool == ReadResource || o.Tool == GetPrompt }

// ReadOffered returns what a tool of kind "mcp" is at its server, or what is
// wrong with that.
func ReadOffered(d Definition) (Offered, error) {
	var o Offered
	if err := decodeStrictly(d.Server, &o); err != nil {
		return Offered{}, fmt.Errorf("server: %w", err)
	}
	switch {
	case !strings.HasPrefix(d.Name, o.Server+".") || o.Server == "":
		return Offered{}, errors.New("server: the tool's name must begin with the server's name and a dot")
	case o.Tool == "":
		return Offered{}, errors.New("server: tool: name the tool as the server does")
	case o.Operation() && (o.Pin != "" || o.Seen != nil):
		return Offered{}, errors.New("server: pin: an operation of the protocol has no definition to pin")
	case !o.Operation() && o.Pin == "":
		return Offered{}, errors.New("server: pin: what the server gives must be pinned; write it with gantry tool add or gantry tool pin")
	case o.Seen != nil && o.Seen.Pin() != o.Pin:
		return Offered{}, errors.New("server: seen: this is not what the pin was made of")
	case (d.Class == policy.Checkable) != (o.Look != nil):
		return Offered{}, errors.New("server: look: say how an outcome is looked up for the class CHECKABLE, and for no other; without one use KEYED where the server deduplicates, else OPAQUE")
	case o.Look != nil && (o.Look.Tool == "" || o.Look.Pin == "" || o.Look.Key == ""):
		return Offered{}, errors.New("server: look: it needs a tool with its pin, and a key")
	}
	return o, nil
}

// declares reports as an error that a pointer leads to no declared argument,
// or to one of none of the given types (any, if none is given).
func (s *Schema) declares(pointer string, types ...string) error {
	tokens, ok := splitPointer(pointer)
	if !ok || len(tokens) == 0 {
		return fmt.Errorf("%q is no JSON pointer to an argument", pointer)
	}
	at := s.document
	for _, token := range tokens {
		if at = s.below(s.target(at), token); at == nil {
			return fmt.Errorf("%q leads to no declared argument", pointer)
		}
	}
	if declared, says := s.target(at)["type"].(string); says && len(types) > 0 {
		for _, name := range types {
			if name == declared {
				return nil
			}
		}
		return fmt.Errorf("%q is of type %s, but must be one of %s", pointer, declared, listed(types))
	}
	return nil
}

func (s *Schema) below(schema map[string]any, token string) map[string]any {
	if properties, ok := schema["properties"].(map[string]any); ok {
		if sub, ok := properties[token].(map[string]any); ok {
			return sub
		}
	}
	if token == "0" || regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(token) {
		sub, _ := schema["items"].(map[string]any)
		return sub
	}
	return nil
}

// target follows references, a bounded number of times.
func (s *Schema) target(schema map[string]any) map[string]any {
	for range 16 {
		reference, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		found, _ := LookUp(s.document, reference[1:])
		schema, _ = found.(map[string]any)
	}
	return schema
}

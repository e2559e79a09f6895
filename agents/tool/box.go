package tool

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
)

// Box holds the tools that this process can call, by exact name. It does not
// change after NewBox and is safe for concurrent use.
type Box struct {
	entries map[string]entry
	names   []string // sorted
}

type entry struct {
	tool       Tool
	definition Definition
	digest     string
	contract   contract
}

// NewBox returns a Box of the given tools, or all faults of their contracts.
// Names must differ by more than case.
func NewBox(tools ...Tool) (*Box, error) {
	box := &Box{entries: make(map[string]entry, len(tools))}
	var faults []error
	folded := make(map[string]bool, len(tools))
	for _, t := range tools {
		d := t.Definition()
		if err := d.Validate(); err != nil {
			faults = append(faults, err)
			continue
		}
		if folded[strings.ToLower(d.Name)] {
			faults = append(faults, fmt.Errorf("tool %q: another tool has this name, perhaps in other case", d.Name))
			continue
		}
		folded[strings.ToLower(d.Name)] = true
		contract, err := newContract(d)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		box.entries[d.Name] = entry{tool: t, definition: d, digest: d.Digest(), contract: contract}
		box.names = append(box.names, d.Name)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	slices.Sort(box.names)
	return box, nil
}

// Find returns the tool of exactly this name and definition digest. A tool
// whose definition has changed is another tool and is not found.
func (b *Box) Find(name, digest string) (Tool, bool) {
	found, ok := b.entries[name]
	if !ok || digest == "" || found.digest != digest {
		return nil, false
	}
	return found.tool, true
}

// Definition returns the definition of exactly this name, and its digest.
func (b *Box) Definition(name string) (d Definition, digest string, ok bool) {
	found, ok := b.entries[name]
	return found.definition, found.digest, ok
}

// Names returns the names of all tools, sorted.
func (b *Box) Names() []string { return slices.Clone(b.names) }

// Check holds a proposed call against the contract of the tool that it names.
// Name and arguments are what a model wrote. A call that does not meet the
// contract is a *Refusal, in words for the model; nothing is guessed.
func (b *Box) Check(name string, raw []byte) (Checked, *Refusal) {
	found, ok := b.entries[name]
	if !ok {
		return Checked{}, &Refusal{
			Code:   RefusedUnknownTool,
			Detail: "no tool has exactly the name " + shown(name) + "; call one of the listed tools by its exact name",
		}
	}
	return found.contract.check(raw)
}

// The codes of a Refusal.
const (
	RefusedUnknownTool = "UNKNOWN_TOOL"       // no tool has exactly this name
	RefusedNotJSON     = "ARGUMENTS_NOT_JSON" // the arguments are not one JSON value
	RefusedAmbiguous   = "ARGUMENTS_AMBIGUOUS"
	RefusedInvalid     = "ARGUMENTS_INVALID" // the arguments do not meet the schema
	RefusedTooLarge    = "ARGUMENTS_TOO_LARGE"
	RefusedResource    = "RESOURCE_INVALID" // an argument that names the resource could be read in two ways
)

const (
	maxArguments  = 256 << 10 // bytes
	maxComplaints = 10
	maxShown      = 80 // bytes of a key or name that are quoted
)

// contract is a definition made ready to check calls.
type contract struct {
	definition Definition
	input      *Schema
	resource   template
}

func newContract(d Definition) (contract, error) {
	input, err := CompileSchema(d.Input)
	if err != nil {
		return contract{}, fmt.Errorf("tool %q: input: %w", d.Name, err)
	}
	resource, err := parseTemplate(d.Resource)
	if err != nil {
		return contract{}, fmt.Errorf("tool %q: resource: %w", d.Name, err)
	}
	return contract{definition: d, input: input, resource: resource}, nil
}

func (c contract) check(raw []byte) (Checked, *Refusal) {
	if len(raw) > maxArguments {
		return Checked{}, &Refusal{RefusedTooLarge, fmt.Sprintf("the arguments have more than %d bytes; send less", maxArguments)}
	}
	canonical, err := canon.JSON(raw)
	if err != nil {
		return Checked{}, notCanonical(err)
	}
	arguments, err := decodeJSON(canonical)
	if err != nil {
		return Checked{}, notCanonical(err)
	}
	if complaints := c.input.check(arguments); len(complaints) > 0 {
		return Checked{}, &Refusal{RefusedInvalid, sentence(complaints)}
	}
	resource, err := c.resource.fill(func(pointer string) (string, error) { return named(arguments, pointer) })
	if err != nil {
		return Checked{}, &Refusal{RefusedResource, err.Error()}
	}
	facts, refusal := c.facts(arguments)
	if refusal != nil {
		return Checked{}, refusal
	}
	return Checked{Definition: c.definition, Arguments: canonical, Resource: resource, Facts: facts}, nil
}

// named returns the argument at a pointer as part of a resource name. An
// optional argument that is absent names nothing.
func named(arguments any, pointer string) (string, error) {
	value, found := LookUp(arguments, pointer)
	if !found {
		return "", nil
	}
	text, ok := scalarText(value)
	if !ok || !plainName(text) {
		return "", errors.New(shown(pointer) + " must name one thing plainly: no empty, \".\" or \"..\" parts, no leading or trailing slash, no backslash, brace or invisible character")
	}
	return text, nil
}

func (c contract) facts(arguments any) (policy.Facts, *Refusal) {
	facts := make(policy.Facts, len(c.definition.Facts))
	for name, pointer := range c.definition.Facts {
		value, found := LookUp(arguments, pointer)
		if !found {
			continue
		}
		fact, ok := factOf(value)
		if !ok {
			return nil, &Refusal{RefusedInvalid, shown(pointer) + " must be a text, an integer, a boolean or a list of texts"}
		}
		facts[name] = fact
	}
	return facts, nil
}

func factOf(value any) (any, bool) {
	switch value := value.(type) {
	case string, bool:
		return value, true
	case json.Number:
		n, ok := integerOf(value)
		return n, ok
	case []any:
		texts := make([]string, 0, len(value))
		for _, item := range value {
			text, ok := item.(string)
			if !ok {
				return nil, false
			}
			texts = append(texts, text)
		}
		return texts, true
	}
	return nil, false
}

func notCanonical(err error) *Refusal {
	var fault *canon.Error
	if !errors.As(err, &fault) {
		return &Refusal{RefusedNotJSON, "the arguments are not JSON"}
	}
	at := " at byte " + strconv.FormatInt(fault.Offset, 10)
	if fault.Pointer != "" {
		at = " at " + shown(fault.Pointer)
	}
	switch fault.Code {
	case canon.DuplicateKey:
		return &Refusal{RefusedAmbiguous, "a key stands twice" + at + "; send every key once"}
	case canon.CaseVariant:
		return &Refusal{RefusedAmbiguous, "keys differ only by case" + at + "; use the declared key only"}
	case canon.KeyWithNUL:
		return &Refusal{RefusedAmbiguous, "a key holds U+0000" + at}
	case canon.NumberLost, canon.IntegerLarge:
		return &Refusal{RefusedAmbiguous, "the number" + at + " does not survive as a double; send fewer digits, or a string where the schema allows it"}
	case canon.TooDeep:
		return &Refusal{RefusedTooLarge, fmt.Sprintf("nested more than %d deep", canon.MaxDepth)}
	case canon.TooLarge:
		return &Refusal{RefusedTooLarge, "the arguments are too long"}
	}
	return &Refusal{RefusedNotJSON, "the arguments are not one JSON value in UTF-8: " + string(fault.Code) + at}
}

func sentence(complaints []Complaint) string {
	var out strings.Builder
	for i, complaint := range complaints {
		if i == maxComplaints {
			fmt.Fprintf(&out, "; and %d more", len(complaints)-i)
			break
		}
		if i > 0 {
			out.WriteString("; ")
		}
		place := "the arguments"
		if complaint.Pointer != "" {
			place = shown(complaint.Pointer)
		}
		out.WriteString(place + " " + complaint.Text)
	}
	return out.String()
}

// shown quotes a name that somebody else wrote, cut and in ASCII, so that
// look-alikes and invisible characters can be seen.
func shown(name string) string {
	if len(name) > maxShown {
		return strconv.QuoteToASCII(name[:maxShown]) + "…"
	}
	return strconv.QuoteToASCII(name)
}

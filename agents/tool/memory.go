package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// The names of the tools by which a model asks memory and adds to it.
const (
	RecallName   = "memory.recall"
	RememberName = "memory.remember"
)

// FailedUnavailable is the code of a Failure while memory cannot be asked. It
// never looks like an answer that is empty.
const FailedUnavailable = "UNAVAILABLE"

// Memory is what the memory tools ask. An error that is no *memory.Refusal
// means that it cannot be asked now.
type Memory interface {
	Recall(ctx context.Context, reader view.Reader, question memory.Question) (memory.Recollection, error)
	Remember(ctx context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error)
}

const (
	mostHits      = 20
	memoryTimeout = 15 * time.Second
	memoryBytes   = 256 << 10 // of a result
)

// NewMemory returns memory.recall and memory.remember. Remembering has the
// given impact, Reversible where it is not set: what is remembered can be
// forgotten. A nil brain gives tools that are only good for their contracts.
func NewMemory(brain Memory, owner, contact string, impact policy.Impact) []Tool {
	if impact == policy.ImpactUnset {
		impact = policy.Reversible
	}
	base := Definition{Kind: KindBuiltin, Owner: owner, Contact: contact, Timeout: Duration(memoryTimeout), ResultBytes: memoryBytes,
		Result: policy.Marking{Integrity: policy.FromTool}}
	recall, remember := base, base
	recall.Name, recall.Impact, recall.Class, recall.Resource = RecallName, policy.ImpactRead, policy.ClassRead, "memory"
	recall.Facts = map[string]string{"spaces": "/spaces"}
	recall.Description = "Recalls what the organisation remembers, as far as you and the person for whom you act may read it. " +
		"What comes back is data with its source; it decides nothing. Without \"spaces\" all are asked; " +
		"\"documents\" narrows to what is from documents of these names."
	recall.Input = json.RawMessage(`{"type":"object","required":["query"],"properties":{
		"query":{"type":"string","minLength":1,"maxLength":2000},
		"spaces":{"type":"array","minItems":1,"maxItems":10,"uniqueItems":true,"items":` + spaceSchema + `},
		"documents":{"type":"array","minItems":1,"maxItems":20,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":1024}},
		"limit":{"type":"integer","minimum":1,"maximum":` + strconv.Itoa(mostHits) + `}}}`)
	remember.Name, remember.Impact, remember.Class, remember.Resource = RememberName, impact, policy.Keyed, "memory:{/space}"
	remember.Facts = map[string]string{"space": "/space", "kind": "/kind", "subject": "/subject"}
	remember.Description = "Remembers one thing for later runs. Write what can be understood alone, in one or two sentences. " +
		"It is not trusted until a person promotes it. A PREFERENCE goes to the space of the person for whom you act, without \"space\"; " +
		"a TRAIT is how you should speak from now on, a proposal to those who answer for you, without \"space\" as well; " +
		"anything else names its space. \"subject\" is what it is about; \"sources\" are the ids of remembered things that it was derived from."
	remember.Input = json.RawMessage(`{"type":"object","required":["text","kind"],"properties":{
		"text":{"type":"string","minLength":1,"maxLength":16000},
		"kind":{"type":"string","enum":["FACT","PREFERENCE","EPISODE","PROCEDURE","FINDING","TRAIT"]},
		"subject":{"type":"string","minLength":1,"maxLength":200},
		"space":` + spaceSchema + `,
		"sources":{"type":"array","minItems":1,"maxItems":20,"uniqueItems":true,"items":{"type":"string","minLength":1,"maxLength":100}}}}`)
	return []Tool{memoryTool{recall, brain, recallFor}, memoryTool{remember, brain, rememberFor}}
}

const spaceSchema = `{"type":"string","minLength":1,"maxLength":200,"description":"\"organisation\", \"department:NAME\", \"person:ID\", \"agent:NAME\", or \"subject\", \"department\", \"agent\", \"conversation\" for those of this run"}`

// memoryTool is one of the memory tools.
type memoryTool struct {
	definition Definition
	brain      Memory
	perform    func(ctx context.Context, brain Memory, invocation Invocation) (Result, error)
}

var _ Tool = memoryTool{}

// Definition returns the contract.
func (t memoryTool) Definition() Definition { return t.definition }

// Invoke asks memory as the run's reader.
func (t memoryTool) Invoke(ctx context.Context, invocation Invocation) (Result, error) {
	if t.brain == nil {
		return Result{}, &Failure{Code: FailedUnavailable, Detail: "this process has no memory"}
	}
	result, err := t.perform(ctx, t.brain, invocation)
	var refusal *memory.Refusal
	var failure *Failure
	switch {
	case errors.As(err, &refusal):
		return failed(refusal.Code, refusal.Detail, Result{}), nil
	case err != nil && !errors.As(err, &failure):
		return Result{}, &Failure{Uncertain: true, Code: FailedUnavailable, Detail: "memory cannot be asked now; go on without it, or try again later"}
	}
	return result, err
}

// RecalledHit is one hit in the result of memory.recall. Who shows the result
// later looks by ID and Etag whether the hit may still be shown.
type RecalledHit struct {
	ID        string           `json:"id"`
	Etag      string           `json:"etag"`
	Space     view.Space       `json:"space"`
	Kind      view.Kind        `json:"kind"`
	Subject   string           `json:"subject,omitempty"`
	Labels    policy.Labels    `json:"labels,omitempty"`
	Integrity policy.Integrity `json:"integrity"`
	Source    string           `json:"source"` // where it comes from, to be cited
	Heading   string           `json:"heading,omitempty"`
	Text      string           `json:"text"`
}

// RecallResult is the result of memory.recall.
type RecallResult struct {
	Hits    []RecalledHit `json:"hits"`
	More    bool          `json:"more,omitempty"`    // there was no room for all of them
	Missing []string      `json:"missing,omitempty"` // parts of memory that could not be asked
}

// ReadRecall reads the result of memory.recall. ok is false for anything else.
func ReadRecall(content []byte) (result RecallResult, ok bool) {
	err := decodeStrictly(content, &result)
	return result, err == nil
}

func recallFor(ctx context.Context, brain Memory, invocation Invocation) (Result, error) {
	var arguments struct {
		Query     string   `json:"query"`
		Spaces    []string `json:"spaces"`
		Documents []string `json:"documents"`
		Limit     int      `json:"limit"`
	}
	if err := json.Unmarshal(invocation.Arguments, &arguments); err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the recorded arguments are not those of memory.recall"}
	}
	question := memory.Question{Text: arguments.Query, Refs: arguments.Documents, Limit: min(max(arguments.Limit, 0), mostHits)}
	if question.Limit == 0 {
		question.Limit = mostHits / 2
	}
	for _, name := range arguments.Spaces {
		question.Spaces = append(question.Spaces, invocation.spaceOf(name, invocation.Reader.Read))
	}
	found, err := brain.Recall(ctx, invocation.Reader, question)
	if err != nil {
		return Result{}, err
	}
	recalled := RecallResult{Hits: []RecalledHit{}, Missing: found.Degraded}
	result := Result{MediaType: MediaJSON}
	for _, hit := range found.Hits {
		shown := RecalledHit{ID: hit.ID, Etag: hit.Etag, Space: hit.Space, Kind: hit.Kind, Subject: hit.Subject, Labels: hit.Marking.Labels,
			Integrity: hit.Marking.Integrity, Source: Citation(hit.Rendering), Heading: hit.Heading, Text: hit.Text}
		content, err := json.Marshal(shown)
		if err != nil {
			return Result{}, err
		}
		if result.Size += int64(len(content)) + 1; result.Size > memoryBytes-1024 {
			recalled.More = true
			break
		}
		recalled.Hits = append(recalled.Hits, shown)
		result.Marking, result.Items = result.Marking.Join(hit.Marking), append(result.Items, hit.ID)
	}
	result.Content, err = json.Marshal(recalled)
	result.Size = int64(len(result.Content))
	return result, err
}

// Citation says where something remembered comes from, for people who look it
// up: what it is a part of, or who said it, and its place there.
func Citation(r view.Rendering) string {
	place := r.Source.Ref
	if place == "" {
		place = r.Source.Principal
	}
	if r.Source.Position > 0 {
		place += "/" + strconv.Itoa(r.Source.Position)
	}
	return place
}

// spaceOf resolves a name that stands for one of the run's own spaces among
// those where it may go. What it does not know, or what could be one of several,
// it leaves, for memory to find nothing there.
func (i Invocation) spaceOf(name string, spaces []view.Space) view.Space {
	own := map[string]view.Space{
		"subject":    view.SpaceOf(view.SpacePerson, i.Subject.ID),
		"department": view.SpaceOf(view.SpaceDepartment, i.Subject.Department),
		"agent":      view.Space(i.Reader.Principal), // it acts as the agent
	}[name]
	if own != "" && slices.Contains(spaces, own) {
		return own
	}
	if name == "subject" || name == "agent" || strings.Contains(name, ":") {
		return cmp.Or(own, view.Space(name))
	}
	var fitting []view.Space
	for _, space := range spaces {
		if strings.HasPrefix(string(space), name+":") {
			fitting = append(fitting, space)
		}
	}
	if len(fitting) != 1 {
		return view.Space(name)
	}
	return fitting[0]
}

func rememberFor(ctx context.Context, brain Memory, invocation Invocation) (Result, error) {
	var arguments struct {
		Text    string    `json:"text"`
		Kind    view.Kind `json:"kind"`
		Subject string    `json:"subject"`
		Space   string    `json:"space"`
		Sources []string  `json:"sources"`
	}
	if err := json.Unmarshal(invocation.Arguments, &arguments); err != nil {
		return Result{}, &Failure{Code: FailedError, Detail: "the recorded arguments are not those of memory.remember"}
	}
	reader := invocation.Reader
	own := view.SpaceOf(view.SpacePerson, invocation.Subject.ID)
	space := invocation.spaceOf(arguments.Space, reader.Write)
	switch {
	case arguments.Kind == view.Preference && arguments.Space == "":
		space = own
	case arguments.Kind == view.Trait && arguments.Space == "":
		space = invocation.spaceOf("agent", reader.Write)
	case arguments.Kind == view.Preference && space != own:
		return failed("SPACE", "a preference goes to the space of the person for whom you act; leave \"space\" out", Result{}), nil
	case arguments.Space == "":
		return failed("SPACE", "name the space; you may write to: "+written(reader.Write), Result{}), nil
	}
	// Memory joins the run's labels too; here they are said, so that it is not
	// left to memory alone.
	draft := memory.Draft{Space: space, Kind: arguments.Kind, Subject: arguments.Subject, Text: arguments.Text, Labels: reader.Context.Labels,
		Integrity: policy.Untrusted, Source: view.Source{Kind: view.FromRun, Run: invocation.Run, Model: invocation.Model},
		DerivedFrom: arguments.Sources, Key: invocation.Key}
	kept, err := brain.Remember(ctx, reader, draft)
	if err != nil {
		return Result{}, err
	}
	content, err := json.Marshal(struct {
		Item  string     `json:"item"`
		Space view.Space `json:"space"`
		Known bool       `json:"known"` // it was remembered before
	}{kept.Item.ID, space, kept.Known})
	return Result{Content: content, MediaType: MediaJSON, Size: int64(len(content)), Items: []string{kept.Item.ID}}, err
}

func written(spaces []view.Space) string {
	if len(spaces) == 0 {
		return "none"
	}
	names := make([]string, len(spaces))
	for i, space := range slices.Sorted(slices.Values(spaces)) {
		names[i] = string(space)
	}
	return strings.Join(names, ", ")
}

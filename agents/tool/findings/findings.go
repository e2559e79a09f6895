// Package findings keeps what a research found. A finding is kept with the
// words that it rests on, and only where these words stand in what it cites, as
// the run itself may read it.
package findings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gantry.dev/agents/research"
	"gantry.dev/agents/tool"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

// RecordName is the name of the tool.
const RecordName = "findings.record"

const (
	timeout     = 30 * time.Second
	resultBytes = 256 << 10
)

// Why a citation was dropped, or a finding was not kept.
const (
	notFound  = "NOT_FOUND"  // there is no such item for this run
	notQuoted = "NOT_QUOTED" // the words do not stand there
	tooShort  = "TOO_SHORT"  // so few words stand anywhere
	redacted  = "REDACTED"   // the quote goes over what is withheld
	space     = "SPACE"      // no space may hear of all that it cites
)

// Memory is what the tool asks. An error that is no *memory.Refusal means that
// it cannot be asked now.
type Memory interface {
	// Items returns those of the ids that the reader sees, by id.
	Items(ctx context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error)
	Remember(ctx context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error)
}

// Tool is findings.record.
type Tool struct {
	definition tool.Definition
	brain      Memory
}

var _ tool.Tool = Tool{}

// New returns the tool. Keeping a finding has the given impact, Reversible where
// it is not set: it can be forgotten. A nil brain gives a tool that is only good
// for its contract.
func New(brain Memory, owner, contact string, impact policy.Impact) Tool {
	if impact == policy.ImpactUnset {
		impact = policy.Reversible
	}
	return Tool{brain: brain, definition: tool.Definition{
		Name: RecordName, Kind: tool.KindBuiltin, Owner: owner, Contact: contact, Impact: impact, Class: policy.Keyed,
		Resource: "memory", Facts: map[string]string{"subject": "/subject"}, Timeout: tool.Duration(timeout), ResultBytes: resultBytes,
		Result: policy.Marking{Integrity: policy.FromTool},
		Description: "Keeps findings for later readers, each with the words that it rests on. \"item\" of a citation is the id of a remembered item, " +
			"\"quote\" are its words, exactly as they stand there; a citation that does not hold is dropped, and so is a finding of which none holds. " +
			"The result says which were kept, under which id, and which were dropped and why. A finding is kept where what it cites stands; it is not trusted until a person promotes it.",
		Input: json.RawMessage(fmt.Sprintf(`{"type":"object","required":["findings"],"properties":{
			"subject":{"type":"string","minLength":1,"maxLength":200},
			"findings":{"type":"array","minItems":1,"maxItems":%d,"items":{"type":"object","required":["text","citations"],"properties":{
				"text":{"type":"string","minLength":1,"maxLength":%d},
				"citations":{"type":"array","minItems":1,"maxItems":%d,"items":{"type":"object","required":["item","quote"],"properties":{
					"item":{"type":"string","minLength":1,"maxLength":100},
					"passage":{"type":"string","maxLength":1100},
					"quote":{"type":"string","minLength":1,"maxLength":%d}}}}}}}}}`,
			research.MaxFindings, research.MaxText, research.MaxCitations, research.MaxQuote)),
	}}
}

// Definition returns the contract.
func (t Tool) Definition() tool.Definition { return t.definition }

// arguments are those of a call.
type arguments struct {
	Subject  string             `json:"subject"`
	Findings []research.Finding `json:"findings"`
}

// Recorded is the result.
type Recorded struct {
	Recorded []research.Finding `json:"recorded"`
	Dropped  []research.Dropped `json:"dropped"`
}

// Invoke keeps the findings that hold.
func (t Tool) Invoke(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
	if t.brain == nil {
		return tool.Result{}, &tool.Failure{Code: tool.FailedUnavailable, Detail: "this process has no memory"}
	}
	var asked arguments
	if err := json.Unmarshal(invocation.Arguments, &asked); err != nil {
		return tool.Result{}, &tool.Failure{Code: tool.FailedError, Detail: "the recorded arguments are not those of findings.record"}
	}
	r := &recording{brain: t.brain, invocation: invocation, subject: asked.Subject, done: Recorded{Recorded: []research.Finding{}, Dropped: []research.Dropped{}}}
	if err := r.all(ctx, asked.Findings); err != nil {
		return tool.Result{}, &tool.Failure{Uncertain: true, Code: tool.FailedUnavailable, Detail: "memory cannot be asked now; try again later"}
	}
	content, err := json.Marshal(r.done)
	return tool.Result{Content: content, MediaType: tool.MediaJSON, Size: int64(len(content)), Items: r.items, Marking: r.marking}, err
}

// recording is one call under way.
type recording struct {
	brain      Memory
	invocation tool.Invocation
	subject    string
	sources    map[string]view.Rendering // that are cited, as the run sees them
	done       Recorded
	items      []string // kept or cited
	marking    policy.Marking
}

// all keeps the findings in order. The error means that memory could not be
// asked.
func (r *recording) all(ctx context.Context, findings []research.Finding) (err error) {
	var cited []string
	for _, finding := range findings {
		for _, citation := range finding.Citations {
			cited = append(cited, citation.Item)
		}
	}
	slices.Sort(cited)
	if r.sources, err = r.brain.Items(ctx, r.invocation.Reader, slices.Compact(cited)); err != nil {
		return err
	}
	for n, finding := range findings {
		holding := r.holding(n, finding.Citations)
		if len(holding) == 0 {
			continue
		}
		if err := r.keep(ctx, n, finding.Text, holding); err != nil {
			return err
		}
	}
	return nil
}

// holding are the citations that hold, with the place that each is from; the
// others are dropped by name.
func (r *recording) holding(n int, citations []research.Citation) (holding []research.Citation) {
	for _, citation := range citations {
		source, seen := r.sources[citation.Item]
		code := notFound
		if seen {
			code = r.fault(source, citation.Quote)
		}
		if code != "" {
			r.drop(n, citation.Item, code)
			continue
		}
		citation.Passage = tool.Citation(source)
		holding = append(holding, citation)
	}
	return holding
}

// fault says why a quote does not hold; empty for one that does.
func (r *recording) fault(source view.Rendering, quote string) string {
	_, _, quoted := research.Located(source.Text, quote)
	switch {
	case strings.Contains(quote, view.Redacted):
		return redacted
	case research.Weight(quote) < research.MinQuote:
		return tooShort
	case !quoted:
		return notQuoted
	}
	return ""
}

func (r *recording) drop(n int, item, code string) {
	r.done.Dropped = append(r.done.Dropped, research.Dropped{Finding: n, Item: item, Code: code})
}

// keep remembers one finding. What memory refuses is dropped by name; another
// error means that it could not be asked.
func (r *recording) keep(ctx context.Context, n int, text string, citations []research.Citation) error {
	draft := memory.Draft{Space: r.space(citations), Kind: view.Finding, Subject: r.subject, Text: research.Written(text, citations),
		Labels: r.invocation.Reader.Context.Labels, Integrity: policy.Untrusted,
		Source: view.Source{Kind: view.FromRun, Run: r.invocation.Run, Model: r.invocation.Model}, Key: r.invocation.Key + " " + strconv.Itoa(n)}
	var marking policy.Marking
	for _, citation := range citations {
		draft.DerivedFrom = append(draft.DerivedFrom, citation.Item)
		marking = marking.Join(r.sources[citation.Item].Marking)
	}
	if draft.Space == "" {
		r.drop(n, citations[0].Item, space)
		return nil
	}
	kept, err := r.brain.Remember(ctx, r.invocation.Reader, draft)
	var refusal *memory.Refusal
	if errors.As(err, &refusal) {
		r.drop(n, citations[0].Item, refusal.Code)
		return nil
	}
	if err != nil {
		return err
	}
	r.done.Recorded = append(r.done.Recorded, research.Finding{Item: kept.Item.ID, Text: text, Citations: citations})
	r.items, r.marking = append(append(r.items, kept.Item.ID), draft.DerivedFrom...), r.marking.Join(marking)
	return nil
}

// space is where a finding is kept: where what it cites stands, so that nobody
// hears of it who may not read there, and where that is several spaces, the
// space of the person for whom the run acts. Empty where the run may write to
// neither.
func (r *recording) space(citations []research.Citation) view.Space {
	common := r.sources[citations[0].Item].Space
	own := view.SpaceOf(view.SpacePerson, r.invocation.Subject.ID)
	for _, citation := range citations {
		if r.sources[citation.Item].Space != common {
			common = own
		}
	}
	for _, candidate := range []view.Space{common, own} {
		if slices.Contains(r.invocation.Reader.Write, candidate) {
			return candidate
		}
	}
	return ""
}

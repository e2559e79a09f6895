// Package results gives a run parts of what its calls gave: what its prompts
// show by its ends, or in brief.
package results

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/watch"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Name is the name of the tool.
const Name = "results.read"

// The codes of its own refusals.
const (
	FailedNoResult = "NO_RESULT"  // there is none, it was erased, or the run may not read it: nobody is told which
	FailedRemember = "ASK_MEMORY" // what came from memory is asked for anew
	FailedNoJSON   = "NO_JSON"    // a pointer into what is no JSON
	FailedPointer  = "NO_VALUE"   // nothing stands where the pointer points
	FailedOneWay   = "ONE_WAY"    // a pointer together with another way to read
)

const (
	timeout     = 10 * time.Second
	mostBytes   = 16 << 10 // of one part
	usualBytes  = 8 << 10  // of one part where the call does not say
	mostMatches = 20
	around      = 160       // bytes on each side of a match
	resultBytes = 128 << 10 // JSON writes some characters with six
)

// Runs reads what is recorded of runs. Its errors mean that it cannot be asked
// now.
type Runs interface {
	// State folds a run.
	State(ctx context.Context, id string) (*run.State, error)
	// Texts opens texts by id; one that was erased is absent.
	Texts(ctx context.Context, ids []string) (map[string]watch.Text, error)
}

// Tool is results.read.
type Tool struct {
	definition tool.Definition
	runs       Runs
}

var _ tool.Tool = Tool{}

// New returns the tool. Without runs it is only good for its contract.
func New(runs Runs, owner, contact string) Tool {
	return Tool{runs: runs, definition: tool.Definition{
		Name: Name, Kind: tool.KindBuiltin, Owner: owner, Contact: contact, Impact: policy.ImpactRead, Class: policy.ClassRead,
		Resource: "result:{/result}", Timeout: tool.Duration(timeout), ResultBytes: resultBytes, Result: policy.Marking{Integrity: policy.FromTool},
		Description: "Gives a part of what a call of this run gave, for results that you see only in brief or by their ends. \"result\" is the id of the call, such as c3. " +
			"\"offset\" and \"length\" are bytes; \"next\" of the answer goes on. \"search\" finds an exact text and says where; \"pointer\" is a JSON pointer into a JSON result.",
		Input: json.RawMessage(fmt.Sprintf(`{"type":"object","required":["result"],"properties":{
			"result":{"type":"string","pattern":"^c[1-9][0-9]{0,8}$","maxLength":10},
			"offset":{"type":"integer","minimum":0},
			"length":{"type":"integer","minimum":1,"maximum":%d},
			"search":{"type":"string","minLength":1,"maxLength":200},
			"pointer":{"type":"string","minLength":1,"maxLength":500}}}`, mostBytes)),
	}}
}

// Definition returns the contract.
func (t Tool) Definition() tool.Definition { return t.definition }

// Asked is the arguments.
type Asked struct {
	Result  string `json:"result"` // id of the call
	Offset  int    `json:"offset"` // bytes
	Length  int    `json:"length"` // bytes at most; 0: as usual
	Search  string `json:"search"`
	Pointer string `json:"pointer"`
}

// Part is what was asked for.
type Part struct {
	Result  string  `json:"result"`
	Bytes   int     `json:"bytes"`             // of the whole result
	Offset  int     `json:"offset"`            // where the text begins
	Text    string  `json:"text,omitempty"`    // of a search none
	Matches []Match `json:"matches,omitempty"` // of a search
	Next    int     `json:"next,omitempty"`    // offset to go on from; 0: nothing follows
}

// Match is a place where the searched text stands.
type Match struct {
	Offset int    `json:"offset"` // of the match itself
	Text   string `json:"text"`   // with what stands around it
}

var callID = regexp.MustCompile(`^c([1-9][0-9]{0,8})$`)

// Invoke reads a part of a result of the run that asks.
func (t Tool) Invoke(ctx context.Context, invocation tool.Invocation) (tool.Result, error) {
	if t.runs == nil {
		return tool.Result{}, &tool.Failure{Code: tool.FailedUnavailable, Detail: "this process reads no runs"}
	}
	var asked Asked
	if err := json.Unmarshal(invocation.Arguments, &asked); err != nil || !callID.MatchString(asked.Result) {
		return tool.Result{}, &tool.Failure{Code: tool.FailedError, Detail: "the recorded arguments are not those of results.read"}
	}
	if asked.Pointer != "" && (asked.Search != "" || asked.Offset > 0) {
		return tool.Result{}, &tool.Failure{Code: FailedOneWay, Detail: "a pointer is asked for alone; take offset or search without it"}
	}
	text, marking, err := t.open(ctx, invocation, asked.Result)
	if err != nil {
		return tool.Result{}, failure(err)
	}
	part, err := asked.of(text.Bytes)
	if err != nil {
		return tool.Result{}, failure(err)
	}
	content, err := json.Marshal(part)
	return tool.Result{Content: content, MediaType: tool.MediaJSON, Size: int64(len(content)), Marking: marking, Items: text.Items}, err
}

// failure tells what a model may be told from what only means that nobody could
// look.
func failure(err error) error {
	var known *tool.Failure
	if errors.As(err, &known) {
		return known
	}
	return &tool.Failure{Code: tool.FailedUnavailable, Detail: "the run cannot be read now; try again later"}
}

// open finds a result of the run and looks whether it may still read it. What
// another run's call gave cannot be named.
func (t Tool) open(ctx context.Context, invocation tool.Invocation, id string) (watch.Text, policy.Marking, error) {
	none := &tool.Failure{Code: FailedNoResult, Detail: "there is no result " + id + " that you may read; use the id of an earlier call of yours that gave something"}
	state, err := t.runs.State(ctx, invocation.Run)
	if err != nil {
		return watch.Text{}, policy.Marking{}, err
	}
	ordinal, _ := strconv.Atoi(callID.FindStringSubmatch(id)[1])
	call := state.Call(ordinal)
	if call == nil || call.Result == nil {
		return watch.Text{}, policy.Marking{}, none
	}
	labels := call.Result.Marking.Labels
	switch {
	case !invocation.Subject.Sees(labels) || !labels.Within(invocation.Reader.Clearance):
		return watch.Text{}, policy.Marking{}, none
	case call.Tool == tool.RecallName && call.Outcome == run.OutcomeOK:
		return watch.Text{}, policy.Marking{}, &tool.Failure{Code: FailedRemember, Detail: "ask " + tool.RecallName + " again: what is remembered may have changed"}
	}
	opened, err := t.runs.Texts(ctx, []string{call.Result.ID})
	if err != nil {
		return watch.Text{}, policy.Marking{}, err
	}
	text, there := opened[call.Result.ID]
	if !there {
		return watch.Text{}, policy.Marking{}, none
	}
	return text, call.Result.Marking, nil
}

// of is the part of a result that was asked for.
func (a Asked) of(content []byte) (Part, error) {
	part := Part{Result: a.Result, Bytes: len(content), Offset: whole(content, min(a.Offset, len(content)))}
	length := a.Length
	if length < 1 || length > mostBytes {
		length = usualBytes
	}
	switch {
	case a.Search != "":
		part.search(content, []byte(a.Search))
		return part, nil
	case a.Pointer != "":
		value, err := at(content, a.Pointer)
		if err != nil {
			return Part{}, err
		}
		part.Offset, part.Text = 0, string(value[:whole(value, min(length, len(value)))])
		if len(part.Text) < len(value) {
			part.Text += "…"
		}
		return part, nil
	}
	end := whole(content, min(part.Offset+length, len(content)))
	if end == part.Offset && end < len(content) { // a character is longer than what was asked for
		_, size := utf8.DecodeRune(content[end:])
		end += size
	}
	part.Text = string(content[part.Offset:end])
	if end < len(content) {
		part.Next = end
	}
	return part, nil
}

// search finds the matches that follow the part's offset.
func (p *Part) search(content, text []byte) {
	for from := p.Offset; ; {
		found := bytes.Index(content[from:], text)
		if found < 0 {
			return
		}
		if len(p.Matches) == mostMatches {
			p.Next = from + found
			return
		}
		found += from
		begin, end := whole(content, max(found-around, 0)), whole(content, min(found+len(text)+around, len(content)))
		p.Matches = append(p.Matches, Match{Offset: found, Text: string(content[begin:end])})
		from = found + len(text)
	}
}

// at is the value at a JSON pointer, as JSON.
func at(content []byte, pointer string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil, &tool.Failure{Code: FailedNoJSON, Detail: "the result is no JSON; read it by offset, or search it"}
	}
	value, found := tool.LookUp(document, pointer)
	if !found {
		return nil, &tool.Failure{Code: FailedPointer, Detail: "nothing stands there in the result"}
	}
	return json.Marshal(value)
}

// whole is the greatest place up to one at which a character begins.
func whole(text []byte, place int) int {
	for place > 0 && place < len(text) && !utf8.RuneStart(text[place]) {
		place--
	}
	return place
}

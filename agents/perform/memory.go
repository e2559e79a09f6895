package perform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gantry.dev/agents"
	"gantry.dev/memory"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Memory is what runs ask of the organisation's memory. An error that is no
// *memory.Refusal means that it cannot be asked now.
type Memory interface {
	Recall(ctx context.Context, reader view.Reader, question memory.Question) (memory.Recollection, error)
	// Items returns those of the ids that the reader sees, by id.
	Items(ctx context.Context, reader view.Reader, ids []string) (map[string]view.Rendering, error)
	Remember(ctx context.Context, reader view.Reader, draft memory.Draft) (memory.Remembered, error)
	List(ctx context.Context, reader view.Reader, filter memory.Filter, after string, limit int) (memory.Page, error)
}

var (
	errMemoryOut = errors.New("memory cannot be asked now, and the agent waits for it")
	errNoMemory  = errors.New("this process has no memory")
)

const (
	maxQuestion  = 2 << 10         // bytes of a question to memory
	lastMessages = 3               // of the conversation that belong to the goal's question
	recallTime   = 3 * time.Second // how long memory may take for an answer; a turn asks twice, well within a lease
)

// asking is what one run may ask memory for.
type asking struct {
	memory  Memory
	budget  agents.Recall
	reader  view.Reader
	key     []byte // of digests: the run's own
	marking policy.Marking
	mayRead func(policy.Labels) bool // whether a model of the run may read all of this
}

// recollection is what a run gets to one question.
type recollection struct {
	items   []run.Recalled // most relevant first
	now     map[string]view.Rendering
	missing []string
}

// about asks one question. What stands in the run's prompts already it does not
// get again, nor anything that would leave it without a model. Errors: errMemoryOut.
func (a asking) about(ctx context.Context, question string, known []run.Recalled) (recollection, error) {
	if a.memory == nil {
		return a.without(errNoMemory)
	}
	ctx, cancel := context.WithTimeout(ctx, recallTime)
	defer cancel()
	found, err := a.memory.Recall(ctx, a.reader, memory.Question{Text: shortened(question), Kinds: a.budget.Kinds,
		Limit: min(a.budget.Items+len(known), 100)})
	var refusal *memory.Refusal
	if errors.As(err, &refusal) {
		return recollection{missing: []string{refusal.Code}}, nil // it will not be answered later either
	}
	if err != nil {
		return a.without(err)
	}
	got := recollection{now: map[string]view.Rendering{}, missing: found.Degraded}
	marking, bytes := a.marking, 0
	for _, hit := range found.Hits {
		size := len(hit.Heading) + len(hit.Text)
		same := func(r run.Recalled) bool { return r.Item == hit.ID && r.Etag == hit.Etag }
		switch {
		case len(got.items) == a.budget.Items:
			return got, nil
		case slices.ContainsFunc(known, same) || slices.ContainsFunc(got.items, same):
			continue
		case bytes+size > 4*a.budget.Tokens: // whole or not at all; a smaller one may fit
			continue
		case !a.mayRead(marking.Labels.Join(hit.Marking.Labels)):
			continue
		}
		marking, bytes = marking.Join(hit.Marking), bytes+size
		got.items = append(got.items, a.sealed(hit.Rendering))
		got.now[hit.ID] = hit.Rendering
	}
	return got, nil
}

// without is how the run goes on while memory cannot be asked.
func (a asking) without(cause error) (recollection, error) {
	if a.budget.OnOutage == agents.WaitOnOutage {
		return recollection{}, fmt.Errorf("%w: %w", errMemoryOut, cause)
	}
	return recollection{missing: []string{run.MemoryOut}}, nil
}

// sealed is what a run keeps of an item. The digest is keyed: of what is
// forgotten nothing can be guessed from it once the run's key is gone.
func (a asking) sealed(r view.Rendering) run.Recalled {
	shown, err := canon.Marshal(r)
	if err != nil || len(a.key) == 0 { // erased with its subject: then only what memory keyed itself
		shown = []byte(r.Etag)
	}
	return run.Recalled{Item: r.ID, Space: string(r.Space), Etag: r.Etag, Digest: run.Fingerprint(a.key, shown), Marking: r.Marking}
}

// shortened is the beginning of a question, as far as memory is asked with it.
func shortened(question string) string {
	return strings.ToValidUTF8(question[:min(len(question), maxQuestion)], "")
}

// asking is what the run may ask now: as its subject and its agent, with the
// rights that both have under the rules in force.
func (j *job) asking(revision agents.Revision) asking {
	a := asking{memory: j.current.Memory, reader: j.reader(), key: j.key, marking: j.state.Marking,
		mayRead: func(labels policy.Labels) bool { return j.readable(revision, labels) }}
	if revision.Memory != nil {
		a.budget = *revision.Memory
	}
	return a
}

// authority is what the run may do under the rules in force. An effect is readied
// on one state, under one set of rules and at one time: it is looked at once.
func (j *job) authority() policy.Authority {
	if j.may == nil {
		may := policy.Meet(j.state.Authority, j.view.Rules.Ceiling(j.state.Acting(j.view.NowMs)))
		j.may = &may
	}
	return *j.may
}

// reader is the run as memory knows it.
func (j *job) reader() view.Reader {
	started := j.state.Started
	subject, known := j.current.Organisation.Principal(started.Subject.ID)
	if !known {
		subject = policy.Principal{ID: started.Subject.ID}
	}
	return readerOf(j.current.Organisation, subject, started, j.authority(), j.state.ID, j.state.Marking)
}

func readerOf(o agents.Organisation, subject policy.Principal, started run.Started, authority policy.Authority, id string, marking policy.Marking) view.Reader {
	reader := o.RunReader(subject, started.Agent.Name, started.Conversation, authority)
	granted, private := o.Granted(started)
	if granted {
		reader = o.GrantedReader(subject, started.Agent.Name, started.Conversation, authority)
	}
	reader.Run, reader.Context = id, marking
	if len(started.AudienceSpaces) > 0 && !private {
		reader.Read = slices.DeleteFunc(reader.Read, func(s view.Space) bool { return !slices.Contains(started.AudienceSpaces, string(s)) })
	}
	return reader
}

// audience are the spaces in which a run may read and so may everybody else who
// takes part in its conversation: they hear what it makes of that. None where
// nobody else takes part.
func audience(o agents.Organisation, started run.Started, participants []string) (spaces []string) {
	others := slices.DeleteFunc(slices.Clone(participants), func(id string) bool { return id == started.Subject.ID || id == started.Acting() })
	if len(others) == 0 {
		return nil
	}
	spaces = append(spaces, string(view.SpaceOf(view.SpaceConversation, started.Conversation)))
	for _, space := range o.RunReader(started.Subject, started.Agent.Name, "", started.Authority).Read {
		if !slices.ContainsFunc(others, func(id string) bool { return !reads(o, id, space) }) {
			spaces = append(spaces, string(space))
		}
	}
	return spaces
}

// reads reports whether a person or an agent may read in a space. Who is not
// known may read nowhere.
func reads(o agents.Organisation, id string, space view.Space) bool {
	person, known := o.Principal(id)
	return known && slices.Contains(o.Reader(person).Read, space)
}

// recall asks memory before a turn, where there is something new to ask about.
func (j *job) recall(ctx context.Context, revision agents.Revision) (*run.Remembrance, map[string]view.Rendering, error) {
	if revision.Memory == nil {
		return nil, nil, nil
	}
	remembrance := &run.Remembrance{Cause: run.RecallNews}
	ids := j.news()
	if !j.state.GoalAsked() {
		remembrance.Cause = run.RecallGoal
		ids = append(goalTexts(j.state.Started), ids...)
	}
	if len(ids) == 0 {
		return nil, nil, nil
	}
	texts, err := j.view.Texts(ctx, ids...)
	if err != nil {
		return nil, nil, err
	}
	var question []string
	for _, id := range ids {
		if payload, present := texts[id]; present {
			question = append(question, string(payload.Bytes))
		}
	}
	got, err := j.asking(revision).about(ctx, strings.Join(question, "\n"), j.state.Known())
	if err != nil {
		return nil, nil, err
	}
	remembrance.Items, remembrance.Missing = got.items, got.missing
	return remembrance, got.now, nil
}

// goalTexts are what a run's first question is made of: its goal and the last
// that was said before.
func goalTexts(started run.Started) []string {
	ids := []string{started.Goal.ID}
	for _, message := range started.History[max(0, len(started.History)-lastMessages):] {
		ids = append(ids, message.Text.ID)
	}
	return ids
}

// news are the texts that came since the last turn began: what people said
// first. What memory itself gave asks nothing.
func (j *job) news() []string {
	var ids []string
	last := j.state.LastTurn()
	for i := range j.state.Steers {
		steer := &j.state.Steers[i]
		asked := last != nil && last.Phase == run.TurnRetry && slices.Contains(last.Steers, steer.Steer)
		if steer.Disposition == "" && !asked {
			ids = append(ids, steer.Text.ID)
		}
	}
	if last == nil || last.Phase == run.TurnRetry {
		return ids
	}
	for ordinal := last.FirstCall; ordinal > 0 && ordinal <= last.LastCall; ordinal++ {
		call := j.state.Call(ordinal)
		informs := call.Outcome == run.OutcomeOK || call.Outcome == run.OutcomeAnswered
		if informs && call.Result != nil && !strings.HasPrefix(call.Tool, "memory.") {
			ids = append(ids, call.Result.ID)
		}
	}
	return ids
}

// present gives what was recalled before as the run's reader sees it now; nil
// stands for nothing known. whole is false where memory could not be asked.
func (j *job) present(ctx context.Context, a asking, ids []string) (now map[string]view.Rendering, whole bool, err error) {
	if len(ids) == 0 {
		return nil, true, nil
	}
	err = errNoMemory
	if a.memory != nil {
		ctx, cancel := context.WithTimeout(ctx, recallTime)
		defer cancel()
		if now, err = a.memory.Items(ctx, a.reader, ids); err == nil {
			return joined(map[string]view.Rendering{}, now), true, nil
		}
	}
	_, err = a.without(err)
	return nil, false, err
}

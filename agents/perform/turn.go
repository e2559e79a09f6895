package perform

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform/choice"
	"gantry.dev/agents/perform/hedge"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// maxRaw bounds the bytes of refused arguments that are kept.
const maxRaw = 16 << 10

func (j *job) turn(ctx context.Context, effect run.TakeTurn) (engine.Prepared, error) {
	revision, err := j.revision()
	if err != nil {
		return engine.Prepared{}, err
	}
	revision.Models = j.wants(revision).models()
	remembered, found, err := j.recall(ctx, revision)
	if err != nil {
		return engine.Prepared{}, err
	}
	compiled, whole, remembered, err := j.prompt(ctx, revision, remembered, found)
	if err != nil {
		return engine.Prepared{}, err
	}
	marking := j.state.Marking
	if remembered != nil {
		for _, recalled := range remembered.Items {
			marking = marking.Join(recalled.Marking)
		}
	}
	request := model.Request{Messages: compiled.Messages, Tools: compiled.Tools, Stable: compiled.Stable, Turns: j.state.Answered()}
	if request.Output, err = j.form(ctx, revision); err != nil {
		return engine.Prepared{}, err
	}
	choosing := j.choosing(ctx, revision, marking.Labels, request, compiled.Bytes)
	picked := choosing.Choose(j.view.NowMs)
	if picked.Outage() {
		*j.view.Memory = nil // what was recalled is not recorded, and is asked for anew
		return engine.Prepared{Command: run.AwaitModels{Turn: effect.Turn, Attempt: effect.Attempt, Offers: choice.Offers(picked.Offers), BackMs: picked.BackMs}}, nil
	}
	entry, _ := j.kit.Organisation.Model(picked.Model)
	first := requesting(entry, request, compiled.Bytes)
	beside := first.bytes - compiled.Bytes
	use := j.contextUse(entry, first.bytes, first.media)
	if shorter, err := j.shorten(ctx, effect, entry, use, beside, whole); shorter != nil || err != nil {
		return engine.Prepared{Command: shorter}, err
	}
	begin := run.BeginTurn{Epoch: j.view.Epoch, Model: entry.Name, Why: picked.Why, Offers: choice.Offers(picked.Offers), Prompt: compiled.Digest,
		Reserve: first.worst(), Steers: compiled.Steers, NotAfterMs: j.view.NowMs + j.state.Limits.TurnMs, Memory: remembered, Context: use}
	t := &turnTaking{job: j, effect: effect, first: first, choosing: choosing, begunMs: j.view.NowMs, sealer: j.sealer(),
		marking: marking, runID: j.state.ID, limit: ms(j.state.Limits.TurnMs), wants: j.wants(revision), shown: compiled.Items}
	if after := revision.Choice.Hedge; after > 0 {
		t.hedge(&begin, time.Duration(after), request, compiled.Bytes)
	}
	return engine.Prepared{Command: begin, Perform: t.take}, nil
}

// form is the JSON Schema that the run's answer must meet, nil for none: what
// who sent a child wants of it, else what its agent's completion demands.
func (j *job) form(ctx context.Context, revision agents.Revision) ([]byte, error) {
	task := j.state.Started.Task
	if task == nil || task.Result == nil {
		return revision.Completion.Output, nil
	}
	texts, err := j.view.Texts(ctx, task.Result.ID)
	return texts[task.Result.ID].Bytes, err
}

// choosing readies the choice of a model for a turn that gives a prompt of so
// many bytes to it.
func (j *job) choosing(ctx context.Context, revision agents.Revision, labels policy.Labels, request model.Request, bytes int64) *choice.Choosing {
	return choice.New(choice.Turn{Situation: situation(j.kit, j.current, revision, j.state.Authority, labels), Request: request, Bytes: bytes,
		State: j.state, Scores: j.kit.scores(ctx, revision.Name), Health: j.kit.Health, Tokens: j.promptTokens})
}

// readable reports whether one of the agent's models may read text with the
// labels.
func (j *job) readable(revision agents.Revision, labels policy.Labels) bool {
	return situation(j.kit, j.current, revision, j.state.Authority, labels).Reads()
}

// situation is a run that a model is chosen for: its kit has the prices, the
// one in force the labels' rules.
func situation(kit, current *Kit, revision agents.Revision, authority policy.Authority, labels policy.Labels) choice.Situation {
	return choice.Situation{Admitted: kit.Organisation, InForce: current.Organisation, Revision: revision, Granted: authority.Models, Labels: labels,
		Served: func(name string) bool { _, served := kit.Provider(name); return served }}
}

// threadOf names the model that a thread came from: another one could not read
// it, and what it is of a provider's reasoning is nobody else's.
func threadOf(m agents.Model) string { return m.Provider + ":" + m.Model }

// ownThreads are the messages with the threads of one model only.
func ownThreads(messages []model.Message, of string) []model.Message {
	foreign := func(m model.Message) bool { return m.ThreadOf != "" && m.ThreadOf != of }
	if !slices.ContainsFunc(messages, foreign) {
		return messages
	}
	messages = slices.Clone(messages)
	for i := range messages {
		if foreign(messages[i]) {
			messages[i].Thread, messages[i].ThreadOf = nil, ""
		}
	}
	return messages
}

// worstCase is what a request may cost at most: a token has at least one byte.
func worstCase(m agents.Model, promptBytes, maxTokens int64) run.Amount {
	return run.Amount{Tokens: promptBytes + maxTokens, MicroUSD: prices(m).WorstCase(promptBytes, maxTokens)}
}

func cost(m agents.Model, u model.Usage) run.Amount {
	return run.Amount{Tokens: u.Total(), MicroUSD: prices(m).Cost(u)}
}

func prices(m agents.Model) model.Prices {
	return model.Prices{Input: m.Prices.Input, CacheRead: m.Prices.CacheRead, CacheWrite: m.Prices.CacheWrite, Output: m.Prices.Output}
}

// asked is a model with the request that it gets.
type asked struct {
	model   agents.Model
	request model.Request
	bytes   int64 // of the prompt
	media   int64 // tokens that its images and files count at most
}

// requesting readies a request for a model: with its own threads, and the form of
// the answer where it can hold itself to one. Bytes is without that.
func requesting(m agents.Model, request model.Request, bytes int64) asked {
	if !m.Schema {
		request.Output = nil
	}
	media := choice.MediaTokens(m, request.Messages...)
	request.Model, request.MaxTokens = m.Model, m.MaxOutput
	request.Messages = choice.Shown(m, ownThreads(request.Messages, threadOf(m)))
	return asked{model: m, request: request, bytes: bytes + int64(len(request.Output)), media: media}
}

func (a asked) worst() run.Amount { return worstCase(a.model, a.bytes+a.media, a.model.MaxOutput) }

// turnTaking is the one or two requests of a turn under way.
type turnTaking struct {
	*sealer
	job      *job
	effect   run.TakeTurn
	first    asked
	second   *asked // if the first keeps silent, nil for none
	after    time.Duration
	choosing *choice.Choosing
	begunMs  int64 // database clock
	marking  policy.Marking
	runID    string
	limit    time.Duration
	wants    wants
	shown    []string // ids of remembered items that the model saw
}

// hedge holds a second model ready where one is right and what is left pays for
// both.
func (t *turnTaking) hedge(begin *run.BeginTurn, after time.Duration, request model.Request, bytes int64) {
	m, found := t.job.kit.Organisation.Model(t.choosing.Second(begin.Model, t.begunMs))
	if !found {
		return
	}
	second := requesting(m, request, bytes)
	t.second, t.after = &second, after
	begin.Hedge = &run.Hedge{Model: m.Name, AfterMs: after.Milliseconds(), Reserve: second.worst()}
	begin.Reserve = begin.Reserve.Plus(begin.Hedge.Reserve)
}

func (t *turnTaking) take(ctx context.Context) engine.Performed {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	begun := time.Now()
	report := run.ReportTurn{Turn: t.effect.Turn, Attempt: t.effect.Attempt}
	first, served := t.requestOf(t.first)
	if !served {
		report.Failure = &run.TurnFailure{Cause: string(model.ModelNotFound)}
		if t.second != nil {
			report.Failure.Second = run.SecondUnasked
		}
		return engine.Performed{Command: report}
	}
	taken, replies := t.ask(ctx, first)
	report.LatencyMs = time.Since(begun).Milliseconds()
	if taken < 0 {
		report.Failure = t.failure(replies, report.LatencyMs)
		return engine.Performed{Command: report}
	}
	by := t.first
	if taken == 1 {
		by = *t.second
	}
	t.answer(&report, by, replies[taken].Answer)
	if replies[1].Asked {
		t.settle(&report, by, replies[1-taken])
	}
	return engine.Performed{Command: report, Payloads: t.payloads}
}

// requestOf asks a model; it reports whether somebody answers for it here.
func (t *turnTaking) requestOf(a asked) (hedge.Request, bool) {
	provider, served := t.job.kit.Provider(a.model.Name)
	return func(ctx context.Context, deltas func(string)) (model.Answer, error) {
		return provider.Take(ctx, a.request, deltas)
	}, served
}

// ask makes the turn's requests and returns which reply is taken, -1 for none.
func (t *turnTaking) ask(ctx context.Context, first hedge.Request) (taken int, replies [2]hedge.Reply) {
	part := 0
	say := func(text string) {
		part++
		t.job.deltas(Delta{Run: t.runID, Turn: t.effect.Turn, Attempt: t.effect.Attempt, Part: part, Text: text, Marking: t.marking})
	}
	if t.second == nil {
		answer, err := first(ctx, say)
		if err != nil {
			taken = -1
		}
		return taken, [2]hedge.Reply{{Asked: true, Answer: answer, Err: err}}
	}
	return hedge.Ask(ctx, first, hedge.Second{After: t.after, Request: func() hedge.Request {
		request, served := t.requestOf(*t.second)
		if !served || !t.choosing.Claim(t.second.model) {
			return nil
		}
		return request
	}}, say)
}

// failure is that of the model that was asked first.
func (t *turnTaking) failure(replies [2]hedge.Reply, latencyMs int64) *run.TurnFailure {
	failure := failureOf(replies[0].Err)
	failed := []string{t.first.model.Name}
	switch {
	case t.second == nil:
	case !replies[1].Asked:
		failure.Second = run.SecondUnasked
	default:
		failed = append(failed, t.second.model.Name)
		failure.Second = run.SecondFailed
		if failureOf(replies[1].Err).Unknown {
			failure.Second = run.SecondUnknown
		}
	}
	failure.Elsewhere = failure.Retryable && t.choosing.Elsewhere(t.begunMs+latencyMs, failed...)
	return failure
}

// settle says what became of the other of two requests.
func (t *turnTaking) settle(report *run.ReportTurn, by asked, other hedge.Reply) {
	report.Hedged = &run.Hedged{By: by.model.Name}
	if other.Err != nil {
		report.Hedged.Unknown = other.Dropped || failureOf(other.Err).Unknown
		return
	}
	late := t.first
	if by.model.Name == t.first.model.Name {
		late = *t.second
	}
	u := t.used(late, other.Answer)
	usage := usageOf(u)
	report.Hedged.Usage, report.Hedged.Cost = &usage, cost(late.model, u)
	report.Cost = report.Cost.Plus(report.Hedged.Cost)
}

// used is what an answer used, and teaches how many bytes a token has.
func (t *turnTaking) used(by asked, answer model.Answer) model.Usage {
	u := answer.Usage
	if u.Estimated {
		u.Input += by.media
	}
	if by.media == 0 { // else nobody knows how many of the tokens are words
		t.job.counts.note(by.model.Name, by.bytes, u)
	}
	return u
}

func usageOf(u model.Usage) run.Usage {
	return run.Usage{Input: u.Input, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning, Estimated: u.Estimated}
}

func failureOf(err error) *run.TurnFailure {
	var failure *model.Error
	if !errors.As(err, &failure) {
		return &run.TurnFailure{Cause: "INTERNAL", Unknown: true}
	}
	return &run.TurnFailure{Cause: string(failure.Kind), Retryable: failure.Retryable(),
		RetryAfterMs: failure.RetryAfter.Milliseconds(), Unknown: failure.Billed, Out: failure.Out()}
}

func (t *turnTaking) answer(report *run.ReportTurn, by asked, answer model.Answer) {
	report.Class = run.Class(model.Classify(answer))
	if report.Class == "QUESTION" {
		report.Class = run.ClassCalls
	}
	report.Text = t.optional(t.marking, strings.ToValidUTF8(answer.Text, "\uFFFD"))
	report.Reasoning = t.optional(t.marking, strings.ToValidUTF8(answer.Reasoning, "\uFFFD"))
	if report.Thread = t.optional(t.marking, string(answer.Thread)); report.Thread != nil {
		report.ThreadOf = threadOf(by.model)
	}
	for i := range t.payloads {
		t.payloads[i].Items = t.shown // forgetting one of them takes what was said from it
	}
	u := t.used(by, answer)
	report.Usage, report.Cost = usageOf(u), cost(by.model, u)
	if report.Class != run.ClassCalls {
		return
	}
	for _, proposed := range answer.Calls {
		report.Calls = append(report.Calls, t.proposal(proposed))
	}
}

// proposal checks a proposed call against its contract.
func (t *turnTaking) proposal(proposed model.Proposed) run.Proposal {
	p := run.Proposal{Tool: proposed.Name, Approval: t.source.ID(), Nonce: t.source.ID()}
	checked, refusal := t.job.kit.Box.Check(proposed.Name, proposed.Arguments)
	given := t.wants.has()
	p.Want, p.To = t.wants.of(proposed.Name, checked.Arguments, given)
	switch {
	case given[proposed.Name] && proposed.Name == tool.AccessName && refusal == nil && p.Want == nil:
		refusal = &tool.Refusal{Code: run.NothingToAskFor, Detail: "There is nothing of this kind and name that you may ask for, or you have it already. Go on without it, or say what is missing."}
	case !given[proposed.Name] && p.Want == nil:
		refusal = &tool.Refusal{Code: "UNKNOWN_TOOL", Detail: "You have no tool of this name; use one of those you were given, exactly as written."}
	}
	if refusal != nil {
		raw := excerpt(proposed.Arguments)
		if _, _, exists := t.job.kit.Box.Definition(proposed.Name); !exists {
			// A name of the model's own may say what it read: it stands among
			// what is labelled.
			p.Tool, raw = unknownTool, excerpt([]byte(proposed.Name+"\n"+string(proposed.Arguments)))
		}
		p.Text = t.seal(t.marking, raw)
		p.Fingerprint = run.Fingerprint(t.job.key, []byte(proposed.Name), raw)
		p.Refusal = refusal.Code
		p.Detail = t.optional(policy.Marking{Labels: t.marking.Labels}, refusal.Detail)
		return p
	}
	d := checked.Definition
	p.Text = t.seal(t.marking, checked.Arguments)
	p.Fingerprint = run.Fingerprint(t.job.key, []byte(d.Name), checked.Arguments)
	_, digest, _ := t.job.kit.Box.Definition(d.Name)
	p.Revision, p.Impact, p.Class, p.CostBound = digest, d.Impact, d.Class, d.CostBound
	p.Control = len(d.Control) > 0
	p.Inputs = inputsOf(checked)
	switch d.Name {
	case tool.AskName:
		p.Asks, p.To = true, t.job.askees(checked.Arguments)
	case tool.AccessName:
		p.Requests = true
	case tool.DelegateName:
		p.Delegate = delegateOf(checked.Arguments)
	}
	return p
}

func inputsOf(checked tool.Checked) run.CallInputs {
	return run.CallInputs{Arguments: checked.Arguments, Resource: checked.Resource, Facts: checked.Facts}
}

// unknownTool is recorded in place of a name that is no tool's.
const unknownTool = "unknown"

// excerpt is the beginning of what a model wrote, as text.
func excerpt(raw []byte) []byte {
	return bytes.ToValidUTF8(raw[:min(len(raw), maxRaw)], []byte("\uFFFD"))
}

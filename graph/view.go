package graph

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"gantry.dev/graph/generated"
	"gantry.dev/graph/legible"
	"gantry.dev/graph/opaque"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// redacted stands where a text is not shown.
const redacted = "[redacted]"

// viewer maps the domain onto the schema for one caller.
type viewer struct {
	config Config
	caller Caller
	texts  map[string]View
	lookUp func(id string) (policy.Principal, bool)
}

// newViewer opens the given texts for the caller at once.
func newViewer(ctx context.Context, config Config, caller Caller, texts []run.Text) (*viewer, error) {
	v := &viewer{config: config, caller: caller, lookUp: func(id string) (policy.Principal, bool) {
		principal, err := config.Directory.Principal(ctx, caller.Principal.Organisation, id)
		return principal, err == nil
	}}
	seen := map[string]bool{}
	var ids []string
	for _, text := range texts {
		if text.ID != "" && !seen[text.ID] {
			seen[text.ID] = true
			ids = append(ids, text.ID)
		}
	}
	if len(ids) == 0 {
		return v, nil
	}
	var err error
	v.texts, err = config.Runs.Texts(ctx, caller, ids)
	return v, err
}

// text shows a text, or that it is withheld. Where the caller is not cleared by
// the text's own marking it stays withheld whatever was opened.
func (v *viewer) text(text run.Text) *generated.Text {
	out := &generated.Text{Value: redacted, Display: redacted, Withheld: []*generated.Withheld{},
		Integrity: generated.Integrity(text.Marking.Integrity.String()), Labels: v.labels(text.Marking.Labels)}
	view, found := v.texts[text.ID]
	switch {
	case !v.caller.Principal.Sees(text.Marking.Labels) || view.Withheld:
		out.Withheld = append(out.Withheld, &generated.Withheld{Reason: generated.WithheldReasonNotCleared})
	case !found:
		out.Withheld = append(out.Withheld, &generated.Withheld{Reason: generated.WithheldReasonErased})
	default:
		out.Value, out.Display = view.Text, legible.Text(view.Text)
		if text.Marking.Integrity == policy.Untrusted {
			out.Display = legible.Outside(view.Text)
		}
	}
	return out
}

// exact shows arguments: who decides on them sees the recorded bytes, with
// nothing escaped but what cannot be seen.
func (v *viewer) exact(arguments run.Text) *generated.Text {
	out := v.text(arguments)
	out.Display = legible.Text(out.Value)
	return out
}

func (v *viewer) optional(text *run.Text) *generated.Text {
	if text == nil {
		return nil
	}
	return v.text(*text)
}

// labels are those that the caller may know of.
func (v *viewer) labels(labels policy.Labels) []string {
	known := []string{}
	for _, label := range labels.Meet(v.caller.Principal.Clearance) {
		known = append(known, string(label))
	}
	return known
}

func (v *viewer) actor(id string) *generated.Actor {
	actor := &generated.Actor{Principal: id, Name: id}
	if principal, known := v.lookUp(id); known {
		kind := generated.ActorKind(principal.Kind)
		actor.Kind, actor.Name = &kind, principal.Name
	}
	return actor
}

// somebody is actor, or nil for nobody.
func (v *viewer) somebody(id string) *generated.Actor {
	if id == "" {
		return nil
	}
	return v.actor(id)
}

func (v *viewer) actors(ids []string) []*generated.Actor {
	return each(ids, v.actor)
}

func (v *viewer) approvers(approvers []policy.Approver) []*generated.Approver {
	return each(approvers, func(a policy.Approver) *generated.Approver {
		out := &generated.Approver{Role: maybe(a.Role), Why: a.Why}
		if a.Principal != "" {
			out.Principal = v.actor(a.Principal)
		}
		return out
	})
}

func (v *viewer) id(kind opaque.Kind, parts ...string) string {
	return opaque.ID(v.caller.Principal.Organisation, kind, parts...)
}

func amount(a run.Amount) *generated.Amount {
	return &generated.Amount{Money: a.MicroUSD, Tokens: a.Tokens}
}

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func maybeAt(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := at(ms)
	return &t
}

// maybe is nil for the zero value.
func maybe[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}

// enum casts a word of the domain to the schema's enum; nil for none.
func enum[T ~string, S ~string](word S) *T {
	if word == "" {
		return nil
	}
	value := T(word)
	return &value
}

func each[A, B any](list []A, convert func(A) B) []B {
	out := make([]B, 0, len(list))
	for _, item := range list {
		out = append(out, convert(item))
	}
	return out
}

func words[T ~string](list []T) []string {
	return each(list, func(word T) string { return string(word) })
}

// guarantees say what each effect class promises, no more.
var guarantees = map[policy.EffectClass]string{
	policy.ClassRead:  "It changes nothing, so a broken attempt is simply repeated.",
	policy.Keyed:      "The other side recognises Gantry's key: repeats with the same key count once, as long as it remembers the key.",
	policy.Checkable:  "After a broken attempt Gantry asks what happened; where the answer leaves doubt, a person decides before anything is repeated.",
	policy.Opaque:     "One attempt only: if it breaks, nobody can tell whether it happened until a person has looked.",
	policy.ClassUnset: "",
}

// consequences say what follows from each impact.
var consequences = map[policy.Impact]string{
	policy.ImpactRead:   "It reads and changes nothing.",
	policy.Draft:        "It writes something that nobody outside acts on yet.",
	policy.Reversible:   "It changes something outside, and a known second call can undo that.",
	policy.Irreversible: "It changes something outside, and that cannot be undone.",
}

func (v *viewer) calls(s *run.State, approvals []*generated.Approval) []*generated.Call {
	byCall := map[int]*generated.Approval{}
	for _, approval := range approvals {
		byCall[approval.Call] = approval // the latest stands
	}
	return each(s.Calls, func(c run.Call) *generated.Call {
		out := v.call(c)
		out.Approval = byCall[c.CallProposed.Call]
		return out
	})
}

func (v *viewer) call(c run.Call) *generated.Call {
	class := c.Class.OrWorst()
	out := &generated.Call{Number: c.CallProposed.Call, Turn: c.Turn, Tool: c.Tool, ToolRevision: maybe(c.Revision), Arguments: v.exact(c.Arguments),
		Impact: generated.Impact(c.Impact.OrWorst().String()), EffectClass: generated.EffectClass(class.String()), Guarantee: guarantees[class],
		CostBound: c.CostBound, Phase: generated.CallPhase(c.Phase), Verdict: verdict(c.Verdict), Attempts: c.Intent,
		Outcome: enum[generated.CallOutcome](c.Outcome), Code: maybe(c.Code), Result: v.optional(c.Result),
		Delegate: maybe(c.Delegate)}
	if c.Child != "" {
		id := v.id(opaque.Run, c.Child)
		out.Child = &id
	}
	out.LateOutcomes = each(c.Late, func(l run.LateOutcome) *generated.LateOutcome {
		return &generated.LateOutcome{Attempt: l.Intent, Outcome: generated.CallOutcome(l.Outcome), Result: v.optional(l.Result)}
	})
	out.Findings = each(c.Resolutions, func(f run.UncertainResolved) *generated.Finding {
		return &generated.Finding{By: v.actor(f.By.Principal), Resolution: generated.Resolution(f.Resolution), Evidence: v.text(f.Evidence)}
	})
	return out
}

func verdict(given policy.Verdict) *generated.Verdict {
	if given.Answer == "" {
		return nil
	}
	return &generated.Verdict{Answer: generated.VerdictAnswer(given.Answer), Would: enum[generated.VerdictAnswer](given.Would),
		Reasons: reasons(given), Policy: given.Revision}
}

func reasons(given policy.Verdict) []*generated.Reason {
	return each(given.Reasons, func(r policy.Reason) *generated.Reason { return &generated.Reason{Policy: r.Policy, Text: r.Text} })
}

func (v *viewer) approvals(ctx context.Context, s *run.State) ([]*generated.Approval, error) {
	out := make([]*generated.Approval, 0, len(s.Approvals))
	for _, approval := range s.Approvals {
		one, err := v.approval(ctx, s, approval)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (v *viewer) approval(ctx context.Context, s *run.State, a run.Approval) (*generated.Approval, error) {
	call := s.Call(a.Call)
	if call == nil {
		return nil, errors.New("an approval without its call")
	}
	class, impact := call.Class.OrWorst(), call.Impact.OrWorst()
	out := &generated.Approval{ID: v.id(opaque.Approval, s.ID, a.Approval), Status: generated.ApprovalStatus(a.Status), Digest: a.Digest,
		Run: v.id(opaque.Run, s.ID), Call: a.Call, Tool: call.Tool, Arguments: v.exact(call.Arguments), Consequence: consequences[impact],
		Impact: generated.Impact(impact.String()), CostBound: call.CostBound, EffectClass: generated.EffectClass(class.String()), Guarantee: guarantees[class],
		Requester: &generated.Actor{Principal: "agent:" + s.Started.Agent.Name, Name: s.Started.Agent.Name, Kind: enum[generated.ActorKind](policy.Agent)},
		Subject:   v.actor(s.Started.Subject.ID), ActingChain: v.actors(s.Started.Chain),
		Labels: v.labels(call.Arguments.Marking.Labels), Integrity: generated.Integrity(call.Arguments.Marking.Integrity.String()),
		Reasons: reasons(call.Verdict), Approvers: v.approvers(a.Approvers), Quorum: a.Quorum, ExpiresAt: at(a.NotAfterMs),
		VoidCause: enum[generated.VoidCause](a.Cause)}
	out.Decisions = each(a.Decisions, func(d run.ApprovalDecided) *generated.Decision {
		return &generated.Decision{By: v.actor(d.By.Principal), Granted: d.Granted, Reason: v.optional(d.Reason), OnBehalfOf: v.somebody(d.By.OnBehalfOf)}
	})
	return out, v.operation(ctx, call, out)
}

// operation adds what the tool's owner says of the call. The resource is made
// of arguments, so it is shown only where they are.
func (v *viewer) operation(ctx context.Context, call *run.Call, out *generated.Approval) error {
	shown := len(out.Arguments.Withheld) == 0
	var arguments []byte
	if shown {
		arguments = []byte(out.Arguments.Value)
	}
	operation, err := v.config.Tools.Operation(ctx, v.caller, call.Tool, call.Revision, arguments)
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	out.Operation = maybe(operation.Description)
	if shown {
		out.Resource = maybe(legible.Text(operation.Resource))
	}
	return nil
}

func (v *viewer) question(s *run.State, q run.Question) *generated.Question {
	out := &generated.Question{ID: v.id(opaque.Question, s.ID, q.Question), Status: generated.QuestionStatus(q.Status), Run: v.id(opaque.Run, s.ID),
		Call: q.Call, To: v.approvers(q.To), ExpiresAt: at(q.NotAfterMs), VoidCause: enum[generated.VoidCause](q.Cause)}
	if call := s.Call(q.Call); call != nil {
		out.Question = v.exact(call.Arguments)
	}
	if ask := q.Ask; ask != nil {
		out.Ask = &generated.ServerAsk{Origin: ask.Origin, Kind: generated.AskKind(ask.Kind), Form: v.optional(ask.Form), Declined: maybe(ask.Declined)}
	}
	if q.Answer != nil {
		if out.Ask != nil {
			out.Ask.Action = enum[generated.AskAction](q.Answer.Action)
		}
		out.Answer, out.AnsweredBy = v.text(q.Answer.Answer), v.actor(q.Answer.By.Principal)
		out.AnsweredOnBehalfOf = v.somebody(q.Answer.By.OnBehalfOf)
	}
	return out
}

// child is a run as the one above it knows it, and as its row says.
func (v *viewer) child(ctx context.Context, above *run.State, head run.Head) (*generated.Child, error) {
	out := &generated.Child{Run: &generated.Run{ID: v.id(opaque.Run, head.Run)}, Agent: head.Agent, Status: generated.RunStatus(head.Status)}
	known := above.Child(head.Run)
	if known == nil { // it is beside the run and has a budget of its own
		state, err := v.config.Runs.State(ctx, v.caller, head.Run)
		if err != nil {
			return nil, err
		}
		out.Kind = generated.RunKind(state.Started.RunKind)
		if task := state.Started.Task; task != nil {
			out.Purpose, out.Call = enum[generated.Purpose](task.Purpose), maybe(task.Call)
		}
		return out, nil
	}
	out.Kind, out.Purpose, out.Call, out.Stopped = generated.RunKind(known.RunKind), enum[generated.Purpose](known.Purpose), maybe(known.Call), known.Stopped
	out.Carve = amount(known.Carve)
	if ended := known.Ended; ended != nil {
		out.Settled, out.Unknown, out.Result = amount(ended.Settled), amount(ended.Unknown), v.optional(ended.Result)
		out.Unverified = ended.Unverified
	}
	return out, nil
}

// task is what a run was sent to do.
func (v *viewer) task(task *run.Task) *generated.Task {
	if task == nil {
		return nil
	}
	return &generated.Task{Call: maybe(task.Call), Review: maybe(task.Review), Purpose: enum[generated.Purpose](task.Purpose),
		Lands: generated.Landing(task.Lands), Result: v.optional(task.Result), ResultBytes: task.ResultBytes, Outlives: task.Outlives}
}

// Sidecars lists what goes on beside a run.
func (r runs) Sidecars(ctx context.Context, obj *generated.Run) ([]*generated.Sidecar, error) {
	v, state, err := r.shown(ctx, obj)
	if err != nil {
		return nil, err
	}
	out := make([]*generated.Sidecar, 0, len(state.Sidecars))
	for _, started := range state.Sidecars {
		one, err := v.sidecar(ctx, started)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

func (v *viewer) sidecar(ctx context.Context, started run.SidecarStarted) (*generated.Sidecar, error) {
	out := &generated.Sidecar{Number: maybe(started.Number), Agent: started.Agent, Purpose: enum[generated.Purpose](started.Purpose),
		Outlives: started.Outlives, Code: maybe(started.Code)}
	if started.Code != "" {
		return out, nil
	}
	state, err := v.config.Runs.State(ctx, v.caller, started.Sidecar)
	if errors.Is(err, engine.ErrNotFound) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	id := v.id(opaque.Run, started.Sidecar)
	out.Run, out.Status = &id, enum[generated.RunStatus](state.Status)
	return out, nil
}

// Reviews lists what of a run is reviewed before it counts.
func (r runs) Reviews(ctx context.Context, obj *generated.Run) ([]*generated.Review, error) {
	v, state, err := r.shown(ctx, obj)
	if err != nil {
		return nil, err
	}
	return each(state.Reviews(), v.review), nil
}

func (v *viewer) review(one run.Reviewed) *generated.Review {
	out := &generated.Review{Of: one.Of, Call: maybe(one.Call), Turn: one.Turn, Agent: one.Agent,
		Standing: generated.ReviewStanding(one.Standing), Code: maybe(one.Code)}
	if one.Child == nil {
		return out
	}
	id := v.id(opaque.Run, one.Child.ChildStarted.Child)
	out.Run = &id
	if one.Child.Ended == nil {
		return out
	}
	out.Reason = v.optional(one.Child.Ended.Result)
	if said := out.Reason; said != nil && len(said.Withheld) == 0 {
		var verdict struct{ Reason *string }
		if json.Unmarshal([]byte(said.Value), &verdict) == nil && verdict.Reason != nil {
			said.Value, said.Display = *verdict.Reason, legible.Text(*verdict.Reason)
		}
	}
	return out
}

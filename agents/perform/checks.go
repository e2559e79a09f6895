package perform

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/agents/artifact"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// verify readies the checks of the last answer. Where nothing but its form is
// asked about, the check looks at nothing outside of the run and is made at once,
// so that it shares the write of the answer.
func (j *job) verify(ctx context.Context, effect run.Verify) (engine.Prepared, error) {
	revision, err := j.revision()
	if err != nil {
		return engine.Prepared{}, err
	}
	task := j.state.Started.Task
	lands := task != nil && !task.Awaited()
	inside := len(revision.Completion.Checks) == 0 && !lands
	ids := textIDs(j.state)
	if inside {
		ids = formIDs(j.state)
	}
	texts, err := j.view.Texts(ctx, ids...)
	if err != nil {
		return engine.Prepared{}, err
	}
	v := &verification{sealer: j.sealer(), contract: revision.Completion, marking: j.state.Marking}
	if task != nil && task.Result != nil {
		v.contract.Output, v.contract.Required = texts[task.Result.ID].Bytes, nil // who sent it says what it wants
	}
	if answer := j.state.LastTurn().Answer.Text; answer != nil {
		v.answer, v.answerText = texts[answer.ID].Bytes, answer
	}
	if inside {
		return engine.Prepared{Command: run.ReportChecks{Turn: effect.Turn, Checks: v.all(ctx)}, Payloads: v.payloads}, nil
	}
	v.vars, v.box, v.chain = j.checkVars(texts), j.kit.Box, j.state.Started.Chain
	v.subject, v.agent = j.subject(), revision.Principal(j.state.Started.Organisation)
	v.directory, v.memory = j.current.Organisation, j.reader()
	if lands {
		v.landing = &landing{tree: j.tree, task: *task, sidecar: j.state.ID, started: j.state.Started}
	}
	return engine.Prepared{Perform: func(ctx context.Context) engine.Performed {
		checks := v.all(ctx)
		return engine.Performed{Command: run.ReportChecks{Turn: effect.Turn, Checks: checks}, Payloads: v.payloads}
	}}, nil
}

// formIDs are the texts that the form of the last answer is checked by.
func formIDs(s *run.State) (ids []string) {
	if answer := s.LastTurn().Answer.Text; answer != nil {
		ids = append(ids, answer.ID)
	}
	if task := s.Started.Task; task != nil && task.Result != nil {
		ids = append(ids, task.Result.ID)
	}
	return ids
}

func (j *job) checkVars(texts map[string]engine.Payload) agents.CheckVars {
	started := j.state.Started
	vars := agents.CheckVars{Run: agents.CheckRun{ID: j.state.ID, Organisation: started.Organisation, Subject: started.Subject.ID,
		Agent: agents.AgentID(started.Agent.Name), Chain: started.Chain}}
	for i := range j.state.Calls {
		call := &j.state.Calls[i]
		c := agents.CheckCall{Call: call.CallProposed.Call, Tool: call.Tool, Outcome: call.Outcome, Key: call.Key,
			Arguments: asJSON(texts[call.Arguments.ID].Bytes)}
		if call.Result != nil {
			c.Result = asJSON(texts[call.Result.ID].Bytes)
		}
		if child := j.state.Child(call.Child); child != nil && child.Ended != nil {
			c.Unverified = child.Ended.Unverified
		}
		vars.Calls = append(vars.Calls, c)
	}
	return vars
}

// asJSON returns JSON as it is and anything else as a JSON string.
func asJSON(text []byte) json.RawMessage {
	if json.Valid(text) {
		return text
	}
	quoted, _ := json.Marshal(strings.ToValidUTF8(string(text), "\uFFFD")) // a string always marshals
	return quoted
}

// verification is the completion checks of one answer under way.
type verification struct {
	*sealer
	contract  agents.Completion
	vars      agents.CheckVars
	box       *tool.Box
	subject   policy.Principal
	agent     policy.Principal
	directory agents.Organisation
	marking   policy.Marking
	chain     []string
	memory    view.Reader // the run, as memory knows it
	answer    []byte

	answerText *run.Text
	landing    *landing // of a sidecar's result; nil for any other run
}

func (v *verification) all(ctx context.Context) []run.CheckResult {
	results := []run.CheckResult{v.output()}
	if results[0].Verdict == run.CheckFailed {
		return results
	}
	for _, check := range v.contract.Checks {
		results = append(results, v.one(ctx, check))
	}
	notPassed := func(r run.CheckResult) bool { return r.Verdict != run.CheckPassed }
	if v.landing != nil && !slices.ContainsFunc(results, notPassed) {
		results = append(results, v.land(ctx))
	}
	return results
}

// output checks the answer's own form.
func (v *verification) output() run.CheckResult {
	v.vars.Output = v.answer
	if len(v.contract.Output) == 0 {
		return run.CheckResult{Name: agents.OutputCheck, Verdict: run.CheckPassed}
	}
	canonical, err := canon.JSON(v.answer)
	if err != nil {
		return v.failed(agents.OutputCheck, "NOT_JSON", "The answer is not the JSON object that was asked for: "+err.Error())
	}
	v.vars.Output = canonical
	schema, err := tool.CompileSchema(v.contract.Output)
	if err != nil {
		return run.CheckResult{Name: agents.OutputCheck, Verdict: run.CheckUnchecked, Code: "SCHEMA"}
	}
	for _, complaint := range schema.Check(canonical) {
		return v.failed(agents.OutputCheck, "SCHEMA", complaint.Pointer+" "+complaint.Text)
	}
	var document any
	if err := json.Unmarshal(canonical, &document); err != nil {
		return v.failed(agents.OutputCheck, "NOT_JSON", "The answer is not JSON.")
	}
	for _, pointer := range v.contract.Required {
		if value, found := tool.LookUp(document, pointer); !found || value == nil || value == "" {
			return v.failed(agents.OutputCheck, "REQUIRED", "The field "+pointer+" is missing or empty.")
		}
	}
	return run.CheckResult{Name: agents.OutputCheck, Verdict: run.CheckPassed}
}

func (v *verification) failed(name, code, detail string) run.CheckResult {
	return run.CheckResult{Name: name, Verdict: run.CheckFailed, Code: code, Detail: v.optional(v.marking, detail)}
}

// one makes the check's own READ call under the identity that it names and
// judges the result.
func (v *verification) one(ctx context.Context, check agents.Check) run.CheckResult {
	unchecked := run.CheckResult{Name: check.Name, Verdict: run.CheckUnchecked, Code: "UNCHECKED"}
	applies, err := check.Applies(v.vars)
	if err != nil {
		return unchecked
	}
	if !applies {
		return run.CheckResult{Name: check.Name, Verdict: run.CheckPassed, Code: "NOT_APPLICABLE"}
	}
	var found agents.Found
	if check.Tool != "" {
		if found, err = v.look(ctx, check); err != nil {
			return v.notFound(check, err)
		}
	}
	passed, err := check.Evaluate(found, v.vars)
	switch {
	case err != nil:
		return unchecked
	case !passed:
		return v.failed(check.Name, "NOT_SO", explain(check))
	}
	return run.CheckResult{Name: check.Name, Verdict: run.CheckPassed, Read: check.Tool != ""}
}

// errPartial means that only a part of what a check reads came back.
var errPartial = errors.New("only a part was read")

// look makes the check's own call, and examines the artifact where it is of one.
func (v *verification) look(ctx context.Context, check agents.Check) (found agents.Found, err error) {
	result, err := v.read(ctx, check)
	if err != nil {
		return found, err
	}
	if check.Artifact == nil {
		found.Result = result.Content
		return found, nil
	}
	if result.Cut {
		return found, errPartial
	}
	found.Result = asJSON(result.Content)
	claim, err := check.Claimed(found.Result, v.vars)
	if err != nil {
		return found, err
	}
	if !claim.Complete {
		return found, errPartial
	}
	found.Artifact, err = artifact.Examine(ctx, *check.Artifact, claim)
	return found, err
}

// notFound is what a check comes to whose own call found nothing to judge. What
// is not there fails the check of an artifact; all else could not be looked at.
func (v *verification) notFound(check agents.Check, err error) run.CheckResult {
	var fault *artifact.Fault
	switch {
	case errors.As(err, &fault):
		detail := fault.Detail
		if check.Explain != "" {
			detail = check.Explain + " " + detail
		}
		return v.failed(check.Name, fault.Code, detail)
	case errors.Is(err, errPartial):
		return run.CheckResult{Name: check.Name, Verdict: run.CheckUnchecked, Code: artifact.Partial}
	case errors.Is(err, agents.ErrUnchecked):
		return run.CheckResult{Name: check.Name, Verdict: run.CheckUnchecked, Code: "UNCHECKED"}
	}
	return run.CheckResult{Name: check.Name, Verdict: run.CheckUnchecked, Code: "READ_FAILED"}
}

func explain(check agents.Check) string {
	if check.Explain != "" {
		return check.Explain
	}
	return "What the answer claims is not what the outside says."
}

func (v *verification) read(ctx context.Context, check agents.Check) (tool.Result, error) {
	arguments, err := check.Call(v.vars)
	if err != nil {
		return tool.Result{}, err
	}
	definition, digest, known := v.box.Definition(check.Tool)
	if !known || definition.Class != policy.ClassRead {
		return tool.Result{}, errors.New("no such reading tool")
	}
	t, found := v.box.Find(check.Tool, digest)
	if !found {
		return tool.Result{}, errors.New("no such tool")
	}
	reader, err := v.reader(check.Identity)
	if err != nil {
		return tool.Result{}, err
	}
	result, err := tool.Invoke(ctx, t, tool.Invocation{Run: v.run, Arguments: arguments, Actor: []string{reader.ID}, Subject: reader, Reader: v.memory})
	if err != nil {
		return tool.Result{}, err
	}
	if result.Absent && check.Artifact != nil {
		return tool.Result{}, &artifact.Fault{Code: artifact.Absent, Detail: "It is not there, or whoever looks does not see it."}
	}
	if result.Failed {
		return tool.Result{}, errors.New("the read-back failed")
	}
	return result, nil
}

func (v *verification) reader(identity string) (policy.Principal, error) {
	switch identity {
	case agents.AsSubject:
		return v.subject, nil
	case agents.AsAgent, "":
		return v.agent, nil
	}
	principal, known := v.directory.Principal(identity)
	if !known {
		return policy.Principal{}, errors.New("the check's identity is unknown")
	}
	return principal, nil
}

// textIDs lists the texts of a run.
func textIDs(s *run.State) []string {
	texts := s.Words()
	ids := make([]string, len(texts))
	for i, text := range texts {
		ids[i] = text.ID
	}
	return ids
}

package perform

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// outputCheck is the name of the check of the answer's own form.
const outputCheck = "output"

func (j *job) verify(ctx context.Context, effect run.Verify) (engine.Prepared, error) {
	revision, err := j.revision()
	if err != nil {
		return engine.Prepared{}, err
	}
	texts, err := j.view.Texts(ctx, textIDs(j.state)...)
	if err != nil {
		return engine.Prepared{}, err
	}
	v := &verification{sealer: j.sealer(), contract: revision.Completion, vars: j.checkVars(texts), box: j.kit.Box,
		subject: j.subject(), agent: revision.Principal(j.state.Started.Organisation), marking: j.state.Marking, chain: j.state.Started.Chain,
		directory: j.current.Organisation, memory: j.reader()}
	if task := j.state.Started.Task; task != nil && task.Result != nil {
		v.contract.Output, v.contract.Required = texts[task.Result.ID].Bytes, nil // who sent it says what it wants
	}
	answer := j.state.LastTurn().Answer.Text
	if answer != nil {
		v.answer, v.answerText = texts[answer.ID].Bytes, answer
	}
	if task := j.state.Started.Task; task != nil && !task.Awaited() {
		v.landing = &landing{tree: j.tree, task: *task, sidecar: j.state.ID, started: j.state.Started}
	}
	return engine.Prepared{Perform: func(ctx context.Context) engine.Performed {
		checks := v.all(ctx)
		return engine.Performed{Command: run.ReportChecks{Turn: effect.Turn, Checks: checks}, Payloads: v.payloads}
	}}, nil
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
		return run.CheckResult{Name: outputCheck, Verdict: run.CheckPassed}
	}
	canonical, err := canon.JSON(v.answer)
	if err != nil {
		return v.failed(outputCheck, "NOT_JSON", "The answer is not the JSON object that was asked for: "+err.Error())
	}
	v.vars.Output = canonical
	schema, err := tool.CompileSchema(v.contract.Output)
	if err != nil {
		return run.CheckResult{Name: outputCheck, Verdict: run.CheckUnchecked, Code: "SCHEMA"}
	}
	for _, complaint := range schema.Check(canonical) {
		return v.failed(outputCheck, "SCHEMA", complaint.Pointer+" "+complaint.Text)
	}
	var document any
	if err := json.Unmarshal(canonical, &document); err != nil {
		return v.failed(outputCheck, "NOT_JSON", "The answer is not JSON.")
	}
	for _, pointer := range v.contract.Required {
		if value, found := tool.LookUp(document, pointer); !found || value == nil || value == "" {
			return v.failed(outputCheck, "REQUIRED", "The field "+pointer+" is missing or empty.")
		}
	}
	return run.CheckResult{Name: outputCheck, Verdict: run.CheckPassed}
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
	var result []byte
	if check.Tool != "" {
		if result, err = v.read(ctx, check); err != nil {
			unchecked.Code = "READ_FAILED"
			return unchecked
		}
	}
	passed, err := check.Evaluate(result, v.vars)
	switch {
	case err != nil:
		return unchecked
	case !passed:
		return v.failed(check.Name, "NOT_SO", explain(check))
	}
	return run.CheckResult{Name: check.Name, Verdict: run.CheckPassed}
}

func explain(check agents.Check) string {
	if check.Explain != "" {
		return check.Explain
	}
	return "What the answer claims is not what the outside says."
}

func (v *verification) read(ctx context.Context, check agents.Check) ([]byte, error) {
	arguments, err := check.Call(v.vars)
	if err != nil {
		return nil, err
	}
	definition, digest, known := v.box.Definition(check.Tool)
	if !known || definition.Class != policy.ClassRead {
		return nil, errors.New("no such reading tool")
	}
	t, found := v.box.Find(check.Tool, digest)
	if !found {
		return nil, errors.New("no such tool")
	}
	reader, err := v.reader(check.Identity)
	if err != nil {
		return nil, err
	}
	result, err := tool.Invoke(ctx, t, tool.Invocation{Run: v.run, Arguments: arguments, Actor: []string{reader.ID}, Subject: reader, Reader: v.memory})
	if err != nil {
		return nil, err
	}
	if result.Failed {
		return nil, errors.New("the read-back failed")
	}
	return result.Content, nil
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
	texts := s.Texts()
	ids := make([]string, len(texts))
	for i, text := range texts {
		ids[i] = text.ID
	}
	return ids
}

package perform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// resultLabels is the fault of a result that is above what its parent may read.
const resultLabels = "LABELS"

// delegateOf is the agent that a call of agents.delegate names.
func delegateOf(arguments []byte) string {
	var order tool.Delegation
	_ = json.Unmarshal(arguments, &order) // the contract was checked
	return order.Agent
}

// collect folds the children that ended since the last time.
func (j *job) collect(ctx context.Context) (engine.Prepared, error) {
	live := map[string]bool{}
	for i := range j.state.Children {
		if child := &j.state.Children[i]; child.Live() {
			live[child.ChildStarted.Child] = true
		}
	}
	news, records, err := j.tree.EndedChildren(ctx, j.state.ID, func(id string) bool { return !live[id] })
	if err != nil || len(records) == 0 {
		return engine.Prepared{}, err
	}
	c := &collecting{job: j, sealer: j.sealer()}
	if c.orders, err = j.ordersOf(ctx, records); err != nil {
		return engine.Prepared{}, err
	}
	report := run.ReportChildren{}
	for _, record := range records {
		event, err := run.Decode(record)
		if err != nil {
			return engine.Prepared{}, fmt.Errorf("end of child %s: %w", record.Run, err)
		}
		ended, ends := event.(run.Ended)
		if !ends {
			return engine.Prepared{}, fmt.Errorf("%w: child %s has another end", engine.ErrHopeless, record.Run)
		}
		end, err := c.end(ctx, j.state.Child(record.Run), ended)
		if err != nil {
			return engine.Prepared{}, err
		}
		end.Head = record.Digest
		report.Ends = append(report.Ends, end)
	}
	return engine.Prepared{Command: report, Payloads: c.payloads, Heard: news}, nil
}

// collecting takes results of children.
type collecting struct {
	*job
	*sealer
	orders map[string]engine.Payload // by id, of all children that are taken
}

// ordersOf opens what children were asked for, all at once.
func (j *job) ordersOf(ctx context.Context, ends []run.Record) (map[string]engine.Payload, error) {
	var ids []string
	for _, end := range ends {
		if call := j.state.Call(j.state.Child(end.Run).Call); call != nil {
			ids = append(ids, call.Arguments.ID)
		}
	}
	return j.view.Texts(ctx, ids...)
}

// end is what the parent keeps of a child's end. The result stays the child's
// own text, so that what is forgotten of it is forgotten in both.
func (c *collecting) end(ctx context.Context, child *run.Child, ended run.Ended) (run.ChildEnd, error) {
	end := run.ChildEnd{ChildEnded: run.ChildEnded{Child: child.ChildStarted.Child, Status: ended.Status, Reason: ended.Reason, Code: ended.Code,
		Result: ended.Result, Settled: ended.Settled, Unknown: ended.Unknown, Unverified: ended.Unverified}}
	if ended.Result == nil || !gave(ended.Status) {
		end.Result = nil // the answer of a child that failed is no result
		above, err := c.above(ctx, child)
		if err != nil {
			return end, err
		}
		if above {
			end.Fault = resultLabels
		}
	} else if err := c.take(ctx, child, &end); err != nil {
		return end, err
	}
	end.Unverified = end.Unverified && end.Result != nil
	if c.lent(child) {
		quiet(&end)
	}
	if child.Review == "" || end.Result == nil || end.Fault != "" {
		return end, nil
	}
	texts, err := c.view.Texts(ctx, end.Result.ID)
	end.Passed = passed(texts[end.Result.ID].Bytes)
	return end, err
}

// quiet leaves of a private side's end whether it gave a declared value, and
// nothing of how it came to one or why it did not.
func quiet(end *run.ChildEnd) {
	end.Status, end.Reason, end.Code, end.Unverified = run.StatusCompleted, run.EndVerified, "", false
	if end.Result == nil || end.Fault != "" {
		end.Fault, end.Status, end.Reason, end.Code = run.ResultInvalid, run.StatusFailed, run.EndUnusable, run.ResultInvalid
	}
}

// take holds a result against what the parent asked for and may read.
func (c *collecting) take(ctx context.Context, child *run.Child, end *run.ChildEnd) error {
	order := c.orderOf(child)
	// First of all, unless it is declassified: how a result fails that the parent
	// may not read would tell of it.
	if !c.lent(child) && !end.Result.Marking.Labels.Within(c.state.Authority.Labels) {
		end.Fault = resultLabels
		return nil
	}
	if end.Result.Size > c.mostBytes(child) {
		end.Fault = run.ResultTooLarge
		return nil
	}
	if len(order.Result) > 0 || c.lent(child) {
		return c.conform(ctx, child, order, end)
	}
	return nil
}

// above reports whether a child that has no result had read by its grant what
// its parent may not: how it failed would tell of that.
func (c *collecting) above(ctx context.Context, child *run.Child) (bool, error) {
	if child.Grant == "" || c.lent(child) {
		return false, nil
	}
	state, err := c.tree.State(ctx, child.ChildStarted.Child)
	return err == nil && !state.Marking.Labels.Within(c.state.Authority.Labels), err
}

func (c *collecting) orderOf(child *run.Child) (order tool.Delegation) {
	if call := c.state.Call(child.Call); call != nil {
		_ = json.Unmarshal(c.orders[call.Arguments.ID].Bytes, &order) // erased arguments ask for nothing
	}
	return order
}

func (c *collecting) mostBytes(child *run.Child) int {
	revision, err := c.revision()
	terms, known := revision.Delegate(child.Agent, child.RunKind)
	if err != nil || !known {
		return agents.DefaultResultBytes
	}
	return terms.Bytes()
}

// conform checks a result against its schema. What was done under a share comes
// back as one of the values that the share declares, and without the labels of
// what it was found in: so much was agreed to in advance.
func (c *collecting) conform(ctx context.Context, child *run.Child, order tool.Delegation, end *run.ChildEnd) error {
	texts, err := c.view.Texts(ctx, end.Result.ID)
	if err != nil {
		return err
	}
	payload, present := texts[end.Result.ID]
	canonical, err := canon.JSON(payload.Bytes)
	if !present || err != nil {
		end.Fault = run.ResultInvalid
		return nil //nolint:nilerr // the fault says it
	}
	if c.lent(child) {
		return c.declassify(child.Grant, order.Result, canonical, end)
	}
	schema, err := tool.CompileSchema(order.Result)
	if err != nil || len(schema.Check(canonical)) > 0 {
		end.Fault = run.ResultInvalid
	}
	return nil
}

// lent reports whether a child is the private side of a share.
func (c *collecting) lent(child *run.Child) bool {
	return c.current.Organisation.IsShare(child.Grant)
}

func (c *collecting) declassify(grant string, asked json.RawMessage, canonical []byte, end *run.ChildEnd) error {
	yield, declared := c.current.Organisation.YieldOf(grant, asked)
	if !declared {
		end.Fault = run.ResultInvalid
		return nil
	}
	value, err := yield.Value(canonical)
	if err != nil {
		end.Fault = run.ResultInvalid
		return nil //nolint:nilerr // the fault says it
	}
	// Its labels were agreed to; what chose the value may have been anybody's text,
	// and always counts as such: the yield does not tell what was read.
	text := c.seal(policy.Marking{Labels: end.Result.Marking.Labels.Meet(c.state.Authority.Labels), Integrity: policy.Untrusted}, value)
	end.Result = &text
	return nil
}

// stop tells a child that it is to end. One that has ended or ends already
// needs no telling.
func (j *job) stop(ctx context.Context, effect run.StopChild) (engine.Prepared, error) {
	by := run.Identity{Principal: j.state.Started.Acting()}
	if j.state.Cancel != nil {
		by = j.state.Cancel.By
	}
	_, err := j.tree.Submit(ctx, engine.Submission{Organisation: j.state.Started.Organisation, Run: effect.Child, Command: run.Cancel{By: by}})
	var refusal *run.Refusal
	if err != nil && !errors.As(err, &refusal) {
		return engine.Prepared{}, err
	}
	return engine.Prepared{Command: run.ReportStopped(effect)}, nil
}

// gave reports whether the answer of a run that ended so is a result.
func gave(status run.Status) bool {
	return status == run.StatusCompleted || status == run.StatusPartial
}

// earlier finds the result of a run that an earlier run of the same agent for
// the same person handed work to. In a conversation it is one of the same: who
// takes part there need not have the rest of what that person has.
func (s *spawning) earlier(ctx context.Context, id string) (run.Message, bool, error) {
	found, err := s.tree.State(ctx, id)
	if errors.Is(err, engine.ErrNotFound) {
		return run.Message{}, false, nil
	}
	if err != nil {
		return run.Message{}, false, err
	}
	own, its := s.state.Started, found.Started
	above := len(its.Lineage)
	if its.Organisation != own.Organisation || its.Subject.ID != own.Subject.ID || above == 0 || its.Lineage[above-1].Agent != own.Agent.Name ||
		found.Ended == nil || found.Ended.Result == nil || found.Started.Grant != "" || !gave(found.Ended.Status) ||
		own.Conversation != "" && own.Conversation != its.Conversation {
		return run.Message{}, false, nil
	}
	return run.Message{Author: its.Acting(), Text: *found.Ended.Result}, true, nil
}

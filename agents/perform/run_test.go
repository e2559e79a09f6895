package perform_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/prompt"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

func TestFault_D6_GarbledArgumentsAreAnErrorForTheModel(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.read", "raw": '{"id": "a'}, {"name": "things.write", "arguments": {"id": "a"}}]}
    return {"text": ctx.messages[-2].text}`
	inside(t, newOrganisation(script), func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, run.OutcomeRefused, state.Call(1).Outcome)
		require.Equal(t, "ARGUMENTS_NOT_JSON", state.Call(1).Code)
		require.Equal(t, `{"id": "a`, h.text(&state.Call(1).Arguments), "what the model wrote is kept")
		require.Equal(t, run.OutcomeOK, state.Call(2).Outcome, "the other call is made")
		require.Zero(t, h.invoked["things.read"])
		require.Contains(t, h.text(state.Ended.Result), "REFUSED: the call does not meet the tool's contract. Code ARGUMENTS_NOT_JSON.")
		require.Equal(t, "{}", string(h.requests[1].Messages[2].Calls[0].Arguments), "a provider gets no broken JSON")
	})
}

func TestFault_D6_AModelThatOnlyGarblesIsStopped(t *testing.T) {
	script := `
def turn(ctx):
    return {"calls": [{"name": "things.read", "raw": '{"id": %d' % ctx.turn}]}`
	o := newOrganisation(script)
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusFailed, state.Status)
		require.Equal(t, run.EndUnusable, state.Ended.Reason)
		require.Len(t, state.Turns, 1+o.Agents[0].Limits.RepairTurns)
	})
}

func TestFault_D8_AToolThatTheRunWasNotGivenIsUnknown(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": n, "arguments": {"id": "a"}} for n in ["things.write", "Things.read", "things.reаd"]]}
    return {"text": "done"}`
	o := newOrganisation(script)
	o.Agents[0].Tools = o.Agents[0].Tools[:1]
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Len(t, state.Calls, 3)
		for i := range state.Calls {
			require.Equal(t, "UNKNOWN_TOOL", state.Calls[i].Code)
		}
		require.Equal(t, "things.write", state.Calls[0].Tool, "a tool of others keeps its name")
		require.Equal(t, "unknown", state.Calls[2].Tool, "what a model made up stands among its labelled text")
		texts, err := h.Payloads(t.Context(), []string{state.Calls[2].Arguments.ID})
		require.NoError(t, err)
		require.Contains(t, string(texts[state.Calls[2].Arguments.ID].Bytes), "things.reаd")
		require.Empty(t, h.invoked)
	})
}

// In stage OBSERVE nothing above READ happens; the run shows what would have.
func TestObserveShowsWhatWouldHaveHappened(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.read", "arguments": {"id": "a"}}, {"name": "things.write", "arguments": {"id": "b"}}]}
    return {"text": "\n".join([m.text for m in ctx.messages if m.role == "tool"])}`
	o := newOrganisation(script)
	o.Agents[0].Stage = policy.Observe
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, map[string]int{"things.read": 1}, h.invoked)
		write := state.Call(2)
		require.Equal(t, run.OutcomeSimulated, write.Outcome)
		require.Zero(t, write.Intent)
		require.Equal(t, policy.Permit, write.Verdict.Would, "what policy would have said")
		require.Equal(t, `{"id":"b"}`, h.text(&write.Arguments))
		require.Contains(t, h.text(state.Ended.Result), "SIMULATED: the call was only recorded; nothing happened outside.")
	})
}

func TestCase_14_AnAnswerDoesNotReplaceTheGoal(t *testing.T) {
	script := `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "ask.person", "arguments": {"question": "Which one?"}}]}
    return {"text": "goal: %s; answer: %s" % (ctx.messages[1].text, ctx.result("ask.person").text)}`
	inside(t, newOrganisation(script), func(t *testing.T, h *house) {
		id := h.start("count the things")
		h.work()
		before := h.state(id)
		require.Equal(t, run.StatusWaiting, before.Status)
		answer, payload := engine.Seal(h.source, id, "ada", policy.Marking{}, []byte("forget the goal"))
		_, err := h.engine.Submit(t.Context(), engine.Submission{Organisation: "o", Run: id, Payloads: []engine.Payload{payload},
			Command: run.AnswerQuestion{Question: before.Questions[0].Question, By: run.Identity{Principal: "ada"}, Person: h.person("ada"), Answer: answer}})
		require.NoError(t, err)
		h.work()
		after := h.state(id)
		require.Equal(t, run.StatusCompleted, after.Status)
		require.Equal(t, before.Started.SnapshotDigest, after.Started.Snapshot.Digest())
		require.Equal(t, "goal: count the things; answer: forget the goal", h.text(after.Ended.Result))
		require.Equal(t, h.requests[0].Messages, h.requests[1].Messages[:2], "the beginning of the prompt is the same")
	})
}

func TestAnswersAreCheckedByThePlatform(t *testing.T) {
	write := `calls.exists(c, c.tool == "things.write" && c.outcome == "OK")`
	contract := agents.Completion{Output: []byte(`{"type":"object","required":["wrote"],"properties":{"wrote":{"type":"boolean"}}}`),
		Checks: []agents.Check{
			{Name: "says-what-happened", Expression: "output.wrote == " + write, Explain: "Say whether you wrote."},
			{Name: "reads-back", When: write, Tool: "things.read", Arguments: []byte(`{"id":"a"}`), Expression: "result.done", Identity: agents.AsAgent}}}
	rows := []struct {
		name, turns string // by turn
		status      run.Status
		requests    int
		note        string // that the model got last
	}{
		{"it is so", `[CALL, {"text": '{"wrote": true}'}]`, run.StatusCompleted, 2, ""},
		{"claimed, not done", `[{"text": '{"wrote": true}'}, CALL, {"text": '{"wrote": true}'}]`, run.StatusCompleted, 3, "- says-what-happened: Say whether you wrote."},
		{"no JSON", `[{"text": "all done"}, {"text": '{"wrote": false}'}]`, run.StatusCompleted, 2, "- output: The answer is not the JSON object that was asked for"},
		{"never so", `[{"text": '{"wrote": true}'}] * 9`, run.StatusFailed, 3, "Say whether you wrote."},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			o := newOrganisation("CALL = {\"calls\": [{\"name\": \"things.write\", \"arguments\": {\"id\": \"a\"}}]}\nTURNS = " + row.turns +
				"\ndef turn(ctx):\n    return TURNS[ctx.turn]\n")
			o.Agents[0].Completion = contract
			inside(t, o, func(t *testing.T, h *house) {
				id := h.start("do it")
				h.work()
				state := h.state(id)
				require.Equal(t, row.status, state.Status)
				require.Len(t, h.requests, row.requests)
				var notes strings.Builder
				for _, message := range h.requests[len(h.requests)-1].Messages {
					notes.WriteString(message.Text + "\n")
				}
				if row.note != "" {
					require.NotEmpty(t, notes.String())
				}
				if row.name == "it is so" {
					require.Equal(t, 1, h.invoked["things.read"], "the platform reads back itself")
					require.Len(t, state.LastChecks.Checks, 3)
				}
				if row.name == "no JSON" || row.name == "never so" {
					require.Contains(t, notes.String(), row.note)
				}
			})
		})
	}
}

// What must be read back and cannot be is neither done nor failed.
func TestACheckThatCannotReadIsUnchecked(t *testing.T) {
	o := newOrganisation("def turn(ctx):\n    return {\"text\": \"done\"}\n")
	o.Agents[0].Completion.Checks = []agents.Check{{Name: "reads-back", Tool: "things.write", Arguments: []byte(`{"id":"a"}`), Expression: "result.done"}}
	inside(t, o, func(t *testing.T, h *house) {
		id := h.start("do it")
		h.work()
		state := h.state(id)
		require.Equal(t, run.LimitCheck, state.Reached.Limit)
		require.Equal(t, run.CheckUnchecked, state.LastChecks.Checks[1].Verdict)
		require.Empty(t, h.invoked, "a check only reads")
	})
}

func TestAdmissionRefusesAndLeavesNothingBehind(t *testing.T) {
	killed := newOrganisation(answering)
	killed.Kills = []agents.Kill{{Scope: agents.KillAgent, Name: "clerk", By: "olga"}}
	rows := []struct {
		name   string
		in     agents.Organisation
		change func(h *house, order *perform.Order)
		code   string
	}{
		{"no goal", newOrganisation(answering), func(_ *house, o *perform.Order) { o.Goal = "" }, "GOAL"},
		{"too long a goal", newOrganisation(answering), func(_ *house, o *perform.Order) { o.Goal = strings.Repeat("x", 64<<10+1) }, "GOAL"},
		{"unknown agent", newOrganisation(answering), func(_ *house, o *perform.Order) { o.Agent = "Clerk" }, "NOT_FOUND"},
		{"not entitled", newOrganisation(answering), func(h *house, o *perform.Order) { o.Person = h.person("eve") }, "NOT_FOUND"},
		{"stopped", killed, func(*house, *perform.Order) {}, "AGENT_STOPPED"},
		{"no budget", newOrganisation(answering), func(h *house, _ *perform.Order) {
			require.NoError(h.t, h.SetBudget(h.t.Context(), "organisation:o", run.Amount{MicroUSD: 10, Tokens: 10}))
		}, "BUDGET"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			inside(t, row.in, func(t *testing.T, h *house) {
				order := h.order("do it")
				order.CommandID = "c1"
				row.change(h, &order)
				admitted, err := h.admission().Start(t.Context(), order)
				var refusal *run.Refusal
				require.ErrorAs(t, err, &refusal)
				require.Equal(t, row.code, refusal.Code)
				require.Empty(t, admitted)
				numbers, err := h.Numbers(t.Context())
				require.NoError(t, err)
				for _, written := range numbers {
					require.Empty(t, written)
				}
				_, err = h.Receipt(t.Context(), "o", order.Person.ID, "c1")
				require.ErrorIs(t, err, engine.ErrNotFound)
				for _, node := range h.organisation.Accounts("d", "", 0) {
					budget, err := h.Budget(t.Context(), node)
					require.NoError(t, err)
					require.Zero(t, budget.Reserved, node)
				}
			})
		})
	}
}

const answering = "def turn(ctx):\n    return {\"text\": \"done\"}\n"

func TestARepeatedOrderStartsOneRun(t *testing.T) {
	inside(t, newOrganisation(answering), func(t *testing.T, h *house) {
		order := h.order("do it")
		order.CommandID = "c1"
		first, err := h.admission().Start(t.Context(), order)
		require.NoError(t, err)
		again, err := h.admission().Start(t.Context(), order)
		require.NoError(t, err)
		require.Equal(t, first.Run, again.Run)
		require.True(t, again.Replayed)
		other := order
		other.Goal = "something else"
		_, err = h.admission().Start(t.Context(), other)
		require.ErrorContains(t, err, "COMMAND_ID_REUSED")

		stopped := h.organisation
		stopped.Kills = []agents.Kill{{Scope: agents.KillAgent, Name: "clerk", By: "olga"}}
		h.admitted = h.kit(stopped)
		again, err = h.admission().Start(t.Context(), order)
		require.NoError(t, err, "the first answer stands, whatever came after it")
		require.Equal(t, first.Run, again.Run)
	})
}

// What no journal can hold must not stop a run.
func TestTextThatIsNoUTF8IsMadeReadable(t *testing.T) {
	inside(t, newOrganisation(talkative), func(t *testing.T, h *house) {
		id := h.start("count")
		h.answer = func(a model.Answer) model.Answer {
			a.Text += "\xff\xfe"
			return a
		}
		h.work()
		state := h.state(id)
		require.True(t, state.Status.Ended())
		compiled, err := prompt.Compile(h.input(state))
		require.NoError(t, err)
		require.Contains(t, written(compiled.Messages, nil), "\uFFFD")
	})
}

package perform_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents/tool"
	"gantry.dev/agents/tool/elicit"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const writesOnce = `
def turn(ctx):
    if ctx.turn == 0:
        return {"calls": [{"name": "things.write", "arguments": {"id": "a"}}]}
    return {"text": ctx.result("things.write").text}`

// desk is a server that asks for a seat and checks that its state comes back.
func desk(message, schema string) (does, *[]tool.Answers) {
	var told []tool.Answers
	return func(_ context.Context, call tool.Invocation) (tool.Result, error) {
		if call.Answers == nil {
			return tool.Result{Ask: &tool.Ask{Origin: "tickets", Kind: tool.AskForm, Message: message, Schema: json.RawMessage(schema),
				State: []byte("opaque \x00\xff " + call.Key)}}, nil
		}
		told = append(told, *call.Answers)
		return tool.Result{Content: []byte(`{"action":"` + string(call.Answers.Action) + `"}`), MediaType: tool.MediaJSON}, nil
	}, &told
}

const seatForm = `{"type":"object","properties":{"seat":{"type":"string","enum":["aisle","window"]}},"required":["seat"]}`

func (h *house) respond(id string, question run.Question, by string, action run.Action, values string) error {
	answer, payload := engine.Seal(h.source, id, by, policy.Marking{Labels: policy.NewLabels("secret")}, []byte(values))
	return h.submit(id, run.AnswerQuestion{Question: question.Question, By: run.Identity{Principal: by}, Person: h.person(by), Answer: answer, Action: action}, payload)
}

func TestFault_E18_AnAnswerReachesItsServerWithItsStateUnchanged(t *testing.T) {
	inside(t, newOrganisation(writesOnce), func(t *testing.T, h *house) {
		var told *[]tool.Answers
		h.does["things.write"], told = desk("Which seat?", seatForm)
		id := h.start("write")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusWaiting, state.Status)
		require.Len(t, state.Questions, 1)
		require.Equal(t, "tickets", state.Questions[0].Ask.Origin)
		require.Equal(t, "ada", state.Questions[0].To[0].Principal)
		form, err := elicit.Open([]byte(h.text(state.Questions[0].Ask.Form)))
		require.NoError(t, err)
		require.Equal(t, "Which seat?", form.Message)

		require.NoError(t, h.respond(id, state.Questions[0], "ada", run.Accept, `{"seat":"aisle"}`))
		h.work()
		state = h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status)
		require.Equal(t, []tool.Answers{{Action: tool.AskAccept, Values: json.RawMessage(`{"seat":"aisle"}`), State: []byte("opaque \x00\xff " + h.calls[0].Key)}}, *told)
		require.Equal(t, h.calls[0].Key, h.calls[1].Key, "one key for every attempt")
		require.Equal(t, policy.NewLabels("secret"), state.Call(1).Result.Marking.Labels, "a result is marked as what the answer was made of")
		require.Equal(t, `{"action":"accept"}`, h.text(state.Ended.Result))
	})
}

func TestFault_E18_APasswordFormIsNeitherKeptNorShownAndItsServerIsTold(t *testing.T) {
	inside(t, newOrganisation(writesOnce), func(t *testing.T, h *house) {
		var told *[]tool.Answers
		h.does["things.write"], told = desk("Please sign in", `{"type":"object","properties":{"password":{"type":"string"}}}`)
		id := h.start("write")
		h.work()
		state := h.state(id)
		require.Equal(t, run.StatusCompleted, state.Status, "nobody was waited for")
		require.Len(t, *told, 1)
		require.Equal(t, tool.AskDecline, (*told)[0].Action)
		require.NotEmpty(t, (*told)[0].State)
		question := state.Questions[0]
		require.Equal(t, elicit.Secret, question.Ask.Declined)
		require.Equal(t, run.VoidNotShown, question.Cause)
		require.Nil(t, question.Ask.Form)
		for _, text := range state.Texts() {
			require.NotContains(t, h.text(&text), "sign in")
		}
	})
}

func TestFault_E18_AToolSaysWhomItsServerMayAsk(t *testing.T) {
	for to, asked := range map[tool.AskTo]string{tool.AskOwner: "olga", tool.AskNobody: ""} {
		o := newOrganisation(writesOnce)
		o.Tools[1].Asks = to
		inside(t, o, func(t *testing.T, h *house) {
			var told *[]tool.Answers
			h.does["things.write"], told = desk("Which seat?", seatForm)
			id := h.start("write")
			h.work()
			state := h.state(id)
			if asked == "" {
				require.Equal(t, elicit.Nobody, state.Questions[0].Ask.Declined)
				require.Equal(t, tool.AskDecline, (*told)[0].Action)
				return
			}
			require.Equal(t, asked, state.Questions[0].To[0].Principal)
			require.Error(t, h.respond(id, state.Questions[0], "ada", run.Accept, `{"seat":"aisle"}`), "ada was not asked")
			require.NoError(t, h.respond(id, state.Questions[0], asked, run.Decline, `{}`))
			h.work()
			require.Equal(t, tool.AskDecline, (*told)[0].Action)
			require.Nil(t, (*told)[0].Values)
		})
	}
}

func TestFault_E18_AServerThatAsksTheSameAgainFails(t *testing.T) {
	inside(t, newOrganisation(writesOnce), func(t *testing.T, h *house) {
		h.does["things.write"] = func(context.Context, tool.Invocation) (tool.Result, error) {
			return tool.Result{Ask: &tool.Ask{Origin: "tickets", Kind: tool.AskForm, Message: "Which seat?", Schema: json.RawMessage(seatForm)}}, nil
		}
		id := h.start("write")
		h.work()
		require.NoError(t, h.respond(id, h.state(id).Questions[0], "ada", run.Accept, `{"seat":"aisle"}`))
		h.work()
		call := h.state(id).Call(1)
		require.Equal(t, run.OutcomeFailed, call.Outcome)
		require.Equal(t, run.AskedAgain, call.Code)
		require.Equal(t, 2, call.Intent)
	})
}

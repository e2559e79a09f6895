package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
)

// order is what a run of the benchmark is asked for. It travels in the goal.
type order struct {
	rounds int           // turns with two calls each, before the answer
	held   bool          // one call of the first turn waits for a person
	think  time.Duration // how long each turn takes
}

// goal says the order in the words that the model reads.
func (o order) goal() string {
	kind := "free"
	if o.held {
		kind = "held"
	}
	return fmt.Sprintf("Work %d rounds, %s, thinking %d us.", o.rounds, kind, o.think.Microseconds())
}

func readOrder(goal string) (o order, err error) {
	var kind string
	var us int64
	_, err = fmt.Sscanf(strings.ReplaceAll(goal, ",", " "), "Work %d rounds %s thinking %d us.", &o.rounds, &kind, &us)
	o.held, o.think = kind == "held", time.Duration(us)*time.Microsecond
	return o, err
}

// instant is the benchmark's model: it answers at once, or after as long as it
// is told to think, with 400 bytes and two calls. It costs nothing beside that,
// so that what is measured is the platform.
type instant struct{ text string }

func provider(agents.Model) (model.Provider, error) {
	return instant{strings.Repeat("m", 400)}, nil
}

// Take proposes two calls, or answers when there were as many turns as ordered.
func (i instant) Take(ctx context.Context, request model.Request, _ func(text string)) (model.Answer, error) {
	turns, goal := 0, ""
	for m := range request.Messages {
		switch request.Messages[m].Role {
		case model.Assistant:
			turns++
		case model.User:
			if goal == "" {
				goal = request.Messages[m].Text
			}
		case model.System, model.ToolReply:
		}
	}
	if children, rounds, is := readSpreading(goal); is {
		return spread(turns, children, rounds), nil
	}
	o, err := readOrder(goal)
	if err != nil {
		return model.Answer{}, &model.Error{Kind: model.BadRequest, Detail: "the goal is none of the benchmark's"}
	}
	if o.think > 0 {
		timer := time.NewTimer(o.think)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return model.Answer{}, &model.Error{Kind: model.TimedOut, Detail: "the request was given up"}
		}
	}
	answer := model.Answer{Finish: model.FinishStop, Text: "Done.", Model: "instant", Usage: model.Usage{Input: 100, Output: 100}}
	if turns >= o.rounds {
		return answer, nil
	}
	answer.Finish, answer.Text = model.FinishCalls, i.text
	for n := range 2 {
		answer.Calls = append(answer.Calls, model.Proposed{Name: "files.read", Arguments: fmt.Appendf(nil, `{"path":"%d.md"}`, n+1)})
	}
	if o.held && turns == 0 {
		answer.Calls[1] = model.Proposed{Name: "files.search", Arguments: []byte(`{"query":"line","limit":1}`)}
	}
	return answer, nil
}

//go:build unix

package wire_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/google/uuid"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/cmd/gantry/service/lending"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/run"
)

// strained makes an organisation of which something is missing, or too small.
func strained(o *agents.Organisation, way string) {
	r := &o.Agents[0]
	switch way {
	case wayGiven:
		post := slices.IndexFunc(r.Tools, func(use agents.ToolUse) bool { return use.Name == "ledger.post_adjustment" })
		r.MayRequest = &agents.Requestable{Tools: []agents.ToolUse{r.Tools[post]}}
		r.Tools = slices.Delete(slices.Clone(r.Tools), post, post+1)
		r.Completion.Checks[0].Confirms = nil // it names the agent's own tools
	case wayBrief:
		for i := range o.Models {
			o.Models[i].Context = o.Models[i].MaxOutput + briefContext
		}
	case wayOut:
		price := int64(1_000)
		o.Models = append(o.Models, agents.Model{Name: "near", Provider: "openai", Model: "near", Endpoint: "http://near.test/v1", Tier: 1, Context: 200_000,
			MaxOutput: 1_000, Tools: true, Residency: "local", AsOf: "2026-11-30", Prices: agents.Prices{Input: price, CacheRead: price, CacheWrite: price, Output: price}})
		r.Models, r.Limits.TurnAttempts = []string{"near"}, 1
	}
}

// briefContext is how many tokens a prompt may have on the way of that name: a
// few of its turns, and not all.
const briefContext = 8_000

// modelPath is where the model of a case is asked.
const modelPath = "/v1/model"

// thinking is the model of a case, which is out when it is asked first.
type thinking struct{ *dying }

// Take answers once the outside does.
func (m thinking) Take(ctx context.Context, _ model.Request, _ func(string)) (model.Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.Outside+modelPath, http.NoBody)
	if err != nil {
		return model.Answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+m.Token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return model.Answer{}, &model.Error{Kind: model.Unreachable}
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return model.Answer{}, &model.Error{Kind: model.Overloaded, Status: response.StatusCode}
	}
	return model.Answer{Finish: model.FinishStop, Text: "It is there.", Usage: model.Usage{Input: 100, Output: 10}}, nil
}

func (d *dying) thinks(agents.Model) (model.Provider, error) { return thinking{d}, nil }

// goesOn lets the run go on whose one attempt a kill took: the others reach no
// limit.
func (l *life) goesOn(ctx context.Context, reached run.LimitReached) error {
	if l.Way != wayOut || reached.Limit != run.LimitModel {
		return fmt.Errorf("limit %s", reached.Limit)
	}
	state, err := l.platform.Engine.State(ctx, l.run)
	if err != nil || state.Reached == nil {
		return err
	}
	marta, byMarta := l.person(lead)
	return l.submit(ctx, "go on", func(run.Text) run.Command { return run.Resume{By: byMarta, Person: marta} })
}

// consent lets the run use what it asks for.
func (l *life) consent(ctx context.Context, state *run.State) error {
	tomas, byTomas := l.person(controller)
	caller := graph.Caller{Principal: tomas, Identity: byTomas}
	for _, access := range state.Accesses {
		if access.Status != run.AccessOpen {
			continue
		}
		err := again(func() error {
			_, err := lending.Consents{Service: l.platform.Service}.Decide(ctx, caller, graph.Consent{Run: l.run, Access: access.AccessRequested.Access,
				Digest: access.Digest, Granted: true, CommandID: uuid.NewString()})
			return err
		})
		var refusal *run.Refusal
		if err != nil && !errors.As(err, &refusal) {
			return err
		}
	}
	return nil
}

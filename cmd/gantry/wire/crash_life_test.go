//go:build unix

package wire_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	answering "gantry.dev/cmd/gantry/service"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/graph"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// life is the people around the one run.
type life struct {
	*dying
	platform     *wire.Platform
	organisation agents.Organisation
	run          string // that is followed
	top          string // the one run of the way
}

func (l *life) person(id string) (policy.Principal, run.Identity) {
	person, _ := l.organisation.Principal(id)
	return person, run.Identity{Principal: id}
}

// manyRuns are how many runs the way of that name has.
const manyRuns = 100

// many takes many runs to their ends.
func (l *life) many(ctx context.Context) error {
	ids, err := l.startMany(ctx)
	if err != nil {
		return err
	}
	for _, l.run = range ids {
		if err := l.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// startMany starts many runs, or finds them.
func (l *life) startMany(ctx context.Context) ([]string, error) {
	person, by := l.person(asker)
	ids := make([]string, manyRuns)
	for i := range ids {
		err := again(func() error {
			admitted, err := l.platform.Admission.Start(ctx, perform.Order{Person: person, By: by, Agent: reconciler,
				Goal: "Look at INV-1004, " + l.Way + ".", CommandID: fmt.Sprint("run ", i)})
			ids[i] = admitted.Run
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// start starts the run, or finds it: a repeated command is answered with it.
func (l *life) start(ctx context.Context) (id string, err error) {
	person, by := l.person(asker)
	order := perform.Order{Person: person, By: by, Agent: reconciler, Goal: "Reconcile INV-1004, " + l.Way + ".", CommandID: "the one run"}
	if l.Way == waySteered {
		if order.Conversation, err = l.talk(ctx); err != nil {
			return "", err
		}
	}
	var admitted perform.Admitted
	err = again(func() (err error) { admitted, err = l.platform.Admission.Start(ctx, order); return err })
	return admitted.Run, err
}

func (l *life) receipt(command string) engine.Receipt {
	return engine.Receipt{Organisation: l.organisation.Name, Caller: asker, Command: command, Answer: []byte("{}")}
}

// once takes a repeated command for a done one.
func once(err error) error {
	if errors.Is(err, engine.ErrReplayed) {
		return nil
	}
	return err
}

// talk begins a conversation, and does whatever else the store can be told to
// that no run does.
func (l *life) talk(ctx context.Context) (id string, err error) {
	person, by := l.person(asker)
	caller := graph.Caller{Principal: person, Identity: by}
	conversations := answering.Conversations{Service: l.platform.Service}
	store := l.platform.Store
	for _, step := range []func() error{
		func() error {
			made, _, err := conversations.Create(ctx, caller, graph.ConversationInput{Title: "Invoices", CommandID: "talk"})
			id = made.ID
			return err
		},
		func() error {
			return once(store.ChangeConversation(ctx, l.organisation.Name, id, l.receipt("join"), func(c *journal.Conversation) ([]engine.Entry, error) {
				c.Participants = append(c.Participants, colleague)
				return []engine.Entry{{Kind: "joined", Author: asker, Whom: colleague}}, nil
			}))
		},
		func() error {
			return once(store.Note(ctx, engine.Entry{Organisation: l.organisation.Name, Conversation: id, Kind: "turn_refused", Author: asker}, l.receipt("note")))
		},
		func() error { return store.Follow(ctx, journal.Followed{Conversation: id, Settled: 1, Seen: 1}) },
		func() error {
			_, err := conversations.Send(ctx, caller, graph.Message{Conversation: id, Text: "Here it is.", CommandID: "say"})
			return err
		},
		func() error {
			return once(store.ReviseBudget(ctx, []string{"chores"}, run.Amount{MicroUSD: 1}, l.receipt("budget")))
		},
		func() error {
			receipt := l.receipt("beside")
			return once(store.Beside(ctx, journal.Beside{Receipt: &receipt}, func(context.Context, *sql.Tx) error { return nil }))
		},
		func() error { return store.EraseSubject(ctx, "nobody") },
		func() error {
			_, _, err := store.EraseItems(ctx, []string{"nothing"})
			return err
		},
		func() error { return store.KeepHeads(ctx, nil, map[string]uint64{store.Writer(): 0}) },
	} {
		if err := again(step); err != nil {
			return "", err
		}
	}
	return id, nil
}

// finish follows the run to its end, with each run that it starts on its way,
// and does what people have to.
func (l *life) finish(ctx context.Context) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	tail, err := l.platform.Hub.Tail(ctx, l.run, 0)
	if err != nil {
		return err
	}
	for record := range tail.Items() {
		event, err := run.Decode(record)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case run.ApprovalRequested, run.QuestionAsked, run.CallUncertain, run.AccessRequested:
			err = l.act(ctx)
		case run.ChildStarted:
			err = l.beside(ctx, e.Child)
		case run.SidecarStarted:
			err = l.beside(ctx, e.Sidecar)
		case run.LimitReached:
			err = l.goesOn(ctx, e)
		case run.Parked:
			err = fmt.Errorf("%s at record %d", e.Kind(), record.Seq)
		}
		if err != nil {
			return err
		}
	}
	return tail.Err()
}

// beside follows a run that the followed one started to its end.
func (l *life) beside(ctx context.Context, id string) error {
	other := *l
	other.run = id
	return other.finish(ctx)
}

// act does what the run waits for, as long as it does.
func (l *life) act(ctx context.Context) error {
	if l.Idle {
		return nil
	}
	state, err := l.platform.Engine.State(ctx, l.run)
	if err != nil {
		return err
	}
	for i := range state.Approvals {
		if err := l.decide(ctx, i+1, state.Approvals[i]); err != nil {
			return err
		}
	}
	if err := l.consent(ctx, state); err != nil {
		return err
	}
	amara, byAmara := l.person(asker)
	for _, question := range state.Questions {
		if question.Status != run.QuestionOpen {
			continue
		}
		err := l.submit(ctx, "answer the question", func(text run.Text) run.Command {
			return run.AnswerQuestion{Question: question.Question, By: byAmara, Person: amara, Answer: text}
		})
		if err != nil {
			return err
		}
	}
	tomas, byTomas := l.person(controller)
	for _, call := range state.Calls {
		if call.Phase != run.CallUncertainOpen || !call.AskPerson {
			continue
		}
		resolution, err := l.look(ctx)
		if err != nil {
			return err
		}
		err = l.submit(ctx, "resolve", func(text run.Text) run.Command {
			return run.ResolveUncertain{Call: call.CallProposed.Call, By: byTomas, Person: tomas, Resolution: resolution, Evidence: text}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// decide decides the nth approval of the run as its way wants.
func (l *life) decide(ctx context.Context, n int, approval run.Approval) error {
	if approval.Status != run.ApprovalOpen {
		return nil
	}
	tomas, byTomas := l.person(controller)
	_, byAmara := l.person(asker)
	if l.Way == wayRecalled {
		above := *l
		above.run = l.top
		return above.submit(ctx, "cancel", func(text run.Text) run.Command { return run.Cancel{By: byAmara, Reason: &text} })
	}
	return l.submit(ctx, "decide", func(text run.Text) run.Command {
		switch {
		case l.Way == waySteered && n == 1:
			return run.Steer{Steer: "the steer", By: byAmara, Text: text, Void: true}
		case l.Way == waySteered:
			return run.Cancel{By: byAmara, Reason: &text}
		}
		return run.DecideApproval{Approval: approval.Approval, Digest: approval.Digest, Granted: true, By: byTomas, Person: tomas, Reason: &text}
	})
}

// submit gives the run a command as a client does: with an id under which a
// repeat counts once. A refusal is an answer.
func (l *life) submit(ctx context.Context, what string, command func(run.Text) run.Command) error {
	receipt := engine.Receipt{Organisation: l.organisation.Name, Caller: asker, Command: uuid.NewString(), Request: what, Run: l.run, Answer: []byte("{}")}
	err := again(func() error {
		text, payload := engine.Seal(engine.RandomSource{}, l.run, asker, policy.Marking{Integrity: policy.Trusted}, []byte("checked"))
		_, err := l.platform.Engine.Submit(ctx, engine.Submission{Organisation: l.organisation.Name, Run: l.run, Payloads: []engine.Payload{payload},
			Command: command(text), Receipt: &receipt})
		return err
	})
	var refusal *run.Refusal
	if errors.As(err, &refusal) || errors.Is(err, engine.ErrReplayed) {
		return nil // it was done before
	}
	return err
}

// look finds out as a person does what became of the effect.
func (l *life) look(ctx context.Context) (run.Resolution, error) {
	count, err := booked(ctx, l.Outside, l.Token)
	if err != nil || count > 0 {
		return run.Happened, err
	}
	return run.NotHappened, nil
}

func booked(ctx context.Context, outside, token string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, outside+"/v1/adjustments?invoice=INV-1004", http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	raw, err := io.ReadAll(response.Body)
	var found struct{ Entries []json.RawMessage }
	err = errors.Join(err, response.Body.Close(), json.Unmarshal(raw, &found))
	return len(found.Entries), err
}

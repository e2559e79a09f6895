package perform

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/agents/prompt"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Order asks for a new root run.
type Order struct {
	Person       policy.Principal // verified
	By           run.Identity
	Agent        string
	Goal         string
	Conversation string        // id, empty for none
	Participants []string      // principal ids of who takes part in the conversation
	History      []run.Message // what was said in the conversation before, oldest first
	CommandID    string        // empty for none: a repeat starts another run
	MicroUSD     int64         // a lower budget than the agent's; 0 for the agent's
	GoalBytes    int           // what the goal has at most; 0: 64 KiB, as much as a person says
	Said         *Said         // what gives the agent the turn; Goal is empty then
}

// Said is an entry of a conversation that gives an agent the turn: its text is
// the goal. The command is remembered as the issuer's of Order.By, not as the
// person's: nobody can use its id before.
type Said struct {
	run.Said
	Text run.Text
	Run  string // id of the run
}

// Admitted is the answer to an order.
type Admitted struct {
	Run      string `json:"run"`
	Replayed bool   `json:"-"`
}

// maxGoal bounds a goal's bytes.
const maxGoal = 64 << 10

// Admission starts runs: everything that a run may see or do is settled in one
// transaction, or nothing is written.
type Admission struct {
	kits    Kits
	engine  *engine.Engine
	journal engine.Journal
	source  engine.Source
}

// NewAdmission returns an admission.
func NewAdmission(kits Kits, e *engine.Engine, journal engine.Journal, source engine.Source) *Admission {
	return &Admission{kits: kits, engine: e, journal: journal, source: source}
}

// Start admits a run. Errors: *run.Refusal with exactly one reason; a repeated
// command id gives the first answer.
func (a *Admission) Start(ctx context.Context, order Order) (Admitted, error) {
	kit, err := a.kits.Current(ctx, order.Person.Organisation)
	if err != nil {
		return Admitted{}, err
	}
	nowMs, err := a.journal.Now(ctx)
	if err != nil {
		return Admitted{}, err
	}
	id, payload, err := a.goal(ctx, order)
	if err != nil {
		return Admitted{}, err
	}
	remembered, err := receipt(order, id)
	if err != nil {
		return Admitted{}, err
	}
	started, refusal := a.started(kit, order, id, payload.Text, nowMs)
	if refusal != nil {
		return a.refused(ctx, remembered, refusal)
	}
	started.AudienceSpaces = audience(kit.Organisation, started, order.Participants)
	a.learned(ctx, kit, &started, payload.Salt)
	revision, _ := kit.revision(started.Agent.Name, started.Agent.Revision)
	recalls := recalling{kit: kit, revision: revision, texts: func(ctx context.Context, ids ...string) (map[string]engine.Payload, error) {
		return a.journal.Payloads(ctx, ids)
	}}
	if err := recalls.into(ctx, &started, id, payload); err != nil {
		return Admitted{}, err
	}
	submission := engine.Submission{Organisation: order.Person.Organisation, Run: id, Command: run.Start{Started: started}, Receipt: remembered}
	if order.Said == nil {
		submission.Payloads = []engine.Payload{payload}
	}
	_, err = a.engine.Submit(ctx, submission)
	if errors.Is(err, engine.ErrReplayed) {
		return a.replay(ctx, *submission.Receipt)
	}
	if errors.Is(err, run.ErrBudget) {
		return Admitted{}, &run.Refusal{Code: "BUDGET", Detail: "The budget does not cover the run; ask its owner to raise it."}
	}
	return Admitted{Run: id}, err
}

// goal is the id of the run, and what it is to do: said now, or before in its
// conversation.
func (a *Admission) goal(ctx context.Context, order Order) (id string, payload engine.Payload, err error) {
	size, id := len(order.Goal), a.source.ID()
	if order.Said != nil {
		size, id = order.Said.Text.Size, order.Said.Run
	}
	if most := cmp.Or(order.GoalBytes, maxGoal); size == 0 || size > most {
		return id, payload, &run.Refusal{Code: "GOAL", Detail: fmt.Sprintf("Give a goal of 1 to %d bytes.", most)}
	}
	if order.Said == nil {
		_, payload = engine.Seal(a.source, id, order.Person.ID, policy.Marking{Integrity: policy.Trusted}, []byte(order.Goal))
		return id, payload, nil
	}
	texts, err := a.journal.Payloads(ctx, []string{order.Said.Text.ID})
	if err != nil {
		return id, payload, err
	}
	payload, present := texts[order.Said.Text.ID]
	if !present {
		return id, payload, &run.Refusal{Code: "ERASED", Detail: "What gives the agent the turn was erased; say it again."}
	}
	return id, payload, nil
}

// refused gives the refusal, unless the command was accepted before: then its
// first answer stands, whatever has changed since.
func (a *Admission) refused(ctx context.Context, remembered *engine.Receipt, refusal *run.Refusal) (Admitted, error) {
	if remembered == nil {
		return Admitted{}, refusal
	}
	admitted, err := a.replay(ctx, *remembered)
	if errors.Is(err, engine.ErrNotFound) {
		return Admitted{}, refusal
	}
	return admitted, err
}

func receipt(order Order, id string) (*engine.Receipt, error) {
	if order.CommandID == "" {
		return nil, nil
	}
	caller, goal := order.Person.ID, order.Goal
	if order.Said != nil {
		caller, goal = order.By.Issuer, order.Said.Text.ID
	}
	request, err := canon.DigestOf([]string{"start", order.Agent, goal, order.Conversation, fmt.Sprint(order.MicroUSD)})
	if err != nil {
		return nil, &run.Refusal{Code: "GOAL", Detail: "The goal is not valid UTF-8 text."}
	}
	answer, err := json.Marshal(Admitted{Run: id})
	return &engine.Receipt{Organisation: order.Person.Organisation, Caller: caller, Command: order.CommandID,
		Request: request, Run: id, Answer: answer}, err
}

func (a *Admission) replay(ctx context.Context, asked engine.Receipt) (Admitted, error) {
	first, err := a.journal.Receipt(ctx, asked.Organisation, asked.Caller, asked.Command)
	if err != nil {
		return Admitted{}, err
	}
	if first.Request != asked.Request {
		return Admitted{}, &run.Refusal{Code: "COMMAND_ID_REUSED", Detail: "This command id was used for another request; make a fresh one."}
	}
	var admitted Admitted
	if err := json.Unmarshal(first.Answer, &admitted); err != nil {
		return Admitted{}, fmt.Errorf("receipt: %w", err)
	}
	admitted.Replayed = true
	return admitted, nil
}

func (a *Admission) started(kit *Kit, order Order, id string, goal run.Text, nowMs int64) (run.Started, *run.Refusal) {
	o := kit.Organisation
	revision, share, served := o.Serves(order.Agent, order.Person, nowMs)
	if !served {
		return run.Started{}, &run.Refusal{Code: "NOT_FOUND", Detail: "There is no agent of this name for you."}
	}
	if _, stopped := o.Stopped(revision); stopped {
		return run.Started{}, &run.Refusal{Code: "AGENT_STOPPED", Detail: "The agent is stopped by a kill switch; ask its owner."}
	}
	authority := o.Authority(revision, order.Person, nowMs)
	link := run.Link{Agent: revision.Name, Grant: share.ID}
	if share.ID == "" && authority.Turns > 0 {
		authority = policy.Widen(authority, o.GivenTo(link, order.Conversation, order.Person, nowMs))
	}
	if order.MicroUSD > 0 {
		authority.MicroUSD = min(authority.MicroUSD, order.MicroUSD)
	}
	facts, err := revision.Facts()
	if err != nil {
		return run.Started{}, &run.Refusal{Code: "AGENT_INVALID", Detail: "The agent's revision cannot be read; tell its owner."}
	}
	if !goal.Marking.Labels.Within(authority.Labels) {
		return run.Started{}, &run.Refusal{Code: "LABELS", Detail: "The agent may not read what it would answer; ask one that is cleared for it."}
	}
	said := order.History[max(0, len(order.History)-maxHistory):]
	history, withheld := readable(said, authority)
	snapshot := snapshotOf(kit, revision, facts, goal, said, authority)
	payer, borrower := share.Payer(revision, order.Person), ""
	if payer != revision.Department {
		borrower = payer
	}
	started := run.Started{
		Organisation: o.Name, RunKind: run.Root, Root: id, Conversation: order.Conversation, Subject: order.Person,
		Chain: []string{order.Person.ID, agents.AgentID(revision.Name)}, Agent: facts, Contact: revision.Contact, Goal: goal, History: history, Withheld: withheld,
		Snapshot: snapshot, SnapshotDigest: snapshot.Digest(), Authority: authority, Limits: revision.Limits.Run(),
		Checks: append([]string{agents.OutputCheck}, revision.Completion.Names()...), By: order.By,
		Accounts: o.Accounts(payer, order.Conversation, nowMs), Grant: share.ID, Borrower: borrower, Branches: revision.Branches,
		Reviewers: revision.Reviewers(), Sidecars: revision.BesideAll(),
		Consents: o.Consented(link, order.Conversation, order.Person, nowMs),
	}
	if order.Said != nil {
		started.Said = &order.Said.Said
	}
	return started, nil
}

// recalling asks memory about the goal of a run that is about to begin.
type recalling struct {
	kit      *Kit
	revision agents.Revision
	texts    engine.Texts
}

// into seals into the run what its goal brings to mind. Where memory cannot be
// asked the run is admitted nevertheless, and asks before its first turn.
func (r recalling) into(ctx context.Context, started *run.Started, id string, goal engine.Payload) error {
	if r.revision.Memory == nil {
		return nil
	}
	texts, err := r.texts(ctx, goalTexts(*started)[1:]...)
	if err != nil {
		return err
	}
	question, marking := []string{string(goal.Bytes)}, goal.Text.Marking
	for _, textID := range goalTexts(*started)[1:] {
		if payload, present := texts[textID]; present {
			question = append(question, string(payload.Bytes))
		}
	}
	for _, message := range started.History {
		marking = marking.Join(message.Text.Marking)
	}
	asks := asking{memory: r.kit.Memory, budget: *r.revision.Memory, key: goal.Salt, marking: marking,
		reader: readerOf(r.kit.Organisation, started.Subject, *started, started.Authority, id, marking),
		mayRead: func(labels policy.Labels) bool {
			return situation(r.kit, r.kit, r.revision, started.Authority, labels).Reads()
		}}
	asks.budget.OnOutage = agents.DegradeOnOutage // who waits does so before the first turn
	got, err := asks.about(ctx, strings.Join(question, "\n"), nil)
	if err != nil {
		return err
	}
	started.Snapshot.Memory, started.Snapshot.MemoryMissing = got.items, got.missing
	started.SnapshotDigest = started.Snapshot.Digest()
	return nil
}

// maxHistory bounds the earlier messages of a run.
const maxHistory = 40

// readable tells what of a conversation the run may read from what is withheld
// from it.
func readable(said []run.Message, authority policy.Authority) (history []run.Message, withheld []run.Withheld) {
	for _, message := range said {
		if message.Text.Marking.Labels.Within(authority.Labels) {
			history = append(history, message)
		} else {
			withheld = append(withheld, run.Withheld{Before: len(history), Author: message.Author, Text: message.Text.ID})
		}
	}
	return history, withheld
}

func snapshotOf(kit *Kit, revision agents.Revision, facts policy.AgentFacts, goal run.Text, history []run.Message, authority policy.Authority) run.Snapshot {
	snapshot := run.Snapshot{Agent: facts.Revision, Tools: map[string]string{}, Policy: kit.Rules.PolicyRevision(), Config: kit.Digest,
		Models: revision.Models, Goal: goal.ID, Compiler: prompt.Version}
	for _, message := range history {
		snapshot.Messages = append(snapshot.Messages, message.Text.ID)
	}
	if persona, known := kit.Organisation.Persona(revision.Persona); known {
		snapshot.Persona, _ = canon.DigestOf(persona) // a validated persona always digests
	}
	for name, grant := range authority.Tools {
		snapshot.Tools[name] = grant.Revision
	}
	snapshot.Prices, _ = canon.DigestOf(kit.Organisation.Models)
	return snapshot
}

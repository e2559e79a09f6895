// Package service answers the ports of the GraphQL interface, and commands by
// message, from the journal, the engine and the organisation's configuration.
// Here stands what a caller may see and ask for; what becomes of it is decided
// by the run's own rules.
package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gantry.dev/agents"
	"gantry.dev/agents/evaluate"
	"gantry.dev/agents/perform"
	"gantry.dev/graph"
	"gantry.dev/memory"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/canon"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Service is what every port is answered from.
type Service struct {
	Store     *journal.Store
	Engine    *engine.Engine
	Admission *perform.Admission
	Kits      *Kits
	Hub       *bus.Hub
	Source    engine.Source
	Notices   *notice.Store
	Brain     memory.Brain // nil: nothing is remembered
	Feed      Feed         // of what changes in it
	Measured  Measured     // what agents came to; nil: nothing was measured
}

// Measured knows what agents came to on cases.
type Measured interface {
	// Measured returns the latest results of an agent, the newest first.
	Measured(ctx context.Context, organisation, agent string) ([]evaluate.Result, error)
}

// measured refuses what an agent's revision has not come to, where it says that
// it must.
func (s *Service) measured(ctx context.Context, organisation string, revision agents.Revision) error {
	if revision.Evaluation == nil {
		return nil
	}
	var results []evaluate.Result
	if s.Measured != nil {
		var err error
		if results, err = s.Measured.Measured(ctx, organisation, revision.Name); err != nil {
			return err
		}
	}
	digest, err := revision.Digest()
	if err != nil {
		return err
	}
	if why := evaluate.Met(*revision.Evaluation, digest, revision.Models, results); len(why) > 0 {
		return &run.Refusal{Code: "NOT_EVALUATED", Detail: "The revision has not come to what its evaluation asks for (" + strings.Join(why, "; ") + "); try it with gantry eval and keep the result."}
	}
	return nil
}

// Feed tells what changes in memory.
type Feed interface {
	// Listen tells the ids of items that change from now on. The channel is closed
	// when the context ends, or when the reader is too slow.
	Listen(ctx context.Context) (<-chan []string, error)
}

var (
	_ graph.Runs          = Runs{}
	_ graph.Conversations = Conversations{}
	_ graph.Inbox         = Inbox{}
	_ graph.Tools         = Tools{}
	_ graph.Agents        = Agents{}
	_ graph.Kills         = Kills{}
	_ graph.Budgets       = Budgets{}
	_ graph.Live          = Live{}
	_ graph.Trees         = Trees{}
	_ graph.Directory     = (*Service)(nil)
)

// Principal returns who has the id in an organisation, as its configuration in
// force says.
func (s *Service) Principal(ctx context.Context, organisation, id string) (policy.Principal, error) {
	o, err := s.Organisation(ctx, organisation)
	if err != nil {
		return policy.Principal{}, err
	}
	principal, known := o.Principal(id)
	if !known {
		return policy.Principal{}, fmt.Errorf("principal: %w", engine.ErrNotFound)
	}
	return principal, nil
}

// Epoch returns the digest of the configuration in force.
func (s *Service) Epoch(ctx context.Context, organisation string) (string, error) {
	return s.Store.Gate(ctx, run.ConfigGate(organisation))
}

// Organisation returns the configuration in force. Errors: engine.ErrNotFound.
func (s *Service) Organisation(ctx context.Context, name string) (agents.Organisation, error) {
	kit, err := s.Kits.Current(ctx, name)
	if err != nil {
		return agents.Organisation{}, err
	}
	return kit.Organisation, nil
}

// Fresh returns the caller's organisation and the caller as it knows them now.
// Errors: engine.ErrNotFound for somebody who is no longer there.
func (s *Service) Fresh(ctx context.Context, caller graph.Caller) (agents.Organisation, policy.Principal, error) {
	o, err := s.Organisation(ctx, caller.Principal.Organisation)
	if err != nil {
		return o, policy.Principal{}, err
	}
	person, known := o.Principal(caller.Principal.ID)
	if !known {
		return o, person, engine.ErrNotFound
	}
	return o, person, nil
}

// Receipt is what remembers what a command gave. Request is everything that the caller
// asked for: the same id with another request is refused. Errors: *run.Refusal.
func Receipt(caller graph.Caller, commandID, runID string, answer any, request ...any) (engine.Receipt, error) {
	digest, err := canon.DigestOf(request)
	if err != nil {
		return engine.Receipt{}, &run.Refusal{Code: "INVALID", Detail: "The request is not valid UTF-8 text."}
	}
	body, err := json.Marshal(answer)
	return engine.Receipt{Organisation: caller.Principal.Organisation, Caller: caller.Principal.ID, Command: commandID,
		Request: digest, Run: runID, Answer: body}, err
}

// Replay reads the first answer to a repeated command into answer. Errors:
// engine.ErrNotFound for a command that is new; *run.Refusal for an id that was
// used for another request.
func (s *Service) Replay(ctx context.Context, asked engine.Receipt, answer any) error {
	first, err := s.Store.Receipt(ctx, asked.Organisation, asked.Caller, asked.Command)
	if err != nil {
		return err
	}
	if first.Request != asked.Request {
		return &run.Refusal{Code: "COMMAND_ID_REUSED", Detail: "This command id was used for another request; make a fresh one."}
	}
	if err := json.Unmarshal(first.Answer, answer); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	return nil
}

// Replayed reports whether an answer to the command is there already, and reads
// it into answer. Errors: *run.Refusal for an id that was used for another
// request.
func (s *Service) Replayed(ctx context.Context, asked engine.Receipt, answer any) (bool, error) {
	err := s.Replay(ctx, asked, answer)
	if errors.Is(err, engine.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

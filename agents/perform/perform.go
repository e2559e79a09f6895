// Package perform does what runs ask for: it compiles prompts, takes turns with
// models, attempts calls and looks whether an answer is done. It decides
// nothing: every step begins with an intent that the run's own rules accepted.
package perform

import (
	"context"
	"fmt"
	"sync"
	"time"

	"gantry.dev/agents"
	"gantry.dev/agents/model"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/route"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Kit is one configuration of an organisation, ready to work with.
type Kit struct {
	Organisation agents.Organisation
	Digest       string
	Box          *tool.Box
	Rules        run.Rules
	Memory       Memory           // nil for none
	Health       *health.Register // how the models stand; nil: every one is asked
	Quality      Quality          // nil: nothing was measured
	// Provider returns what answers for a model of the catalogue.
	Provider func(name string) (model.Provider, bool)

	revisions sync.Map // of agents that were asked for, by name and digest: as many as there are
}

// revision is the one of an agent with a digest.
func (k *Kit) revision(agent, digest string) (agents.Revision, bool) {
	key := [2]string{agent, digest}
	known, _ := k.revisions.Load(key)
	if revision, met := known.(agents.Revision); met {
		return revision, true
	}
	revision, found := k.Organisation.RevisionAt(agent, digest)
	if found {
		k.revisions.Store(key, revision)
	}
	return revision, found
}

// Quality knows how well models do an agent's kind of task.
type Quality interface {
	// Scores returns what was measured with an agent, by model of the catalogue.
	Scores(ctx context.Context, organisation, agent string) (route.Scores, error)
}

// scores are what was measured with an agent. Where nobody can say, nothing was.
func (k *Kit) scores(ctx context.Context, agent string) route.Scores {
	if k.Quality == nil {
		return nil
	}
	scores, err := k.Quality.Scores(ctx, k.Organisation.Name, agent)
	if err != nil {
		return nil
	}
	return scores
}

// Kits finds kits. Current is what is in force; At is what a run was admitted
// under, by configuration digest.
type Kits interface {
	Current(ctx context.Context, organisation string) (*Kit, error)
	At(ctx context.Context, organisation, digest string) (*Kit, error)
}

// Performer performs the effects of runs.
type Performer struct {
	kits   Kits
	source engine.Source
	tree   Tree
	deltas func(Delta)
	counts *counts
}

// Tree reaches the other runs of a run's tree.
type Tree interface {
	// EndedChildren returns how much news of children a run has, and the records
	// of the ends of those that are not known.
	EndedChildren(ctx context.Context, parent string, known func(child string) bool) (news uint64, ends []run.Record, err error)
	// Submit takes a command to a run.
	Submit(ctx context.Context, in engine.Submission) (*run.State, error)
	// State folds a run.
	State(ctx context.Context, id string) (*run.State, error)
	// Note adds an entry to a conversation, once for its receipt. Errors:
	// engine.ErrReplayed.
	Note(ctx context.Context, entry engine.Entry, receipt engine.Receipt) error
}

// Delta is a piece of an answer while the model writes it.
type Delta struct {
	Run           string
	Turn, Attempt int
	Part          int // from 1 in its attempt
	Text          string
	Marking       policy.Marking // of what the turn has read
}

var _ engine.Performer = (*Performer)(nil)

// New returns a performer. Tree reaches the runs above and below. Deltas gets pieces of answers as they come, for
// whoever watches live; nil for nobody.
func New(kits Kits, source engine.Source, tree Tree, deltas func(Delta)) *Performer {
	if deltas == nil {
		deltas = func(Delta) {}
	}
	return &Performer{kits: kits, source: source, tree: tree, deltas: deltas, counts: &counts{}}
}

// job is one effect being readied.
type job struct {
	*Performer
	view    engine.View
	state   *run.State
	kit     *Kit // what the run was admitted under
	current *Kit
	key     []byte            // of fingerprints: goes with the subject's key
	may     *policy.Authority // of the run at the view's time, nil before it was asked for
}

// Prepare readies one effect.
func (p *Performer) Prepare(ctx context.Context, view engine.View, effect run.Effect) (engine.Prepared, error) {
	started := view.State.Started
	kit, err := p.kits.At(ctx, started.Organisation, started.Snapshot.Config)
	if err != nil {
		return engine.Prepared{}, fmt.Errorf("configuration of the run: %w", err)
	}
	current, err := p.current(ctx, view, effect)
	if err != nil {
		return engine.Prepared{}, fmt.Errorf("configuration: %w", err)
	}
	goal, err := view.Texts(ctx, started.Goal.ID)
	if err != nil {
		return engine.Prepared{}, err
	}
	j := &job{Performer: p, view: view, state: view.State, kit: kit, current: current, key: goal[started.Goal.ID].Salt}
	switch e := effect.(type) {
	case run.TakeTurn:
		return j.turn(ctx, e)
	case run.DispatchCall:
		return j.dispatch(ctx, e)
	case run.RejudgeCall:
		return j.rejudge(ctx, e)
	case run.ProbeCall:
		return j.probe(ctx, e)
	case run.Verify:
		return j.verify(ctx, e)
	case run.CollectChildren:
		return j.collect(ctx)
	case run.StopChild:
		return j.stop(ctx, e)
	case run.StartReview, run.DispatchSidecar, run.WatchMain:
		return j.besides(ctx, effect)
	}
	return engine.Prepared{}, fmt.Errorf("no way to perform %T", effect)
}

// current is the configuration in force. An effect that begins with an intent
// takes the one that the intent's write makes its condition; the others look.
func (p *Performer) current(ctx context.Context, view engine.View, effect run.Effect) (*Kit, error) {
	switch effect.(type) {
	case run.TakeTurn, run.DispatchCall, run.RejudgeCall, run.StartReview, run.DispatchSidecar:
		return p.kits.At(ctx, view.State.Started.Organisation, view.Rules.Revision())
	}
	return p.kits.Current(ctx, view.State.Started.Organisation)
}

// sealer seals after the state may have moved on: it holds copies only.
type sealer struct {
	source       engine.Source
	run, subject string
	payloads     []engine.Payload
}

func (j *job) sealer() *sealer {
	return &sealer{source: j.source, run: j.state.ID, subject: j.state.Started.Subject.ID}
}

func (s *sealer) seal(marking policy.Marking, bytes []byte) run.Text {
	text, payload := engine.Seal(s.source, s.run, s.subject, marking, bytes)
	s.payloads = append(s.payloads, payload)
	return text
}

func (s *sealer) optional(marking policy.Marking, text string) *run.Text {
	if text == "" {
		return nil
	}
	ref := s.seal(marking, []byte(text))
	return &ref
}

// revision is the agent's revision as the run was admitted with it.
func (j *job) revision() (agents.Revision, error) {
	agent := j.state.Started.Agent
	revision, found := j.kit.revision(agent.Name, agent.Revision)
	if !found {
		return agents.Revision{}, fmt.Errorf("%w: agent %s is not in its run's configuration", engine.ErrHopeless, j.state.Started.Agent.Name)
	}
	return revision, nil
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

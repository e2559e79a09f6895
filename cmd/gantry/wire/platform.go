package wire

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/sourcegraph/conc"

	"gantry.dev/agents"
	"gantry.dev/agents/credential"
	"gantry.dev/agents/evaluate/kept"
	"gantry.dev/agents/model/health"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool/mcp"
	"gantry.dev/cmd/gantry/service"
	"gantry.dev/cmd/gantry/service/beside"
	"gantry.dev/cmd/gantry/service/evaluation"
	"gantry.dev/cmd/gantry/service/groups"
	"gantry.dev/cmd/gantry/service/scheduling"
	"gantry.dev/cmd/gantry/telemetry"
	"gantry.dev/graph/edge"
	"gantry.dev/orchestrator/bus"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/notary"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/schedule/calendar"
)

// Platform is a running process.
type Platform struct {
	*service.Service
	Config Config
	Keys   Keys

	bus      *bus.Bus
	relay    *bus.Relay
	worker   *engine.Worker
	world    *engine.RealWorld
	turns    *groups.Follower
	calendar *calendar.Calendar
	results  *kept.Results
	notary   *notary.Notary // nil where this process signs no heads
	memory   remembering
	secrets  *credential.Store
	tracer   *telemetry.Tracer // nil where nothing is traced
	files    *os.Root
	servers  *mcp.Pool
	health   *health.Register // how models stand
	server   *server
	verifier *edge.Verifier
	texts    [textLanes]chan bus.TextDelta

	stopWork    context.CancelFunc // ends the worker and the intake of commands
	stopEffects context.CancelFunc // breaks off what is in flight
	stopTell    context.CancelFunc // ends the hub and the relay
	working     conc.WaitGroup
	telling     conc.WaitGroup
	streams     conc.WaitGroup
}

// Open builds a platform. Close it when done.
func Open(ctx context.Context, config Config) (*Platform, error) {
	config = config.withDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	keys, err := LoadKeys(config.Folder, config.Dev)
	if err != nil {
		return nil, err
	}
	p := &Platform{Service: &service.Service{Source: engine.RandomSource{}}, Config: config, Keys: keys, world: &engine.RealWorld{}, texts: newTextLanes()}
	if err := p.build(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.start(ctx)
	if err := p.listen(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Platform) build(ctx context.Context) (err error) {
	if p.bus, err = bus.Open(bus.Config{URL: p.Config.Bus, Namespace: p.Config.Namespace}); err != nil {
		return err
	}
	if p.Store, err = journal.Open(ctx, journal.Config{DSN: p.Config.Database, MasterKey: p.Keys.Master, OnCommit: p.committed, Between: p.Config.Between}); err != nil {
		return err
	}
	if p.secrets, err = credential.New(credential.Config{Entries: p.Config.Credentials, Values: p.Config.Secrets, Sources: p.Config.Vaults,
		Issuer: p.Config.Issuer, Signing: p.Keys.Signing}); err != nil {
		return err
	}
	if p.Config.Traces.Collector != "" {
		if p.tracer, err = p.newTracer(ctx); err != nil {
			return err
		}
	}
	p.Notices = notice.NewStore(p.Store.Databases())
	if err = p.openMemory(ctx); err != nil {
		return err
	}
	if p.Config.Files != "" {
		if p.files, err = os.OpenRoot(p.Config.Files); err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	p.servers = p.openServers()
	p.health = health.New(health.Config{Changed: p.stood})
	p.results = kept.New(p.Store)
	p.Measured = evaluation.Evaluations{Service: p.Service, Results: p.results}
	p.Kits = service.NewKits(p.Store, perform.Builder{Quality: evaluation.NewQuality(p.results, time.Now), Files: p.files, Memory: p.Brain, Runs: beside.Watch{Service: p.Service}, Egress: p.Config.Egress, Credentials: p.secrets, Provider: p.provider, Servers: p.servers, Health: p.health})
	p.Hub = bus.NewHub(p.Store, entries{p.Store})
	p.relay = bus.NewRelay(p.bus, writers{p.Store}, p.Store)
	var truth engine.Journal = p.Store
	if p.Config.Site != nil {
		truth = sitedJournal{truth, p.Config.Site}
	}
	p.Engine = engine.New(truth, p.Kits.Rules)
	var performer engine.Performer
	performer, p.stopEffects = boundEffects(ctx, perform.New(p.Kits, p.Source, tree{p.Store, p.Engine}, p.Config.Site.deltas(p.tellText)))
	if p.Config.Site != nil {
		performer = sitedPerformer{performer, p.Config.Site}
	}
	p.Admission = perform.NewAdmission(p.Kits, p.Engine, truth, p.Source)
	p.calendar = calendar.New(p.Store, scheduling.Schedules{Service: p.Service}.Begin)
	p.turns = groups.NewFollower(p.Service, p.Config.Log)
	p.worker = engine.NewWorker(engine.WorkerConfig{Name: p.Config.Worker, Journal: truth, Claims: p.Store, Rules: p.Kits.Rules,
		Performer: performer, World: p.world, Log: p.Config.Log, LeaseMs: p.Config.Lease.Milliseconds(), PollMs: p.Config.Poll.Milliseconds(), Runs: p.Config.Runs})
	if p.notary, err = p.Config.newNotary(p.Store); err != nil {
		return err
	}
	p.verifier, err = p.newVerifier()
	return err
}

// tree reaches the runs of a tree.
type tree struct {
	*journal.Store
	*engine.Engine
}

// start begins everything that goes on beside requests.
func (p *Platform) start(ctx context.Context) {
	background := context.WithoutCancel(ctx)
	var tell, work context.Context
	tell, p.stopTell = context.WithCancel(background)
	work, p.stopWork = context.WithCancel(background)
	p.every(&p.telling, func(ticks <-chan time.Time) { _ = p.Hub.Run(tell, p.bus, ticks, p.moved) })
	p.every(&p.telling, func(ticks <-chan time.Time) {
		p.relay.Run(tell, ticks, func(err error) { p.Config.Log.Warn("relay", "error", err) })
	})
	for _, lane := range p.texts {
		p.telling.Go(func() { p.tellTexts(tell, lane) })
	}
	if p.notary != nil {
		p.telling.Go(func() { p.attest(tell) })
	}
	if p.tracer != nil {
		p.telling.Go(func() { p.tracer.Run(tell) })
	}
	p.telling.Go(func() { p.tellQueued(tell) })
	if !p.Config.Work {
		return
	}
	p.every(&p.working, func(ticks <-chan time.Time) { p.hearDue(work, ticks) })
	p.every(&p.working, func(ticks <-chan time.Time) { p.turns.Run(work, ticks) })
	p.every(&p.working, func(ticks <-chan time.Time) { p.hearQueued(work, ticks) })
	p.every(&p.working, func(ticks <-chan time.Time) { p.beginScheduled(work, ticks) })
	p.every(&p.working, func(ticks <-chan time.Time) { p.relayMemory(work, ticks) })
	p.working.Go(func() { p.sweepMemory(work) })
	p.working.Go(func() { p.tellPeople(work) })
	receiver := bus.Receiver{Bus: p.bus, Verify: p.verify(background), Submit: p.Take}
	p.every(&p.working, func(ticks <-chan time.Time) { _ = receiver.Run(work, ticks) })
	p.working.Go(func() {
		if err := p.worker.Work(work); err != nil {
			p.Config.Log.Error("worker stopped", "error", err)
		}
	})
}

// every runs a task with the ticks of the slow poll behind every notification.
func (p *Platform) every(tasks *conc.WaitGroup, task func(ticks <-chan time.Time)) {
	tasks.Go(func() {
		ticker := time.NewTicker(p.Config.Poll)
		defer ticker.Stop()
		task(ticker.C)
	})
}

// Close drains and closes everything in reverse order: no request is taken any
// more, what is in flight is settled, and what was committed is told.
func (p *Platform) Close() error {
	var faults []error
	if p.server != nil {
		faults = append(faults, p.server.close(p.Config.Drain, p.Hub))
	}
	p.settle()
	p.world.Close()
	if p.stopEffects != nil {
		p.stopEffects()
	}
	if p.servers != nil {
		faults = append(faults, p.servers.Close())
	}
	if p.Hub != nil {
		p.Hub.Close()
	}
	p.streams.Wait()
	if p.stopTell != nil {
		p.stopTell()
	}
	p.telling.Wait()
	faults = append(faults, p.attestLast())
	if p.bus != nil {
		faults = append(faults, p.bus.Close())
	}
	if p.memory.indexes != nil {
		faults = append(faults, p.memory.indexes.Close())
	}
	if p.Store != nil {
		faults = append(faults, p.Store.Close())
	}
	if p.files != nil {
		faults = append(faults, p.files.Close())
	}
	return errors.Join(faults...)
}

// settle waits for what is in flight, as long as it may take.
func (p *Platform) settle() {
	if p.stopWork == nil {
		return
	}
	p.stopWork()
	late := time.AfterFunc(p.Config.Drain, p.stopEffects)
	defer late.Stop()
	p.working.Wait()
}

// Organisation returns the configuration in force.
func (p *Platform) Organisation(ctx context.Context, name string) (agents.Organisation, error) {
	kit, err := p.Kits.Current(ctx, name)
	if err != nil {
		return agents.Organisation{}, err
	}
	return kit.Organisation, nil
}

// verify finds out whose token came with a message.
func (p *Platform) verify(ctx context.Context) bus.Verify {
	return func(token string) (run.Identity, policy.Principal, error) {
		organisation, identity, err := p.verifier.Verify(token)
		if err != nil {
			return identity, policy.Principal{}, bus.ErrUnverified
		}
		o, err := p.Organisation(ctx, organisation)
		if errors.Is(err, engine.ErrNotFound) {
			return identity, policy.Principal{}, bus.ErrUnverified
		}
		if err != nil {
			return identity, policy.Principal{}, err
		}
		principal, known := o.Principal(identity.Principal)
		if !known {
			return identity, policy.Principal{}, bus.ErrUnverified
		}
		return identity, principal, nil
	}
}

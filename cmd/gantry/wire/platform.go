package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/sourcegraph/conc"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/agents/tool"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// Platform is a running process.
type Platform struct {
	Config    Config
	Keys      Keys
	Store     *journal.Store
	Engine    *engine.Engine
	Admission *perform.Admission
	kits      *kits
	worker    *engine.Worker
	world     *engine.RealWorld
	files     *os.Root
	stop      context.CancelFunc
	tasks     conc.WaitGroup
	watchers  *watchers
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
	p := &Platform{Config: config, Keys: keys, watchers: newWatchers(), world: &engine.RealWorld{}}
	if err := p.build(ctx); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Platform) build(ctx context.Context) (err error) {
	p.Store, err = journal.Open(ctx, journal.Config{DSN: p.Config.Database, MasterKey: p.Keys.Master, OnCommit: p.committed})
	if err != nil {
		return err
	}
	if p.Config.Files != "" {
		if p.files, err = os.OpenRoot(p.Config.Files); err != nil {
			return fmt.Errorf("files: %w", err)
		}
	}
	p.kits = newKits(p.Store, perform.Builder{Files: p.files, Egress: egressOf, Credentials: secrets(p.Config.Secrets)})
	var truth engine.Journal = p.Store
	var performer engine.Performer = perform.New(p.kits, engine.RandomSource{}, nil)
	if p.Config.Site != nil {
		truth, performer = sitedJournal{truth, p.Config.Site}, sitedPerformer{performer, p.Config.Site}
	}
	p.Engine = engine.New(truth, p.kits.rules)
	p.Admission = perform.NewAdmission(p.kits, p.Engine, truth, engine.RandomSource{})
	p.worker = engine.NewWorker(engine.WorkerConfig{Name: p.Config.Worker, Journal: truth, Claims: p.Store, Rules: p.kits.rules,
		Performer: performer, World: p.world, Log: p.Config.Log, LeaseMs: p.Config.LeaseMs})
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	p.stop = stop
	if p.Config.Work {
		p.tasks.Go(func() {
			if err := p.worker.Work(work); err != nil {
				p.Config.Log.Error("worker stopped", "error", err)
			}
		})
	}
	return nil
}

// committed wakes whoever waits for what was written.
func (p *Platform) committed(batch []journal.Committed) {
	for _, c := range batch {
		if c.Outside && p.worker != nil {
			p.worker.Ring(c.Head.Run)
		}
		p.watchers.ring(c.Head.Run)
	}
}

// Close drains the worker and closes everything in reverse order.
func (p *Platform) Close() error {
	if p.stop != nil {
		p.stop()
	}
	p.tasks.Wait()
	p.world.Close()
	var faults []error
	if p.Store != nil {
		faults = append(faults, p.Store.Close())
	}
	if p.files != nil {
		faults = append(faults, p.files.Close())
	}
	return errors.Join(faults...)
}

// Apply puts an organisation's configuration in force, with its budgets.
func (p *Platform) Apply(ctx context.Context, o agents.Organisation) (digest string, changed bool, err error) {
	digest, changed, err = p.kits.apply(ctx, o)
	if err != nil || !changed {
		return digest, changed, err
	}
	if err := p.Store.SetBudget(ctx, "organisation:"+o.Name, run.Amount{MicroUSD: o.Budget.MicroUSD, Tokens: o.Budget.Tokens}); err != nil {
		return digest, changed, err
	}
	for _, d := range o.Departments {
		node := perform.Accounts(o.Name, d.Name)[0]
		if err := p.Store.SetBudget(ctx, node, run.Amount{MicroUSD: d.Budget.MicroUSD, Tokens: d.Budget.Tokens}); err != nil {
			return digest, changed, err
		}
	}
	return digest, changed, nil
}

// Organisation returns the configuration in force.
func (p *Platform) Organisation(ctx context.Context, name string) (agents.Organisation, error) {
	kit, err := p.kits.Current(ctx, name)
	if err != nil {
		return agents.Organisation{}, err
	}
	return kit.Organisation, nil
}

// egressOf reads the destinations that an organisation lets its tools reach.
// Its own endpoints on this machine are internal.
func egressOf(o agents.Organisation) (*tool.Egress, error) {
	var allowed []tool.Destination
	add := func(hostport string) error {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil {
			return fmt.Errorf("egress %s: %w", hostport, err)
		}
		number, err := strconv.Atoi(port)
		if err != nil {
			return fmt.Errorf("egress %s: the port is no number", hostport)
		}
		ip := net.ParseIP(host)
		allowed = append(allowed, tool.Destination{Host: host, Port: number, Internal: ip != nil && (ip.IsLoopback() || ip.IsPrivate())})
		return nil
	}
	for _, destination := range o.Egress {
		if err := add(destination); err != nil {
			return nil, err
		}
	}
	for name, endpoint := range o.Endpoints {
		u, err := url.Parse(endpoint)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("endpoint %s: not a URL", name)
		}
		if err := add(u.Host); err != nil {
			return nil, err
		}
	}
	return tool.NewEgress(allowed, net.DefaultResolver, (&net.Dialer{}).DialContext)
}

// secrets resolves credential references from configuration.
type secrets map[string]string

// Secret returns the secret of a reference.
func (s secrets) Secret(_ context.Context, reference, _ string) (string, error) {
	secret, known := s[reference]
	if !known {
		return "", fmt.Errorf("credential %q is not configured", reference)
	}
	return secret, nil
}

// Texts opens texts as a principal may read them: what they are not cleared
// for is redacted in place.
func (p *Platform) Texts(ctx context.Context, s *run.State, reader policy.Principal) (func(run.Text) string, error) {
	payloads, err := p.Store.Payloads(ctx, allTexts(s))
	if err != nil {
		return nil, err
	}
	return func(text run.Text) string {
		payload, present := payloads[text.ID]
		switch {
		case !present:
			return "[erased]"
		case !reader.Sees(text.Marking.Labels):
			return "[redacted]"
		}
		return string(payload.Bytes)
	}, nil
}

func allTexts(s *run.State) []string {
	var ids []string
	add := func(texts ...*run.Text) {
		for _, text := range texts {
			if text != nil {
				ids = append(ids, text.ID)
			}
		}
	}
	add(&s.Started.Goal)
	for i := range s.Turns {
		if a := s.Turns[i].Answer; a != nil {
			add(a.Text, a.Reasoning)
		}
	}
	for i := range s.Calls {
		add(&s.Calls[i].Arguments, s.Calls[i].Result)
	}
	for i := range s.Steers {
		add(&s.Steers[i].Text)
	}
	for _, approval := range s.Approvals {
		for _, decision := range approval.Decisions {
			add(decision.Reason)
		}
	}
	if s.Ended != nil {
		add(s.Ended.Result)
	}
	return ids
}

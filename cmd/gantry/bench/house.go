package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/bench/machine"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/invariant"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// house is one database with a process that works on it.
type house struct {
	folder   string
	database machine.Database
	config   func(*wire.Config) // what differs from the usual; nil for nothing
	platform *wire.Platform
	people   struct{ asker, approver policy.Principal }
	number   atomic.Int64 // of runs that were started
	readers  int          // principals beside the two, who may ask too
}

// build makes a fresh database in a folder of its own and opens it.
func build(ctx context.Context, parent, dsn string, config func(*wire.Config)) (h *house, err error) {
	h = &house{config: config}
	if h.folder, err = os.MkdirTemp(parent, "gantry-bench-"); err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	if h.database, err = machine.Open(ctx, dsn, h.folder); err != nil {
		return nil, errors.Join(err, os.RemoveAll(h.folder))
	}
	if err := h.open(ctx); err != nil {
		return nil, errors.Join(err, h.raze())
	}
	return h, nil
}

// open starts the process, with the organisation in force.
func (h *house) open(ctx context.Context) error {
	organisation, err := loadOrganisation()
	if err != nil {
		return err
	}
	h.people.asker, _ = organisation.Principal(asker)
	for i := range h.readers {
		organisation.Principals = append(organisation.Principals, h.reader(i))
	}
	h.people.approver, _ = organisation.Principal(approver)
	config, err := h.wired()
	if err != nil {
		return err
	}
	platform, err := wire.Open(ctx, config)
	if err != nil {
		return err
	}
	if _, _, err := platform.Kits.Apply(ctx, organisation); err != nil {
		return errors.Join(err, platform.Close())
	}
	h.platform = platform
	return nil
}

func (h *house) wired() (wire.Config, error) {
	root, err := layFiles(h.folder)
	config := wire.Config{Folder: filepath.Join(h.folder, "keys"), Database: h.database.DSN(), Files: root, Work: true, Dev: true,
		Provider: provider, Log: slog.New(slog.DiscardHandler)}
	if h.config != nil {
		h.config(&config)
	}
	return config, err
}

func (h *house) close() error {
	if h.platform == nil {
		return nil
	}
	platform := h.platform
	h.platform = nil
	return platform.Close()
}

// raze closes everything and removes it.
func (h *house) raze() error {
	return errors.Join(h.close(), h.database.Close(), os.RemoveAll(h.folder))
}

// start asks for a run and returns its id.
func (h *house) start(ctx context.Context, o order) (string, error) {
	return h.startAs(ctx, h.people.asker, o)
}

func (h *house) startAs(ctx context.Context, person policy.Principal, o order) (string, error) {
	h.number.Add(1)
	admitted, err := h.platform.Admission.Start(ctx, perform.Order{Person: person, By: run.Identity{Principal: person.ID}, Agent: agent, Goal: o.goal()})
	return admitted.Run, err
}

// reader is one of many who may do what the asker may.
func (h *house) reader(number int) policy.Principal {
	one := h.people.asker
	one.ID, one.Name = fmt.Sprintf("bench.reader%d", number), fmt.Sprintf("Reader %d", number)
	return one
}

// grant decides the approval that a record asks for.
func (h *house) grant(ctx context.Context, record run.Record) error {
	event, err := run.Decode(record)
	if err != nil {
		return err
	}
	asked, ok := event.(run.ApprovalRequested)
	if !ok {
		return fmt.Errorf("record %d of run %s asks for nothing", record.Seq, record.Run)
	}
	reason, payload := engine.Seal(h.platform.Source, record.Run, approver, policy.Marking{Integrity: policy.Trusted}, []byte("the benchmark goes on"))
	_, err = h.platform.Engine.Submit(ctx, engine.Submission{Organisation: organisationName, Run: record.Run, Payloads: []engine.Payload{payload},
		Command: run.DecideApproval{Approval: asked.Approval, Digest: asked.Digest, Granted: true, By: run.Identity{Principal: approver}, Person: h.people.approver, Reason: &reason}})
	return err
}

// follow reads a run from its beginning until visit wants no more. Nothing is
// decoded: who follows is part of the load, and costs as little as it can.
func (h *house) follow(ctx context.Context, id string, visit func(run.Record) (more bool, err error)) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	tail, err := h.platform.Hub.Tail(ctx, id, 0)
	if err != nil {
		return err
	}
	for record := range tail.Items() {
		switch record.Kind {
		case run.KindParked, run.KindLimitReached, run.KindTurnFailed:
			return fmt.Errorf("%s at record %d of run %s: %s", record.Kind, record.Seq, id, record.Body)
		}
		if more, err := visit(record); err != nil || !more {
			return err
		}
	}
	return errors.Join(fmt.Errorf("run %s was not followed to its end", id), tail.Err())
}

// violations is what the doctor finds.
func (h *house) violations(ctx context.Context) (count int, err error) {
	snapshot, err := h.platform.Store.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	report, err := invariant.NewAudit(snapshot, func(invariant.Violation) error { return nil }).Store(ctx)
	return report.Violations(), err
}

// until asks again and again, not too often, whether something is so.
func until(ctx context.Context, every time.Duration, so func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if done, err := so(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

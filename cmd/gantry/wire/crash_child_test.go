//go:build unix

package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"gantry.dev/agents"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/run"
)

// crash is what a child process is told: the way that its one run is to go, and
// where the process dies.
type crash struct {
	Folder, Database string
	Outside, Token   string // the outside, and which case asks it
	Way              string
	Die              string   // "COMMIT/POSITION#N" or "POINT#N": the nth passing
	Recovery         int      // dies at this passing of any point since the store was open; 0 for never
	Lie              string   // "COMMIT#N", which stands and is said to have failed
	LieDies          bool     // and dies at the next point
	Hold             bool     // the effect waits until the lease was renewed
	Stop             bool     // the process stops before its effect until it is let go on
	Still            []string // the passings at which it stands still until it is let go on
	Worker           string   // its name; empty: the usual one
	Idle             bool     // its people only look on
}

// word is what a child says at its end.
type word struct {
	Run    string
	Status run.Status
	Points []string // in their order: each one's first passing, and of writes of the run all
	Passed int      // since the store was open
}

// dying is a process on its way to its death.
type dying struct {
	crash
	watch   *watch
	renewed chan struct{}

	mu     sync.Mutex
	passed map[string]int
	word   word
	lied   bool
}

func newDying(told crash) *dying {
	d := &dying{crash: told, renewed: make(chan struct{}), passed: map[string]int{}}
	d.watch = &watch{pass: func(commit, position string) { d.at(commit + "/" + position) }, lie: d.lies}
	return d
}

// opening are the commits before a process can do anything for its runs.
var opening = []string{"Open ", "SetBudget/", "ChangeOrganisation/"}

// at passes a point, or dies there.
func (d *dying) at(point string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.passed[point]++
	passing := fmt.Sprintf("%s#%d", point, d.passed[point])
	if d.passed[point] == 1 || strings.HasPrefix(point, "Append ") {
		d.word.Points = append(d.word.Points, passing)
	}
	if passing == "Renew/"+stands+"#1" {
		close(d.renewed)
	}
	if !slices.ContainsFunc(opening, func(o string) bool { return strings.HasPrefix(point, o) }) {
		d.word.Passed++
	}
	if slices.Contains(d.Still, passing) {
		standStill()
	}
	if passing == d.Die || d.Recovery > 0 && d.word.Passed == d.Recovery || d.lied && d.LieDies {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the kill is on its way
	}
}

// standStill stops the process until it is let go on.
func standStill() {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGCONT)
	defer signal.Stop(goOn)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	<-goOn // the stop is on its way
}

func (d *dying) lies(commit string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := !d.lied && fmt.Sprintf("%s#%d", commit, d.passed[commit+"/"+stands]) == d.Lie
	d.lied = d.lied || now
	return now
}

// site hears the points of wire.Site.
func (d *dying) site(name string) {
	if kinds, isWrite := strings.CutPrefix(name, "writes "); isWrite {
		var list []run.EventKind
		for kind := range strings.SplitSeq(kinds, "+") {
			list = append(list, run.EventKind(kind))
		}
		d.watch.expect(nameOfAppend(list))
		return
	}
	if strings.HasPrefix(name, "before ") || strings.HasPrefix(name, "after ") {
		return
	}
	d.at(name)
	if name == "effect begins" && d.Hold {
		<-d.renewed
	}
	if name == "effect begins" && d.Stop {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// again does what a caller does who was told of a failure: the same once more.
func again(do func() error) error {
	var err error
	for range 3 {
		var refusal *run.Refusal
		if err = do(); err == nil || errors.As(err, &refusal) {
			return err
		}
	}
	return err
}

// crashChild takes the one run of its folder to its end, or dies.
func crashChild(ctx context.Context) error {
	var told crash
	if err := json.Unmarshal([]byte(os.Getenv("CRASH")), &told); err != nil {
		return err
	}
	d := newDying(told)
	text, err := os.ReadFile(filepath.Join(told.Folder, "organisation.json"))
	if err != nil {
		return err
	}
	var o agents.Organisation
	if err := json.Unmarshal(text, &o); err != nil {
		return err
	}
	var p *wire.Platform
	if err := again(func() (err error) { p, err = wire.Open(ctx, d.config()); return err }); err != nil {
		return err
	}
	err = errors.Join(d.live(ctx, p, o), p.Close())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(d.word)
	}
	return err
}

// crashLease is long enough that a busy machine loses none, and short enough to
// wait for.
const crashLease = 2 * time.Second

func (d *dying) config() wire.Config {
	lease := crashLease
	if d.Way == wayMany {
		lease *= 4 // there are many to renew
	}
	runs := manyRuns
	if family(d.Way) {
		runs = 1 // one after the other, so that each commit has its place
	}
	return wire.Config{Folder: d.Folder, Database: d.Database, Work: true, Dev: true, Lease: lease, Poll: 20 * time.Millisecond, Runs: runs, Worker: d.Worker,
		Secrets: map[string]string{"ledger": d.Token}, Provider: d.thinks, Site: d.site, Between: d.watch.between}
}

func (d *dying) live(ctx context.Context, p *wire.Platform, o agents.Organisation) error {
	if err := again(func() error { _, _, err := p.Kits.Apply(ctx, o); return err }); err != nil {
		return err
	}
	life := &life{dying: d, platform: p, organisation: o}
	if d.Way == wayMany {
		return life.many(ctx)
	}
	id, err := life.start(ctx)
	if err != nil {
		return err
	}
	life.run, life.top = id, id
	if err := life.finish(ctx); err != nil {
		return err
	}
	head, _, err := p.Store.Load(ctx, id, 0)
	d.word.Run, d.word.Status = id, head.Status
	return err
}

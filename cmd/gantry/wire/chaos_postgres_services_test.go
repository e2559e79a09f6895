//go:build services && unix

package wire_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/run"
)

// crowd is how many runs are under way while their database is hurt.
const crowd = 30

// burden is a process with many runs on a database, and their people, who ask
// again until they are answered.
type burden struct {
	*crashHouse
	at       place
	platform *wire.Platform
	wrote    chan struct{} // one for each write that is on its way
}

// burdened opens a process at a database that is to be hurt.
func burdened(t *testing.T, database string) *burden {
	t.Helper()
	h := lone(t)
	at := h.empty(wayApproved)
	at.database = database
	b := &burden{crashHouse: h, at: at, wrote: make(chan struct{}, 1)}
	config := newDying(at.told(h)).quiet()
	config.Work, config.Poll = true, 50*time.Millisecond
	config.Site = func(name string) {
		if strings.HasPrefix(name, "writes ") {
			select {
			case b.wrote <- struct{}{}:
			default: // who hurts is busy
			}
		}
	}
	p, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	b.platform = p
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	_, _, err = p.Kits.Apply(t.Context(), busy(t, h.outside.url))
	require.NoError(t, err)
	return b
}

// lone is a house of places without any organisation in force.
func lone(t *testing.T) *crashHouse {
	t.Helper()
	return &crashHouse{t: t, root: memoryFolder(t), outside: newOutside(t), bases: sqliteFiles{}}
}

// insist does something until it is done. Only what is said by the product
// itself may not come.
func insist(ctx context.Context, do func() error) error {
	pace := time.NewTicker(50 * time.Millisecond)
	defer pace.Stop()
	for {
		err := do()
		if err == nil {
			return nil
		}
		select {
		case <-pace.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}

// carry takes all runs to their ends.
func (b *burden) carry(ctx context.Context) error {
	var tasks conc.WaitGroup
	faults := make([]error, crowd)
	for i := range crowd {
		tasks.Go(func() {
			l := &life{dying: newDying(b.at.told(b.crashHouse)), platform: b.platform, organisation: busy(b.t, b.outside.url)}
			person, by := l.person(asker)
			order := perform.Order{Person: person, By: by, Agent: reconciler, Goal: "Reconcile INV-1004, approved.", CommandID: fmt.Sprint("run ", i)}
			faults[i] = insist(ctx, func() error {
				admitted, err := b.platform.Admission.Start(ctx, order)
				l.run = admitted.Run
				return err
			})
			faults[i] = errors.Join(faults[i], insist(ctx, func() error { return l.finish(ctx) }))
		})
	}
	tasks.Wait()
	return errors.Join(faults...)
}

// stuck says where the runs stand that did not come to their ends in time.
func (b *burden) stuck(t *testing.T) {
	t.Helper()
	require.NoError(t, b.look(t.Context(), b.at, func(store *journal.Store) error {
		heads, err := store.Heads(t.Context(), journal.Filter{Organisation: "northwind"}, 2*crowd)
		nowMs, _ := store.Now(t.Context())
		for _, head := range heads {
			if head.Status.Ended() {
				continue
			}
			_, records, err := store.Load(t.Context(), head.Run, 0)
			require.NoError(t, err)
			last := records[len(records)-1]
			t.Logf("%d %+v: %d records, the last is %s at %d", nowMs, head, len(records), last.Kind, last.AtMs)
		}
		return err
	}))
}

// judge looks at what became of all runs, in the database and outside.
func (b *burden) judge(t *testing.T) {
	t.Helper()
	require.NoError(t, b.look(t.Context(), b.at, func(store *journal.Store) error {
		heads, err := store.Heads(t.Context(), journal.Filter{Organisation: "northwind"}, 2*crowd)
		require.NoError(t, err)
		require.Len(t, heads, crowd, "one for each command, and none is lost")
		for _, head := range heads {
			require.Equal(t, run.StatusCompleted, head.Status, head.Run)
			_, records, err := store.Load(t.Context(), head.Run, 0)
			require.NoError(t, err)
			state := &run.State{ID: head.Run}
			require.NoError(t, run.Replay(state, records))
			require.Equal(t, run.OutcomeOK, post(t, state).Outcome)
			for _, once := range []run.EventKind{run.KindStarted, run.KindApprovalDecided, run.KindEnded} {
				require.Equal(t, 1, counted(records, once), once)
			}
			require.Equal(t, len(state.Calls), counted(records, run.KindCallEnded))
			require.Zero(t, state.Budget.Reserved)
		}
		return audit(t.Context(), store)
	}))
	_, entries := b.outside.count(b.at.token)
	require.Equal(t, crowd, entries, "each acted once")
}

// cluster is a PostgreSQL server of this test alone, that may be killed.
type cluster struct {
	t      *testing.T
	bin    string
	folder string
	port   int
	owner  *syscall.Credential // nil: who runs the tests
	server *exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	folder, err := os.MkdirTemp("", "gantry-cluster-")
	require.NoError(t, err)
	c := &cluster{t: t, folder: folder, bin: serverPrograms(t), port: freePort(t)}
	t.Cleanup(func() {
		c.kill()
		require.NoError(t, os.RemoveAll(folder))
	})
	if os.Getuid() == 0 { // the server refuses to run as root
		who, err := user.Lookup("postgres")
		require.NoError(t, err)
		uid, err := strconv.ParseUint(who.Uid, 10, 32)
		require.NoError(t, err)
		gid, err := strconv.ParseUint(who.Gid, 10, 32)
		require.NoError(t, err)
		c.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		require.NoError(t, os.Chown(folder, int(uid), int(gid)))
	}
	out, err := c.command("initdb", "-D", c.cluster(), "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C").CombinedOutput()
	require.NoError(t, err, "%s", out)
	c.start()
	return c
}

// serverPrograms is where PostgreSQL's own programs are.
func serverPrograms(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	require.NoError(t, err)
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1])
	}
	path, err := exec.LookPath("initdb")
	require.NoError(t, err, "PostgreSQL's initdb is needed")
	return filepath.Dir(path)
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().(*net.TCPAddr).Port
}

func (c *cluster) cluster() string { return filepath.Join(c.folder, "cluster") }

func (c *cluster) command(name string, args ...string) *exec.Cmd {
	command := exec.CommandContext(context.WithoutCancel(c.t.Context()), filepath.Join(c.bin, name), args...)
	command.Dir, command.SysProcAttr = c.folder, &syscall.SysProcAttr{Credential: c.owner}
	return command
}

// database is the address of one of the server's databases; it makes none.
func (c *cluster) database(name string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.port, name)
}

// create makes a database.
func (c *cluster) create(name string) string {
	c.t.Helper()
	admin, err := sql.Open("pgx", c.database("postgres"))
	require.NoError(c.t, err)
	_, err = admin.ExecContext(c.t.Context(), "CREATE DATABASE "+name)
	require.NoError(c.t, errors.Join(err, admin.Close()))
	return c.database(name)
}

// start starts the server, and waits until it takes connections. Right after a
// kill what is left of the last one may still be in its way.
func (c *cluster) start() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	require.NoError(c.t, insist(ctx, func() error {
		c.server = c.command("postgres", "-D", c.cluster(), "-p", strconv.Itoa(c.port), "-k", c.folder, "-c", "listen_addresses=127.0.0.1")
		said, err := c.server.StderrPipe()
		if err != nil {
			return err
		}
		if err := c.server.Start(); err != nil {
			return err
		}
		lines := bufio.NewScanner(said)
		var heard strings.Builder
		for lines.Scan() {
			heard.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "ready to accept connections") {
				go func() { // to the end of the server
					for lines.Scan() {
					}
				}()
				return nil
			}
		}
		return errors.Join(errors.New(heard.String()), c.server.Wait())
	}))
}

// kill kills the server with all its processes, in the middle of whatever they do.
func (c *cluster) kill() {
	if c.server == nil || c.server.ProcessState != nil {
		return
	}
	pid := c.server.Process.Pid
	_ = c.server.Process.Signal(syscall.SIGSTOP)                                   // it makes no more of them: one that is left would wait for the dead for ever
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)) // elsewhere they see that they are alone
	_ = c.server.Process.Kill()
	for child := range strings.FieldsSeq(string(children)) {
		if id, err := strconv.Atoi(child); err == nil {
			_ = syscall.Kill(id, syscall.SIGKILL)
		}
	}
	_ = c.server.Wait()
}

// The server of the database is killed with all its processes, again and again
// while many runs write. All come to their ends; nothing that was acknowledged
// is lost, nothing is there twice, and each run acts once.
func TestFault_C1_AllRunsOutliveAPostgresThatIsKilledAgainAndAgain(t *testing.T) {
	scenario(t)
	c := newCluster(t)
	b := burdened(t, c.database("postgres"))
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- b.carry(ctx) }()
	const kills, between = 5, 25
	for range kills {
		for range between { // writes, so that each kill meets another one under way
			select {
			case <-b.wrote:
			case err := <-over:
				require.FailNow(t, "the runs were over before the last kill", "%v", err)
			}
		}
		c.kill()
		c.start()
	}
	if err := <-over; err != nil {
		b.stuck(t)
		require.NoError(t, err)
	}
	b.judge(t)
}

// statementName is how the driver names a statement that it prepared.
func statementName(text string) []byte {
	digest := sha256.Sum256([]byte(text))
	return []byte("stmtcache_" + hex.EncodeToString(digest[:24]))
}

// The connection breaks in the middle of a batch: before its commit is sent,
// within it, and when it stands and the answer is on its way. The writer goes on
// with the next connection, and nothing is there twice or lost.
func TestFault_C1_ABatchThatIsCutIsThereOnceOrNotAtAll(t *testing.T) {
	c := newCluster(t)
	for _, cutting := range []string{"before", "within", "after"} {
		t.Run(cutting, func(t *testing.T) {
			t.Parallel()
			scenario(t)
			p, database := through(t, c.create(cutting+"_it"))
			b := burdened(t, database)
			commit := statementName("COMMIT")
			var mu sync.Mutex
			var commits, cuts atomic.Int32
			p.watch(func(both *pair, sent []byte) (int, bool) {
				mu.Lock()
				defer mu.Unlock()
				i := bytes.Index(sent, commit)
				if i < 0 {
					return len(sent), false
				}
				const each, most = 3, 12
				if n := commits.Add(1); n%each != 0 || n > each*most {
					return len(sent), false
				}
				cuts.Add(1)
				switch cutting {
				case "before":
					return 0, true
				case "within":
					return i, true
				}
				both.deaf.Store(true)
				return len(sent), false
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			if err := b.carry(ctx); err != nil {
				b.stuck(t)
				require.NoError(t, err)
			}
			require.Greater(t, cuts.Load(), int32(5))
			b.judge(t)
		})
	}
}

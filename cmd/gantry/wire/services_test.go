//go:build services && unix

package wire_test

import (
	"bufio"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"gantry.dev/agents/model/modeltest"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
)

var _ = register("PROCESS", serveProcess)

// register adds something that a child process does.
func register(name string, child func(ctx context.Context) error) bool {
	children[name] = child
	return true
}

// shared is a house of many processes: on a database and a namespace of the bus
// of its own.
func shared(t *testing.T, change func(c *wire.Config)) *house {
	t.Helper()
	dsn, broker := os.Getenv("GANTRY_TEST_POSTGRES"), os.Getenv("GANTRY_TEST_NATS")
	require.NotEmpty(t, dsn, "GANTRY_TEST_POSTGRES names the PostgreSQL server to test against")
	require.NotEmpty(t, broker, "GANTRY_TEST_NATS names the NATS server to test against")
	name := "gantry_" + strings.ToLower(rand.Text())
	admin, err := sql.Open("pgx", dsn)
	require.NoError(t, err)
	_, err = admin.ExecContext(t.Context(), "CREATE DATABASE "+name)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := admin.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		require.NoError(t, err)
		require.NoError(t, admin.Close())
	})
	forget(t, broker, name)
	target, err := url.Parse(dsn)
	require.NoError(t, err)
	target.Path = "/" + name
	return newHouse(t, plan{config: func(c *wire.Config) {
		c.Database, c.Bus, c.Namespace, c.Lease = target.String(), broker, name, 2*time.Second
		change(c)
	}})
}

// forget removes what a namespace left at the broker once the test is over.
func forget(t *testing.T, broker, namespace string) {
	t.Helper()
	connection, err := nats.Connect(broker)
	require.NoError(t, err)
	streams, err := jetstream.New(connection)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		names := streams.StreamNames(ctx)
		for name := range names.Name() {
			if strings.HasPrefix(name, strings.ToUpper(namespace)) {
				require.NoError(t, streams.DeleteStream(ctx, name))
			}
		}
		require.NoError(t, names.Err())
		connection.Close()
	})
}

// member is what one process of a house is told.
type member struct {
	wire.Config
	Site     string // where it dies; these five hide what cannot be told
	Log      *struct{}
	Egress   *struct{}
	Provider *struct{}
	Between  *struct{}
}

// serveProcess is a process of a house: it says where it listens, and ends with
// its input.
func serveProcess(ctx context.Context) error {
	var told member
	if err := json.Unmarshal([]byte(os.Getenv("PROCESS")), &told); err != nil {
		return err
	}
	told.Config.Site = dieAt(told.Site)
	p, err := wire.Open(ctx, told.Config)
	if err != nil {
		return err
	}
	fmt.Println(p.Address())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return p.Close()
}

// process is a running process of a house.
type process struct {
	t       *testing.T
	command *exec.Cmd
	address string
}

// spawn starts a process that serves, works or both, and waits until it does.
func (h *house) spawn(worker, listen string, work bool, site string) *process {
	h.t.Helper()
	config := h.config()
	config.Worker, config.Listen, config.Work = worker, listen, work
	told, err := json.Marshal(member{Config: config, Site: site})
	require.NoError(h.t, err)
	p := &process{t: h.t, command: exec.CommandContext(h.t.Context(), os.Args[0])}
	p.command.Env = append(os.Environ(), "PROCESS="+string(told))
	p.command.Stderr = os.Stderr
	input, err := p.command.StdinPipe()
	require.NoError(h.t, err)
	h.t.Cleanup(func() { _ = input.Close() })
	output, err := p.command.StdoutPipe()
	require.NoError(h.t, err)
	require.NoError(h.t, p.command.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(h.t, err, "the process did not start")
	p.address = strings.TrimSpace(line)
	h.t.Cleanup(func() { _ = p.command.Process.Kill() })
	return p
}

// kill ends a process at once, without a word.
func (p *process) kill() {
	p.t.Helper()
	require.NoError(p.t, p.command.Process.Kill())
	p.fell()
}

// fell waits until the process was killed.
func (p *process) fell() {
	p.t.Helper()
	var exit *exec.ExitError
	require.ErrorAs(p.t, p.command.Wait(), &exit)
	require.Equal(p.t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
}

// at speaks for somebody to a process of the house.
func (h *house) at(p *process, principal string) *person {
	h.t.Helper()
	keys, err := wire.LoadKeys(h.folder, false)
	require.NoError(h.t, err)
	token, err := keys.Token(h.organisation.Name, principal, "gantry", rand.Text(), time.Now(), time.Hour)
	require.NoError(h.t, err)
	c, err := client.New(client.Config{URL: "http://" + p.address, Token: token})
	require.NoError(h.t, err)
	return &person{t: h.t, Client: c, token: token, url: "http://" + p.address + "/graphql"}
}

// A run that is started at a process that only serves is done by one that only
// works, and followed and decided where it was started.
func TestOneServesAndOneWorks(t *testing.T) {
	t.Parallel()
	h := shared(t, func(c *wire.Config) { c.Work = false })
	h.open()
	h.apply(h.organisation)
	config := h.config()
	config.Listen, config.Work, config.Worker = "", true, "the one that works"
	worker, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, worker.Close()) })
	require.Empty(t, worker.Address())

	amara, tomas := h.as(asker), h.as(controller)
	run := amara.begin("INV-1004").ID
	tomas.decide(tomas.held(run), true)
	ended := amara.ended(run)
	require.Equal(t, "COMPLETED", ended.Status)
	require.True(t, amara.verified(run))
	require.Equal(t, 1, h.entries("INV-1004"))

	marta := h.as(lead)
	require.Empty(t, marta.mutate("setStage", map[string]any{"agent": reconciler, "stage": "OBSERVE"}).UserErrors)
	observed := amara.ended(amara.begin("INV-1008").ID)
	require.Empty(t, observed.Approvals, "what one process put in force holds in the other")
	require.Zero(t, h.entries("INV-1008"))
}

// A command by message at the one is taken by the other, and what the model
// says there is heard here while it says it.
func TestMessagesAndTextPassBetweenProcesses(t *testing.T) {
	t.Parallel()
	heard := make(chan struct{})
	server := modeltest.NewServer(t, speak(`{"invoice":"INV-1002","adjustmentCents":0,"posted":false,"evidence":["read"],"finding":"`, `"}`, heard))
	h := shared(t, func(c *wire.Config) { c.Work, c.Secrets["slow-key"] = false, "key" })
	slowly(server.URL)(&h.organisation)
	h.open()
	h.apply(h.organisation)
	config := h.config()
	config.Listen, config.Work, config.Worker = "", true, "the one that works"
	worker, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, worker.Close()) })

	amara := h.as(asker)
	conversation := amara.talk("Far away")
	h.send("Bearer "+amara.token, map[string]any{"commandId": "start", "kind": "start",
		"start": map[string]any{"agent": reconciler, "goal": "Reconcile INV-1002.", "conversation": plain(t, conversation)}})
	entries := amara.listen(conversation, "", func(e entry) bool { return e.Node.Kind == "RUN_STARTED" })
	run := *entries[len(entries)-1].Node.Run
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, subscribe(ctx, amara, turnText, map[string]any{"id": run}, func(d delta) bool {
		return !strings.Contains(d.Text, "word") // its finding has begun
	}))
	close(heard)
	require.Equal(t, "COMPLETED", amara.ended(run).Status)
}

// Killing the process that works, in the middle of an effect, and the one that
// serves, in the middle of a stream, loses and repeats nothing.
func TestNeitherKilledProcessLosesAnything(t *testing.T) {
	t.Parallel()
	for _, site := range []string{"after call_intended#7", "effect done#1", "before call_ended#7", "after turn_answered#2"} {
		t.Run(site, func(t *testing.T) {
			t.Parallel()
			h := shared(t, func(c *wire.Config) { c.Poll = 100 * time.Millisecond }) // only the poll sees that a lease ended
			first := h.spawn("serves", "127.0.0.1:0", false, "")
			apply(t, h)
			dies := h.spawn("dies", "", true, site)
			amara, tomas := h.at(first, asker), h.at(first, controller)
			run := amara.begin("INV-1004").ID
			if strings.Contains(site, "turn") {
				dies.fell()
				h.spawn("goes on", "", true, "")
				tomas.decide(tomas.held(run), true)
			} else {
				tomas.decide(tomas.held(run), true)
				dies.fell()
				h.spawn("goes on", "", true, "")
			}
			known := amara.follow(run, "", func(e client.Event) bool { return e.Kind == "approval_requested" })
			first.kill()

			second := h.spawn("serves again", "127.0.0.1:0", false, "")
			amara = h.at(second, asker)
			rest := amara.follow(run, known[len(known)-1].Cursor, isEnd)
			for i, e := range append(known, rest...) {
				require.Equal(t, int64(i+1), e.Seq, "no gap, nothing twice")
			}
			ended, err := amara.Run(t.Context(), run)
			require.NoError(t, err)
			require.Equal(t, "COMPLETED", ended.Status)
			require.True(t, amara.verified(run))
			require.Equal(t, 1, h.entries("INV-1004"))
		})
	}
}

// apply puts a house's organisation in force from outside its processes.
func apply(t *testing.T, h *house) {
	t.Helper()
	config := h.config()
	config.Listen, config.Work = "", false
	p, err := wire.Open(t.Context(), config)
	require.NoError(t, err)
	_, _, err = p.Kits.Apply(t.Context(), h.organisation)
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

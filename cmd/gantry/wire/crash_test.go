//go:build unix

package wire_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/perform"
	"gantry.dev/cmd/gantry/ledger"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
	"gantry.dev/orchestrator/run/account"
)

// children are what this test binary does as a child process, by the variable
// of its environment that says so.
var children = map[string]func(ctx context.Context) error{"CRASH_FOLDER": child}

// The child process is this test binary again, told by its environment what to
// do and where to die.
func TestMain(m *testing.M) {
	for name, child := range children {
		if os.Getenv(name) == "" {
			continue
		}
		if err := child(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Kills the real process at a point, starts it again, and looks for the effect
// where it happened.
func TestKilledRunsGoOnAndActOnce(t *testing.T) {
	sites := []string{
		"before started#1", "after started#1", // W1
		"before turn_started#1", "after turn_started#2", // W4
		"before turn_answered#2", "after turn_answered#3", // W5
		"before approval_requested#1", "after approval_requested#1", // W8
		"before approval_decided#1", "after approval_decided#1", // W9
		"before call_intended#7", "after call_intended#7", // W10
		"effect begins#1", "effect done#1", // between W10 and W11
		"before call_ended#7", "after call_ended#7", // W11
		"before verified#1",               // W16
		"before ended#1", "after ended#1", // W17
	}
	for _, site := range sites {
		t.Run(site, func(t *testing.T) {
			t.Parallel()
			outside, err := ledger.New(t.Context(), ledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Tokens: map[string]string{ledgerToken: "gantry"}})
			require.NoError(t, err)
			server := httptest.NewServer(outside.Handler())
			t.Cleanup(func() { server.Close(); require.NoError(t, outside.Close()) })
			folder := t.TempDir()

			first, err := launch(t, folder, server.URL, site)
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit, "the process was to be killed: %s", first)
			require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())

			out, err := launch(t, folder, server.URL, "")
			require.NoError(t, err, out)
			require.Contains(t, out, "COMPLETED, chain verifies")
			require.Equal(t, 1, countEntries(t, server.URL))
		})
	}
}

func launch(t *testing.T, folder, url, site string) (string, error) {
	command := exec.CommandContext(t.Context(), os.Args[0])
	command.Env = append(os.Environ(), "CRASH_FOLDER="+folder, "CRASH_LEDGER="+url, "CRASH_SITE="+site)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	err := command.Run()
	return out.String(), err
}

func countEntries(t *testing.T, url string) int {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/v1/adjustments?invoice=INV-1004", http.NoBody)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+ledgerToken)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	var found struct {
		Entries []json.RawMessage `json:"entries"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&found))
	return len(found.Entries)
}

// dieAt kills the process at the nth passing of a point.
func dieAt(site string) wire.Site {
	if site == "" {
		return nil
	}
	var mu sync.Mutex
	passed := map[string]int{}
	return func(name string) {
		mu.Lock()
		defer mu.Unlock()
		passed[name]++
		if fmt.Sprintf("%s#%d", name, passed[name]) == site {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the kill is on its way
		}
	}
}

// child starts the one run or goes on with it, decides as the controller, and
// ends when the run has.
func child(ctx context.Context) (err error) {
	folder, url := os.Getenv("CRASH_FOLDER"), os.Getenv("CRASH_LEDGER")
	files, err := fs.Sub(sample.Files, "files")
	if err != nil {
		return err
	}
	root := filepath.Join(folder, "files")
	if err := os.CopyFS(root, files); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	organisation, err := agents.LoadDir(sample.Files, agents.LoadOptions{Endpoints: map[string]string{"ledger": url},
		Egress: []string{strings.TrimPrefix(url, "http://")}})
	if err != nil {
		return err
	}
	p, err := wire.Open(ctx, wire.Config{Folder: folder, Files: root, Work: true, Dev: true,
		Secrets: map[string]string{"ledger": ledgerToken}, Site: dieAt(os.Getenv("CRASH_SITE"))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if _, _, err := p.Kits.Apply(ctx, organisation); err != nil {
		return err
	}
	id, err := theRun(ctx, p, organisation)
	if err != nil {
		return err
	}
	if err := finish(ctx, p, organisation, id); err != nil {
		return err
	}
	head, records, err := p.Store.Load(ctx, id, 0)
	if err != nil {
		return err
	}
	var export bytes.Buffer
	if err := account.Export(&export, records); err != nil {
		return err
	}
	report, err := account.Verify(&export, head.Digest)
	fmt.Printf("%s, chain verifies: %v\n", report.Status, err == nil)
	return err
}

func theRun(ctx context.Context, p *wire.Platform, o agents.Organisation) (string, error) {
	heads, err := p.Store.Heads(ctx, journal.Filter{Organisation: o.Name}, 2)
	if err != nil || len(heads) == 1 {
		return heads[0].Run, err
	}
	person, _ := o.Principal("amara.diallo")
	admitted, err := p.Admission.Start(ctx, perform.Order{Person: person, By: run.Identity{Principal: person.ID}, Agent: "invoice-reconciler",
		Goal: "Reconcile INV-1004.", CommandID: "the one run"})
	return admitted.Run, err
}

func finish(ctx context.Context, p *wire.Platform, o agents.Organisation, id string) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	tail, err := p.Hub.Tail(ctx, id, 0)
	if err != nil {
		return err
	}
	for record := range tail.Items() {
		event, err := run.Decode(record)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case run.ApprovalRequested:
			if err := grant(ctx, p, o, id, e); err != nil {
				return err
			}
		case run.Parked, run.LimitReached:
			return fmt.Errorf("%s at record %d", event.Kind(), record.Seq)
		}
	}
	return tail.Err()
}

func grant(ctx context.Context, p *wire.Platform, o agents.Organisation, id string, e run.ApprovalRequested) error {
	person, _ := o.Principal("tomas.rehak")
	reason, payload := engine.Seal(engine.RandomSource{}, id, person.ID, policy.Marking{}, []byte("checked"))
	_, err := p.Engine.Submit(ctx, engine.Submission{Organisation: o.Name, Run: id, Payloads: []engine.Payload{payload},
		Command: run.DecideApproval{Approval: e.Approval, Digest: e.Digest, Granted: true, By: run.Identity{Principal: person.ID}, Person: person, Reason: &reason}})
	var refusal *run.Refusal
	if errors.As(err, &refusal) && (refusal.Code == "ALREADY_DECIDED" || refusal.Code == "RUN_ENDED") {
		return nil // before the kill
	}
	return err
}

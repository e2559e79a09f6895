package notary_test

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/notary"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

const startMs = 1_700_000_000_000

var source = engine.RandomSource{}

// rules permit everything.
type rules struct{}

func (rules) Revision() string                    { return "config" }
func (rules) PolicyRevision() string              { return "policy" }
func (rules) Judge(policy.Request) policy.Verdict { return policy.Verdict{Answer: policy.Permit} }
func (rules) Tool(string) (policy.ToolFacts, bool) {
	return policy.ToolFacts{}, false
}

func (rules) Ceiling(run.Acting) policy.Authority {
	return policy.Authority{MicroUSD: 1000, Tokens: 1000, DeadlineMs: 1 << 50, Turns: 9, Stage: policy.Automate}
}

func (rules) Voices(_ []policy.Approver, person policy.Principal, _ []string, _ int64) ([]string, error) {
	return []string{person.ID}, nil
}

// house is a store on a file, a folder of heads beside it, and the notary.
type house struct {
	t      *testing.T
	dsn    string
	path   string // of the SQLite file
	folder string
	store  *journal.Store
	engine *engine.Engine
	nowMs  int64
	ring   notary.Ring
	secret ed25519.PrivateKey
	notary *notary.Notary
	runs   int
}

func newHouse(t *testing.T) *house {
	path := filepath.Join(t.TempDir(), "gantry.db")
	h := newHouseOn(t, "sqlite:"+path)
	h.path = path
	return h
}

func newHouseOn(t *testing.T, dsn string) *house {
	h := &house{t: t, dsn: dsn, folder: filepath.Join(t.TempDir(), "heads"), nowMs: startMs}
	h.newKey()
	h.open()
	for _, organisation := range []string{"north", "south"} {
		require.NoError(t, h.store.ChangeOrganisation(t.Context(), journal.Change{Organisation: organisation, Digest: "config", Body: []byte("{}")}))
	}
	require.NoError(t, h.store.SetBudget(t.Context(), "department", run.Amount{MicroUSD: 100_000, Tokens: 100_000}))
	return h
}

func (h *house) newKey() {
	public, secret, err := ed25519.GenerateKey(nil)
	require.NoError(h.t, err)
	h.secret, h.ring = secret, h.ring.Add(public, h.nowMs)
}

func (h *house) open() {
	store, err := journal.Open(context.WithoutCancel(h.t.Context()), journal.Config{DSN: h.dsn, MasterKey: make([]byte, 32), Clock: func() int64 { return h.nowMs }})
	require.NoError(h.t, err)
	h.store = store
	h.engine = engine.New(store, func(context.Context, string) (run.Rules, error) { return rules{}, nil })
	h.notary = h.newNotary(h.folder)
	h.t.Cleanup(func() { require.NoError(h.t, store.Close()) })
}

func (h *house) newNotary(folder string) *notary.Notary {
	n := notary.New(notary.Config{Store: h.store, Folder: folder, Keys: h.keys})
	h.t.Cleanup(func() { require.NoError(h.t, n.Close()) })
	return n
}

func (h *house) keys() (notary.Signer, notary.Ring, error) {
	signer, err := notary.NewSigner(h.secret, h.ring)
	return signer, h.ring, err
}

// again opens everything as another process would.
func (h *house) again() {
	require.NoError(h.t, h.notary.Close())
	require.NoError(h.t, h.store.Close())
	h.open()
}

func (h *house) sign() { require.NoError(h.t, h.notary.Sign(h.t.Context())) }

func (h *house) send(organisation, id string, command run.Command, payloads ...engine.Payload) {
	h.nowMs++
	_, err := h.engine.Submit(h.t.Context(), engine.Submission{Organisation: organisation, Run: id, Command: command, Payloads: payloads})
	require.NoError(h.t, err, "%T", command)
}

// start begins a run of three records, which never ends.
func (h *house) start(organisation string) string {
	h.runs++
	id := fmt.Sprint(organisation, "-", h.runs)
	goal, payload := engine.Seal(source, id, "ada", policy.Marking{}, []byte("the goal of "+id))
	h.send(organisation, id, run.Start{Started: run.Started{Organisation: organisation, RunKind: run.Root, Root: id,
		Subject: policy.Principal{ID: "ada", Organisation: organisation}, Chain: []string{"ada", "agent:a"}, Agent: policy.AgentFacts{Name: "a", Owner: "olga"},
		Contact: "olga", Goal: goal, Authority: rules{}.Ceiling(run.Acting{}), Accounts: []string{"department"},
		Limits: run.Limits{Turns: 9, CallsPerTurn: 8, CallsAtOnce: 8, TurnAttempts: 3, CallAttempts: 3, NoProgress: 9, RepairTurns: 2, CheckAttempts: 2,
			Steers: 99, ApprovalMs: 60_000, QuestionMs: 60_000, TurnMs: 60_000, OnLimit: run.AskOnLimit}}}, payload)
	h.steer(organisation, id, 2)
	return id
}

// steer adds records to a run.
func (h *house) steer(organisation, id string, records int) {
	for range records {
		text, payload := engine.Seal(source, id, "ada", policy.Marking{}, []byte("further"))
		h.send(organisation, id, run.Steer{Steer: source.ID(), By: run.Identity{Principal: "ada"}, Text: text}, payload)
	}
}

// damage works on the file behind the store's back, where each record is a row.
func (h *house) damage(work func(tx *sql.Tx)) {
	require.NoError(h.t, h.notary.Close())
	require.NoError(h.t, h.store.Close())
	db, err := sql.Open("sqlite", h.path)
	require.NoError(h.t, err)
	require.NoError(h.t, journaltest.Alter(h.t.Context(), db, false, func(tx *sql.Tx) error {
		work(tx)
		return nil
	}))
	require.NoError(h.t, db.Close())
	h.open()
}

// do makes a statement that must change something.
func (h *house) do(tx *sql.Tx, statement string, args ...any) {
	result, err := tx.ExecContext(h.t.Context(), statement, args...)
	require.NoError(h.t, err)
	changed, err := result.RowsAffected()
	require.NoError(h.t, err)
	require.NotZero(h.t, changed, "the damage must hit something")
}

// stored are the records of a run as they lie in the database.
func (h *house) stored(tx *sql.Tx, id string) (records []run.Record) {
	rows, err := tx.QueryContext(h.t.Context(), "SELECT run, seq, kind, version, at_ms, body, prev, digest FROM journal WHERE run = ? ORDER BY seq", id)
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, rows.Close()) }()
	for rows.Next() {
		var r run.Record
		require.NoError(h.t, rows.Scan(&r.Run, &r.Seq, (*string)(&r.Kind), &r.Version, &r.AtMs, &r.Body, &r.Prev, &r.Digest))
		records = append(records, r)
	}
	require.NoError(h.t, rows.Err())
	return records
}

// rechain makes a run's records after a number follow from each other again, as
// somebody would who has the database and the program.
func (h *house) rechain(tx *sql.Tx, id string, from int) {
	records := h.stored(tx, id)
	for i := range records {
		if i+1 < from {
			continue
		}
		records[i].Prev = records[i-1].Digest
		records[i].Digest = run.Chain(records[i])
		h.do(tx, "UPDATE journal SET prev = ?, digest = ? WHERE run = ? AND seq = ?", records[i].Prev, records[i].Digest, id, records[i].Seq)
	}
	h.do(tx, "UPDATE heads SET digest = ? WHERE run = ?", records[len(records)-1].Digest, id)
}

// check holds the store against the folder and returns the faults.
func (h *house) check() (notary.Report, []notary.Fault) {
	snapshot, err := h.store.Snapshot(h.t.Context())
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, snapshot.Close()) }()
	var found []notary.Fault
	report, err := notary.Check(h.t.Context(), notary.NewFolder(h.folder), h.ring, snapshot, func(f notary.Fault) error {
		found = append(found, f)
		return nil
	})
	require.NoError(h.t, err)
	require.Len(h.t, found, report.Faults)
	return report, found
}

// file is the file of an organisation's heads.
func (h *house) file(organisation string) string {
	return filepath.Join(h.folder, organisation+".jsonl")
}

func (h *house) lines(organisation string) []byte {
	text, err := os.ReadFile(h.file(organisation))
	require.NoError(h.t, err)
	return text
}

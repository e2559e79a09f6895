package notice_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/notice"
)

const hour = int64(3_600_000)

// house is a store with what waits in it, a clock, and everybody who tells.
type house struct {
	t     *testing.T
	store *notice.Store
	db    journal.Databases

	mu       sync.Mutex
	nowMs    int64
	schedule notice.Schedule
	to       map[notice.Step][]notice.Recipient // of every item
	sent     []notice.Notice
	failing  map[string]error // by target
}

func newHouse(t *testing.T, dsn string) *house {
	t.Helper()
	if dsn == "" {
		dsn = "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")
	}
	s, err := journal.Open(t.Context(), journal.Config{DSN: dsn, MasterKey: make([]byte, 32)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &house{t: t, db: s.Databases(), store: notice.NewStore(s.Databases()), nowMs: 1_000_000, failing: map[string]error{}, to: map[notice.Step][]notice.Recipient{}}
}

func (h *house) exec(query string) {
	h.t.Helper()
	_, err := h.db.Write.ExecContext(h.t.Context(), query)
	require.NoError(h.t, err)
}

// open lets an approval wait since now.
func (h *house) open(id string, untilMs string) {
	h.t.Helper()
	h.exec(`INSERT INTO heads (run, version, digest, status, due_ms, organisation, root, parent, conversation, subject, agent, department, labels, started_ms)
		VALUES ('run-` + id + `', 1, '', 'WAITING', 0, 'acme', 'run-` + id + `', '', '', 'alice', 'payer', 'finance', '[]', 1)`)
	h.exec(`INSERT INTO inbox (organisation, id, run, kind, approvers, not_after_ms, since_ms) VALUES ('acme', '` + id + `', 'run-` + id + `', 'APPROVAL', '[]', ` + untilMs + `, ` + itoa(h.nowMs) + `)`)
}

func (h *house) close(id string) {
	h.t.Helper()
	h.exec(`DELETE FROM inbox WHERE id = '` + id + `'`)
}

func (h *house) Schedule(context.Context, string) (notice.Schedule, error) { return h.schedule, nil }

func (h *house) Recipients(_ context.Context, _ notice.Item, step notice.Step) ([]notice.Recipient, error) {
	return h.to[step], nil
}

func (h *house) now(context.Context) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.nowMs, nil
}

func (h *house) Send(_ context.Context, n notice.Notice) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.failing[n.Channel.Target]; err != nil {
		return err
	}
	h.sent = append(h.sent, n)
	return nil
}

// look lets one process record what is due.
func (h *house) look() {
	h.t.Helper()
	f := notice.Follower{Store: h.store, People: h, Now: h.now}
	require.NoError(h.t, f.Pass(h.t.Context()))
}

func (h *house) courier(owner string, sender notice.Sender) *notice.Courier {
	return &notice.Courier{Store: h.store, Sender: sender, Now: h.now, Owner: owner, Limits: notice.DefaultLimits(), Log: slog.New(slog.DiscardHandler)}
}

// pass lets one process record and tell what is due, and returns what was told.
func (h *house) pass() []string {
	h.t.Helper()
	h.look()
	require.NoError(h.t, h.courier("one", h).Pass(h.t.Context()))
	return h.told()
}

// told returns what was told since it was asked last: "step person target".
func (h *house) told() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var words []string
	for _, n := range h.sent {
		words = append(words, string(n.Step)+" "+n.Person+" "+n.Channel.Target)
	}
	h.sent = nil
	return words
}

func (h *house) states() map[notice.State]int {
	h.t.Helper()
	counts := map[notice.State]int{}
	for _, person := range []string{"mona", "mark", "nick"} {
		list, err := h.store.Of(h.t.Context(), "acme", person, 100)
		require.NoError(h.t, err)
		for _, n := range list {
			counts[n.State]++
		}
	}
	return counts
}

func mail(person string) notice.Recipient {
	return notice.Recipient{Person: person, Channels: []notice.Channel{{Kind: "EMAIL", Target: person + "@acme"}}}
}

var errDown = errors.New("down")

var _ notice.People = (*house)(nil)

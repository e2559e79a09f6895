package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"gantry.dev/orchestrator/engine"
	"gantry.dev/orchestrator/journal"
	"gantry.dev/orchestrator/journal/journaltest"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// hostile are texts that some store would not take, or change.
var hostile = []string{"a\x00b", "\xff\xfe", "\xed\xa0\x80", "x\xc3(", "a\u202eb", "\ufffd", "𝄞", "", "\\u0000"}

// plain are the places whose text is a column of its own, as only names that the
// product made or checked are. No such name has U+0000 or is not UTF-8.
var plain = []string{"subject", "agent", "command", "gate", "gate value", "item", "author", "text id", "owner", "link"}

// places are where a text can come to lie in a write, by name.
var places = map[string]func(w *engine.Write, text string){
	"payload":    func(w *engine.Write, text string) { w.Payloads[0].Bytes = []byte(text) },
	"record":     func(w *engine.Write, text string) { w.Records[0].Body = []byte(text) },
	"answer":     func(w *engine.Write, text string) { w.Receipt.Answer = []byte(text) },
	"subject":    func(w *engine.Write, text string) { w.Head.Subject = text },
	"agent":      func(w *engine.Write, text string) { w.Head.Agent = text },
	"label":      func(w *engine.Write, text string) { w.Head.Labels = policy.NewLabels(policy.Label(text)) },
	"command":    func(w *engine.Write, text string) { w.Receipt.Command = text },
	"gate":       func(w *engine.Write, text string) { w.Gates[0].Gate = text },
	"gate value": func(w *engine.Write, text string) { w.Gates[0].Value = text },
	"approver":   func(w *engine.Write, text string) { w.Inbox[0].Approvers[0].Why = text },
	"item":       func(w *engine.Write, text string) { w.Inbox[0].ID = text },
	"author":     func(w *engine.Write, text string) { w.Entries[0].Author = text },
	"text id":    func(w *engine.Write, text string) { w.Payloads[0].Text.ID = text },
	"owner":      func(w *engine.Write, text string) { w.Payloads[0].Text.Subject = text },
	"link":       func(w *engine.Write, text string) { w.Links[0].Item = text },
}

// laden is a write with something in each place.
func laden(i int) engine.Write {
	w := journaltest.Write(fmt.Sprint("r", i), 0, 1)
	w.Payloads = []engine.Payload{{Run: w.Head.Run, Salt: []byte("0123456789abcdef"), Bytes: []byte("one"), Text: run.Text{ID: fmt.Sprint("t", i), Subject: fmt.Sprint("ann", i)}}}
	w.Receipt = &engine.Receipt{Organisation: "acme", Caller: "ann", Command: fmt.Sprint("c", i), Request: "digest", Run: w.Head.Run, Answer: []byte("{}")}
	w.Gates = []run.GateChange{{Gate: fmt.Sprint("g", i), Value: "closed"}}
	w.Inbox = []engine.InboxItem{{ID: fmt.Sprint("i", i), Organisation: "acme", Run: w.Head.Run, Kind: engine.InboxApproval, Open: true, SinceMs: int64(i),
		Approvers: []policy.Approver{{Principal: "ann", Why: "asked"}}}}
	w.Entries = []engine.Entry{{Organisation: "acme", Conversation: "talk", Kind: "message", Run: w.Head.Run, Author: "ann"}}
	w.Links = []engine.Link{{Item: fmt.Sprint("m", i), Text: "of another run"}}
	return w
}

// keepsTexts puts each text in each place, and says what became of it: refused,
// or what is read back.
func keepsTexts(t *testing.T, s store) map[string]string {
	ctx := context.Background()
	require.NoError(t, s.Converse(ctx, "acme", "talk"))
	became, i := map[string]string{}, 0
	for _, text := range hostile {
		for _, name := range slices.Sorted(maps.Keys(places)) {
			if slices.Contains(plain, name) && (!utf8.ValidString(text) || strings.Contains(text, "\x00")) {
				continue
			}
			i++
			w := laden(i)
			places[name](&w, text)
			key := fmt.Sprintf("%s %q", name, text)
			if err := s.Append(ctx, w); err != nil {
				became[key] = "refused"
				_, _, err = s.Load(ctx, w.Head.Run, 0)
				require.ErrorIs(t, err, engine.ErrNotFound, "%s: half of it is there", key)
				continue
			}
			became[key] = readBack(t, s, w)
		}
	}
	return became
}

func readBack(t *testing.T, s store, w engine.Write) string {
	ctx := context.Background()
	head, records, err := s.Load(ctx, w.Head.Run, 0)
	require.NoError(t, err)
	found, err := s.Payloads(ctx, []string{w.Payloads[0].Text.ID})
	require.NoError(t, err)
	receipt, err := s.Receipt(ctx, "acme", "ann", w.Receipt.Command)
	require.NoError(t, err)
	value, err := s.Gate(ctx, w.Gates[0].Gate)
	require.NoError(t, err)
	entries, err := s.Entries(ctx, "acme", "talk", 0, 1000)
	require.NoError(t, err)
	items, err := s.Inbox(ctx, policy.Principal{ID: "ann", Organisation: "acme"})
	require.NoError(t, err)
	item := engine.InboxItem{}
	for _, one := range items {
		if one.Run == w.Head.Run {
			item = one
		}
	}
	require.NotEmpty(t, item.Run)
	_, runs, err := s.EraseItems(ctx, []string{w.Links[0].Item})
	require.NoError(t, err)
	require.Contains(t, runs, w.Head.Run)
	p := found[w.Payloads[0].Text.ID]
	return fmt.Sprintf("%q", []any{head.Subject, head.Agent, head.Labels, string(records[0].Body), string(p.Bytes), p.Text.ID, p.Text.Subject,
		string(receipt.Answer), value, entries[len(entries)-1].Author, item.ID, item.Approvers[0].Why})
}

// What is stored as bytes comes back byte for byte, whatever it is.
func TestFault_C18_BytesComeBackAsTheyWere(t *testing.T) {
	bytesComeBack(t, open(t, journal.Config{DSN: "sqlite:" + freshFile(t), Between: journaltest.Hasty}))
}

func bytesComeBack(t *testing.T, s store) {
	ctx := t.Context()
	require.NoError(t, s.Converse(ctx, "acme", "talk"))
	for i, text := range hostile {
		w := laden(i)
		for _, name := range []string{"payload", "record", "answer"} {
			places[name](&w, text)
		}
		require.NoError(t, s.Append(ctx, w), "%q", text)
		_, records, err := s.Load(ctx, w.Head.Run, 0)
		require.NoError(t, err)
		require.Equal(t, text, string(records[0].Body))
		found, err := s.Payloads(ctx, []string{w.Payloads[0].Text.ID})
		require.NoError(t, err)
		require.Equal(t, text, string(found[w.Payloads[0].Text.ID].Bytes))
		receipt, err := s.Receipt(ctx, "acme", "ann", w.Receipt.Command)
		require.NoError(t, err)
		require.Equal(t, text, string(receipt.Answer))
	}
}

// opensOlder makes a store as it was before a text's reference was cut down to
// its marking, and looks at what the next start makes of its texts.
func opensOlder(t *testing.T, config journal.Config) {
	t.Helper()
	config.MasterKey = masterKey
	text, payload := engine.Seal(engine.RandomSource{}, "r1", "ann", policy.Marking{Labels: policy.NewLabels("hr", `a"b`), Integrity: policy.Untrusted}, []byte("said"))
	old, err := journal.Open(t.Context(), config)
	require.NoError(t, err)
	w := journaltest.Write("r1", 0, 1)
	w.Payloads = []engine.Payload{payload}
	require.NoError(t, old.Append(t.Context(), w))
	reference, err := json.Marshal(text)
	require.NoError(t, err)
	db := old.Databases().Write
	for _, back := range []string{"ALTER TABLE payloads RENAME COLUMN marking TO text", "DELETE FROM goose_db_version WHERE version_id = 12"} {
		_, err := db.ExecContext(t.Context(), back)
		require.NoError(t, err)
	}
	_, err = db.ExecContext(t.Context(), "UPDATE payloads SET text = $1", string(reference))
	require.NoError(t, err)
	require.NoError(t, old.Close())
	found, err := open(t, config).Payloads(t.Context(), []string{text.ID})
	require.NoError(t, err)
	require.Equal(t, map[string]engine.Payload{text.ID: payload}, found)
}

func TestTextsOfAnOlderStoreAreRead(t *testing.T) {
	opensOlder(t, journal.Config{DSN: "sqlite:" + filepath.Join(t.TempDir(), "gantry.db")})
}

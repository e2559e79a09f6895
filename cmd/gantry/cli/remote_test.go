package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/ask"
	"gantry.dev/cmd/gantry/client"
)

// atHome serves the sample for the commands of a test.
func atHome(t *testing.T) *house {
	folder := t.TempDir()
	h, err := openHouse(t.Context(), places{folder: folder, interfaceAt: "127.0.0.1:0", ledgerAt: "127.0.0.1:0", log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.close()) })
	require.NoError(t, h.writeAccess())
	t.Setenv("GANTRY_HOME", folder)
	t.Setenv("GANTRY_URL", "")
	t.Setenv("GANTRY_TOKEN", "")
	return h
}

// gantry runs a command line and returns what it printed.
func gantry(t *testing.T, args ...string) (string, error) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

func must(t *testing.T, args ...string) string {
	out, err := gantry(t, args...)
	require.NoError(t, err, out)
	return out
}

func mustJSON(t *testing.T, into any, args ...string) {
	require.NoError(t, json.Unmarshal([]byte(must(t, args...)), into))
}

func TestRunIsApprovedWatchedExplainedAndVerified(t *testing.T) {
	h := atHome(t)
	out := must(t, "run", "--as", sampleAsker, sampleAgent, reconcile("INV-1004"))
	require.Contains(t, out, "call 7 HELD: ledger.post_adjustment {\"amountCents\":-64856")
	require.Contains(t, out, "waits for: APPROVAL")

	var items []client.Item
	mustJSON(t, &items, "inbox", "--json")
	require.Len(t, items, 1)
	require.Contains(t, must(t, "inbox"), "→ "+ask.Program()+" approve "+items[0].ID)
	require.Contains(t, out, "→ "+ask.Program()+" approve "+items[0].ID, "the run's own output names the same")
	approved := must(t, "approve", items[0].ID, "--reason", "checked")
	for _, shown := range []string{"granted:", items[0].Approval.Tool, items[0].Approval.Arguments.Display, items[0].Approval.Digest} {
		require.Contains(t, approved, shown)
	}
	id := items[0].Run.ID
	short := client.ShortID(id)
	require.Len(t, short, 36)
	watched := must(t, "watch", short)
	require.Contains(t, watched, "run "+short+" started")
	require.Equal(t, watched, must(t, "watch", id), "either id names it")
	require.Regexp(t, sampleDecider+` granted call \d+ by approval `+items[0].ID, watched)
	require.Contains(t, watched, "run COMPLETED: VERIFIED")
	require.Contains(t, watched, "COMPLETED: VERIFIED — spent $0.00")
	entries, err := h.entries(t.Context(), "INV-1004")
	require.NoError(t, err)
	require.Len(t, entries, 1, "the ledger itself was asked")

	explained := must(t, "explain", id)
	for _, shown := range []string{"What was asked?\n  " + sampleAsker, "call 7: " + sampleDecider + " granted it", "Why did it stop?\n  COMPLETED"} {
		require.Contains(t, explained, shown)
	}
	require.Contains(t, must(t, "explain", id, "--turn", "2"), "call 1 files.read → OK")
	_, err = gantry(t, "explain", id, "--turn", "99")
	require.ErrorContains(t, err, "no turn 99")

	path := filepath.Join(t.TempDir(), "run.jsonl")
	must(t, "export", id, "-o", path)
	require.Contains(t, must(t, "verify", path), "records verify")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(raw), must(t, "export", id))

	for _, id := range []string{items[0].ID, items[0].Approval.ID} {
		_, err = gantry(t, "approve", id)
		require.ErrorContains(t, err, "no longer open: SPENT; "+sampleDecider+" granted it")
	}
}

func TestRunsAreListedSteeredAndCancelled(t *testing.T) {
	atHome(t)
	var started client.Run
	mustJSON(t, &started, "run", "--as", sampleAsker, "--json", sampleAgent, reconcile("INV-1008"))
	require.Equal(t, []string{"APPROVAL"}, started.WaitingFor)
	require.Contains(t, must(t, "runs", "--agent", sampleAgent, "--for", sampleAsker, "--status", "waiting"), client.ShortID(started.ID))
	require.Contains(t, must(t, "runs", "--json"), `"journalId": "`+client.ShortID(started.ID)+`"`)
	require.Empty(t, must(t, "runs", "--status", "FAILED"))
	for _, wrong := range [][]string{{"runs", "--status", "ASLEEP"}, {"runs", "--last", "0"}, {"stage", sampleAgent, "FREE"}} {
		_, err := gantry(t, wrong...)
		require.ErrorContains(t, err, "must be", wrong)
	}
	require.Contains(t, must(t, "steer", "--as", sampleAsker, client.ShortID(started.ID), "Be quick."), "WAITING")
	require.Contains(t, must(t, "cancel", "--as", sampleAsker, started.ID, "--reason", "enough"), "CANCELLED")
	out, err := gantry(t, "watch", started.ID)
	require.ErrorContains(t, err, "the run is CANCELLED", "a run without a result is no success")
	require.Contains(t, out, sampleAsker+" steers: Be quick.")
	require.Contains(t, out, sampleAsker+" cancels")
	out, err = gantry(t, "watch", "--json", started.ID)
	require.ErrorContains(t, err, "the run is CANCELLED", "nor is it one for programs")
	require.Contains(t, out, `"kind":"ended"`)
	require.Equal(t, "nothing waits for you\n", must(t, "inbox"))
}

func TestDenialIsShownAndReachesTheRun(t *testing.T) {
	h := atHome(t)
	id := must(t, "run", "--as", sampleAsker, "--no-follow", sampleAgent, reconcile("INV-1006"))
	decider, err := h.as(sampleDecider)
	require.NoError(t, err)
	var held *client.Item
	require.NoError(t, decider.InboxChanges(t.Context(), func(items []client.Item) (bool, error) {
		held = firstApproval(items)
		return held == nil, nil
	}))
	require.Equal(t, client.ShortID(held.Run.ID)+"\n", id)
	require.Contains(t, must(t, "deny", held.Approval.ID, "--reason", "not due"), "denied:\n  call 7: ledger.post_adjustment")
	require.Contains(t, must(t, "watch", held.Run.ID), "call 7 ended: DENIED")
	entries, err := h.entries(t.Context(), "INV-1006")
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestObservedAgentShowsWhatItWouldHaveDone(t *testing.T) {
	h := atHome(t)
	require.Contains(t, must(t, "observe", sampleAgent), "calls simulated in the last 0 runs: 0")
	require.Contains(t, must(t, "stage", "--as", "marta.lindqvist", sampleAgent, "OBSERVE"), "is in stage OBSERVE")
	out := must(t, "run", "--as", sampleAsker, sampleAgent, reconcile("INV-1006"))
	require.Contains(t, out, "call 7 only simulated: it would have been HOLD")
	observed := must(t, "observe", sampleAgent)
	require.Contains(t, observed, `call 7: ledger.post_adjustment {"amountCents":918`)
	require.Contains(t, observed, "would have been HOLD by adjust-small")
	require.Contains(t, observed, "in stage OBSERVE; calls simulated in the last 1 runs: 1; HOLD: 1")
	var seen []observation
	mustJSON(t, &seen, "observe", sampleAgent, "--json")
	require.Len(t, seen, 1)
	entries, err := h.entries(t.Context(), "INV-1006")
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = gantry(t, "stage", "--as", "marta.lindqvist", sampleAgent, "APPROVE")
	require.True(t, client.IsCode(err, "EVIDENCE_NEEDED"), err)
	require.Contains(t, must(t, "stage", "--as", "marta.lindqvist", sampleAgent, "APPROVE", "--evidence", "observed"), "until a second person")
}

func TestKilledAgentIsLiftedByTwoPeople(t *testing.T) {
	atHome(t)
	require.Contains(t, must(t, "kills"), "nothing is stopped")
	_, err := gantry(t, "kill", "AGENT", "--reason", "x")
	require.ErrorContains(t, err, "name what is to be stopped")
	require.Contains(t, must(t, "kill", "--as", "marta.lindqvist", "AGENT", sampleAgent, "--reason", "posts nonsense"), "stopped: AGENT "+sampleAgent)
	require.Regexp(t, "AGENT "+sampleAgent+" since .* by marta.lindqvist: posts nonsense", must(t, "kills", "--as", "marta.lindqvist"))
	_, err = gantry(t, "run", "--as", sampleAsker, sampleAgent, reconcile("INV-1004"))
	require.True(t, client.IsCode(err, "AGENT_STOPPED"), err)
	require.Contains(t, must(t, "lift", "--as", "marta.lindqvist", "AGENT", sampleAgent), "until a second person")
	require.Contains(t, must(t, "lift", "--as", "helena.voss", "AGENT", sampleAgent), "lifted")
	require.Contains(t, must(t, "kills", "--as", "marta.lindqvist"), "nothing is stopped")
}

func TestRunSpendsNoMoreThanItsBudget(t *testing.T) {
	atHome(t)
	out := must(t, "run", "--as", sampleAsker, "--budget", "10", sampleAgent, reconcile("INV-1004"))
	require.Contains(t, out, "limit BUDGET reached")
	require.Contains(t, out, "waits for: LIMIT")
}

// canned answers every operation with the same data.
func canned(t *testing.T, data string) (asked *int) {
	asked = new(int)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		*asked++
		_, _ = w.Write([]byte(`{"data":` + data + `}`))
	}))
	t.Cleanup(server.Close)
	t.Setenv("GANTRY_HOME", t.TempDir())
	t.Setenv("GANTRY_URL", server.URL)
	t.Setenv("GANTRY_TOKEN", "secret-token")
	return asked
}

func TestNobodyApprovesWhatTheyAreNotShown(t *testing.T) {
	asked := canned(t, `{"inbox":[{"id":"a1","kind":"APPROVAL","since":"2026-03-01T09:00:00Z","run":{"version":"3"},
		"approval":{"id":"g1","digest":"d","arguments":{"value":"[redacted]","display":"[redacted]","withheld":[{"reason":"NOT_CLEARED"}]}}}]}`)
	_, err := gantry(t, "approve", "a1")
	require.ErrorIs(t, err, errUnseen)
	require.Equal(t, 1, *asked, "no decision was sent")
}

func TestTheFirstOfTwoGrantsSaysThatAnotherIsNeeded(t *testing.T) {
	canned(t, `{"done":{"run":{"id":"r1","status":"WAITING","version":"9"},"userErrors":[]},"inbox":[{"id":"a1","kind":"APPROVAL",
		"since":"2026-03-01T09:00:00Z","run":{"version":"3"},"approval":{"id":"g1","digest":"d","quorum":2}}]}`)
	require.Contains(t, must(t, "approve", "a1"), "1 of 2 needed\nrun r1: WAITING\n")
	require.NotContains(t, must(t, "deny", "a1"), "1 of 2")
}

func TestEveryKindOfInboxItemSaysWhatCanBeDone(t *testing.T) {
	run := `"run":{"id":"r1","agent":"payer","version":"3"}`
	canned(t, `{"inbox":[{"id":"i1","kind":"QUESTION","since":"2026-03-01T09:00:00Z","expiresAt":"2026-03-02T09:00:00Z",`+run+`,"question":{"question":{"display":"{\"question\":\"Which?\"}"}}},
		{"id":"i2","kind":"LIMIT","since":"2026-03-01T09:00:00Z",`+run+`,"limit":{"limit":"TURNS","detail":"5 used"}},
		{"id":"i3","kind":"UNCERTAIN","since":"2026-03-01T09:00:00Z",`+run+`,"uncertain":[{"number":4,"tool":"bank.pay","arguments":{"display":"{}"}}]},
		{"id":"i4","kind":"PARKED","since":"2026-03-01T09:00:00Z",`+run+`,"parked":{"code":"BROKEN","detail":"look"}}]}`)
	out := must(t, "inbox")
	for _, shown := range []string{"QUESTION i1 since 2026-03-01T09:00:00Z, until 2026-03-02T09:00:00Z", "→ " + ask.Program() + " answer i1 TEXT", "limit TURNS: 5 used",
		"→ " + ask.Program() + " resume r1 --turns N", "call 4 may or may not have happened: bank.pay {}", "→ " + ask.Program() + " resolve r1 4 HAPPENED|NOT_HAPPENED|REPEAT", "parked: BROKEN look"} {
		require.Contains(t, out, shown)
	}
}

func TestAnswersFindingsAndResumesAreSent(t *testing.T) {
	const run = `"done":{"run":{"id":"r1","status":"RUNNING","version":"9"},"userErrors":[]}`
	asked := canned(t, `{`+run+`,"inbox":[{"id":"q1","kind":"QUESTION","since":"2026-03-01T09:00:00Z","run":{"version":"3"},"question":{"id":"g1"}}]}`)
	require.Equal(t, "run r1: RUNNING\n", must(t, "answer", "q1", "Both."))
	require.Equal(t, 2, *asked)
	require.Equal(t, "run r1: RUNNING\n", must(t, "resume", "r1", "--turns", "3"))
	require.Equal(t, "run r1: RUNNING\n", must(t, "resolve", "r1", "4", "HAPPENED", "--evidence", "the bank's list"))
	_, err := gantry(t, "resolve", "r1", "4", "HAPPENED")
	require.ErrorContains(t, err, "evidence")
	_, err = gantry(t, "resolve", "r1", "four", "HAPPENED", "--evidence", "x")
	require.ErrorContains(t, err, "no number")
	_, err = gantry(t, "resume", "r1", "--accept", "--end")
	require.Error(t, err)
	_, err = gantry(t, "answer", "other", "Both.")
	require.True(t, client.IsCode(err, "NOT_FOUND"), err)
}

// A held call does not stop its siblings: the run is followed until none goes on.
func TestRunIsFollowedPastAHoldWhileItsOtherCallsGoOn(t *testing.T) {
	stands := []string{
		`{"id":"r1","status":"RUNNING","version":"4"}`,                           // when the hold is seen
		`{"id":"r1","status":"WAITING","waitingFor":["APPROVAL"],"version":"5"}`, // when event 4 is seen
		`{"id":"r1","status":"WAITING","waitingFor":["APPROVAL"],"version":"5"}`, // when event 5 is seen
	}
	looked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/event-stream" {
			_, _ = w.Write([]byte(`{"data":{"run":` + stands[min(looked, len(stands)-1)] + `}}`))
			looked++
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for seq, kind := range []string{"call_proposed", "call_proposed", "approval_requested", "call_intended", "call_ended", "late_outcome"} {
			_, _ = fmt.Fprintf(w, "event: next\ndata: {\"data\":{\"runEvents\":{\"seq\":\"%d\",\"kind\":%q,\"event\":{\"call\":1}}}}\n\n", seq+1, kind)
		}
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{URL: server.URL, Token: "t"})
	require.NoError(t, err)
	var out bytes.Buffer
	got, err := followRun(t.Context(), c, &timeline{out: &out}, "r1", false)
	require.NoError(t, err)
	require.True(t, got.Waits())
	require.Contains(t, out.String(), "    5 call 1 ended")
	require.NotContains(t, out.String(), "    6 ")
}

func TestWhoeverStopsWatchingLearnsThatTheRunGoesOn(t *testing.T) {
	for _, more := range [][]string{nil, {"--json"}} {
		ctx, stop := context.WithCancel(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then is it seen that the client hangs up
			if r.Header.Get("Accept") != "text/event-stream" {
				_, _ = w.Write([]byte(`{"data":{"run":{"id":"r1","version":"1"}}}`))
				return
			}
			stop()
			<-r.Context().Done()
		}))
		t.Setenv("GANTRY_TOKEN", "t")
		var out bytes.Buffer
		root := Root()
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append([]string{"watch", "r1", "--url", server.URL}, more...))
		require.NoError(t, root.ExecuteContext(ctx))
		require.Contains(t, out.String(), "the run goes on; see it with: "+ask.Program()+" watch r1\n")
		server.Close()
	}
}

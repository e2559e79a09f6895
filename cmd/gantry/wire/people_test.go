package wire_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/notice"
	"gantry.dev/orchestrator/notice/send"
)

// item returns what of a run is in the person's inbox.
func (p *person) item(run string) (client.Item, bool) {
	p.t.Helper()
	items, err := p.Inbox(p.t.Context())
	require.NoError(p.t, err)
	for _, item := range items {
		if item.Run.ID == run {
			return item, true
		}
	}
	return client.Item{}, false
}

// A deputy decides what waits for a person while it is one, and never what it
// asks itself.
func TestADeputyDecidesWhatWaitsForAPerson(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{organisation: func(o *agents.Organisation) { o.Deputies = nil }})
	amara, jonas, tomas, liam := h.as(asker), h.as(colleague), h.as(controller), h.as(outsider)
	first := amara.begin("INV-1004")
	approval := tomas.held(first.ID)
	input := map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"}
	_, shown := jonas.item(first.ID)
	require.False(t, shown)
	require.Equal(t, "NOT_FOUND", jonas.mutate("decideApproval", input).code())

	deputies, err := tomas.SetDeputy(t.Context(), colleague, time.Time{}, time.Now().Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, colleague, deputies[0].Deputy.Principal)
	waits, shown := jonas.item(first.ID)
	require.True(t, shown)
	require.Equal(t, controller, waits.OnBehalfOf.Principal)
	own, shown := tomas.item(first.ID)
	require.True(t, shown)
	require.Nil(t, own.OnBehalfOf)
	_, shown = liam.item(first.ID)
	require.False(t, shown)

	jonas.decide(approval, true)
	require.Equal(t, "COMPLETED", amara.ended(first.ID).Status)
	require.Equal(t, 1, h.entries("INV-1004"))
	var got struct {
		Run struct {
			Approvals []struct {
				Decisions []struct{ By, OnBehalfOf client.Actor }
			}
		}
	}
	jonas.ask("query($id:ID!){run(id:$id){approvals{decisions{by{principal} onBehalfOf{principal}}}}}", map[string]any{"id": first.ID}, &got)
	require.Equal(t, colleague, got.Run.Approvals[0].Decisions[0].By.Principal)
	require.Equal(t, controller, got.Run.Approvals[0].Decisions[0].OnBehalfOf.Principal)

	asked := jonas.begin("INV-1029")
	approval = tomas.held(asked.ID)
	require.Equal(t, "NOT_FOUND", jonas.mutate("decideApproval", map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"}).code(),
		"what the deputy asks itself")
	_, err = tomas.SetDeputy(t.Context(), "", time.Time{}, time.Time{})
	require.NoError(t, err)
	last := amara.begin("INV-1029")
	tomas.held(last.ID)
	_, shown = jonas.item(last.ID)
	require.False(t, shown, "the deputy is none any more")
	_, err = jonas.Run(t.Context(), last.ID)
	require.Error(t, err, "nor does it see the run")
}

// hook is the outside that webhooks go to.
type hook struct {
	*httptest.Server
	got chan notice.Message
	raw chan []byte
}

func openHook(t *testing.T, secret string) *hook {
	t.Helper()
	h := &hook{got: make(chan notice.Message, 64), raw: make(chan []byte, 64)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var message notice.Message
		if send.Verify([]byte(secret), r.Header.Get(send.SignatureHeader), body, time.Now().UnixMilli(), 300_000) != nil || json.Unmarshal(body, &message) != nil {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		h.raw <- body
		h.got <- message
	}))
	t.Cleanup(h.Close)
	return h
}

// Nobody reacts: people are reminded, others see it besides, and still nobody
// decides but who was named.
func TestEscalationTellsOthersAndLetsNobodyDecide(t *testing.T) {
	t.Parallel()
	outside := openHook(t, "whsec-of-the-tests")
	log := &written{}
	h := openHouse(t, plan{
		organisation: func(o *agents.Organisation) {
			o.Deputies = nil
			o.Egress = append(o.Egress, strings.TrimPrefix(outside.URL, "http://"))
			o.Escalation = agents.Escalation{RemindAfter: []tool.Duration{tool.Duration(time.Millisecond)}, EscalateAfter: tool.Duration(2 * time.Millisecond), To: agents.ToManager}
			o.Notify = agents.Notify{Link: "https://gantry.northwind.example/inbox", Default: []agents.Channel{{Kind: agents.Webhook, URL: outside.URL + "/hook", Secret: "hook"}}}
		},
		config: func(c *wire.Config) {
			c.Notices, c.Secrets = time.Millisecond, map[string]string{"ledger": ledgerToken, "hook": "whsec-of-the-tests"}
			c.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		},
	})
	amara, tomas, marta := h.as(asker), h.as(controller), h.as(lead)
	run, err := amara.StartRun(t.Context(), client.Start{Agent: reconciler, Goal: "Reconcile INV-1004. " + goalCanary})
	require.NoError(t, err)
	approval := tomas.held(run.ID)
	told := map[string]bool{}
	for range 64 {
		if told["ESCALATED "+lead] {
			break
		}
		message := <-outside.got
		told[string(message.Step)+" "+message.Person] = true
		require.Equal(t, "APPROVAL", message.Kind)
		require.Equal(t, reconciler, message.Agent)
		require.Equal(t, "https://gantry.northwind.example/inbox?item="+message.Item, message.Link)
		require.NotContains(t, string(<-outside.raw), goalCanary)
	}
	require.True(t, told["ESCALATED "+lead], told)
	require.False(t, told["ESCALATED "+controller], told)
	require.False(t, told["OPENED "+asker] || told["REMINDED_1 "+asker], "who asks is not asked")

	seen, shown := marta.item(run.ID)
	require.True(t, shown)
	require.True(t, seen.Onlooker)
	require.NotNil(t, seen.EscalatedAt)
	require.Equal(t, approval.Approvers, seen.Approval.Approvers, "who may decide is who was named")
	require.Equal(t, "NOT_FOUND", marta.mutate("decideApproval", map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"}).code())
	own, _ := tomas.item(run.ID)
	require.False(t, own.Onlooker)
	followed := false
	require.NoError(t, marta.InboxChanges(t.Context(), func(items []client.Item) (bool, error) {
		followed = slices.ContainsFunc(items, func(item client.Item) bool { return item.Run.ID == run.ID && item.Onlooker })
		return !followed, nil
	}))
	require.True(t, followed)
	require.Zero(t, h.entries("INV-1004"))
	notices, err := marta.Notices(t.Context())
	require.NoError(t, err)
	require.Len(t, notices, 1)
	require.Equal(t, "ESCALATED", notices[0].Step)

	tomas.decide(approval, true)
	require.Equal(t, "COMPLETED", amara.ended(run.ID).Status)
	_, shown = marta.item(run.ID)
	require.False(t, shown)
	h.close()
	require.NotContains(t, string(log.bytes()), goalCanary)
	require.NotContains(t, string(log.bytes()), "whsec-of-the-tests")
}

// Who runs a process says what it may reach: people are told of nothing past
// that, either.
func TestNoticesReachNoFurtherThanTheProcessMay(t *testing.T) {
	t.Parallel()
	outside := openHook(t, "whsec-of-the-tests")
	asked := make(chan struct{}, 1024)
	h := openHouse(t, plan{
		organisation: func(o *agents.Organisation) {
			o.Egress = append(o.Egress, strings.TrimPrefix(outside.URL, "http://"))
			o.Notify = agents.Notify{Default: []agents.Channel{{Kind: agents.Webhook, URL: outside.URL + "/hook", Secret: "hook"}}}
		},
		config: func(c *wire.Config) {
			c.Notices, c.Secrets = time.Millisecond, map[string]string{"ledger": ledgerToken, "hook": "whsec-of-the-tests"}
			c.Egress = func(o agents.Organisation) (*tool.Egress, error) {
				asked <- struct{}{}
				ledger, err := url.Parse(o.Endpoints["ledger"])
				if err != nil {
					return nil, err
				}
				port, err := strconv.Atoi(ledger.Port())
				if err != nil {
					return nil, err
				}
				return tool.NewEgress([]tool.Destination{{Host: ledger.Hostname(), Port: port, Internal: true}}, nil, nil)
			}
		},
	})
	for len(asked) > 0 {
		<-asked // what opening the house asked for
	}
	amara, tomas := h.as(asker), h.as(controller)
	run, err := amara.StartRun(t.Context(), client.Start{Agent: reconciler, Goal: "Reconcile INV-1004."})
	require.NoError(t, err)
	tomas.held(run.ID)
	for range 2 { // who asks a second time has tried once
		select {
		case <-asked:
		case message := <-outside.got:
			require.Fail(t, "somebody was told", "%+v", message)
		}
	}
	require.Empty(t, outside.got)
}

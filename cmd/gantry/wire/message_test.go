package wire_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/cmd/gantry/wire"
	"gantry.dev/orchestrator/bus"
)

// send sends a command by message under the value of an authorization.
func (h *house) send(authorization string, body map[string]any) {
	h.t.Helper()
	raw, err := json.Marshal(body)
	require.NoError(h.t, err)
	message := bus.Message{ID: uuid.NewString(), Body: raw, Metadata: map[string]string{}}
	if authorization != "" {
		message.Metadata[bus.MetaAuthorization] = authorization
	}
	require.NoError(h.t, h.platform.Bus().Publish(h.t.Context(), bus.TopicCommands, message))
}

// parked listens for messages that are no commands, from now on.
func (h *house) parked() <-chan bus.Parked {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	subscription, err := h.platform.Bus().Subscribe(ctx, bus.TopicParked)
	require.NoError(h.t, err)
	out := make(chan bus.Parked, 64)
	var tasks conc.WaitGroup
	tasks.Go(func() {
		subscription.Each(func(_ context.Context, m bus.Message) error {
			var p bus.Parked
			if err := json.Unmarshal(m.Body, &p); err != nil {
				return err
			}
			out <- p
			return nil
		})
	})
	h.t.Cleanup(func() { cancel(); tasks.Wait() })
	return out
}

// plain is the id that a global id names.
func plain(t *testing.T, id string) (named string) {
	t.Helper()
	reworded(t, id, func(parts []string) { named = parts[len(parts)-1] })
	return named
}

func TestCommandsByMessage(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	parked := h.parked()
	amara, tomas := h.as(asker), h.as(controller)
	conversation := amara.talk("By message", controller)
	bearer := "Bearer " + amara.token
	start := map[string]any{"commandId": "start", "kind": "start", "start": map[string]any{"agent": reconciler, "goal": "Reconcile INV-1004.", "conversation": plain(t, conversation)}}
	h.send(bearer, start)
	h.send(bearer, start) // the same again
	entries := amara.listen(conversation, "", func(e entry) bool { return e.Node.Kind == "RUN_STARTED" })
	run := *entries[len(entries)-1].Node.Run
	tomas.held(run)

	command := func(id, kind string, fields map[string]any) map[string]any {
		return map[string]any{"commandId": id, "run": plain(t, run), "kind": kind, "fields": fields}
	}
	h.send("Bearer "+h.as(outsider).token, command("not yours", "cancel", map[string]any{}))
	h.send("Bearer "+h.as(colleague).token, command("not yours", "steer", map[string]any{"text": "pay twice"}))
	h.send(bearer, command("nothing", "steer", map[string]any{"text": ""}))
	h.send(bearer, command("too much", "steer", map[string]any{"text": strings.Repeat("x", 64<<10+1)}))
	h.send(bearer, command("steer", "steer", map[string]any{"text": "Mind the VAT."}))
	amara.until(run, "steer_accepted")
	h.send(bearer, command("cancel", "cancel", map[string]any{"reason": "no more"}))
	ended := amara.ended(run)
	require.Equal(t, "CANCELLED", ended.Status)
	var got struct {
		Run struct {
			Steers []struct{ Text client.Text }
			End    struct{ By struct{ Principal string } }
		}
	}
	amara.ask(`query($id:ID!){run(id:$id){steers{text{value}} end{by{principal}}}}`, map[string]any{"id": run}, &got)
	require.Len(t, got.Run.Steers, 1)
	require.Equal(t, "Mind the VAT.", got.Run.Steers[0].Text.Value)
	require.Equal(t, asker, got.Run.End.By.Principal)
	runs, err := amara.Runs(t.Context(), client.Filter{}, 10)
	require.NoError(t, err)
	require.Len(t, runs, 1, "a repeat starts nothing")
	require.Empty(t, parked, "what was refused is settled, not parked")
	require.Zero(t, h.entries("INV-1004"))
}

// A message whose sender is not proven is put aside for an operator, without
// its token, and changes nothing.
func TestUnprovenCommandsAreParked(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	parked := h.parked()
	amara, tomas := h.as(asker), h.as(controller)
	run := amara.begin("INV-1004").ID
	tomas.held(run)
	before, err := amara.Run(t.Context(), run)
	require.NoError(t, err)

	others, err := wire.LoadKeys(t.TempDir(), true)
	require.NoError(t, err)
	forged, err := others.Token(h.organisation.Name, asker, h.platform.Config.Issuer, "1", time.Now(), time.Hour)
	require.NoError(t, err)
	good := strings.Split(amara.token, ".")
	director := base64.RawURLEncoding.EncodeToString([]byte(`{"org":"northwind","sub":"` + director + `","iss":"gantry","aud":["gantry"],"jti":"1","nbf":1,"exp":4000000000}`))
	for name, authorization := range map[string]string{
		"unsigned":    "",
		"no bearer":   amara.token,
		"empty":       "Bearer ",
		"forged":      "Bearer " + forged,
		"altered":     "Bearer " + good[0] + "." + director + "." + good[2],
		"cut":         "Bearer " + good[0] + "." + good[1] + ".",
		"alg none":    "Bearer " + base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + good[1] + ".",
		"expired":     "Bearer " + h.token(h.organisation.Name, asker, time.Now().Add(-2*time.Hour), time.Hour),
		"not yet":     "Bearer " + h.token(h.organisation.Name, asker, time.Now().Add(time.Hour), time.Hour),
		"nobody":      "Bearer " + h.token(h.organisation.Name, "somebody", time.Now(), time.Hour),
		"other house": "Bearer " + h.token("southwind", asker, time.Now(), time.Hour),
	} {
		h.send(authorization, map[string]any{"commandId": name, "run": plain(t, run), "kind": "cancel", "fields": map[string]any{}})
		select {
		case p := <-parked:
			require.Equal(t, bus.ErrUnverified.Error(), p.Cause, name)
			require.Contains(t, string(p.Body), name)
			raw, err := json.Marshal(p)
			require.NoError(t, err)
			if token := strings.TrimPrefix(authorization, "Bearer "); token != "" {
				require.NotContains(t, string(raw), token, name)
			}
		case <-time.After(patience): // never, when it passes
			require.Fail(t, "not parked", name)
		}
	}
	after, err := amara.Run(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// Who may see a run may not always guide it: the person for whom it works and
// who takes part in its conversation steer; who answers for the agent cancels.
func TestWhoGuidesARun(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, jonas, tomas := h.as(asker), h.as(colleague), h.as(controller)
	conversation := amara.talk("Two of us", colleague)
	ours := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "Reconcile INV-1004.", "agent": reconciler}).Run.ID
	hers := amara.begin("INV-1008").ID
	tomas.held(ours)
	tomas.held(hers)
	steer := func(p *person, run string) string {
		return p.mutate("steerRun", map[string]any{"run": run, "text": "Look again."}).code()
	}
	cancel := func(p *person, run string) string {
		return p.mutate("cancelRun", map[string]any{"run": run}).code()
	}
	require.Equal(t, "NOT_ENTITLED", steer(tomas, hers), "the contact sees it and decides in it")
	require.Equal(t, "NOT_ENTITLED", steer(h.as(operator), hers))
	require.Equal(t, "NOT_FOUND", steer(jonas, hers))
	require.Equal(t, "NOT_FOUND", cancel(jonas, hers))
	require.Empty(t, steer(jonas, ours), "takes part in the conversation")
	require.Empty(t, steer(amara, hers))
	require.Empty(t, cancel(h.as(operator), hers), "answers for every agent")
	require.Empty(t, cancel(jonas, ours))
	require.Equal(t, "CANCELLED", amara.ended(hers).Status)
	require.Equal(t, "CANCELLED", amara.ended(ours).Status)
}

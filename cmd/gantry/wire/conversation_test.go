package wire_test

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/sourcegraph/conc"
	"github.com/stretchr/testify/require"
)

// entry is a line of a conversation as a stream tells it.
type entry struct {
	Cursor string
	Node   struct {
		Number string
		Kind   string
		Author struct{ Principal string }
		Text   *struct{ Value string }
		Run    *string
		Whom   *struct{ Principal string }
		Code   *string
		About  *string
	}
}

const entryFields = `{cursor node{number kind author{principal} text{value} run whom{principal} code about}}`

// talk begins a conversation of a person with others.
func (p *person) talk(title string, others ...string) string {
	p.t.Helper()
	said := p.mutate("startConversation", map[string]any{"title": title, "participants": others})
	require.Empty(p.t, said.UserErrors)
	return said.Conversation.ID
}

// listen returns the entries of a conversation after a cursor, up to the one
// that is looked for.
func (p *person) listen(conversation, after string, last func(entry) bool) []entry {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	variables := map[string]any{"id": conversation}
	if after != "" {
		variables["after"] = after
	}
	var entries []entry
	require.NoError(p.t, subscribe(ctx, p, `subscription($id:ID!,$after:Cursor){told:conversationEvents(conversation:$id,after:$after)`+entryFields+`}`,
		variables, func(e entry) bool {
			entries = append(entries, e)
			return !last(e)
		}))
	return entries
}

func kindsOf(entries []entry) (kinds []string) {
	for _, e := range entries {
		kinds = append(kinds, e.Node.Kind)
	}
	return kinds
}

// People speak, an agent is asked, its active run is steered; whoever resumes
// the stream at any place gets the rest and nothing twice.
func TestConversationOfPeopleAndAnAgent(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas := h.as(asker), h.as(controller)
	conversation := amara.talk("The motors of August", controller)
	said := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "Two motors are missing."})
	require.Equal(t, "ACCEPTED", said.Outcome)
	require.Nil(t, said.Run, "people alone were spoken to")
	none := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "Wait.", "steer": true})
	require.Equal(t, "NO_ACTIVE_RUN", none.code())

	asked := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "Reconcile INV-1004.", "agent": reconciler})
	require.Empty(t, asked.UserErrors)
	require.NotNil(t, asked.Run)
	approval := tomas.held(asked.Run.ID)
	guidance := map[string]any{"conversation": conversation, "text": "Mind the VAT.", "steer": true, "commandId": "guidance"}
	steered := tomas.mutate("sendMessage", guidance)
	require.Empty(t, steered.UserErrors)
	require.Equal(t, asked.Run.ID, steered.Run.ID, "the active run is guided")
	tomas.decide(approval, true)
	require.Equal(t, "COMPLETED", amara.ended(asked.Run.ID).Status)

	again := tomas.mutate("sendMessage", guidance)
	require.Equal(t, "REPLAYED", again.Outcome, "also when no run goes on any more: %+v", again.UserErrors)
	require.Equal(t, asked.Run.ID, again.Run.ID)
	guidance["text"] = "Forget the VAT."
	require.Equal(t, "COMMAND_ID_REUSED", tomas.mutate("sendMessage", guidance).code())

	all := tomas.listen(conversation, "", func(e entry) bool { return e.Node.Kind == "RUN_ENDED" })
	require.Equal(t, asker, all[0].Node.Author.Principal)
	require.Equal(t, "Two motors are missing.", all[0].Node.Text.Value)
	require.Equal(t, []string{"MESSAGE", "MESSAGE", "RUN_STARTED", "MESSAGE", "RUN_ENDED"}, kindsOf(all))
	final := all[len(all)-1].Cursor
	for i, at := range all[:len(all)-1] {
		rest := tomas.listen(conversation, at.Cursor, func(e entry) bool { return e.Cursor == final })
		require.Equal(t, all[i+1:], rest, "resumed after entry %d", i+1)
	}
	var got struct {
		Run struct {
			Conversation string
			Steers       []struct {
				By          struct{ Principal string }
				Text        struct{ Value string }
				Disposition string
			}
		}
	}
	amara.ask(`query($id:ID!){run(id:$id){conversation steers{by{principal} text{value} disposition}}}`, map[string]any{"id": asked.Run.ID}, &got)
	require.Equal(t, conversation, got.Run.Conversation)
	require.Len(t, got.Run.Steers, 1)
	require.Equal(t, controller, got.Run.Steers[0].By.Principal)
	require.Equal(t, "Mind the VAT.", got.Run.Steers[0].Text.Value)
	require.Equal(t, "ABSORBED", got.Run.Steers[0].Disposition)
}

// Who speaks while others listen is heard by all of them, in one order.
func TestConversationIsHeardLive(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas, marta := h.as(asker), h.as(controller), h.as(lead)
	conversation := amara.talk("Live", controller, lead)
	const each = 10
	speakers := []*person{amara, tomas, marta}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	heard := make([][]string, len(speakers))
	failed := make([]error, len(speakers))
	var tasks conc.WaitGroup
	for i, listener := range speakers {
		tasks.Go(func() {
			failed[i] = subscribe(ctx, listener, `subscription($id:ID!){told:conversationEvents(conversation:$id)`+entryFields+`}`,
				map[string]any{"id": conversation}, func(e entry) bool {
					heard[i] = append(heard[i], e.Node.Number+" "+e.Node.Author.Principal+" "+e.Node.Text.Value)
					return len(heard[i]) < each*len(speakers)
				})
		})
		tasks.Go(func() {
			for n := range each {
				if _, err := listener.try("sendMessage", map[string]any{"conversation": conversation, "text": strconv.Itoa(n)}); err != nil {
					cancel() // nobody hears it
				}
			}
		})
	}
	tasks.Wait()
	require.NoError(t, errors.Join(failed...))
	for i, line := range heard[0] {
		require.Equal(t, strconv.Itoa(i+1), strings.Fields(line)[0], "numbers have no gap")
	}
	require.Equal(t, heard[0], heard[1])
	require.Equal(t, heard[0], heard[2])
}

// A conversation does not exist for who takes no part in it: whatever they
// ask, the answer has the bytes of the one for what was never there.
func TestConversationIsAbsentForOthers(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, liam, jonas := h.as(asker), h.as(outsider), h.as(colleague)
	conversation := amara.talk("Salaries", controller)
	started := amara.mutate("sendMessage", map[string]any{"conversation": conversation, "text": "Reconcile INV-1002.", "agent": reconciler})
	amara.ended(started.Run.ID)
	ghost := h.elsewhere(conversation)
	for _, other := range []*person{liam, jonas} {
		for name, document := range map[string]string{
			"node":         `query($id:ID!){node(id:$id){id}}`,
			"nodes":        `query($id:ID!){nodes(ids:[$id]){id}}`,
			"conversation": `query($id:ID!){conversation(id:$id){title{value} entries{edges{cursor}} runs{edges{cursor}}}}`,
			"say":          `mutation($id:ID!){sendMessage(input:{conversation:$id,text:"hello"}){conversation{id} userErrors{code message field}}}`,
			"ask":          `mutation($id:ID!){sendMessage(input:{conversation:$id,text:"INV-1004",agent:"invoice-reconciler"}){run{id} userErrors{code message field}}}`,
			"steer":        `mutation($id:ID!){sendMessage(input:{conversation:$id,text:"hello",steer:true}){run{id} userErrors{code message field}}}`,
			"start":        `mutation($id:ID!){startRun(input:{conversation:$id,agent:"invoice-reconciler",goal:"INV-1004"}){run{id} userErrors{code message field}}}`,
			"listen":       `subscription($id:ID!){conversationEvents(conversation:$id){cursor}}`,
		} {
			forbidden := other.post(document, map[string]any{"id": conversation})
			absent := other.post(document, map[string]any{"id": ghost})
			require.Equal(t, string(absent), string(forbidden), name)
			require.False(t, bytes.Contains(forbidden, []byte("Salaries")), name)
		}
		var list struct {
			Conversations struct{ Edges []struct{ Cursor string } }
		}
		other.ask(`{conversations{edges{cursor}}}`, nil, &list)
		require.Empty(t, list.Conversations.Edges)
	}
	for name, document := range map[string]string{
		"run":    `query($id:ID!){run(id:$id){status goal{value}}}`,
		"audit":  `query($id:ID!){audit(run:$id){head}}`,
		"steer":  `mutation($id:ID!){steerRun(input:{run:$id,text:"x"}){run{id} userErrors{code message field}}}`,
		"cancel": `mutation($id:ID!){cancelRun(input:{run:$id}){run{id} userErrors{code message field}}}`,
		"resume": `mutation($id:ID!){resumeRun(input:{run:$id,end:true}){run{id} userErrors{code message field}}}`,
		"follow": `subscription($id:ID!){runEvents(run:$id){seq}}`,
		"text":   `subscription($id:ID!){turnText(run:$id){text}}`,
	} {
		forbidden := jonas.post(document, map[string]any{"id": started.Run.ID})
		absent := jonas.post(document, map[string]any{"id": h.elsewhere(started.Run.ID)})
		require.Equal(t, string(absent), string(forbidden), name)
		require.Contains(t, string(forbidden), "NOT_FOUND", name)
	}
}

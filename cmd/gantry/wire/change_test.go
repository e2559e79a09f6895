package wire_test

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sourcegraph/conc/iter"
	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/client"
	"gantry.dev/deploy/sample"
)

// manifest is the file of a sample agent with its first instruction changed.
func manifest(t *testing.T, agent, instruction string) string {
	t.Helper()
	text, err := fs.ReadFile(sample.Files, "agents/"+agent+".yaml")
	require.NoError(t, err)
	changed := strings.Replace(string(text), "instructions: |\n", "instructions: |\n  "+instruction+"\n", 1)
	require.NotEqual(t, string(text), changed)
	return changed
}

// revision is the digest of an agent's revision in force.
func (p *person) revision(agent string) string {
	p.t.Helper()
	var got struct{ Agent struct{ Revision string } }
	p.ask(`query($name:String!){agent(name:$name){revision}}`, map[string]any{"name": agent}, &got)
	return got.Agent.Revision
}

func TestPublishNeedsASecondPerson(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, jonas, marta := h.as(asker), h.as(colleague), h.as(lead)
	before := amara.revision(reconciler)
	changed := manifest(t, reconciler, "Be brief.")
	publish := func(p *person, text string) done {
		return p.mutate("publishAgent", map[string]any{"manifest": text})
	}
	require.Equal(t, "NOT_A_PERSON", publish(h.as(service), changed).code())
	require.Equal(t, "STAGE_NOT_BY_PUBLISHING", publish(amara, strings.Replace(changed, "stage: APPROVE", "stage: AUTOMATE", 1)).code())
	require.Equal(t, "INVALID", publish(amara, strings.Replace(changed, "persona: plain", "persona: loud", 1)).code())

	first := publish(amara, changed)
	require.Empty(t, first.UserErrors)
	require.True(t, first.AwaitsSecondPerson)
	require.True(t, publish(amara, changed).AwaitsSecondPerson, "one person is one person")
	require.Equal(t, "NOT_ENTITLED", publish(jonas, changed).code(), "neither of the two answers for the agent")
	require.True(t, publish(marta, changed+"\n# another form of the same\n").Outcome == "ACCEPTED")
	require.NotEqual(t, before, amara.revision(reconciler), "the owner asked for the same revision: it is in force")

	run := amara.begin("INV-1002")
	var got struct {
		Run struct{ AgentRevision string }
	}
	amara.ask(`query($id:ID!){run(id:$id){agentRevision}}`, map[string]any{"id": run.ID}, &got)
	require.Equal(t, amara.revision(reconciler), got.Run.AgentRevision)
	require.False(t, publish(amara, changed).AwaitsSecondPerson, "what is in force needs nobody")
}

func TestFreerStageNeedsASecondPerson(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, marta := h.as(asker), h.as(lead)
	set := func(p *person, stage, evidence string) done {
		return p.mutate("setStage", map[string]any{"agent": reconciler, "stage": stage, "evidence": evidence})
	}
	require.Equal(t, "NOT_FOUND", set(h.as(outsider), "OBSERVE", "").code())
	require.Equal(t, "NOT_A_PERSON", set(h.as(service), "OBSERVE", "").code())
	require.Equal(t, "NOT_ENTITLED", set(amara, "OBSERVE", "").code())
	require.Equal(t, "OBSERVE", set(marta, "OBSERVE", "").Agent.Stage, "stricter is in force at once")

	require.Equal(t, "EVIDENCE_NEEDED", set(marta, "APPROVE", "").code())
	require.True(t, set(marta, "APPROVE", "report 7").AwaitsSecondPerson)
	require.True(t, set(marta, "APPROVE", "report 7").AwaitsSecondPerson, "one person is one person")
	require.Equal(t, "NOT_A_PERSON", set(h.as(service), "APPROVE", "report 7").code())
	agent, err := amara.Agent(t.Context(), reconciler)
	require.NoError(t, err)
	require.Equal(t, "OBSERVE", agent.Stage)
	second := set(amara, "APPROVE", "report 7")
	require.Empty(t, second.UserErrors)
	require.False(t, second.AwaitsSecondPerson)
	require.Equal(t, "APPROVE", second.Agent.Stage)
}

// A command id stands for one request of one caller.
func TestRepeatedCommandIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	amara, tomas, marta := h.as(asker), h.as(controller), h.as(lead)
	conversation := amara.talk("Repeats", controller)
	run := amara.begin("INV-1004")
	approval := tomas.held(run.ID)
	for _, row := range []struct {
		by           *person
		name         string
		input, other map[string]any
	}{
		{amara, "startConversation", map[string]any{"title": "One"}, map[string]any{"title": "Two"}},
		{amara, "sendMessage", map[string]any{"conversation": conversation, "text": "one"}, map[string]any{"conversation": conversation, "text": "two"}},
		{amara, "startRun", map[string]any{"agent": reconciler, "goal": "INV-1002"}, map[string]any{"agent": reconciler, "goal": "INV-1003"}},
		{amara, "steerRun", map[string]any{"run": run.ID, "text": "one"}, map[string]any{"run": run.ID, "text": "two"}},
		{tomas, "decideApproval", map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "DENY"},
			map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"}},
		{amara, "publishAgent", map[string]any{"manifest": manifest(t, reconciler, "One.")}, map[string]any{"manifest": manifest(t, reconciler, "Two.")}},
		{marta, "setStage", map[string]any{"agent": reconciler, "stage": "OBSERVE"}, map[string]any{"agent": reconciler, "stage": "CONSTRAIN"}},
		{marta, "setBudget", map[string]any{"node": "department/finance", "money": "150000001", "tokens": "1"}, map[string]any{"node": "department/finance", "money": "1", "tokens": "1"}},
		{marta, "kill", map[string]any{"scope": "AGENT", "name": reconciler, "reason": "one"}, map[string]any{"scope": "AGENT", "name": reconciler, "reason": "two"}},
	} {
		row.input["commandId"], row.other["commandId"] = "command of "+row.name, "command of "+row.name
		first := row.by.mutate(row.name, row.input)
		require.Empty(t, first.UserErrors, row.name)
		require.Equal(t, "ACCEPTED", first.Outcome, row.name)
		again := row.by.mutate(row.name, row.input)
		require.Empty(t, again.UserErrors, row.name)
		require.Equal(t, "REPLAYED", again.Outcome, row.name)
		require.Equal(t, first.AwaitsSecondPerson, again.AwaitsSecondPerson, row.name)
		if first.Run != nil {
			require.Equal(t, first.Run.ID, again.Run.ID, row.name)
		}
		if first.Conversation != nil {
			require.Equal(t, first.Conversation.ID, again.Conversation.ID, row.name)
		}
		require.Equal(t, "COMMAND_ID_REUSED", row.by.mutate(row.name, row.other).code(), row.name)
	}
	ended := amara.ended(run.ID)
	require.Equal(t, "DENIED", ended.Approvals[0].Status)
	require.Zero(t, h.entries("INV-1004"))
}

// Changes of different agents by many people at once all come to stand.
func TestConcurrentPublishesLoseNothing(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	type change struct{ agent, author, owner string }
	changes := []change{{reconciler, asker, lead}, {"policy-librarian", "dario.conti", "ruth.abelson"}, {"research-assistant", outsider, "sofia.marchetti"}}
	failed := iter.Map(changes, func(c *change) error {
		for _, by := range []string{c.author, c.owner} {
			d, err := h.as(by).try("publishAgent", map[string]any{"manifest": manifest(t, c.agent, "Be brief.")})
			if err != nil || len(d.UserErrors) > 0 || d.AwaitsSecondPerson != (by == c.author) {
				return errors.Join(fmt.Errorf("%s by %s: %+v", c.agent, by, d), err)
			}
		}
		return nil
	})
	require.NoError(t, errors.Join(failed...))
	now, err := h.platform.Organisation(t.Context(), h.organisation.Name)
	require.NoError(t, err)
	for _, c := range changes {
		revision, _ := now.Agent(c.agent)
		require.Contains(t, revision.Instructions, "Be brief.", c.agent)
	}
}

// Two people who ask for the same at the same moment are two people.
func TestTwoPeopleWhoPublishAtOnceAreTwo(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	for round := range 5 {
		text := manifest(t, reconciler, fmt.Sprintf("Round %d.", round))
		waits := iter.Map([]string{asker, lead}, func(by *string) bool {
			d, err := h.as(*by).try("publishAgent", map[string]any{"manifest": text})
			return err != nil || d.AwaitsSecondPerson
		})
		require.NotEqual(t, waits[0], waits[1], "one proposed, the other approved")
	}
}

// What stands under a digest is what the digest is of, or nothing is done with it.
func TestAlteredConfigurationIsNotServed(t *testing.T) {
	t.Parallel()
	h := openHouse(t, plan{})
	digest, err := h.organisation.Digest()
	require.NoError(t, err)
	h.close()
	db, err := sql.Open("sqlite", filepath.Join(h.folder, "gantry.db"))
	require.NoError(t, err)
	result, err := db.ExecContext(t.Context(), `UPDATE configurations SET body = replace(CAST(body AS TEXT), '"owner":"marta.lindqvist"', '"owner":"jonas.petersen"')`)
	require.NoError(t, err)
	changed, err := result.RowsAffected()
	require.NoError(t, err)
	require.EqualValues(t, 1, changed)
	require.NoError(t, db.Close())
	h.open()
	_, err = h.platform.Kits.At(t.Context(), h.organisation.Name, digest)
	require.ErrorContains(t, err, "is not what was put in force")
	_, err = h.platform.Organisation(t.Context(), h.organisation.Name)
	require.ErrorContains(t, err, "is not what was put in force")
}

// A kill stops what a waiting run would do next, also when its call is granted
// afterwards.
func TestFault_G12_KillStopsAWaitingRun(t *testing.T) {
	t.Parallel()
	for scope, name := range map[string]string{"AGENT": reconciler, "TOOL": "ledger.post_adjustment", "DEPARTMENT": "finance", "ALL": ""} {
		t.Run(scope, func(t *testing.T) {
			t.Parallel()
			h := openHouse(t, plan{})
			amara, tomas := h.as(asker), h.as(controller)
			run := amara.begin("INV-1004")
			approval := tomas.held(run.ID)
			input := map[string]any{"scope": scope, "name": name, "reason": "odd bookings"}
			require.Equal(t, "NOT_ENTITLED", amara.mutate("kill", input).code())
			require.Equal(t, "NOT_A_PERSON", h.as(service).mutate("kill", input).code())
			require.Empty(t, h.as(operator).mutate("kill", input).UserErrors)
			tomas.mutate("decideApproval", map[string]any{"id": approval.ID, "digest": approval.Digest, "decision": "APPROVE"})
			if scope == "TOOL" {
				require.Contains(t, amara.ended(run.ID).End.Result.Value, `"posted":false`, "the run goes on without the tool")
			} else {
				require.Equal(t, []string{"approval_voided", "call_judged", "call_ended", "parked"}, amara.since(run.ID, "approval_requested", "parked"))
				refused := amara.mutate("startRun", map[string]any{"agent": reconciler, "goal": "INV-1002"})
				require.Equal(t, "AGENT_STOPPED", refused.code())
			}
			got, err := amara.Run(t.Context(), run.ID)
			require.NoError(t, err)
			require.Equal(t, "VOID", got.Approvals[0].Status)
			require.Equal(t, "FORBIDDEN", got.Calls[len(got.Calls)-1].Outcome)
			require.Zero(t, h.entries("INV-1004"))
		})
	}
}

// since lists the kinds of events of a run after one kind, up to another.
func (p *person) since(run, from, to string) []string {
	p.t.Helper()
	var kinds []string
	for _, e := range p.follow(run, p.until(run, from).Cursor, func(e client.Event) bool { return e.Kind == to }) {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

package agents_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/policy"
)

func TestPublishNeedsTwoPeopleOfWhomOneAnswers(t *testing.T) {
	current := load(t)
	change, _ := current.Agent("invoice-reconciler")
	change.Instructions += "\nBe brief."
	table := []struct {
		name, by, approvedBy string
		err                  error
	}{
		{"author alone", "marta.lindqvist", "", agents.ErrSecondPerson},
		{"author approves", "marta.lindqvist", "marta.lindqvist", agents.ErrSecondPerson},
		{"service", "invoice-intake", "marta.lindqvist", agents.ErrNotAPerson},
		{"approved by a service", "marta.lindqvist", "invoice-intake", agents.ErrNotAPerson},
		{"approved by the agent", "marta.lindqvist", agents.AgentID("invoice-reconciler"), agents.ErrNotAPerson},
		{"nobody who answers", "amara.diallo", "liam.byrne", agents.ErrNotEntitled},
		{"owner approves", "amara.diallo", "marta.lindqvist", nil},
		{"owner writes", "marta.lindqvist", "amara.diallo", nil},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			before := digest(t, current)
			next, err := agents.Publish(current, change, row.by, row.approvedBy)
			require.Equal(t, before, digest(t, current), "what was is not changed")
			if row.err != nil {
				require.ErrorIs(t, err, row.err)
				require.Empty(t, next)
				return
			}
			require.NoError(t, err)
			published, _ := next.Agent("invoice-reconciler")
			require.Equal(t, change, published)
			require.Len(t, next.Agents, len(current.Agents))
		})
	}
}

func TestPublishRefusesWhatIsInvalidOrFreer(t *testing.T) {
	current := load(t)
	change, _ := current.Agent("invoice-reconciler")
	change.Persona = "loud"
	_, err := agents.Publish(current, change, "amara.diallo", "marta.lindqvist")
	var faults agents.Faults
	require.ErrorAs(t, err, &faults)
	require.Equal(t, "agents/invoice-reconciler", faults[0].File)

	change, _ = current.Agent("invoice-reconciler")
	change.Stage = policy.Automate
	_, err = agents.Publish(current, change, "amara.diallo", "marta.lindqvist")
	require.ErrorIs(t, err, agents.ErrFreerStage)

	change, _ = current.Agent("invoice-reconciler")
	change.Owner, change.Department, change.Audience = "liam.byrne", "sales", []string{"sales"}
	_, err = agents.Publish(current, change, "liam.byrne", "sofia.marchetti")
	require.ErrorIs(t, err, agents.ErrNotEntitled, "an agent is not taken from its owner")

	same, _ := current.Agent("invoice-reconciler")
	next, err := agents.Publish(current, same, "", "")
	require.NoError(t, err)
	require.Equal(t, digest(t, current), digest(t, next))
}

// Who a manifest names as owner says nothing: the department pays, so its owner
// takes part.
func TestDepartmentsOwnerTakesPartInWhatItGets(t *testing.T) {
	current := load(t)
	fresh, _ := current.Agent("invoice-reconciler")
	fresh.Name, fresh.Owner, fresh.Audience = "supplier-scout", "nadia.haddad", []string{"procurement"}
	_, err := agents.Publish(current, fresh, "pieter.vanacker", "nadia.haddad")
	require.ErrorIs(t, err, agents.ErrNotEntitled, "procurement does not spend what is finance's")
	for _, pair := range [][2]string{{"pieter.vanacker", "marta.lindqvist"}, {"marta.lindqvist", "nadia.haddad"}} {
		_, err = agents.Publish(current, fresh, pair[0], pair[1])
		require.NoError(t, err)
	}

	moved, _ := current.Agent("invoice-reconciler")
	moved.Department, moved.Owner, moved.Audience = "procurement", "nadia.haddad", []string{"procurement"}
	for _, pair := range [][2]string{{"nadia.haddad", "pieter.vanacker"}, {"marta.lindqvist", "pieter.vanacker"}, {"marta.lindqvist", "tomas.rehak"}} {
		_, err = agents.Publish(current, moved, pair[0], pair[1])
		require.ErrorIs(t, err, agents.ErrNotEntitled, pair)
	}
	_, err = agents.Publish(current, moved, "marta.lindqvist", "nadia.haddad")
	require.NoError(t, err, "who gives and who gets it")
	require.Equal(t, "nadia.haddad", current.SecondPerson("marta.lindqvist", moved))
	require.Equal(t, "marta.lindqvist", current.SecondPerson("nadia.haddad", moved))
}

func TestStageIsRaisedWithEvidenceAndLoweredByOne(t *testing.T) {
	current := load(t)
	raise := agents.StageDecision{Agent: "invoice-reconciler", Stage: policy.Automate, Evidence: "observe/2026-10", By: "amara.diallo", ApprovedBy: "marta.lindqvist", AtMs: 7}
	_, err := agents.SetStage(current, agents.StageDecision{Agent: raise.Agent, Stage: raise.Stage, By: raise.By, ApprovedBy: raise.ApprovedBy})
	require.ErrorIs(t, err, agents.ErrNoEvidence)
	alone := raise
	alone.ApprovedBy = ""
	_, err = agents.SetStage(current, alone)
	require.ErrorIs(t, err, agents.ErrSecondPerson)
	raised, err := agents.SetStage(current, raise)
	require.NoError(t, err)
	revision, _ := raised.Agent("invoice-reconciler")
	require.Equal(t, policy.Automate, raised.Stage(revision))
	require.Equal(t, policy.Approve, raised.Stages[0].From)

	// The decision was about that very revision.
	changed := revision
	changed.Instructions += "\nBe brief."
	require.Equal(t, policy.Approve, raised.Stage(changed))

	_, err = agents.SetStage(raised, agents.StageDecision{Agent: raise.Agent, Stage: policy.Observe, By: "liam.byrne"})
	require.ErrorIs(t, err, agents.ErrNotEntitled)
	lowered, err := agents.SetStage(raised, agents.StageDecision{Agent: raise.Agent, Stage: policy.Observe, By: "tomas.rehak"})
	require.NoError(t, err)
	require.Equal(t, policy.Observe, lowered.Stage(revision))
	require.Equal(t, policy.Observe, lowered.Stage(changed), "another revision is no way around it")
}

func TestStageAutomateNeedsAReadBack(t *testing.T) {
	current := load(t)
	blind, _ := current.Agent("invoice-reconciler")
	blind.Completion.Checks = blind.Completion.Checks[1:]
	current, err := agents.Publish(current, blind, "amara.diallo", "marta.lindqvist")
	require.NoError(t, err)
	_, err = agents.SetStage(current, agents.StageDecision{Agent: blind.Name, Stage: policy.Automate, Evidence: "x", By: "amara.diallo", ApprovedBy: "marta.lindqvist"})
	require.ErrorContains(t, err, "AUTOMATE needs a completion check")
}

func TestKillStopsAndTwoLift(t *testing.T) {
	current := load(t)
	revision, _ := current.Agent("invoice-reconciler")
	amara, _ := current.Principal("amara.diallo")
	_, err := agents.Stop(current, agents.Kill{Scope: agents.KillAgent, Name: revision.Name, By: "amara.diallo"})
	require.ErrorIs(t, err, agents.ErrNotEntitled)
	_, err = agents.Stop(current, agents.Kill{Scope: agents.KillAgent, Name: "nobody", By: "oskar.nilsen"})
	require.ErrorIs(t, err, agents.ErrUnknown)
	for _, kill := range []agents.Kill{
		{Scope: agents.KillAll, By: "oskar.nilsen"},
		{Scope: agents.KillDepartment, Name: "finance", By: "tomas.rehak"},
		{Scope: agents.KillAgent, Name: "invoice-reconciler", By: "tomas.rehak"},
	} {
		stopped, err := agents.Stop(current, kill)
		require.NoError(t, err)
		require.Empty(t, stopped.Authority(revision, amara, 0), "%v", kill)
		_, err = agents.Lift(stopped, kill.Scope, kill.Name, kill.By, "")
		require.ErrorIs(t, err, agents.ErrSecondPerson)
		applied, err := agents.Apply(stopped, current)
		require.NoError(t, err)
		require.Empty(t, applied.Authority(revision, amara, 0), "files undo no kill")
		lifted, err := agents.Lift(stopped, kill.Scope, kill.Name, kill.By, "helena.voss")
		require.NoError(t, err)
		require.Equal(t, digest(t, current), digest(t, lifted))
	}
	stopped, err := agents.Stop(current, agents.Kill{Scope: agents.KillTool, Name: "ledger.post_adjustment", By: "tomas.rehak"})
	require.NoError(t, err)
	authority := stopped.Authority(revision, amara, 0)
	require.NotContains(t, authority.Tools, "ledger.post_adjustment")
	require.Contains(t, authority.Tools, "files.read")
}

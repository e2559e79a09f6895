package agents_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/deploy/sample"
	"gantry.dev/orchestrator/policy"
	"gantry.dev/orchestrator/run"
)

// files returns a copy of the sample's configuration that a test may change.
func files(t *testing.T) fstest.MapFS {
	t.Helper()
	copied := fstest.MapFS{}
	require.NoError(t, fs.WalkDir(sample.Files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(name, "files/") {
			return err
		}
		data, err := fs.ReadFile(sample.Files, name)
		copied[name] = &fstest.MapFile{Data: data}
		return err
	}))
	return copied
}

// edit replaces the only place of a text in a file.
func edit(t *testing.T, in fstest.MapFS, name, old, fresh string) {
	t.Helper()
	text := string(in[name].Data)
	require.Equal(t, 1, strings.Count(text, old), "%q in %s", old, name)
	in[name] = &fstest.MapFile{Data: []byte(strings.Replace(text, old, fresh, 1))}
}

func load(t *testing.T) agents.Organisation {
	t.Helper()
	o, err := agents.LoadDir(files(t), agents.LoadOptions{})
	require.NoError(t, err)
	return o
}

func digest(t *testing.T, o agents.Organisation) string {
	t.Helper()
	d, err := o.Digest()
	require.NoError(t, err)
	return d
}

const reconciler = "agents/invoice-reconciler.yaml"

func TestLoadDirNamesFileLineAndPathOfEveryFault(t *testing.T) {
	table := []struct{ name, file, old, fresh, fault string }{
		{"unknown key", reconciler, "stage: APPROVE", "stage: APPROVE\nstages: 2", reconciler + ":9: stages: unknown key"},
		{"repeated key", reconciler, "stage: APPROVE", "stage: APPROVE\nname: x", reconciler + ":9: name: the key stands in line 1 already"},
		{"unknown stage", reconciler, "stage: APPROVE", "stage: FREE", reconciler + `:8: stage: unknown stage "FREE"`},
		{"no such department", reconciler, "department: finance", "department: treasury", reconciler + `:3: department: there is no department "treasury"`},
		{"no such owner", reconciler, "owner: marta.lindqvist", "owner: nobody", reconciler + `:4: owner: there is no principal "nobody"`},
		{"a machine as owner", reconciler, "owner: marta.lindqvist", "owner: invoice-intake", reconciler + `:4: owner: "invoice-intake" is no person`},
		{"no contact", reconciler, "contact: tomas.rehak\n", "", reconciler + ":1: contact: a person must be named here"},
		{"no such persona", reconciler, "persona: plain", "persona: loud", reconciler + `:7: persona: there is no persona "loud"`},
		{"no such model", reconciler, "models: [invoice-reconciler-script]", "models: [other]", `models[0]: there is no model "other"`},
		{"no such tool", reconciler, "name: files.list", "name: files.write", `tools[0].name: there is no tool "files.write"`},
		{"no such label", reconciler, "clearance: [finance]", "clearance: [secret]", `clearance: there is no label "secret"`},
		{"impact below the tool's", reconciler, "impact: REVERSIBLE", "impact: DRAFT", "tools[4].impact: the tool's impact is REVERSIBLE"},
		{"constraint on no argument", reconciler, "path: /invoice,", "path: /number,", "tools[4].constraints[0].path: must be the JSON pointer of an argument"},
		{"limit of nothing", reconciler, "turns: 20", "turns: 0", "limits.turns: must be above 0"},
		{"text for a number", reconciler, "turns: 20", "turns: many", "limits.turns: a whole number is needed here"},
		{"expression", reconciler, "output.posted == calls", "output.posted == call", "completion.checks[1].expression: ERROR"},
		{"condition of no truth", reconciler, "when: calls.exists(c, c.tool == \"ledger.post_adjustment\" && c.outcome == \"OK\")", "when: calls.size() + 1", "completion.checks[0].when: must be true or false, but is of type int"},
		{"argument of no expression", reconciler, "[0].arguments.invoice}", "[0].arguments.}", "completion.checks[0].arguments: ERROR"},
		{"check under nobody", reconciler, "identity: agent", "identity: auditor", "completion.checks[0].identity: must be agent, subject or the id of a principal"},
		{"check that acts", reconciler, "      tool: ledger.find_adjustments", "      tool: ledger.post_adjustment", "completion.checks[0].tool: must be a tool of the agent that only reads"},
		{"tool without owner", "tools/ledger.post_adjustment.yaml", "owner: tomas.rehak\n", "", "tools/ledger.post_adjustment.yaml:1: owner: a person must be named here"},
		{"tool beyond the egress list", "organisation.yaml", `- "127.0.0.1:7411"`, `- "127.0.0.1:7412"`, "server.url: 127.0.0.1:7411 is not in the egress list"},
		{"unknown endpoint", "tools/ledger.find_adjustments.yaml", "${ledger}", "${books}", `server: there is no endpoint "books"`},
		{"no such role", "organisation.yaml", "roles: [accountant], manager: tomas.rehak, clearance: [finance]}\n  - {id: jonas", "roles: [cook], manager: tomas.rehak, clearance: [finance]}\n  - {id: jonas", `principals[3].roles[0]: there is no role "cook"`},
		{"circle of managers", "organisation.yaml", "roles: [managing-director, finance-approver], clearance", "roles: [managing-director, finance-approver], manager: tomas.rehak, clearance", "the line of managers leads back"},
		{"principal of two", "organisation.yaml", "id: jonas.petersen", "id: amara.diallo", `principals[4].id: "amara.diallo" stands here twice`},
		{"department without budget owner", "organisation.yaml", "    budgetOwner: ruth.abelson\n", "", "departments[1].budgetOwner: a person must be named here"},
		{"script", "models.yaml", "script: invoice-reconciler", "script: other", `models[1].script: there is no script "other"`},
		{"policy of an unknown fact", "policies/ledger.cedar", "context.facts.currency", "context.facts.money", "policies/ledger.cedar:49: "},
		{"hold for an unknown role", "policies/ledger.cedar", "role:finance-approver", "role:nobody", `policies/ledger.cedar: there is no role "nobody" to hold for`},
		{"voice of nobody", "personas/plain.yaml", "name: plain", "name: plain\nvoiceOf: nobody", `voiceOf: there is no principal "nobody"`},
		{"not YAML", "models.yaml", "models:", "models: [", "models.yaml:"},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			changed := files(t)
			edit(t, changed, row.file, row.old, row.fresh)
			o, err := agents.LoadDir(changed, agents.LoadOptions{})
			var faults agents.Faults
			require.ErrorAs(t, err, &faults)
			require.Contains(t, err.Error(), row.fault)
			require.Empty(t, o, "nothing is half loaded")
		})
	}
}

func TestLoadDirFindsAllFaultsAtOnce(t *testing.T) {
	changed := files(t)
	edit(t, changed, reconciler, "persona: plain", "persona: loud")
	edit(t, changed, "tools/ledger.find_adjustments.yaml", "owner: tomas.rehak", "owner: nobody")
	changed["agents/extra.yml"] = &fstest.MapFile{Data: []byte("name: extra")}
	delete(changed, "models.yaml")
	_, err := agents.LoadDir(changed, agents.LoadOptions{})
	require.ErrorContains(t, err, "agents/extra.yml: only files that end in .yaml are read here")
	require.ErrorContains(t, err, "models.yaml: the file is missing")
	delete(changed, "agents/extra.yml")
	changed["models.yaml"] = files(t)["models.yaml"]
	_, err = agents.LoadDir(changed, agents.LoadOptions{})
	require.ErrorContains(t, err, `there is no persona "loud"`)
	require.ErrorContains(t, err, `tools/ledger.find_adjustments.yaml:4: owner: there is no principal "nobody"`)
}

func TestTheSameFilesGiveTheSameDigests(t *testing.T) {
	first, second := load(t), load(t)
	require.Equal(t, digest(t, first), digest(t, second))
	changes, err := agents.Changes(first, second)
	require.NoError(t, err)
	require.Empty(t, changes)

	stored, err := json.Marshal(first)
	require.NoError(t, err)
	var read agents.Organisation
	require.NoError(t, json.Unmarshal(stored, &read))
	require.Equal(t, digest(t, first), digest(t, read))

	changed := files(t)
	edit(t, changed, reconciler, "turns: 20", "turns: 21")
	third, err := agents.LoadDir(changed, agents.LoadOptions{})
	require.NoError(t, err)
	changes, err = agents.Changes(first, third)
	require.NoError(t, err)
	require.Len(t, changes, 1)
	require.Equal(t, agents.Changed, changes[0].Kind)
	require.Equal(t, "agents/invoice-reconciler", changes[0].Object)
}

func TestEndpointsAreReplacedByTheCaller(t *testing.T) {
	changed := files(t)
	edit(t, changed, "organisation.yaml", `- "127.0.0.1:7411"`, `- "127.0.0.1:9000"`)
	o, err := agents.LoadDir(changed, agents.LoadOptions{Endpoints: map[string]string{"ledger": "http://127.0.0.1:9000"}})
	require.NoError(t, err)
	d, _ := o.Tool("ledger.post_adjustment")
	require.Contains(t, string(d.Server), `"http://127.0.0.1:9000/v1/adjustments"`)
	_, err = agents.LoadDir(changed, agents.LoadOptions{Endpoints: map[string]string{"books": "http://127.0.0.1:9000"}})
	require.ErrorContains(t, err, `there is no endpoint "books" to replace`)
}

func TestAutomateNeedsAReadBackOfEveryEffect(t *testing.T) {
	changed := files(t)
	edit(t, changed, reconciler, "stage: APPROVE", "stage: AUTOMATE")
	_, err := agents.LoadDir(changed, agents.LoadOptions{})
	require.NoError(t, err)
	edit(t, changed, reconciler, "      confirms: [ledger.post_adjustment]\n", "")
	_, err = agents.LoadDir(changed, agents.LoadOptions{})
	require.ErrorContains(t, err, reconciler+":8: stage: AUTOMATE needs a completion check that confirms ledger.post_adjustment")
}

func TestAuthorityIsWhatSubjectAndAgentShare(t *testing.T) {
	o := load(t)
	revision, _ := o.Agent("invoice-reconciler")
	marta, _ := o.Principal("marta.lindqvist")
	authority := o.Authority(revision, marta, 1000)
	require.Equal(t, policy.Labels{"finance"}, authority.Labels, "not hr-salary, which the agent may not read")
	require.Equal(t, int64(1000+7*24*3600*1000), authority.DeadlineMs)
	require.Equal(t, policy.Approve, authority.Stage)
	definition, _ := o.Tool("ledger.post_adjustment")
	grant := authority.Tools["ledger.post_adjustment"]
	require.Equal(t, definition.Digest(), grant.Revision)
	allowed, _ := grant.Allows([]byte(`{"amountCents":1,"currency":"EUR","invoice":"INV-1001","reason":"x"}`))
	require.True(t, allowed)
	allowed, path := grant.Allows([]byte(`{"amountCents":1,"currency":"USD","invoice":"INV-1001","reason":"x"}`))
	require.False(t, allowed)
	require.Equal(t, "/currency", path)

	liam, _ := o.Principal("liam.byrne")
	require.Empty(t, o.Authority(revision, liam, 1000), "no one outside the audience")
	stranger := marta
	stranger.Organisation = "elsewhere"
	require.Empty(t, o.Authority(revision, stranger, 1000))
}

func TestDirectoryKnowsWhoAnswers(t *testing.T) {
	d := load(t).Directory()
	require.Equal(t, []string{"helena.voss", "marta.lindqvist", "tomas.rehak"}, d.Holders("finance-approver"))
	owner, _ := d.BudgetOwner("finance")
	require.Equal(t, "marta.lindqvist", owner)
	owner, _ = d.LabelOwner("hr-salary")
	require.Equal(t, "ruth.abelson", owner)
	agent, found := d.Principal(agents.AgentID("policy-librarian"))
	require.True(t, found)
	require.Equal(t, policy.Agent, agent.Kind)
}

func TestRunsOfAConversationAreOnItsAccount(t *testing.T) {
	o := load(t)
	const november = 1_795_000_000_000
	carried := []string{"department:northwind/finance@2026-11", "organisation:northwind@2026-11"}
	require.Equal(t, carried, o.Accounts("finance", "", november))
	require.Equal(t, append([]string{"conversation:northwind@c1"}, carried...), o.Accounts("finance", "c1", november))
	o.Conversation.Per = agents.PerMonth
	require.Equal(t, "conversation:northwind@c1@2026-11", o.Accounts("finance", "c1", november)[0])
	node, _ := run.NodeOfPeriod("conversation:northwind@c1@2026-11")
	require.Equal(t, o.ConversationNode(), node, "whose limit it begins with")
}

package policies_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/policies"
	"gantry.dev/orchestrator/policy"
)

const goodPolicy = "@id(\"read\") @reason(\"reading is free\")\n" +
	"permit(principal, action == Action::\"files.read\", resource) when { context.facts.path like \"share/*\" };\n" +
	"@id(\"post\") @hold(\"role:controller\") @expires(\"1h\")\n" +
	"permit(principal, action == Action::\"ledger.post\", resource);\n"

// sourceOf reads policies.cedar of the directory over two tools and two people.
func sourceOf(dir string) ([]policy.File, []policy.ToolShape, policy.Directory, error) {
	text, err := os.ReadFile(filepath.Join(dir, "policies.cedar"))
	if err != nil {
		return nil, nil, nil, err
	}
	tools := []policy.ToolShape{
		{Name: "files.read", Impact: policy.ImpactRead, Facts: map[string]policy.FactType{"path": policy.String}},
		{Name: "ledger.post", Impact: policy.Reversible, Owner: "carla"},
	}
	people := policy.Roster{People: map[string]policy.Principal{
		"alice": {ID: "alice", Kind: policy.Person, Organisation: "acme"},
		"carla": {ID: "carla", Kind: policy.Person, Organisation: "acme", Roles: []string{"controller"}},
		"bot":   {ID: "bot", Kind: policy.Agent, Organisation: "acme"},
	}}
	return []policy.File{{Name: "policies.cedar", Text: text}}, tools, people, nil
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func runPolicy(source policies.Source, args ...string) (string, error) {
	var out bytes.Buffer
	command := policies.Command(source)
	command.SetArgs(args)
	command.SetOut(&out)
	command.SetErr(&out)
	err := command.Execute()
	return out.String(), err
}

func TestPolicyCheckPrintsEveryFault(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "policies.cedar", goodPolicy)
	out, err := runPolicy(sourceOf, "check", dir)
	require.NoError(t, err)
	require.Regexp(t, `^2 policies over 2 tools, revision [0-9a-f]{64}\n$`, out)

	write(t, dir, "policies.cedar", "permit(principal, action, resource);\n@id(\"x\") @holds(\"manager\")\npermit(principal, action, resource);\nforbd")
	out, err = runPolicy(sourceOf, "check", dir)
	require.ErrorIs(t, err, policies.ErrFaults)
	require.Equal(t, "policies.cedar:1: a policy needs an @id\n"+
		"policies.cedar:2: @holds: unknown annotation; known are id, hold, quorum, expires and reason\n"+
		"policies.cedar:4: near column 6: unexpected effect: forbd\n", out)
}

func TestPolicyTestPrintsWhatCameOutOtherwise(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "policies.cedar", goodPolicy)
	good := write(t, dir, "good.txt", "case: read\nsubject: alice\nagent: bot\ntool: files.read\nfact path: \"share/a\"\nexpect: PERMIT\n")
	bad := write(t, dir, "bad.txt", "\ncase: post\nsubject: alice\nagent: bot\ntool: ledger.post\nexpect: PERMIT\nby: carla\n")
	broken := write(t, dir, "broken.txt", "case: x\nsubject: zoe\n")
	empty := write(t, dir, "empty.txt", "# nothing\n")

	out, err := runPolicy(sourceOf, "test", dir, good)
	require.NoError(t, err)
	require.Contains(t, out, "1 case, 0 failed\n")

	out, err = runPolicy(sourceOf, "test", dir, good, bad)
	require.ErrorIs(t, err, policies.ErrFaults)
	require.Contains(t, out, bad+":2: post: expect: want \"PERMIT\", got \"HOLD\"\n"+
		bad+":2: post: by: want \"carla\", got \"role:controller\"\n2 cases, 1 failed\n")

	out, err = runPolicy(sourceOf, "test", dir, broken, bad)
	require.ErrorIs(t, err, policies.ErrFaults)
	require.Contains(t, out, broken+":2: subject: no principal \"zoe\" in the directory\n")
	require.Contains(t, out, broken+":1: the case has no tool\n")

	for _, command := range []string{"test", "explain"} {
		out, err = runPolicy(sourceOf, command, dir, empty)
		require.ErrorIs(t, err, policies.ErrFaults, "a test of nothing does not pass")
		require.Contains(t, out, empty+":1: the file has no case")
	}
	_, err = runPolicy(sourceOf, "test", dir, filepath.Join(dir, "absent.txt"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPolicyExplainSaysWhereItIsWritten(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "policies.cedar", goodPolicy)
	request := func(stage string) string {
		return write(t, dir, "request.json", `{"subject":{"id":"alice","kind":"PERSON","organisation":"acme"},
			"chain":[{"id":"alice","kind":"PERSON","organisation":"acme"}],"agent":{"name":"bot"},
			"tool":{"name":"ledger.post","impact":"REVERSIBLE","owner":"carla"},"stage":"`+stage+`"}`)
	}
	out, err := runPolicy(sourceOf, "explain", dir, request("OBSERVE"))
	require.NoError(t, err)
	require.Contains(t, out, "SIMULATE\n  would have been HOLD\n"+
		"  because gantry:stage-observe (a rule of Gantry): in stage OBSERVE all above READ is simulated\n"+
		"  because post (policies.cedar:3): a policy permits it\n"+
		"  decided by role:controller (role controller), 1 needed\n"+
		"  open for 1h\n")

	_, err = runPolicy(sourceOf, "explain", dir, write(t, dir, "typo.json", `{"subjct":{}}`))
	require.ErrorContains(t, err, "subjct")
	_, err = runPolicy(sourceOf, "explain", dir, filepath.Join(dir, "absent.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestPolicySchemaPrintsWhatPoliciesSpeakOf(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "policies.cedar", "")
	out, err := runPolicy(sourceOf, "schema", dir)
	require.NoError(t, err)
	require.Contains(t, out, `action "files.read" in [Action::"read"] appliesTo {`)

	wrong := func(string) ([]policy.File, []policy.ToolShape, policy.Directory, error) {
		return nil, []policy.ToolShape{{Name: "read"}}, policy.Roster{}, nil
	}
	out, err = runPolicy(wrong, "schema", dir)
	require.ErrorIs(t, err, policies.ErrFaults)
	require.Contains(t, out, `tool "read": this name is the name of a group of actions`)
}

func TestPolicyCommandsPassOnWhatTheSourceCannotRead(t *testing.T) {
	unreadable := errors.New("unreadable")
	source := func(string) ([]policy.File, []policy.ToolShape, policy.Directory, error) {
		return nil, nil, nil, unreadable
	}
	for _, args := range [][]string{{"check", "d"}, {"test", "d", "c"}, {"explain", "d", "r"}, {"schema", "d"}} {
		_, err := runPolicy(source, args...)
		require.ErrorIs(t, err, unreadable)
	}
}

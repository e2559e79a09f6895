package agents_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/agents/tool"
	"gantry.dev/memory/view"
	"gantry.dev/orchestrator/policy"
)

const (
	organisationYAML = "organisation.yaml"
	remembers        = "  memory: {owner: keiko.tanaka, contact: oskar.nilsen, impact: DRAFT}"
)

func TestAnAgentSaysHowMuchItRecalls(t *testing.T) {
	changed := files(t)
	before := load(t)
	edit(t, changed, reconciler, "stage: APPROVE", "stage: APPROVE\nmemory: {tokens: 2000, items: 8, kinds: [FACT, PASSAGE]}")
	o, err := agents.LoadDir(changed, agents.LoadOptions{})
	require.NoError(t, err)
	revision, _ := o.Agent("invoice-reconciler")
	require.Equal(t, &agents.Recall{Tokens: 2000, Items: 8, Kinds: []view.Kind{view.Fact, view.Passage}}, revision.Memory)
	remember, known := o.Tool(tool.RememberName)
	require.True(t, known)
	require.Equal(t, policy.Draft, remember.Impact)
	require.Equal(t, "keiko.tanaka", remember.Owner)
	_, known = o.Tool(tool.RecallName)
	require.True(t, known)

	silent, _ := before.Agent("invoice-reconciler")
	raw, err := json.Marshal(silent)
	require.NoError(t, err)
	require.NotContains(t, string(raw), `"memory"`, "an agent that says nothing of memory is the revision that it was")
}

func TestARecallThatDoesNotFitIsRefused(t *testing.T) {
	for name, row := range map[string]struct{ file, old, fresh, fault string }{
		"no tokens":      {reconciler, "stage: APPROVE", "stage: APPROVE\nmemory: {items: 8}", "memory.tokens: must be above 0"},
		"no items":       {reconciler, "stage: APPROVE", "stage: APPROVE\nmemory: {tokens: 8}", "memory.items: must be 1 to 100"},
		"too many items": {reconciler, "stage: APPROVE", "stage: APPROVE\nmemory: {tokens: 8, items: 101}", "memory.items: must be 1 to 100"},
		"another way":    {reconciler, "stage: APPROVE", "stage: APPROVE\nmemory: {tokens: 8, items: 8, onOutage: STOP}", "memory.onOutage: must be DEGRADE or WAIT"},
		"another kind":   {reconciler, "stage: APPROVE", "stage: APPROVE\nmemory: {tokens: 8, items: 8, kinds: [RUMOUR]}", "memory.kinds[0]: is no kind of remembered thing"},
		"no owner":       {organisationYAML, remembers, "  memory: {contact: oskar.nilsen}", "builtins.memory.owner: a person must be named here"},
		"final":          {organisationYAML, remembers, "  memory: {owner: keiko.tanaka, contact: oskar.nilsen, impact: IRREVERSIBLE}", "builtins.memory.impact: must be DRAFT or REVERSIBLE"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := files(t)
			edit(t, changed, row.file, row.old, row.fresh)
			_, err := agents.LoadDir(changed, agents.LoadOptions{})
			require.ErrorContains(t, err, row.fault)
		})
	}
}

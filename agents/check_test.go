package agents_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/agents"
	"gantry.dev/orchestrator/run"
)

func posted(outcome run.Outcome) agents.CheckVars {
	return agents.CheckVars{
		Run: agents.CheckRun{ID: "r1", Organisation: "northwind", Subject: "amara.diallo", Agent: "agent:invoice-reconciler",
			Chain: []string{"amara.diallo", "agent:invoice-reconciler"}},
		Calls: []agents.CheckCall{{Call: 3, Tool: "ledger.post_adjustment", Outcome: outcome, Key: "k1",
			Arguments: json.RawMessage(`{"invoice":"INV-1008","amountCents":-9680,"currency":"EUR","reason":"x"}`)}},
		Output: []byte(`{"posted":true}`),
	}
}

const entry = `{"id":"1","key":"k1","invoice":"INV-1008","amountCents":-9680,"currency":"EUR","actor":{"client":"gantry","chain":["amara.diallo","agent:invoice-reconciler"]}}`

func TestTheReconcilersCheckReadsTheLedgerBack(t *testing.T) {
	o := load(t)
	revision, _ := o.Agent("invoice-reconciler")
	check := revision.Completion.Checks[0]
	applies, err := check.Applies(posted(run.OutcomeOK))
	require.NoError(t, err)
	require.True(t, applies)
	applies, err = check.Applies(posted(run.OutcomeDenied))
	require.NoError(t, err)
	require.False(t, applies)
	arguments, err := check.Call(posted(run.OutcomeOK))
	require.NoError(t, err)
	require.JSONEq(t, `{"invoice":"INV-1008"}`, string(arguments))

	other := `{"id":"2","key":"k2","invoice":"INV-1008","amountCents":-1,"currency":"EUR","actor":{"client":"gantry","chain":["jonas.petersen"]}}`
	table := []struct {
		name, result string
		passed       bool
	}{
		{"there", `{"entries":[` + entry + `]}`, true},
		{"beside another adjustment", `{"entries":[` + other + `,` + entry + `]}`, true},
		{"absent", `{"entries":[]}`, false},
		{"another entry only", `{"entries":[` + other + `]}`, false},
		{"twice", `{"entries":[` + entry + `,` + entry + `]}`, false},
		{"twice under another key", `{"entries":[` + entry + `,{"id":"3","key":"k9","invoice":"INV-1008","amountCents":-9680,"currency":"EUR","actor":{"chain":["x"]}}]}`, false},
		{"another amount", `{"entries":[{"id":"1","key":"k1","invoice":"INV-1008","amountCents":-9681,"currency":"EUR","actor":{"chain":["amara.diallo","agent:invoice-reconciler"]}}]}`, false},
		{"another actor", `{"entries":[{"id":"1","key":"k1","invoice":"INV-1008","amountCents":-9680,"currency":"EUR","actor":{"chain":["tomas.rehak"]}}]}`, false},
	}
	for _, row := range table {
		t.Run(row.name, func(t *testing.T) {
			passed, err := check.Evaluate(agents.Found{Result: []byte(row.result)}, posted(run.OutcomeOK))
			require.NoError(t, err)
			require.Equal(t, row.passed, passed)
		})
	}
	for _, result := range []string{``, `not JSON`, `{}`, `{"entries":7}`, `{"entries":[{"id":"1"}]}`} {
		_, err := check.Evaluate(agents.Found{Result: []byte(result)}, posted(run.OutcomeOK))
		require.ErrorIs(t, err, agents.ErrUnchecked, result)
		require.NotContains(t, err.Error(), "INV-")
	}
}

func TestTheAnswerMustSayWhatHappened(t *testing.T) {
	o := load(t)
	revision, _ := o.Agent("invoice-reconciler")
	check := revision.Completion.Checks[1]
	for outcome, want := range map[run.Outcome]bool{run.OutcomeOK: true, run.OutcomeDenied: false, run.OutcomeSimulated: false} {
		passed, err := check.Evaluate(agents.Found{}, posted(outcome))
		require.NoError(t, err)
		require.Equal(t, want, passed, outcome)
	}
	silent := posted(run.OutcomeOK)
	silent.Output = []byte(`free text`)
	_, err := check.Evaluate(agents.Found{}, silent)
	require.ErrorIs(t, err, agents.ErrUnchecked)
}

func TestAnExpressionIsBounded(t *testing.T) {
	vars := posted(run.OutcomeOK)
	for range 300 {
		vars.Calls = append(vars.Calls, vars.Calls[0])
	}
	check := agents.Check{Name: "long", Expression: "calls.all(a, calls.all(b, calls.all(c, a.tool == b.tool && b.tool == c.tool)))"}
	_, err := check.Evaluate(agents.Found{}, vars)
	require.ErrorIs(t, err, agents.ErrUnchecked)
}

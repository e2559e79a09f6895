package graph_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/graph"
	"gantry.dev/orchestrator/run/account"
)

const explainQuery = `query($id:ID!){run(id:$id){
 explanation{asked{question lines} turns{lines} calls{lines} interventions{lines} results{lines} stop{lines}}
 first:turnExplanation(turn:1){question lines} none:turnExplanation(turn:2){question}}}`

func TestRunIsExplainedAsTheViewerMaySeeIt(t *testing.T) {
	s := serve(t)
	id := s.runID(t)
	own := s.ask(t, "anna", explainQuery, map[string]any{"id": id})
	require.Empty(t, own.Errors, own.raw)
	require.Contains(t, own.raw, `"question":"What was asked?"`)
	require.Contains(t, own.raw, "pay the invoice")
	require.Contains(t, own.raw, "answered CALLS: salary 7")
	require.Contains(t, own.raw, `"calls":{"lines":["call 1 of turn 1: bank.pay {\"to\":\"\\u{202E}x\"}`, "what is not seen is shown for what it is")
	require.Contains(t, own.raw, "call 1: HOLD by p1")
	require.Contains(t, own.raw, `"results":{"lines":[]}`)
	require.Contains(t, own.raw, "it has not stopped: WAITING")
	require.Contains(t, own.raw, `"none":null`)
	others := s.ask(t, "bob", explainQuery, map[string]any{"id": id})
	require.Empty(t, others.Errors, others.raw)
	require.Contains(t, others.raw, "answered CALLS: [redacted]")
	require.NotContains(t, others.raw, "salary")
}

func TestExportVerifiesAndIsForWhoMayKnowAllItsLabels(t *testing.T) {
	s := serve(t)
	variables := map[string]any{"id": s.runID(t)}
	got := s.ask(t, "anna", `query($id:ID!){run(id:$id){export}}`, variables)
	require.Empty(t, got.Errors, got.raw)
	export := got.Data["run"].(map[string]any)["export"].(string)
	report, err := account.Verify(strings.NewReader(export), s.records[len(s.records)-1].Digest)
	require.NoError(t, err)
	require.Equal(t, len(s.records), report.Records)
	require.NotContains(t, export, "salary")
	for _, who := range []string{"bob", "olga"} {
		refused := s.ask(t, who, `query($id:ID!){run(id:$id){export}}`, variables)
		require.Equal(t, "NOT_CLEARED", refused.code(), who)
		require.NotContains(t, refused.raw, "digest-1", who)
	}
}

func TestComplexityCountsJournalsAsHeavy(t *testing.T) {
	s := serve(t, func(c *graph.Config) { c.Limits.Complexity = 500 })
	variables := map[string]any{"id": s.runID(t)}
	require.Empty(t, s.ask(t, "anna", `query($id:ID!){run(id:$id){status}}`, variables).Errors)
	require.Equal(t, "OVER_LIMIT", s.ask(t, "anna", `query($id:ID!){run(id:$id){export}}`, variables).code())
	require.Equal(t, "OVER_LIMIT", s.ask(t, "anna", `query($id:ID!){audit(run:$id){head}}`, variables).code())
}

package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/roundtable"
	"gantry.dev/cmd/gantry/cli/showcase"
	"gantry.dev/orchestrator/run"
)

func TestDemoPostsOnceWhatWasGrantedAndNothingThatWasDenied(t *testing.T) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetArgs([]string{"demo", "--json"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	var result demoResult
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Equal(t, string(run.StatusCompleted), result.Status)
	require.Equal(t, string(run.StatusCompleted), result.DeniedStatus)
	require.Equal(t, 1, result.LedgerEntries)
	require.Equal(t, 2, result.Approvals)
	require.Positive(t, result.CostMicroUSD)
	require.True(t, result.ChainVerified)
}

func TestDemoFailsWhenTheLedgerDoesNotShowWhatWasExpected(t *testing.T) {
	root := Root()
	root.SetOut(&bytes.Buffer{})
	// A clean invoice proposes nothing, so nothing can be granted.
	root.SetArgs([]string{"demo", "--grant", "INV-1005"})
	require.ErrorContains(t, root.ExecuteContext(t.Context()), "expected 1 and 0")
}

func TestDemoRefusesWhatItCannotShowAtOnce(t *testing.T) {
	for _, args := range [][]string{{"--grant", "INV-1008"}, {"--grant", "INV-9999"}, {"--deny", "../x"}} {
		_, err := gantry(t, append([]string{"demo"}, args...)...)
		require.Regexp(t, "choose two|has no invoice", err)
	}
}

func TestDemoOfGroups(t *testing.T) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetArgs([]string{"demo", "group", "--json"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	var result roundtable.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	require.Len(t, result.Views, 2)
	require.Len(t, result.Bills, 2)
	require.Len(t, result.Checks, 6)
}

// The same question has a right answer for each: what nobody may miss, and what
// is not for them.
func TestDemoOfMemoryGivesFivePeopleFiveAnswers(t *testing.T) {
	var out bytes.Buffer
	root := Root()
	root.SetOut(&out)
	root.SetArgs([]string{"demo", "memory", "--json"})
	require.NoError(t, root.ExecuteContext(t.Context()))
	var result showcase.Result
	require.NoError(t, json.Unmarshal(out.Bytes(), &result))
	said := func(answers []showcase.Answer) map[string]string {
		all := map[string]string{}
		for _, answer := range answers {
			for _, reading := range answer.Readings {
				all[answer.Principal] += reading.Text + "\n"
			}
		}
		return all
	}
	before, after := said(result.Answers), said(result.After)
	const band, warning, forecast, bonus = "Amara Diallo goes to band C with 3,480 EUR", "put off because of the written warning", "310,000 EUR for", "sales bonus"
	for who, words := range map[string][]string{
		"ruth.abelson": {band, warning, "3.1 %"}, "tomas.rehak": {forecast}, "liam.byrne": {bonus, "car allowance"},
		"jonas.petersen": {forecast, "five more days of leave"}, "pieter.vanacker": {"takes place in April"},
	} {
		for _, word := range words {
			require.Contains(t, before[who], word, who)
		}
		for _, other := range []string{band, warning, "3.1 %", forecast, bonus, "car allowance", "five more days of leave"} {
			if !slices.Contains(words, other) {
				require.NotContains(t, before[who], other, who)
			}
		}
		require.NotContains(t, before[who], "Rk7-quayside", who)
		require.Contains(t, after[who], "takes place in April", who)
		require.NotContains(t, after[who], band, who)
	}
	require.Len(t, result.Checks, 6)
	require.NotNil(t, result.Receipt.VerifiedAt)
}

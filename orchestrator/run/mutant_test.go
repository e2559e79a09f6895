package run_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutants each remove one rule of the core; a named test must fail for it.
var mutants = []struct{ rule, file, from, to, test string }{
	{"fencing", "journalform.go", "if epoch != 0 && epoch != head.Epoch {", "if false {", "TestAStaleEpochIsFenced"},
	{"intent before effect", "decide_call.go", "c.Intent < 1 ||", "", "TestNoOutcomeWithoutAnIntent"},
	{"blind retry", "decide_call.go", "return class == policy.ClassRead || class == policy.Keyed", "return true", "TestFault_B2_OnlySafeClassesAreRepeatedBlindly"},
	{"unspent approval", "apply_call.go", "approval.Status = ApprovalSpent", "_ = approval", "TestCase_05_AnApprovalIsSpentOnce"},
	{"cancel unchecked at intent", "decide.go", "Guard{Gate: RootGate(d.s.Started.Root), ", "Guard{", "TestAnIntentMakesItsConditions"},
	{"approval read before the transaction", "decide_call.go", ", BeforeMs: approval.NotAfterMs})", "})", "TestAnIntentMakesItsConditions"},
	{"no takeover", "journalform.go", ` || head.LeaseUntil <= nowMs`, "", "TestARunIsTakenOverWhenItsLeaseEnds"},
	{"retry on absent", "decide_call.go", "Cause: call.Code, Ask: true})", "Cause: call.Code})", "TestAbsentIsNoProof"},
	{"double settle", "decide_turn.go", " || turn.Phase != TurnInFlight {", " {", "TestFault_H4_ATurnIsSettledOnce"},
	{"result order", "decide_turn.go", "call := len(d.s.Calls) + 1 + i", "call := len(d.s.Calls) + len(c.Calls) - i", "TestResultsKeepTheModelsOrder"},
}

func TestMutants(t *testing.T) {
	if os.Getenv("GANTRY_MUTANT") != "" {
		return // this run is a mutant's
	}
	killed := 0
	for _, m := range mutants {
		text, err := os.ReadFile(m.file)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), m.from), "%s: %q in %s", m.rule, m.from, m.file)
		mutated := filepath.Join(t.TempDir(), m.file)
		require.NoError(t, os.WriteFile(mutated, []byte(strings.Replace(string(text), m.from, m.to, 1)), 0o600))
		original, err := filepath.Abs(m.file)
		require.NoError(t, err)
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
		require.NoError(t, err)
		listing := filepath.Join(t.TempDir(), "overlay.json")
		require.NoError(t, os.WriteFile(listing, overlay, 0o600))
		command := exec.CommandContext(t.Context(), "go", "test", "-overlay", listing, "-run", "^"+m.test+"$", ".")
		command.Env = append(os.Environ(), "GANTRY_MUTANT=1")
		out, err := command.CombinedOutput()
		require.Error(t, err, "%s survives %s", m.rule, m.test)
		require.Contains(t, string(out), "--- FAIL: "+m.test, "%s must be killed by the test, not by the compiler: %s", m.rule, out)
		killed++
	}
	fmt.Printf("mutants %d/%d\n", killed, len(mutants))
}

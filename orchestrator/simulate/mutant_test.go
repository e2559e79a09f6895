package simulate

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

// change replaces one place of a file.
type change struct{ from, to string }

// mutants each remove one rule of the engine or of the core; some seed must
// fail for each.
var mutants = []struct {
	rule, file string
	changes    []change
	finds      string // part of what the seed says
}{
	{"fencing", "run/journalform.go", []change{{"if epoch != 0 && epoch != head.Epoch {", "if false {"}}, "was accepted under epoch"},
	{"versions", "run/journalform.go", []change{{"if from != head.Version {", "if false {"}}, "does not follow record"},
	{"takeover", "run/journalform.go", []change{{" || head.LeaseUntil <= nowMs", ""}}, "long after the faults stopped"},
	{"no blind retry", "run/decide_call.go", []change{{"return class == policy.ClassRead || class == policy.Keyed", "return class != policy.Checkable"},
		{"ask := class == policy.Opaque || mayRepeat", "ask := mayRepeat"}}, "(OPAQUE)"},
	{"absent is no proof", "run/decide_call.go", []change{{"Cause: call.Code, Ask: true})", "Cause: call.Code})"}}, "long after the faults stopped"},
	{"a repeat proves nothing", "run/decide_call.go", []change{{"if c.Outcome == OutcomeFailed && !call.provesAbsence(c) {", "if false {"}}, "and it was done"},
	{"a turn is settled once", "run/decide_turn.go", []change{{" || turn.Phase != TurnInFlight {", " {"}}, "parked as UNREADABLE"},
	{"a lost turn may have been paid", "run/decide_run.go", []change{{"Cause: Lost, Unknown: true", "Cause: Lost"}}, "models were paid"},
	{"the end gives back", "run/decide.go", []change{{"Reserve: Amount{}.Minus(limit)", "Reserve: limit.Minus(limit)"}}, "the account holds"},
	{"intent before effect", "engine/actor.go", []change{
		{"	if err := a.flush(record, d); err != nil {", "	for _, b := range begun {\n		a.begin(ctx, b)\n	}\n	if err := a.flush(record, d); err != nil {"},
		{"	a.interrupt()\n	for _, b := range begun {\n		a.begin(ctx, b)\n	}", "	a.interrupt()"}}, "before its intent was recorded"},
	{"leases are renewed", "engine/actor.go", []change{{"if nowMs < a.renewAtMs {", "if true {"}}, "the lease of a healthy worker ran out"},
	{"outcomes outlive a conflict", "engine/actor.go", []change{{"		return false, a.afterFailure(record, err)", "		a.reports = nil\n		return false, a.afterFailure(record, err)"}}, "long after the faults stopped"},
	{"a new owner recovers", "engine/actor.go", []change{{"run.Recover{Epoch: a.lease.Epoch}", "run.Recover{}"}}, "long after the faults stopped"},
	{"a cancel closes its calls", "run/decide_close.go", []change{{"	d.closeCalls(VoidCancelled)\n", ""}}, "long after the faults stopped"},
	{"only who is entitled decides", "run/decide_people.go", []change{{"if d.env.Rules.Entitled(approval.Approvers, c.Person, d.s.Started.Chain) != nil {", "if false {"}}, "approved what they may not"},
	{"a word is on what was seen", "run/decide_people.go", []change{{"case approval.Digest != c.Digest:", "case false:"}}, "a word on another digest was accepted"},
	{"who was accepted is not told of a refusal", "engine/engine.go", []change{{"	case errors.Is(err, ErrNotFound):\n", "	case err != nil:\n"}}, "and they are told"},
	{"a repeat is told its first answer", "engine/engine.go", []change{{"write.Receipt = in.Receipt", "_ = in.Receipt"}}, "a steer was accepted 2 times"},
}

func TestMutants(t *testing.T) {
	if os.Getenv("GANTRY_MUTANT") != "" {
		return // this run is a mutant's
	}
	wanted := os.Getenv("MUTANTS")
	if wanted == "" {
		t.Skip("set MUTANTS=all, or to a part of a rule's name: each mutant builds the engine anew")
	}
	killed, planted := 0, 0
	for _, m := range mutants {
		if wanted != "all" && !strings.Contains(m.rule, wanted) {
			continue
		}
		planted++
		text, err := os.ReadFile(filepath.Join("..", m.file))
		require.NoError(t, err)
		mutated := string(text)
		for _, c := range m.changes {
			require.Equal(t, 1, strings.Count(mutated, c.from), "%s: %q in %s", m.rule, c.from, m.file)
			mutated = strings.Replace(mutated, c.from, c.to, 1)
		}
		out, failed := play(t, m.file, mutated)
		seed, _, _ := strings.Cut(out[max(strings.Index(out, "SEED="), 0):], "\n")
		if !failed || !strings.Contains(out, m.finds) {
			t.Errorf("%s survives: %s", m.rule, out)
			continue
		}
		fmt.Printf("mutant %q found: %s\n", m.rule, seed)
		killed++
	}
	fmt.Printf("mutants %d/%d\n", killed, planted)
	require.Positive(t, planted)
}

// play runs the seeds with another text of one file.
func play(t *testing.T, file, text string) (out string, failed bool) {
	t.Helper()
	mutated := filepath.Join(t.TempDir(), filepath.Base(file))
	require.NoError(t, os.WriteFile(mutated, []byte(text), 0o600))
	original, err := filepath.Abs(filepath.Join("..", file))
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{original: mutated}})
	require.NoError(t, err)
	listing := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(listing, overlay, 0o600))
	command := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-overlay", listing, "-run", "^TestSeeds$", ".")
	command.Env = append(os.Environ(), "GANTRY_MUTANT=1", "SEEDS=400")
	bytes, err := command.CombinedOutput()
	require.NotContains(t, string(bytes), "[build failed]")
	return string(bytes), err != nil
}

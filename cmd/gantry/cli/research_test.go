package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gantry.dev/cmd/gantry/cli/fanout"
	"gantry.dev/cmd/gantry/cli/research"
	"gantry.dev/cmd/gantry/client"
)

// Twenty branches: one fails, one stalls until its deadline ends it. What the
// others found stays with its input, what is missing is named, the research is
// PARTIAL, and only what failed is taken again.
func TestCase_38_TwoOfTwentyBranchesFailAndOnlyTheseAreTakenAgain(t *testing.T) {
	var result fanout.Result
	mustJSON(t, &result, "demo", "research", "--json")
	require.Len(t, result.Checks, 6)
	first, again := result.First, result.Retried
	require.Equal(t, []string{"shelf 7 (scan)", "shelf 13"}, first.Missing())
	require.Equal(t, []string{"VERIFICATION_FAILED", "DEADLINE"}, []string{first.Branches[6].Code, first.Branches[12].Code})
	require.Equal(t, []any{"PARTIAL", 18, 2}, []any{first.Status, first.Done, first.Failed})
	require.Equal(t, []any{"COMPLETED", 20, first.ID}, []any{again.Status, again.Done, again.RetryOf})
	require.Less(t, again.Spent.Tokens, first.Spent.Tokens, "what is kept costs nothing again")
	require.Less(t, len(result.Others.Findings), len(again.Findings))
	for _, finding := range again.Findings {
		require.Equal(t, "UNTRUSTED", finding.Integrity)
		require.Equal(t, "RUN", finding.Source.Kind)
		require.NotEmpty(t, finding.DerivedFrom)
	}
	// The spending of all branches is in the books of the run that coordinates.
	var branches int64
	for _, branch := range first.Branches {
		require.NotNil(t, branch.Spent, branch.Title)
		branches += branch.Spent.Tokens
	}
	require.Greater(t, first.Spent.Tokens, branches)
}

// shelf writes documents, of which the last says nothing.
func shelf(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for name, text := range map[string]string{
		"a.txt": "The quay gate closes at nine in the evening for every lorry.\n", "b.txt": "Nothing of it is written here, only of cranes.\n",
		"c.txt": "The quay gate closes at nine in the evening for every lorry.\n", "d.txt": "Bananas are yellow.\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
	}
	return folder
}

func TestAResearchInAFolderOfOnesOwn(t *testing.T) {
	atHome(t)
	folder := shelf(t)
	base := filepath.Base(folder)
	const question = "When does the quay gate close for lorries?"
	out := must(t, "research", question, folder, "--per-branch", "1", "--as", "liam.byrne")
	require.Contains(t, out, "4 of 4 files: 4 passages new")
	require.Contains(t, out, "with 4 branches: "+question+"\n")
	require.Contains(t, out, "4 of 4 done")
	require.Contains(t, out, "COMPLETED\n\n1. 2 documents say: The quay gate closes at nine in the evening for every lorry.\n   > The quay gate closes")
	require.Contains(t, out, "   — "+base+"/a.txt/1: ")
	require.Contains(t, out, "   — "+base+"/c.txt/1: ")
	require.Equal(t, 1, strings.Count(out, "   > The quay gate closes"), "said once, with both places")
	require.NotContains(t, out, "\n3. ")
	_, named, _ := strings.Cut(out, "research ")
	id := strings.Fields(named)[0]

	var shown client.Research
	mustJSON(t, &shown, "research", "show", id, "--json", "--as", "liam.byrne")
	require.Equal(t, []any{"COMPLETED", 4, 4}, []any{shown.Status, shown.Done, len(shown.Branches)})
	require.Len(t, shown.Findings, 3)
	require.Equal(t, "person:liam.byrne", shown.Findings[0].Space, "where its sources stand, and nowhere else")
	for _, branch := range shown.Branches[1:2] {
		require.Equal(t, []any{"DONE", 0}, []any{branch.Status, branch.Findings}, "a document without an answer is no failure")
	}
	_, err := gantry(t, "research", "show", id, "--as", "pieter.vanacker")
	require.ErrorContains(t, err, "NOT_FOUND")
	_, err = gantry(t, "research", "retry", id, "--as", "liam.byrne")
	require.ErrorContains(t, err, "NOTHING_FAILED")
}

func TestAResearchIsRefusedWhatItsCoordinatorDoesNotDo(t *testing.T) {
	atHome(t)
	folder := shelf(t)
	ask := func(args ...string) error {
		_, err := gantry(t, append([]string{"research", "When does the gate close?", folder, "--as", "liam.byrne"}, args...)...)
		return err
	}
	require.ErrorContains(t, ask("--agent", "policy-librarian"), "DELEGATES")
	require.ErrorContains(t, ask("--coordinator", "policy-librarian"), "NO_COORDINATOR")
	require.ErrorContains(t, ask("--coordinator", "nobody"), "NOT_FOUND")
	require.ErrorContains(t, ask("--per-branch", "21"), "perBranch")
	_, err := gantry(t, "research", " ", folder, "--as", "liam.byrne")
	require.ErrorContains(t, err, "question")
	_, err = gantry(t, "research", "When?", t.TempDir(), "--as", "liam.byrne")
	require.ErrorContains(t, err, "no file")
	started := must(t, "run", "policy-librarian", "How many days of leave?", "--no-follow", "--as", "liam.byrne")
	_, err = gantry(t, "research", "show", strings.TrimSpace(started), "--as", "liam.byrne")
	require.ErrorContains(t, err, "NOT_FOUND", "a run that is no research")
}

func TestProgressIsALineForEachChange(t *testing.T) {
	var plain, screen strings.Builder
	left := 7
	moving := client.Research{Question: "q", Branches: make([]client.ResearchBranch, 4), Done: 1, Running: 2, Open: 1, SecondsLeft: &left}
	for _, p := range []*research.Progress{{Out: &plain}, {Out: &screen, Screen: true}, {Out: &plain, Silent: true}} {
		require.NoError(t, p.Begin(moving))
		require.NoError(t, p.Tell(moving))
		require.NoError(t, p.Tell(moving))
		require.NoError(t, p.End())
	}
	require.Equal(t, "research  with 4 branches: q\n1 of 4 done, 2 running, 1 waiting, $0.0000 and 0 tokens so far, about 7 s left\n", plain.String())
	require.Contains(t, screen.String(), "\r\x1b[K[######------------------] 1 of 4 done")
}

func TestWhatFailedIsTakenAgainFromTheCommandLine(t *testing.T) {
	atHome(t)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "gate (scan).txt"), []byte("The quay gate closes at nine in the evening for every lorry.\n"), 0o600))
	out, err := gantry(t, "research", "When does the quay gate close for lorries?", folder, "--agent", "archive-desk", "--as", "liam.byrne")
	require.ErrorContains(t, err, "the research is PARTIAL, \"1: ")
	require.ErrorContains(t, err, "research retry ")
	require.Contains(t, out, "missing: 1: ")
	require.Contains(t, out, "(VERIFICATION_FAILED)")
	_, named, _ := strings.Cut(out, "research ")
	id := strings.Fields(named)[0]
	_, err = gantry(t, "research", "retry", id, "--as", "sofia.marchetti")
	require.ErrorContains(t, err, "NOT_FOUND")
	out = must(t, "research", "retry", id, "--agent", research.Reader, "--as", "liam.byrne")
	require.Contains(t, out, "1 of 1 done")
	require.Contains(t, out, "   > The quay gate closes at nine in the evening for every lorry.\n")
}

// A plan may be longer than what a person says, and takes several turns.
func TestAResearchOfManyBranches(t *testing.T) {
	h := atHome(t)
	c, err := h.as("liam.byrne")
	require.NoError(t, err)
	branches := make([]client.PlannedBranch, 150)
	for n := range branches {
		branches[n].Title = fmt.Sprintf("branch %d", n)
		for i := range 3 {
			branches[n].Inputs = append(branches[n].Inputs, fmt.Sprintf("%0200d-%d.txt", n, i))
		}
	}
	begun, err := c.StartResearch(t.Context(), client.StartResearch{Coordinator: research.Coordinator, Question: "When does the quay gate close?", Branches: branches,
		Agent: research.Reader, Consolidator: research.Consolidator})
	require.NoError(t, err)
	last := begun
	require.NoError(t, c.ResearchProgress(t.Context(), begun.ID, func(r client.Research) (bool, error) {
		last = r
		return true, nil
	}))
	require.Equal(t, []any{"COMPLETED", 150}, []any{last.Status, last.Done})
	whole, err := c.Run(t.Context(), begun.ID)
	require.NoError(t, err)
	require.Len(t, whole.Calls, 150, "nothing was found, so nothing is made one")
	require.Len(t, whole.Turns, 4)
	require.Zero(t, whole.Budget.Reserved.Tokens)
}

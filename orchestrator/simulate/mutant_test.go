package simulate

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// switches go into every package that a mutant changes: GANTRY_PLANTED names
// the rule that this process lacks.
const switches = `package %s

import "os"

var gantryPlanted = os.Getenv("GANTRY_PLANTED")

func unless[T any](planted bool, value T) T {
	if planted {
		var none T
		return none
	}
	return value
}
`

// TestMutants plants every fault in one build, and then lets each act alone:
// to build anew for every one would take minutes. MUTANTS plays those only
// whose names have it in them.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the engine anew; not under -short")
	}
	house := plant(t)
	house.keepsItsPromises(t)
	var byTest, byWalk, bySeed, found atomic.Int64
	planted := int64(0)
	t.Run("planted", func(t *testing.T) {
		for _, m := range mutants {
			if !strings.Contains(m.rule, os.Getenv("MUTANTS")) {
				continue
			}
			planted++
			t.Run(m.rule, func(t *testing.T) {
				t.Parallel()
				require.NotEmpty(t, m.walk+m.finds, "found by a walk or by seeds, whatever else may find it")
				if m.test != "" {
					require.Contains(t, house.fails(t, m, "run", "^"+m.test+"$"), "--- FAIL: "+m.test)
					byTest.Add(1)
				}
				if m.walk != "" {
					require.Contains(t, house.fails(t, m, "explore", "^TestExplore$", "WALK="+m.walk), m.walk+": ")
					byWalk.Add(1)
				}
				if m.finds != "" {
					out := house.fails(t, m, "simulate", "^TestSeeds$", "SEEDS=2000", "FIRST="+strconv.Itoa(m.seed))
					require.Contains(t, out, m.finds)
					bySeed.Add(1)
					t.Logf("%s: %s", m.rule, regexp.MustCompile(`SEED=\d+`).FindString(out))
				}
				found.Add(1)
			})
		}
	})
	require.Positive(t, planted)
	fmt.Printf("level: mutants planted bugs %d/%d, by a walk %d, by a seed %d, by a test of the core too %d\n",
		found.Load(), planted, byWalk.Load(), bySeed.Load(), byTest.Load())
}

// houses are the packages whose tests find the mutants.
var houses = map[string]string{"run": "../run", "explore": "../run/explore", "simulate": "."}

// house has the tests of the core, of the walks and of the seeds, with every
// fault in them.
type house map[string]string

func plant(t *testing.T) house {
	t.Helper()
	texts := map[string]string{}
	for _, m := range mutants {
		file := filepath.Join("..", m.file)
		if texts[file] == "" {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			texts[file] = string(text)
			added := filepath.Join(filepath.Dir(file), "planted.go")
			texts[added] = fmt.Sprintf(switches, filepath.Base(filepath.Dir(file)))
		}
		for _, c := range m.changes {
			require.Equal(t, 1, strings.Count(texts[file], c.from), "%s: %q in %s", m.rule, c.from, m.file)
			planted := strings.ReplaceAll(c.to, "PLANTED", "(gantryPlanted == "+strconv.Quote(m.rule)+")")
			texts[file] = strings.Replace(texts[file], c.from, planted, 1)
		}
	}
	folder, replace := t.TempDir(), map[string]string{}
	for file, text := range texts {
		original, err := filepath.Abs(file)
		require.NoError(t, err)
		replace[original] = filepath.Join(folder, strconv.Itoa(len(replace))+".go")
		require.NoError(t, os.WriteFile(replace[original], []byte(text), 0o600))
	}
	listing, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	overlay := filepath.Join(folder, "overlay.json")
	require.NoError(t, os.WriteFile(overlay, listing, 0o600))
	h := house{}
	for name, path := range houses {
		h[name] = filepath.Join(folder, name+".test")
		out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-overlay", overlay, "-o", h[name], path).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	return h
}

// fails runs a test in a process that has the fault, and returns what it said.
func (h house) fails(t *testing.T, m mutant, tests, pattern string, env ...string) string {
	t.Helper()
	out, err := h.play(t, tests, pattern, append(env, "GANTRY_PLANTED="+m.rule)...)
	require.Error(t, err, "%s survives %s of %s", m.rule, pattern, tests)
	require.NotContains(t, out, "no tests to run")
	return out
}

// keepsItsPromises shows that the switches alone break nothing.
func (h house) keepsItsPromises(t *testing.T) {
	t.Helper()
	for tests, env := range map[string]string{"explore": "WALK=checkable", "simulate": "SEEDS=50"} {
		out, err := h.play(t, tests, "^(TestExplore|TestSeeds)$", env)
		require.NoError(t, err, "%s", out)
	}
}

func (h house) play(t *testing.T, tests, pattern string, env ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), h[tests], "-test.run", pattern, "-test.timeout", "120s")
	command.Dir = houses[tests]
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	return string(out), err
}
